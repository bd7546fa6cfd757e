package relay

import (
	"bytes"
	"io"
	"net/http"

	"github.com/deckhand-sh/deckhand/hub/model/credential"
)

// renewing reaches the providers. A call whose key is refused, and whose provider
// has been given another key since the call began, is made once more with that:
// so a key is replaced while calls run.
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
		return res, nil // it is refused, whatever there is besides
	}
	_ = res.Body.Close()
	t.relay.calls.renew(c, now)
	again := req.Clone(req.Context())
	again.Body = io.NopCloser(bytes.NewReader(c.body))
	now.Authorise(again.Header)
	return t.RoundTripper.RoundTrip(again)
}

// renew has a call go on with another key.
func (c *calls) renew(one *call, access credential.Access) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one.access = access
}
