package hub_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// What a URL should not hold and holds all the same is not in a log of
// everything the hub says, nor in an answer; and no path leads out of the files
// that are served, or past who asks.
func TestSecretsInURLsAreNotLogged(t *testing.T) {
	t.Parallel()
	logged := filepath.Join(t.TempDir(), "hub.log")
	file, err := os.Create(logged)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	cfg := hubtest.Config(t)
	cfg.Log = hclog.New(&hclog.LoggerOptions{Name: "hub", Level: hclog.Trace, Output: file})
	r := &triggerRig{newRig(t, hubtest.Start(t, cfg), nil)}
	r.apply("watch", scripted("watch"))
	tr, secret := r.webhook("hook", &deckhandv1.TriggerSpec{Webhook: &deckhandv1.WebhookSpec{Verify: "token"}})

	const canary = "canary-in-a-url-5f3a"
	accepted := r.post(tr, "", "", `{"a":1}`, func(q *http.Request) { q.URL.RawQuery = "token=" + secret })
	require.Equal(t, http.StatusAccepted, accepted.status)
	r.handled(accepted.body.DeliveryID)
	address := strings.TrimPrefix(r.URL(), "http://")
	for _, target := range []string{
		"/webhooks/" + tr.GetId() + "?token=" + canary,
		"/webhooks/" + tr.GetId() + "/" + canary,
		"/webhooks/" + canary,
		"/webhooks/" + tr.GetId() + "?token=" + canary + "%zz;%",
		"/deckhand.v1.TaskService/ListTasks?access_token=" + canary,
		"/deckhand.v1.TaskService/ListTasks?connect=v1&encoding=json&message=%7B%7D&access_token=" + canary,
		"/terminals?token=" + canary,
		"/terminals/../../../etc/passwd?token=" + canary,
		"/relay/anthropic/v1/messages?key=" + canary,
		"/relay/../../etc/passwd?key=" + canary,
		"/relay/..%2f..%2f..%2fetc%2fpasswd?key=" + canary,
		"/relay/" + canary + "%0d%0aSet-Cookie:%20x=1/v1/messages",
		"/oidc/callback?code=" + canary + "&state=" + canary,
		"/oidc/login?next=//evil.example/" + canary,
		"/oidc/login?next=%0d%0aSet-Cookie:%20x=1&token=" + canary,
		"/oidc/..%2f..%2f..%2fetc%2fpasswd?token=" + canary,
		"/?token=" + canary,
		"/../../../../etc/passwd?token=" + canary,
		"/assets/..%2f..%2f..%2f..%2fetc%2fpasswd?token=" + canary,
		"/assets/..%5c..%5c..%5cetc%5cpasswd?token=" + canary,
		"/assets/%2e%2e/%2e%2e/%2e%2e/etc/passwd?token=" + canary,
		"/%00?token=" + canary,
		"/%0d%0aSet-Cookie:%20x=1%0d%0aX-Injected:%201?token=" + canary,
		"//evil.example/" + canary,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			// Written by hand: a client would clean the path.
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			_, err = conn.Write([]byte(method + " " + target + " HTTP/1.1\r\nHost: " + address +
				"\r\nAuthorization: Basic Y2FuYXJ5LWluLWEtdXJs\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"))
			require.NoError(t, err)
			what := method + " " + target
			require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
			text, err := io.ReadAll(conn)
			require.NoError(t, err, what)
			require.NoError(t, conn.Close())
			head, body, _ := strings.Cut(string(text), "\r\n\r\n")
			assert.True(t, strings.HasPrefix(head, "HTTP/1.1 "), what)
			assert.NotContains(t, head, " 500 ", what)
			assert.NotContains(t, body, "root:x:0:0", what)
			for line := range strings.SplitSeq(head, "\r\n") {
				name, value, _ := strings.Cut(line, ":")
				assert.NotEqual(t, "x-injected", strings.ToLower(name), what)
				assert.NotEqual(t, "set-cookie", strings.ToLower(name), what)
				if strings.EqualFold(name, "location") {
					assert.False(t, strings.HasPrefix(strings.TrimSpace(value), "//") || strings.Contains(value, "://"), "%s leads to %s", what, value)
				}
			}
		}
	}
	// A base URL with a password is refused, and not quoted.
	_, err = r.user.Providers.ConnectProvider(t.Context(), &deckhandv1.ConnectProviderRequest{
		Name: "searxng", BaseUrl: "http://user:" + canary + "@127.0.0.1:1",
	})
	require.Error(t, err)
	require.NotContains(t, err.Error(), canary)

	r.Stop()
	log, err := os.ReadFile(logged)
	require.NoError(t, err)
	require.Contains(t, string(log), "hub is ready")
	assert.NotContains(t, string(log), canary)
	assert.NotContains(t, string(log), secret)
	assert.NotContains(t, string(log), "Y2FuYXJ5LWluLWEtdXJs")
}
