package rest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A reader that reads nothing is disconnected when it has not taken a write in time, and
// only what was not sent yet is held for it.
func TestAReaderOfEventsThatDoesNotReadIsDisconnected(t *testing.T) {
	t.Parallel()
	ended, held := make(chan error, 1), 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := newSSE(w)
		out.within = 300 * time.Millisecond
		out.begin()
		item := received{res: &deckhandv1.WatchResponse{Cursor: "1.1", Item: &deckhandv1.WatchResponse_Event{
			Event: &deckhandv1.Event{Type: "progress_update", CorrelationId: strings.Repeat("x", 100_000)},
		}}}
		for {
			held = max(held, out.buf.Len())
			if !out.item(item, "") {
				break
			}
		}
		ended <- out.flush()
	}))
	t.Cleanup(server.Close)
	res, err := http.Get(server.URL) //nolint:noctx // it ends with the server
	require.NoError(t, err)
	defer res.Body.Close()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	case <-time.After(time.Minute):
		t.Fatal("the reader is still connected")
	}
	require.Less(t, held, 1<<20)
}

// Streams that end leave nothing behind, whichever end goes first.
func TestALocalCallThatIsLeftEnds(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	door := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(over)
		for {
			if _, err := w.Write([]byte("x")); err != nil {
				return
			}
		}
	})
	of := httptest.NewRequest(http.MethodGet, "/v1/events", nil)
	of.Header.Set("Authorization", "Bearer x")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://hub/x", nil)
	require.NoError(t, err)
	res, err := local{door, of}.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.NoError(t, res.Body.Close())
	select {
	case <-over:
	case <-time.After(time.Minute):
		buf := make([]byte, 1<<16)
		t.Fatalf("the handler still runs:\n%s", buf[:runtime.Stack(buf, true)])
	}
	// A handler that panics fails its call only.
	broken := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") })
	res, err = local{broken, of}.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusInternalServerError, res.StatusCode)
	require.NoError(t, res.Body.Close())
}
