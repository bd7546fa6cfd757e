package notification_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// device is a browser's subscription, with what decrypts its messages.
type device struct {
	key  *ecdh.PrivateKey
	auth []byte
}

func newDevice(t *testing.T) device {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(t, err)
	auth := make([]byte, 16)
	_, err = rand.Read(auth)
	require.NoError(t, err)
	return device{key, auth}
}

var b64 = base64.RawURLEncoding

func (d device) subscribe(endpoint, user string, events ...string) notification.Device {
	return notification.Device{
		OrgID: org, UserID: user, Name: "phone", Events: events, Endpoint: endpoint, By: person,
		P256dh: b64.EncodeToString(d.key.PublicKey().Bytes()), Auth: b64.EncodeToString(d.auth),
	}
}

// open decrypts a message as a browser does (RFC 8188 and 8291), written from the
// standards and not from the library that encrypts.
func (d device) open(t *testing.T, body []byte) string {
	t.Helper()
	salt, size, rest := body[:16], binary.BigEndian.Uint32(body[16:20]), body[20:]
	require.LessOrEqual(t, len(body), int(size), "one record")
	sender, err := ecdh.P256().NewPublicKey(rest[1 : 1+int(rest[0])])
	require.NoError(t, err)
	cipherText := rest[1+int(rest[0]):]
	shared, err := d.key.ECDH(sender)
	require.NoError(t, err)
	derive := func(secret, salt []byte, info string, n int) []byte {
		out, err := hkdf.Key(sha256.New, secret, salt, info, n)
		require.NoError(t, err)
		return out
	}
	ikm := derive(shared, d.auth, "WebPush: info\x00"+string(d.key.PublicKey().Bytes())+string(sender.Bytes()), 32)
	block, err := aes.NewCipher(derive(ikm, salt, "Content-Encoding: aes128gcm\x00", 16))
	require.NoError(t, err)
	gcm, err := cipher.NewGCM(block)
	require.NoError(t, err)
	plain, err := gcm.Open(nil, derive(ikm, salt, "Content-Encoding: nonce\x00", 12), cipherText, nil)
	require.NoError(t, err)
	text := strings.TrimRight(string(plain), "\x00")
	require.True(t, strings.HasSuffix(text, "\x02"), "the last record's delimiter")
	return strings.TrimSuffix(text, "\x02")
}

func pushRig(t *testing.T, change func(*notification.Config)) *rig {
	t.Helper()
	r := newRig(t, func(c *notification.Config) {
		keys, err := notification.OpenPushKeys(t.Context(), vault.NewSecrets(c.Store, c.Vault))
		require.NoError(t, err)
		again, err := notification.OpenPushKeys(t.Context(), vault.NewSecrets(c.Store, c.Vault))
		require.NoError(t, err)
		require.Equal(t, keys, again, "one key for all hubs")
		c.PushKeys, c.Contact = keys, "https://deck.example.com"
		if change != nil {
			change(c)
		}
	})
	for name, role := range map[string]string{"ada": "admin", "u": "basic", "other": "basic"} {
		r.exec(`INSERT INTO users (id, org_id, name, role) VALUES ($1, $2, $3, $4)`, "user_"+name, org, name, role)
	}
	return r
}

// pushed waits for so many messages at a push service, and decrypts them.
func (d device) pushed(t *testing.T, at *receiver, n int) []string {
	t.Helper()
	require.Eventually(t, func() bool { return len(at.got()) >= n }, patience, waitTick)
	var out []string
	for _, g := range at.got() {
		out = append(out, d.open(t, g.body))
	}
	return out
}

func TestADeviceGetsWhatWaitsForItsUserSealedAndSigned(t *testing.T) {
	t.Parallel()
	r := pushRig(t, nil)
	service := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	strangers := newReceiver(t, nil)
	phone, other := newDevice(t), newDevice(t)
	_, err := r.notify.CreateDevice(t.Context(), phone.subscribe(service.URL+"/own", "user_u", "approvals", "failures"))
	require.NoError(t, err)
	_, err = r.notify.CreateDevice(t.Context(), other.subscribe(strangers.URL+"/other", "user_other"))
	require.NoError(t, err)

	// Submitted by u: no other user's device is told, and nothing that was asked is.
	r.happen("task_one", "input_required", map[string]any{"item_id": "inbox_0", "question": "canary of a question"})
	r.happen("task_one", "approval_requested", map[string]any{"item_id": "inbox_1", "tool": "shell_exec", "preview": "canary of a preview", "why": "canary of a reason"})
	messages := phone.pushed(t, service, 1)
	require.Len(t, messages, 1, "questions were not chosen")
	var m map[string]string
	require.NoError(t, json.Unmarshal([]byte(messages[0]), &m))
	require.Equal(t, map[string]string{"title": "one asks for approval", "body": "shell_exec · Look at it", "tag": "inbox_1", "path": "inbox?item=inbox_1"}, m)
	header := service.got()[0].header
	require.Equal(t, "aes128gcm", header.Get("Content-Encoding"))
	require.Equal(t, "86400", header.Get("TTL"))
	require.Equal(t, "high", header.Get("Urgency"))
	require.NotContains(t, string(service.got()[0].body), "shell_exec", "the push service reads nothing")

	// VAPID: a token for this push service, signed with the key that browsers know.
	token, key, ok := strings.Cut(strings.TrimPrefix(header.Get("Authorization"), "vapid t="), ", k=")
	require.True(t, ok, header.Get("Authorization"))
	require.Equal(t, r.config.PushKeys.Public, strings.TrimRight(key, "="))
	claims := jwt.MapClaims{}
	_, err = jwt.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return publicKey(t, key), nil }, jwt.WithValidMethods([]string{"ES256"}), jwt.WithAudience(service.URL))
	require.NoError(t, err)
	require.Equal(t, "https://deck.example.com", claims["sub"])

	require.Empty(t, strangers.got())
	rows, _, _, err := r.notify.List(t.Context(), org, "", 100)
	require.NoError(t, err)
	require.Empty(t, rows, "devices are their users', not the organisation's")
}

func TestAnAdministratorsDeviceIsToldOfAllTasksAndADisabledUsersOfNone(t *testing.T) {
	t.Parallel()
	r := pushRig(t, nil)
	service, late := newReceiver(t, nil), newReceiver(t, nil)
	phone := newDevice(t)
	_, err := r.notify.CreateDevice(t.Context(), phone.subscribe(service.URL, "user_ada"))
	require.NoError(t, err)
	gone, err := r.notify.CreateDevice(t.Context(), phone.subscribe(late.URL, "user_u"))
	require.NoError(t, err)
	r.exec(`UPDATE users SET disabled_at = now() WHERE id = 'user_u'`)
	r.happen("task_two", "state_changed", map[string]any{"from": "running", "to": "failed", "reason": "canary of a reason"})
	require.Contains(t, phone.pushed(t, service, 1)[0], `"title":"two has failed"`)
	require.Empty(t, late.got())
	refused, err := r.notify.TestDevice(t.Context(), org, "user_u", gone.ID, person)
	require.NoError(t, err)
	require.Contains(t, refused, "may not log in")
}

func TestADeviceThatIsGoneIsRemovedAndOneThatIsAwayIsTriedAgain(t *testing.T) {
	t.Parallel()
	r := pushRig(t, nil)
	answers := []int{http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusCreated, http.StatusNotFound}
	service := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(answers[min(n, len(answers)-1)]) })
	phone := newDevice(t)
	row, err := r.notify.CreateDevice(t.Context(), phone.subscribe(service.URL, "user_u"))
	require.NoError(t, err)
	r.happen("task_one", "approval_requested", map[string]any{"item_id": "inbox_1", "tool": "shell_exec"})
	phone.pushed(t, service, 3)
	r.happen("task_one", "approval_requested", map[string]any{"item_id": "inbox_2", "tool": "shell_exec"})
	require.Eventually(t, func() bool {
		rows, err := r.notify.Devices(t.Context(), org, "user_u")
		require.NoError(t, err)
		return len(rows) == 0
	}, patience, waitTick)
	_, err = r.GetDestination(t.Context(), db.GetDestinationParams{OrgID: org, ID: row.ID})
	require.Error(t, err)
}

func TestADeviceIsItsUsersAndItsEndpointIsGuarded(t *testing.T) {
	t.Parallel()
	r := pushRig(t, func(c *notification.Config) { c.Allow = nil })
	service := newReceiver(t, nil)
	phone := newDevice(t)
	for endpoint, says := range map[string]string{
		service.URL:                      "endpoint",
		"https://10.0.0.7/push":          "not a public address",
		"https://169.254.169.254/latest": "not a public address",
		"https://user@push.example.com/": "endpoint",
		"push.example.com":               "endpoint",
	} {
		_, err := r.notify.CreateDevice(t.Context(), phone.subscribe(endpoint, "user_u"))
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", endpoint, err)
		require.ErrorContains(t, err, says, endpoint)
	}
	broken := phone.subscribe("https://push.example.com/1", "user_u")
	broken.P256dh = b64.EncodeToString(make([]byte, 65))
	_, err := r.notify.CreateDevice(t.Context(), broken)
	require.ErrorContains(t, err, "p256dh")

	// A name that leads to this machine is found out when it is dialled.
	inside := strings.Replace(service.URL, "127.0.0.1", "localhost", 1)
	row, err := r.notify.CreateDevice(t.Context(), phone.subscribe(inside, "user_u"))
	require.NoError(t, err)
	refused, err := r.notify.TestDevice(t.Context(), org, "user_u", row.ID, person)
	require.NoError(t, err)
	require.Contains(t, refused, "refused")
	require.Empty(t, service.got())

	_, err = r.notify.TestDevice(t.Context(), org, "user_other", row.ID, person)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = r.notify.ChangeDevice(t.Context(), org, "user_other", row.ID, func(db.Destination) (string, []string, error) { return "mine", nil, nil }, person)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	require.True(t, fault.Is(r.notify.DeleteDevice(t.Context(), org, "user_other", row.ID, person), fault.NotFound))
	again, err := r.notify.CreateDevice(t.Context(), phone.subscribe(inside, "user_other"))
	require.NoError(t, err, "a browser is whose it was subscribed by last")
	rows, err := r.notify.Devices(t.Context(), org, "user_u")
	require.NoError(t, err)
	require.Empty(t, rows)
	require.NoError(t, r.notify.DeleteDevice(t.Context(), org, "user_other", again.ID, person))
}

const waitTick = 10 * time.Millisecond

// publicKey reads a key of VAPID.
func publicKey(t *testing.T, text string) *ecdsa.PublicKey {
	t.Helper()
	point, err := b64.DecodeString(strings.TrimRight(text, "="))
	require.NoError(t, err)
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	require.NoError(t, err)
	return key
}
