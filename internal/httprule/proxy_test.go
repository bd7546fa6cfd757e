package httprule_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/httprule"
	"github.com/deckhand-sh/deckhand/internal/httprule/corpus"
)

// Behind a real proxy, the server gets the path on which the rules decided, or
// nothing.
func TestAServerBehindAProxyGetsThePathOfTheDecision(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.RequestURI }))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	proxy := &httputil.ReverseProxy{
		Transport: server.Client().Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			p, err := httprule.Canonical(r.In.RequestURI)
			assert.NoError(t, err)
			p.Apply(r.Out.URL)
			r.Out.URL.Scheme, r.Out.URL.Host = "https", server.Listener.Addr().String()
		},
	}
	address, _ := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		if _, err := httprule.Canonical(r.RequestURI); err != nil || httprule.Check(r) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		proxy.ServeHTTP(w, r)
	})
	for _, c := range corpus.Cases() {
		answer := exchange(t, address, "GET "+c.Target+" HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
		if c.Refused {
			require.NotContains(t, answer, "200 OK", c.Name)
			require.Empty(t, got, c.Name)
			continue
		}
		require.Contains(t, answer, "200 OK", c.Name)
		p, err := httprule.Canonical(c.Target)
		require.NoError(t, err)
		require.Equal(t, p.Target(), <-got, c.Name)
	}
}

// exchange sends a request and returns what comes back. It does not close its side,
// which would end the request.
func exchange(t *testing.T, address, raw string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, raw)
	require.NoError(t, err)
	answer, _ := io.ReadAll(c)
	return string(answer)
}
