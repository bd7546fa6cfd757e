package credential

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// packages serves a package for pip (PEP 503), which prints the private data, and reports whether
// it did.
func packages(t *testing.T, w http.ResponseWriter, r *http.Request) bool {
	const wheel = "hello-1.0-py3-none-any.whl"
	switch path := r.URL.Path; {
	case path == "/simple/hello/":
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<a href="/files/%s">%s</a>`, wheel, wheel)
	case path == "/files/"+wheel:
		_, _ = w.Write(wheelOf(t, map[string]string{
			"hello.py":                     "print('private data')\n",
			"hello-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
			"hello-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
			"hello-1.0.dist-info/RECORD":   "hello.py,,\nhello-1.0.dist-info/METADATA,,\nhello-1.0.dist-info/WHEEL,,\nhello-1.0.dist-info/RECORD,,\n",
		}))
	default:
		return false
	}
	return true
}

func wheelOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, text := range files {
		f, err := z.Create(name)
		require.NoError(t, err)
		_, err = f.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return out.Bytes()
}

// echoTo is the variable with the address that the program of this package calls by gRPC, when
// it runs in a jail: it is a client as any other there.
const echoTo = "DECKHAND_TEST_ECHO"

const echoMethod = "/deckhand.test.Echo/Words"

// TestMain runs the tests, or is the client.
func TestMain(m *testing.M) {
	if to := os.Getenv(echoTo); to != "" {
		if err := callEcho(to); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func callEcho(to string) error {
	conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(credentials.NewTLS(nil)))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, echoMethod)
	if err != nil {
		return err
	}
	var heard []string
	for _, word := range []string{"one", "two"} { // each answer comes before the next word
		var got wrapperspb.StringValue
		if err := stream.SendMsg(wrapperspb.String(word)); err != nil {
			return err
		}
		if err := stream.RecvMsg(&got); err != nil {
			return err
		}
		heard = append(heard, got.GetValue())
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for stream.RecvMsg(&wrapperspb.StringValue{}) == nil {
	}
	fmt.Println(strings.Join(heard, " ") + "; trailer: " + strings.Join(stream.Trailer().Get("state"), ","))
	return nil
}

// echo is a gRPC server that repeats words, behind an HTTP server.
type echo struct{ server *grpc.Server }

func newEcho(t *testing.T) echo {
	t.Helper()
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		for {
			var word wrapperspb.StringValue
			if err := stream.RecvMsg(&word); err != nil {
				stream.SetTrailer(metadata.Pairs("state", "done"))
				return nil //nolint:nilerr // the client has said all
			}
			if err := stream.SendMsg(&word); err != nil {
				return err
			}
		}
	}))
	t.Cleanup(server.Stop)
	return echo{server}
}

// Serve serves a call of gRPC, and reports whether the request is one.
func (e echo) Serve(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != echoMethod || r.ProtoMajor != 2 {
		return false
	}
	e.server.ServeHTTP(w, r)
	return true
}
