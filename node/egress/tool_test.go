package egress_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// What rules leave to a tool passes for the exec of that tool's call, as long as it runs, and
// for no other command: not without its secret, and not for another tool's.
func TestTheCallOfAToolPasses(t *testing.T) {
	t.Parallel()
	b := newBound(t, hello, nil)
	require.NoError(t, b.proxy.Change(jailID, &nodev1.Egress{
		Bindings:    []*nodev1.Egress_Binding{{Credential: "github", Hosts: []string{"git.test"}, Ports: []uint32{b.port}, Roots: b.roots, Version: "1"}},
		Authorities: []string{b.hub.pem},
		Rules: []*nodev1.Egress_Rule{
			{Host: "127.0.0.1", Ports: []uint32{b.port}},
			{Host: "git.test", Ports: []uint32{b.port}, Http: []string{"tool http_post POST /deploy", "tool http_put POST /other", "tool http_post POST /never", "deny POST /never"}},
		},
	}))
	b.proxy.Begin(jailID, "step_command")
	b.proxy.BeginTool(jailID, "step_tool", "http_post", "the-secret")
	client := func(exec, password string) *http.Client {
		c := b.browser(true)
		tr := c.Transport.(*http.Transport) //nolint:forcetypeassert // see client
		tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:3128", User: url.UserPassword(exec, password)})
		return c
	}
	post := func(c *http.Client, path string) int {
		res, err := c.Post(b.url(path), "text/plain", strings.NewReader("x"))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	own := client("step_tool", "the-secret")
	assert.Equal(t, http.StatusOK, post(own, "/deploy"))
	assert.Equal(t, http.StatusForbidden, post(own, "/other"), "another tool's")
	assert.Equal(t, http.StatusForbidden, post(own, "/never"), "a denial wins")
	for name, c := range map[string]*http.Client{
		"without the secret": client("step_tool", "x"), "with none": client("step_tool", ""),
		"a command": client("step_command", "the-secret"), "a command without a password": client("step_command", ""), "nobody": client("", "the-secret"),
	} {
		assert.Equal(t, http.StatusForbidden, post(c, "/deploy"), name)
	}
	b.proxy.Begin(jailID, "step_tool") // asking again changes nothing
	assert.Equal(t, http.StatusOK, post(own, "/deploy"))
	b.proxy.End(jailID, "step_tool")
	assert.Equal(t, http.StatusForbidden, post(own, "/deploy"), "in a connection that was opened before the end")
	assert.Equal(t, http.StatusForbidden, post(client("step_tool", "the-secret"), "/deploy"))
}
