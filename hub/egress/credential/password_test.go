package credential_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A password is for pages only: it is inserted into no request, and no other kind is typed. Who
// may use it is decided as for every credential, and its use is recorded.
func TestAPasswordIsTypedAndNeverInserted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	passwords := credential.NewPasswords(r.Credentials)
	typed := func(name string) (browserlink.Secret, error) {
		return passwords.Take(t.Context(), r.caller(), name)
	}
	office := func() *deckhandv1.CreateCredentialRequest {
		return &deckhandv1.CreateCredentialRequest{
			Name: "office", Kind: string(credential.Password), Hosts: []string{"office.example.com"}, Ports: []uint32{8443}, Value: &deckhandv1.CredentialValue{Password: secret},
		}
	}
	for says, change := range map[string]func(*deckhandv1.CreateCredentialRequest){
		"methods is not for":  func(c *deckhandv1.CreateCredentialRequest) { c.Methods = []string{"GET"} },
		"variable is not for": func(c *deckhandv1.CreateCredentialRequest) { c.Variable = "TOKEN" },
		"hosts is empty":      func(c *deckhandv1.CreateCredentialRequest) { c.Hosts = nil },
		"password is empty":   func(c *deckhandv1.CreateCredentialRequest) { c.Value.Password = "" },
		"token is not for":    func(c *deckhandv1.CreateCredentialRequest) { c.Value.Token = secret },
	} {
		in := office()
		change(in)
		_, err := r.Create(t.Context(), org, in, admin)
		refused(t, err, fault.Invalid, says)
	}
	r.create(office())
	got, err := typed("office")
	require.NoError(t, err)
	require.Equal(t, browserlink.Secret{Credential: "office", Value: secret, Hosts: []string{"office.example.com"}, Ports: []int{8443}}, got)
	_, err = typed("office") // of the same step: recorded once
	require.NoError(t, err)
	status := func() (status int, problem string) {
		require.NoError(t, r.conn.QueryRow(t.Context(), "SELECT status, problem FROM credential_requests WHERE credential = 'office'").Scan(&status, &problem))
		return status, problem
	}
	now, _ := status()
	require.Zero(t, now, "it is not known yet")
	require.NoError(t, passwords.Settle(t.Context(), r.caller(), "it is no password field"))
	now, why := status()
	require.Equal(t, http.StatusForbidden, now)
	require.Equal(t, "it is no password field", why)
	require.NoError(t, passwords.Settle(t.Context(), r.caller(), ""))
	now, _ = status()
	require.Equal(t, http.StatusOK, now)
	var method, host string
	require.NoError(t, r.conn.QueryRow(t.Context(), "SELECT method, host FROM credential_requests WHERE credential = 'office'").Scan(&method, &host))
	require.Equal(t, "TYPE", method)
	require.Equal(t, "office.example.com", host)

	bindings, err := r.Bindings(t.Context(), org, "coder", r.persona.Credentials)
	require.NoError(t, err)
	require.Empty(t, bindings)
	_, err = r.Insert(t.Context(), org, node, jail, "office", request(t, http.MethodGet, "https://office.example.com:8443/", ""))
	refused(t, err, fault.Denied, "typed into pages by browser_type and inserted into no request")

	r.create(bearer("api"))
	_, err = typed("api")
	refused(t, err, fault.Denied, "only one of the kind password may be typed into a page")
	r.persona.Credentials = nil
	_, err = typed("office")
	refused(t, err, fault.Denied, "does not list credential office")
	r.nowhere(secret)
}
