package hub_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// What a public procedure takes is small once it is unpacked, too.
func TestACompressedBodyIsNoLargerThanAPlainOne(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	_, _ = z.Write([]byte(`{"token":"` + strings.Repeat("x", 40<<20) + `"}`))
	require.NoError(t, z.Close())
	require.Less(t, body.Len(), 64<<10)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL()+deckhandv1connect.SessionServiceCreateSessionProcedure, &body)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Encoding", "gzip")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusTooManyRequests, res.StatusCode, "resource_exhausted")
}

// Senders that announce much and send nothing keep no room from others.
func TestAnnouncedBodiesTakeNoRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	made, err := r.user.Triggers.CreateTrigger(t.Context(), &deckhandv1.CreateTriggerRequest{
		Name: "large", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK, AgentId: "walker",
		Spec: &deckhandv1.TriggerSpec{Goal: "look", Webhook: &deckhandv1.WebhookSpec{Verify: "token", MaxBytes: 25 << 20}},
	})
	require.NoError(t, err)
	url := r.URL() + "/webhooks/" + made.GetTrigger().GetId()
	address := strings.TrimPrefix(r.URL(), "http://")
	for range 50 {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "POST /webhooks/%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 26214400\r\n\r\n", made.GetTrigger().GetId())
	}
	for i := range 10 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(fmt.Sprintf(`{"n":%d}`, i)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Deckhand-Token", made.GetSecret())
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		_ = res.Body.Close()
		require.NotEqual(t, http.StatusServiceUnavailable, res.StatusCode)
	}
}

// Nobody locks another out of an account by failing to log in to it.
func TestFailedLoginsFromElsewhereLockNobodyOut(t *testing.T) {
	if testing.Short() {
		t.Skip("hashing passwords takes minutes with the race detector, and there is no race in it")
	}
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.TrustedProxies = "127.0.0.1"
	h := hubtest.Start(t, cfg)
	admin := h.Client(t, h.AdminToken)
	const password = "correct horse 7 battery"
	do(t, admin.Users.SetPassword, &deckhandv1.SetPasswordRequest{Password: password})
	login := func(from, password string) error {
		_, err := via(t, h, "", from).Sessions.CreateSession(t.Context(), &deckhandv1.CreateSessionRequest{
			With: &deckhandv1.CreateSessionRequest_Password{Password: &deckhandv1.Password{Name: "admin", Password: password}},
		})
		return err
	}
	for range 10 {
		require.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(login("203.0.113.9", "wrong")))
	}
	require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(login("203.0.113.9", password)))
	require.NoError(t, login("198.51.100.7", password))

	// Who is logged in guesses no password either.
	for range 10 {
		refuses(t, connect.CodePermissionDenied, admin.Users.SetPassword, &deckhandv1.SetPasswordRequest{CurrentPassword: "wrong", Password: "another long one 1"})
	}
	refuses(t, connect.CodeResourceExhausted, admin.Users.SetPassword, &deckhandv1.SetPasswordRequest{CurrentPassword: password, Password: "another long one 1"})
}

// A login that fails is on record, however it was tried.
func TestFailedLoginsAreOnRecord(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	nobody := h.Client(t, "")
	for _, with := range []*deckhandv1.CreateSessionRequest{
		{With: &deckhandv1.CreateSessionRequest_Token{Token: "dhu_00000000000000000000000000"}},
		{With: &deckhandv1.CreateSessionRequest_Token{Token: h.WorkerToken}},
		{With: &deckhandv1.CreateSessionRequest_Code{Code: "dhc_00000000000000000000000000"}},
		{With: &deckhandv1.CreateSessionRequest_Password{Password: &deckhandv1.Password{Name: "admin", Password: "wrong"}}},
	} {
		refuses(t, connect.CodeUnauthenticated, nobody.Sessions.CreateSession, with)
	}
	entries := do(t, h.Client(t, h.AdminToken).Audit.ListAuditEntries, &deckhandv1.ListAuditEntriesRequest{Action: "session.refused"}).GetEntries()
	var how []string
	for _, e := range entries {
		how = append(how, e.GetObjectId())
		require.NotEmpty(t, e.GetAddress())
		require.NotEmpty(t, e.GetReason())
	}
	require.ElementsMatch(t, []string{"token", "token", "code", "password"}, how)
}

// An access rule holds for callers on the hub's machine, such as a proxy that
// says nothing of itself, and for logins.
func TestAccessRulesHoldOnTheHubsMachine(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	local := h.Client(t, h.AdminToken)
	made := do(t, local.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "file of mine"})
	mine := h.Client(t, made.GetSecret())
	do(t, mine.Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
	do(t, local.Access.SetAccessRule, &deckhandv1.SetAccessRuleRequest{What: "*", Networks: []string{"10.1.0.0/16"}, Force: true})
	refuses(t, connect.CodePermissionDenied, mine.Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
	refuses(t, connect.CodePermissionDenied, h.Client(t, "").Sessions.CreateSession, &deckhandv1.CreateSessionRequest{
		With: &deckhandv1.CreateSessionRequest_Token{Token: made.GetSecret()},
	})
	do(t, local.Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
}

// By REST neither what is sent nor what it unpacks to is longer than by the other protocols,
// and announcing a long body takes no memory.
func TestBodiesOfRESTAreBounded(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	packed := func(text string) []byte {
		var body bytes.Buffer
		z := gzip.NewWriter(&body)
		_, _ = z.Write([]byte(text))
		require.NoError(t, z.Close())
		return body.Bytes()
	}
	user := func(name string) string { return `{"name":"` + name + `","role":"viewer"}` }
	long := strings.Repeat("x", 60<<20)
	for _, c := range []struct {
		what, path, token, coding string
		body                      []byte
		status                    int
	}{
		{"a packed body that anybody may send", "/v1/sessions", "", "gzip", packed(`{"token":"` + long[:40<<20] + `"}`), http.StatusRequestEntityTooLarge},
		{"a long one that anybody may send", "/v1/sessions", "", "", []byte(`{"token":"` + long[:100<<10] + `"}`), http.StatusRequestEntityTooLarge},
		{"a packed body of a user", "/v1/users", h.AdminToken, "gzip", packed(user(long)), http.StatusRequestEntityTooLarge},
		{"a short packed body", "/v1/users", h.AdminToken, "gzip", packed(user("ann")), http.StatusOK},
		{"no coding by name", "/v1/users", h.AdminToken, "identity", []byte(user("bob")), http.StatusOK},
		{"what is not packed", "/v1/users", h.AdminToken, "gzip", []byte(user("cem")), http.StatusBadRequest},
		{"half of a packed body", "/v1/users", h.AdminToken, "gzip", packed(user("dan"))[:20], http.StatusBadRequest},
		{"another coding", "/v1/users", h.AdminToken, "br", packed(user("eve")), http.StatusUnsupportedMediaType},
		{"two codings", "/v1/users", h.AdminToken, "gzip, gzip", packed(user("fay")), http.StatusUnsupportedMediaType},
	} {
		header := http.Header{}
		if c.coding != "" {
			header.Set("Content-Encoding", c.coding)
		}
		res, body := restCall(t, http.MethodPost, h.URL()+c.path, c.token, string(c.body), header)
		require.Equal(t, c.status, res.StatusCode, "%s: %s", c.what, body)
		if c.status != http.StatusOK {
			require.NotEmpty(t, problem(t, res, body).Fix, c.what)
		}
	}
	require.Equal(t, "0", queryText(t, h, "SELECT count(*)::text FROM users WHERE name IN ('cem', 'dan', 'eve', 'fay')"))

	address := strings.TrimPrefix(h.URL(), "http://")
	announce := func(path, token string, length int) net.Conn {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		if token != "" {
			token = "Authorization: Bearer " + token + "\r\n"
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", path, token, length)
		return conn
	}
	// Above the limit it is refused at once; below it, nothing is taken before it comes.
	for _, conn := range []net.Conn{announce("/v1/sessions", "", 1<<20), announce("/v1/users", h.AdminToken, 60<<20)} {
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
		require.NoError(t, res.Body.Close())
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		announce("/v1/users", h.AdminToken, 40<<20)
	}
	// They are read by the time that another call is made.
	res, body := restCall(t, http.MethodGet, h.URL()+"/v1/users", h.AdminToken, nil, nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(400<<20), "20 bodies of 40 MiB were announced")
}
