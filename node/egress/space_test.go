package egress_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/egress"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// query is a GraphQL request of about n bytes.
func query(n int) io.Reader {
	raw, err := json.Marshal(map[string]any{"query": "query { a }", "variables": map[string]string{"a": strings.Repeat("a", n)}})
	if err != nil {
		panic(err)
	}
	return strings.NewReader(string(raw))
}

// Bodies that are read before they are passed on have a budget of the jail's and one of all. It
// is given back when their requests end.
func TestBodiesThatAreReadHaveABudget(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	b := newBoundWith(t, egress.Config{MaxHeld: 1 << 20, MaxAllHeld: 3 << 19}, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-goOn
	}, nil)
	withRules := &nodev1.Egress{
		Bindings: []*nodev1.Egress_Binding{{Credential: "github", Hosts: []string{"git.test"}, Ports: []uint32{b.port}, Roots: b.roots, Version: "1"}}, Authorities: []string{b.hub.pem},
		Rules: []*nodev1.Egress_Rule{
			{Host: "127.0.0.1", Ports: []uint32{b.port}},
			{Host: "git.test", Ports: []uint32{b.port}, Http: []string{"allow POST /graphql query"}},
		},
	}
	require.NoError(t, b.proxy.Change(jailID, withRules))
	client := b.browser(true)
	post := func() (int, string) {
		res, err := client.Post(b.url("/graphql"), "application/json", query(600<<10))
		if !assert.NoError(t, err) {
			return 0, ""
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		assert.NoError(t, err)
		return res.StatusCode, string(text)
	}
	first := make(chan int, 1)
	go func() {
		status, text := post()
		assert.Equal(t, http.StatusOK, status, text)
		first <- status
	}()
	select {
	case <-arrived:
	case <-first:
		t.FailNow()
	}
	status, text := post()
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, text, "this jail's requests keep as much in memory as they may, 1 MiB")
	assert.Contains(t, text, "try again in a moment")
	goOn <- struct{}{}
	require.Equal(t, http.StatusOK, <-first)
	go func() { <-arrived; goOn <- struct{}{} }()
	status, text = post()
	assert.Equal(t, http.StatusOK, status, text)
}

// Judging a push takes of the budget as well.
func TestPushesHaveABudget(t *testing.T) {
	t.Parallel()
	got := &targets{}
	b := newBoundWith(t, egress.Config{MaxHeld: 20 << 20}, got.ServeHTTP, nil)
	res, err := b.browser(true).Post(b.url("/app.git/git-receive-pack"), "application/x-git-receive-pack-request", strings.NewReader("0000"))
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	assert.Contains(t, string(text), "as much in memory as they may, 20 MiB")
	assert.Empty(t, got.take())
}

// What is rewritten of Git LFS counts for all jails: what one keeps is refused to another.
func TestResponsesOfLFSHaveABudget(t *testing.T) {
	t.Parallel()
	b := newBoundWith(t, egress.Config{MaxAllHeld: 64 << 10}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
		_, _ = fmt.Fprintf(w, `{"objects":[],"message":%q}`, strings.Repeat("x", 30<<10))
	}, nil)
	res, err := b.browser(true).Post(b.url("/app.git/info/lfs/objects/batch"), "application/vnd.git-lfs+json", strings.NewReader("{}"))
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadGateway, res.StatusCode)
	assert.Contains(t, string(text), "the requests of all jails on this node keep as much in memory")
}

// Connections to hosts that were verified by certificates that a credential no longer has end,
// and the next request is verified by the new ones.
func TestConnectionsByOldCertificatesEnd(t *testing.T) {
	t.Parallel()
	_, other := secureOrigin(t, func(http.ResponseWriter, *http.Request) {}, "git.test")
	closed := make(chan struct{}, 10)
	port, roots := secureServer(t, hello, func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}, "git.test")
	b := newBound(t, hello, func(e *nodev1.Egress) {
		e.Bindings[0].Ports, e.Bindings[0].Roots, e.Rules[0].Ports = []uint32{port}, roots, []uint32{port}
	})
	b.port = port
	client := b.browser(true)
	status, text := b.get(client, b.url("/"))
	require.Equal(t, http.StatusOK, status, text)
	require.Empty(t, closed)
	change := func(roots, version string) {
		require.NoError(t, b.proxy.Change(jailID, &nodev1.Egress{
			Bindings:    []*nodev1.Egress_Binding{{Credential: "github", Hosts: []string{"git.test"}, Ports: []uint32{port}, Roots: roots, Version: version}},
			Authorities: []string{b.hub.pem}, Rules: []*nodev1.Egress_Rule{{Host: "127.0.0.1", Ports: []uint32{port}}},
		}))
	}
	change(other, "2")
	<-closed
	status, text = b.get(client, b.url("/"))
	assert.Equal(t, http.StatusBadGateway, status)
	assert.Contains(t, text, "cannot be verified")
	assert.Contains(t, text, "an administrator adds its authority")
	change(other+roots, "3")
	status, text = b.get(client, b.url("/"))
	assert.Equal(t, http.StatusOK, status, text)
}

// A path with an encoded slash in a segment for which a rule takes one reaches the server as it
// was sent.
func TestAnEncodedSlashIsKept(t *testing.T) {
	t.Parallel()
	got := &targets{}
	b := newBound(t, got.ServeHTTP, func(e *nodev1.Egress) { e.Bindings[0].Paths = []string{"/api/v4/projects/{project%2F}/**"} })
	client := b.browser(true)
	status, text := b.get(client, b.url("/api/v4/projects/acme%2Fweb/merge_requests?state=opened"))
	require.Equal(t, http.StatusOK, status, text)
	assert.Equal(t, []string{"/api/v4/projects/acme%2Fweb/merge_requests?state=opened"}, got.take())
	assert.Equal(t, "github", b.hub.ended(t, 1)[0].Credential)
}
