package hub_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// A device is told of everything that its user may see, until it is removed. A token that was
// given for less, or until an end, must not become one.
func TestATokenWithAScopeAddsNoDevice(t *testing.T) {
	t.Parallel()
	h := hubtest.Shared(t)
	admin := h.Client(t, h.AdminToken)
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(t, err)
	device := &deckhandv1.CreatePushDeviceRequest{
		Name: "phone", Endpoint: "https://push.example.com/1", Auth: "AAAAAAAAAAAAAAAAAAAAAA", P256Dh: base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()),
	}
	for _, scope := range []*deckhandv1.CreateTokenRequest{{Name: "viewer", Role: "viewer"}, {Name: "some", Services: []string{"PushService"}}} {
		token := do(t, admin.Tokens.CreateToken, scope).GetSecret()
		for _, c := range []*sdk.Client{h.Client(t, token), browser(t, h, login(t, h, token))} {
			_, err := c.Push.CreatePushDevice(t.Context(), device)
			refusedFor(t, err, fault.Denied, "adds no device")
		}
	}
	require.Empty(t, do(t, admin.Push.ListPushDevices, &deckhandv1.ListPushDevicesRequest{}).GetDevices())
	do(t, admin.Push.CreatePushDevice, device)
}
