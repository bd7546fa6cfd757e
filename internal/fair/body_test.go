package fair_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fair"
)

// read serves one handler that reads bounded bodies whole, and returns what
// sends the beginning of one and tells what became of it.
func read(t *testing.T, bounds fair.Bounds) func(announced int, body string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := fair.NewBody(w, r, bounds, r.Header.Get("Who"))
		defer body.Leave()
		data, err := io.ReadAll(body)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = errors.New("late")
		case errors.Is(err, fair.ErrFull):
			err = errors.New("full")
		}
		fmt.Fprintf(w, "%d %v", len(data), err)
	}))
	t.Cleanup(srv.Close)
	return func(announced int, body string) string {
		conn, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nWho: a\r\nContent-Length: %d\r\n\r\n%s", announced, body)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		defer res.Body.Close()
		said, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(said)
	}
}

func TestABodyComesInTime(t *testing.T) {
	t.Parallel()
	room := fair.NewRoom(10<<20, 1<<20)
	send := read(t, fair.Bounds{Begin: 300 * time.Millisecond, Rate: 1 << 30, Room: room})
	require.Equal(t, "5 <nil>", send(5, "hello"))
	require.Equal(t, "0 late", send(5, ""))
	require.Equal(t, "2 late", send(5, "he"))
	require.True(t, room.Take(1<<20, "a"), "its room is given back")
}

// What it takes is what has come, however much is announced.
func TestABodyHasRoom(t *testing.T) {
	t.Parallel()
	room := fair.NewRoom(10<<20, 100<<10)
	send := read(t, fair.Bounds{Begin: time.Hour, Room: room})
	require.Equal(t, "65536 <nil>", send(64<<10, strings.Repeat("x", 64<<10)))
	require.Equal(t, fmt.Sprintf("%d full", 96<<10), send(10<<20, strings.Repeat("x", 200<<10)))
	require.True(t, room.Take(100<<10, "a"), "its room is given back")
}
