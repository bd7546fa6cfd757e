package egress

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
)

// helloOf returns the first message of a client.
func helloOf(tb testing.TB, name string) []byte {
	tb.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake() //nolint:gosec // it gets no answer
	}()
	buf := make([]byte, 64<<10)
	n, err := server.Read(buf)
	require.NoError(tb, err)
	return buf[:n]
}

// inRecords returns the same message in records of few bytes.
func inRecords(hello []byte, size int) (out []byte) {
	for body := hello[5:]; len(body) > 0; {
		n := min(size, len(body))
		out = append(out, hello[0], hello[1], hello[2], byte(n>>8), byte(n))
		out = append(out, body[:n]...)
		body = body[n:]
	}
	return out
}

func TestAHelloIsReadHoweverItIsCut(t *testing.T) {
	t.Parallel()
	hello := helloOf(t, "api.example.com")
	for _, raw := range [][]byte{hello, inRecords(hello, 100), inRecords(hello, 60)} {
		read, name, err := readHello(io.MultiReader(bytes.NewReader(raw), bytes.NewReader([]byte("rest"))))
		require.NoError(t, err)
		require.Equal(t, "api.example.com", name)
		require.Equal(t, raw, read[:len(raw)], "all that was read goes on to the host")
	}
	_, _, err := readHello(bytes.NewReader(hello[:len(hello)-1]))
	require.Error(t, err)
}

// FuzzHello: whatever a client sends, it is read to an end, and a name that is
// let through is the tunnel's.
func FuzzHello(f *testing.F) {
	hello := helloOf(f, "api.example.com")
	f.Add(hello)
	f.Add(inRecords(hello, 50))
	f.Add(hello[:20])
	f.Add([]byte{22, 3, 1, 0, 0})
	t0 := allowlist.Target{Host: "api.example.com", Port: 443}
	f.Fuzz(func(t *testing.T, raw []byte) {
		began := time.Now()
		read, name, err := readHello(bytes.NewReader(raw))
		require.Less(t, time.Since(began), time.Minute)
		require.True(t, bytes.HasPrefix(raw, read))
		if judgeHello(t0, name, err) == nil {
			to, err := allowlist.ParseTarget(name, 443)
			require.NoError(t, err)
			require.Equal(t, t0, to)
		}
	})
}
