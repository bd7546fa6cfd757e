package auth_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// serve runs a door before a handler that reads the whole body. It returns where,
// and what the handler has read, each time.
func serve(t *testing.T, begin time.Duration) (address string, got chan int) {
	t.Helper()
	got = make(chan int, 10)
	door := auth.NewDoor(auth.Guards{Rates: auth.NewRates(-1)}, nil, func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusUnauthorized)
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		got <- len(data)
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestTimeout)
		}
	}))
	door.Begin = begin
	srv := httptest.NewServer(door)
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://"), got
}

// begin sends the head of a request and the beginning of its body, and reads the
// answer.
func begin(t *testing.T, address, procedure string, announced int, body string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", procedure, announced, body)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	status, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	return status
}

// Who has no token is refused by the headers: of the body nothing is waited for
// and nothing is kept.
func TestABodyIsReadOfCallersOnly(t *testing.T) {
	t.Parallel()
	address, got := serve(t, time.Hour)
	require.Contains(t, begin(t, address, deckhandv1connect.TaskServiceSubmitTaskProcedure, 45<<20, "{"), "401")
	require.Empty(t, got)
}

// Public procedures accept only small bodies that arrive in time.
func TestAPublicBodyIsSmallAndComesInTime(t *testing.T) {
	t.Parallel()
	address, got := serve(t, 200*time.Millisecond)
	public := deckhandv1connect.SessionServiceCreateSessionProcedure
	require.Contains(t, begin(t, address, public, auth.PublicBytes+10, strings.Repeat("x", auth.PublicBytes+10)), "408")
	require.Equal(t, auth.PublicBytes, <-got)
	require.Contains(t, begin(t, address, public, 100, "{"), "408", "the rest never comes")
	require.Equal(t, 1, <-got)
	require.Contains(t, begin(t, address, public, 2, "{}"), "200")
	require.Equal(t, 2, <-got)
}

// A caller who asks for too many things that do not exist is stopped before the
// database is asked.
func TestAnAddressMayFailSoOften(t *testing.T) {
	t.Parallel()
	rates := auth.NewRates(0)
	failed := 0
	for range 1000 {
		if rates.MayFail("192.0.2.1:1") == nil {
			failed++
			rates.Failed("192.0.2.1:2")
		}
	}
	require.Less(t, failed, 300)
	require.True(t, fault.Is(rates.MayFail("192.0.2.1:3"), fault.Exhausted))
	require.NoError(t, rates.MayFail("192.0.2.2:1"))
	require.NoError(t, auth.NewRates(-1).MayFail("192.0.2.1:1"))
}
