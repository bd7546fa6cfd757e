package hublink_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/yamux"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/egress/hublink"
)

// hub serves one channel of a link, until it is killed.
type hub struct {
	session *yamux.Session
	server  *http.Server
	done    sync.WaitGroup
}

func connect(t *testing.T, link *hublink.Link, h http.HandlerFunc) *hub {
	t.Helper()
	ours, theirs := net.Pipe()
	out := &hub{server: &http.Server{Handler: h, Protocols: new(http.Protocols)}} //nolint:gosec // the test's own
	out.server.Protocols.SetHTTP1(true)
	out.server.Protocols.SetUnencryptedHTTP2(true)
	out.done.Go(func() { _ = link.Serve(t.Context(), ours) })
	var err error
	out.session, err = yamux.Server(theirs, egresslink.SessionConfig())
	require.NoError(t, err)
	out.done.Go(func() { _ = out.server.Serve(out.session) })
	return out
}

// kill ends the hub as it ends with kill -9: nothing is said.
func (h *hub) kill() {
	_ = h.session.Close()
	_ = h.server.Close()
	h.done.Wait()
}

func ask(t *testing.T, link *hublink.Link, method, body string, major int) (*http.Response, error) {
	t.Helper()
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, "http://api.test/items", from)
	require.NoError(t, err)
	req.Header.Set(egresslink.HeaderJail, "jail_1")
	req.ProtoMajor = major
	return link.RoundTrip(req)
}

// When a hub dies, requests that change nothing are made again by the next one, and the others
// end with an error that says that they may have taken effect.
func TestRequestsWhileTheHubRestarts(t *testing.T) {
	t.Parallel()
	for _, major := range []int{1, 2} {
		for name, c := range map[string]struct {
			method, body string
			again        bool
		}{
			"a request that changes nothing": {method: http.MethodGet, again: true},
			"one that may change something":  {method: http.MethodPost, body: "x"},
			"a deletion":                     {method: http.MethodDelete},
			"one with a body":                {method: http.MethodGet, body: "x"},
		} {
			link := hublink.New()
			arrived := make(chan struct{}, 1)
			first := connect(t, link, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				arrived <- struct{}{}
				<-r.Context().Done()
			})
			type answer struct {
				res *http.Response
				err error
			}
			got := make(chan answer, 1)
			go func() {
				res, err := ask(t, link, c.method, c.body, major)
				got <- answer{res, err}
			}()
			<-arrived
			first.kill()
			served := make(chan string, 10)
			second := connect(t, link, func(w http.ResponseWriter, r *http.Request) {
				served <- r.Method
				_, _ = io.WriteString(w, "from the second")
			})
			a := <-got
			if c.again {
				require.NoError(t, a.err, name)
				text, err := io.ReadAll(a.res.Body)
				require.NoError(t, err)
				require.NoError(t, a.res.Body.Close())
				assert.Equal(t, "from the second", string(text), name)
				assert.Len(t, served, 1, name)
			} else {
				require.True(t, fault.Is(a.err, fault.Aborted), "%s: %v", name, a.err)
				require.ErrorContains(t, a.err, "may have taken effect", name)
				assert.Empty(t, served, name)
			}
			second.kill()
		}
	}
}
