package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/deckhand-sh/deckhand/internal/waittest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// versions runs a test with HTTP/1.1 and with HTTP/2.
func versions(t *testing.T, run func(t *testing.T, http2 bool)) {
	t.Helper()
	for name, http2 := range map[string]bool{"HTTP 1.1": false, "HTTP 2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, http2)
		})
	}
}

// inserted fails a test whose request comes without the credential.
func inserted(t *testing.T, r *http.Request) {
	t.Helper()
	assert.Equal(t, []string{"Bearer " + secret}, r.Header.Values("Authorization"))
}

// Each piece arrives while both ends are still open.
func TestBodiesStreamBothWays(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, http2 bool) {
		b := newBound(t, func(w http.ResponseWriter, r *http.Request) {
			inserted(t, r)
			assert.EqualValues(t, -1, r.ContentLength)
			rc := http.NewResponseController(w)
			assert.NoError(t, rc.EnableFullDuplex())
			assert.NoError(t, rc.Flush())
			lines := bufio.NewReader(r.Body)
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				_, _ = io.WriteString(w, "echo "+line)
				assert.NoError(t, rc.Flush())
			}
		}, nil)
		body, to := io.Pipe()
		req, err := http.NewRequest(http.MethodPost, b.url("/stream"), body)
		require.NoError(t, err)
		if !http2 {
			go func() { _, _ = io.WriteString(to, "1\n") }() // a server of HTTP/1.1 responds once something came
		}
		res, err := b.browser(http2).Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		lines := bufio.NewReader(res.Body)
		first := 1
		if !http2 {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, "echo 1\n", line)
			first = 2
		}
		for i := first; i < 5; i++ {
			_, err := fmt.Fprintf(to, "%d\n", i)
			require.NoError(t, err)
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprintf("echo %d\n", i), line)
		}
		require.NoError(t, to.Close())
		_, err = lines.ReadString('\n')
		require.ErrorIs(t, err, io.EOF)
	})
}

// A server that refuses a request by its header gets nothing of its body.
func TestTheServerSaysWhetherToContinue(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, http2 bool) {
		b := newBound(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/no" {
				w.WriteHeader(http.StatusExpectationFailed)
				return
			}
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			_, _ = w.Write(body)
		}, nil)
		client := b.browser(http2)
		client.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute //nolint:forcetypeassert // see client
		for path, status := range map[string]int{"/no": http.StatusExpectationFailed, "/yes": http.StatusOK} {
			var read, continued atomic.Bool
			body := readerFunc(func(p []byte) (int, error) {
				if read.Swap(true) {
					return 0, io.EOF
				}
				return copy(p, "hello"), nil
			})
			ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got100Continue: func() { continued.Store(true) }})
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url(path), body)
			require.NoError(t, err)
			req.ContentLength = 5
			req.Header.Set("Expect", "100-continue")
			res, err := client.Do(req)
			require.NoError(t, err, path)
			_ = res.Body.Close()
			assert.Equal(t, status, res.StatusCode)
			if http2 && path == "/no" {
				continue // net/http's server does not pass on what a client of HTTP/2 expects
			}
			assert.Equal(t, path == "/yes", read.Load(), path)
			assert.Equal(t, path == "/yes", continued.Load(), path)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestTrailersPassBothWays(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, http2 bool) {
		b := newBound(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			_, err := io.Copy(w, r.Body)
			assert.NoError(t, err)
			w.Header().Set("X-Sum", "of "+r.Trailer.Get("X-Client-Sum"))
			w.Header().Set(http.TrailerPrefix+"X-Later", secret) // not announced, and it must not be seen
		}, nil)
		req, err := http.NewRequest(http.MethodPost, b.url("/"), io.MultiReader(strings.NewReader("hello")))
		require.NoError(t, err)
		req.Trailer = http.Header{"X-Client-Sum": {"5"}}
		res, err := b.browser(http2).Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		_ = res.Body.Close()
		assert.Equal(t, "hello", string(body))
		assert.Equal(t, "of 5", res.Trailer.Get("X-Sum"))
		assert.Equal(t, strings.Repeat("*", len(secret)), res.Trailer.Get("X-Later"))
	})
}

// echoService is a service of gRPC with a call and a stream.
type echoService struct {
	nodev1.UnimplementedEgressServiceServer
	t *testing.T
}

func (e echoService) EndCredential(_ context.Context, req *nodev1.EndCredentialRequest) (*nodev1.EndCredentialResponse, error) {
	if req.GetCredential() == "fails" {
		return nil, errors.New("it fails")
	}
	return &nodev1.EndCredentialResponse{}, nil
}

func (e echoService) Tunnel(stream nodev1.EgressService_TunnelServer) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has sent everything
		}
		if err := stream.Send(&nodev1.TunnelResponse{Data: req.GetData()}); err != nil {
			return err
		}
	}
}

func TestGRPCPasses(t *testing.T) {
	t.Parallel()
	server := grpc.NewServer()
	nodev1.RegisterEgressServiceServer(server, echoService{t: t})
	b := newBound(t, func(w http.ResponseWriter, r *http.Request) {
		inserted(t, r)
		server.ServeHTTP(w, r)
	}, nil)
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(b.url(""), "https://"),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			_, c, _ := b.connect(strings.TrimPrefix(b.url(""), "https://"))
			return c, nil
		}),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: b.hub.roots})))
	require.NoError(t, err)
	defer conn.Close()
	client := nodev1.NewEgressServiceClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit(20*time.Second))
	defer cancel()
	_, err = client.EndCredential(ctx, &nodev1.EndCredentialRequest{})
	require.NoError(t, err)
	_, err = client.EndCredential(ctx, &nodev1.EndCredentialRequest{Credential: "fails"})
	require.ErrorContains(t, err, "it fails")
	stream, err := client.Tunnel(ctx)
	require.NoError(t, err)
	for _, text := range []string{"one", "two", strings.Repeat("x", 100_000)} {
		require.NoError(t, stream.Send(&nodev1.TunnelRequest{Request: &nodev1.TunnelRequest_Data{Data: []byte(text)}}))
		res, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, text, string(res.GetData()))
	}
	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
}

// echoSocket serves a WebSocket that repeats what it gets.
func echoSocket(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		inserted(t, r)
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if !assert.NoError(t, err) {
			return
		}
		defer c.CloseNow()
		for {
			kind, data, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if c.Write(r.Context(), kind, data) != nil {
				return
			}
		}
	}
}

func (b *bound) webSocket(ctx context.Context) *websocket.Conn {
	b.t.Helper()
	c, _, err := websocket.Dial(ctx, b.url("/socket"), &websocket.DialOptions{HTTPClient: b.browser(false)}) //nolint:bodyclose // it closes it
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

func TestAWebSocketPasses(t *testing.T) {
	t.Parallel()
	b := newBound(t, echoSocket(t), nil)
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit(20*time.Second))
	defer cancel()
	c := b.webSocket(ctx)
	for _, text := range []string{"one", "two"} {
		require.NoError(t, c.Write(ctx, websocket.MessageText, []byte(text)))
		_, data, err := c.Read(ctx)
		require.NoError(t, err)
		assert.Equal(t, text, string(data))
	}
	_ = c.Close(websocket.StatusNormalClosure, "") // the other end may be gone first
	rec := b.hub.ended(t, 1)[0]
	assert.Equal(t, http.StatusSwitchingProtocols, rec.Status)
	assert.NotZero(t, rec.SentBytes)
	assert.NotZero(t, rec.ReceivedBytes)
	assert.Empty(t, rec.Problem)
}
