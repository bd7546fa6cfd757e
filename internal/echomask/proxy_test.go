package echomask_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A real server repeats what it gets, behind a real proxy that inserts a secret.
func TestBehindAProxyNoSecretReachesTheClient(t *testing.T) {
	t.Parallel()
	const value = "s3cr3t-Value-1"
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		echo := r.Header.Get("Authorization")
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Echo", echo)
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		var body io.Writer = w
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			zip := gzip.NewWriter(w)
			defer zip.Close()
			body = zip
		}
		_, _ = io.WriteString(body, "you sent "+echo[:12])
		assert.NoError(t, http.NewResponseController(w).Flush())
		_, _ = io.WriteString(body, echo[12:]+", did you?")
		w.Header().Set("X-Sum", echo)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	m := masker(value)
	for _, http2 := range []bool{true, false} {
		transport := server.Client().Transport.(*http.Transport).Clone()
		transport.ForceAttemptHTTP2 = http2
		if !http2 {
			transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
		}
		transport.DisableCompression = true
		t.Cleanup(transport.CloseIdleConnections)
		proxy := httptest.NewServer(&httputil.ReverseProxy{
			Transport: transport,
			Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host = "https", server.Listener.Addr().String()
				r.Out.Header.Set("Authorization", "Bearer "+value)
			},
			ModifyResponse: func(res *http.Response) error {
				if http2 {
					assert.Equal(t, 2, res.ProtoMajor)
				}
				_, err := m.Response(res)
				return err
			},
			FlushInterval: -1,
		})
		t.Cleanup(proxy.Close)
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		t.Cleanup(client.CloseIdleConnections)
		for _, encoding := range []string{"identity", "gzip"} {
			get := func(contentType string) (*http.Response, string, error) {
				r, err := http.NewRequest("GET", proxy.URL+"/?type="+contentType, nil)
				require.NoError(t, err)
				r.Header.Set("Accept-Encoding", encoding)
				res, err := client.Do(r)
				require.NoError(t, err)
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				return res, string(body), err
			}
			res, body, err := get("text/plain")
			require.NoError(t, err)
			require.Equal(t, "you sent Bearer **************, did you?", body)
			require.Equal(t, "Bearer **************", res.Header.Get("X-Echo"))
			require.Equal(t, "Bearer **************", res.Trailer.Get("X-Sum"))
			require.Empty(t, res.Header.Get("Content-Encoding"))

			_, body, err = get("application/octet-stream")
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the transfer is broken off")
			require.NotContains(t, body, "s3cr3t")
		}
	}
}
