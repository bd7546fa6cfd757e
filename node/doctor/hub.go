package doctor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/deckhand-sh/deckhand/node/identity"
)

// identity returns the machine's identity, if it has one.
func (c Config) identity() (*identity.Identity, error) {
	dir := filepath.Join(c.DataDir, c.IdentityDir)
	if !exists(dir) {
		return nil, nil // opening it would make a key
	}
	return identity.Open(identity.Config{Dir: dir, Now: c.Now})
}

// lowLife is how little of a certificate may be left: it is renewed when a
// third is, which is 8 hours of 24.
const lowLife = 4 * time.Hour

func certificate(_ context.Context, c Config) Finding {
	id, err := c.identity()
	if err != nil {
		return fails(err.Error(), "run it as root; if the identity is damaged, move it away and enrol again with a token of `deckhand node token`")
	}
	if id == nil || !id.Enrolled() {
		return warn("this machine is not enrolled", "run `deckhand node token`, and start deckhand-node with --hub-url and DECKHAND_JOIN_TOKEN")
	}
	_, until := id.Validity()
	left := until.Sub(c.Now())
	says := fmt.Sprintf("node %s, valid until %s", id.NodeID(), until.UTC().Format(time.RFC3339))
	switch {
	case left <= 0:
		return warn(says+", which is past", "start deckhand-node: a known key gets a new one for 30 days; after that, a new token of `deckhand node token`")
	case left < lowLife:
		return warn(says, "see that deckhand-node runs and has a link: it renews it")
	}
	return ok(says)
}

// ask asks the hub whether it is there, and returns its clock.
func (c Config) ask(ctx context.Context) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.HubURL+"/healthz", nil)
	if err != nil {
		return time.Time{}, err
	}
	// A client of its own: nothing stays open behind.
	transport := &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return time.Time{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return time.Time{}, fmt.Errorf("%s answers %s", c.HubURL, response.Status)
	}
	now, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // a hub that does not tell its time is there all the same
	}
	return now, nil
}

func hub(ctx context.Context, c Config) Finding {
	if c.HubURL == "" {
		return ok("--hub-url is not given: only the link is checked")
	}
	if _, err := c.ask(ctx); err != nil {
		return fails(err.Error(), "check --hub-url, name resolution, and the firewall between here and the hub")
	}
	return ok(c.HubURL + " answers")
}

// skews are how far the clock may be off: certificates are good from five
// minutes before they were made.
const (
	someSkew = 5 * time.Second
	badSkew  = 5 * time.Minute
)

func clock(ctx context.Context, c Config) Finding {
	if c.HubURL == "" {
		return ok(c.Now().UTC().Format(time.RFC3339) + ", which nothing was compared with")
	}
	theirs, err := c.ask(ctx)
	if err != nil || theirs.IsZero() {
		return warn("the hub does not tell its time", "make sure that this machine's is right: timedatectl")
	}
	skew := c.Now().Sub(theirs).Round(time.Second)
	says := fmt.Sprintf("%s off the hub's", skew.Abs())
	switch {
	case skew.Abs() >= badSkew:
		return fails(says, "set the clock: timedatectl set-ntp true")
	case skew.Abs() >= someSkew:
		return warn(says, "set the clock: timedatectl set-ntp true")
	}
	return ok(says)
}

func edge(ctx context.Context, c Config) Finding {
	address := c.EdgeAddress
	if address == "" {
		if id, err := c.identity(); err == nil && id != nil {
			address = id.EdgeAddress()
		}
	}
	if address == "" {
		return ok("not known before this machine is enrolled")
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fails(err.Error(), "let this machine dial out to the hub's edge, or name another with --edge-address")
	}
	defer conn.Close()
	return ok(address + " accepts connections")
}
