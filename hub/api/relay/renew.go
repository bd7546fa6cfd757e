package relay

import (
	"bytes"
	"io"
	"net/http"

	"github.com/deckhand-sh/deckhand/hub/model/credential"
)

// renewing sends calls to the providers. If the key of a call is refused, and its
// provider has had its key replaced since the call began, the call is repeated once with
// the new key: a key can be replaced while calls run.
type renewing struct {
	http.RoundTripper

	relay *Relay
}

// RoundTrip implements http.RoundTripper.
func (t renewing) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(req)
	c := callOf(req.Context())
	if err != nil || res.StatusCode != http.StatusUnauthorized || c.access.ConnectedAt.IsZero() {
		return res, err
	}
	now, lookErr := t.relay.cfg.Access(req.Context(), c.reservation.OrgID, c.access.Provider.Name)
	if lookErr != nil || now.ConnectedAt.Equal(c.access.ConnectedAt) || now.BaseURL != c.access.BaseURL {
		return res, nil // it is refused in any case
	}
	_ = res.Body.Close()
	t.relay.calls.renew(c, now)
	again := req.Clone(req.Context())
	again.Body = io.NopCloser(bytes.NewReader(c.body))
	now.Authorise(again.Header)
	return t.RoundTripper.RoundTrip(again)
}

// renew makes a call continue with another key.
func (c *calls) renew(one *call, access credential.Access) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one.access = access
}
