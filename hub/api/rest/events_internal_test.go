package rest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/api"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// A reader that reads nothing is disconnected when it has not taken a write in time.
func TestAReaderOfEventsThatDoesNotReadIsDisconnected(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := newSSE(w)
		out.within = 300 * time.Millisecond
		item := api.Watched{Event: &event.Stored{EventsAfterRow: db.EventsAfterRow{Type: "progress_update", CorrelationID: strings.Repeat("x", 100_000)}}}
		for {
			if err := out.Send(item); err != nil {
				ended <- err
				return
			}
		}
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
}

// What was written is sent at the latest when nothing more is ready, whatever its length, and
// what a resumed reader gets begins with the first event.
func TestEventsAreSentWhenNothingMoreIsReady(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, compressFrom - 1, compressFrom, 3 * compressFrom} {
		for _, resumed := range []bool{false, true} {
			got := httptest.NewRecorder()
			out := newSSE(got)
			if resumed {
				out.quiet = time.Hour
			}
			require.NoError(t, out.Send(api.Watched{}))
			require.NoError(t, out.Flush())
			require.Equal(t, !resumed, got.Flushed, "the first item only confirms a resumed watch")
			got.Flushed = false
			require.NoError(t, out.Send(api.Watched{Event: &event.Stored{EventsAfterRow: db.EventsAfterRow{
				Type: "progress_update", CorrelationID: strings.Repeat("x", size),
			}}}))
			require.NoError(t, out.Flush())
			require.True(t, got.Flushed)
			got.Flushed = false
			require.NoError(t, out.Flush())
			require.False(t, got.Flushed, "there is nothing to send")
			require.Contains(t, got.Body.String(), strings.Repeat("x", size))
			out.end(nil, "")
			require.True(t, strings.HasPrefix(got.Body.String(), "retry: 2000\n\n: heartbeat\nid: 0.0\n\nid: 0.0\nevent: progress_update\n"))
			require.True(t, strings.HasSuffix(got.Body.String(), "\n\nevent: end\ndata: {}\n\n"))
		}
	}
}

// The response of a resumed watch begins by a timer while the watch sends, and a watch that
// fails before or after that tells its reader why.
func TestAResumedStreamBeginsWhenNothingComes(t *testing.T) {
	t.Parallel()
	get := func(quiet time.Duration, watch func(out *sse) error) (int, string) {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			out := newSSE(w)
			defer out.close()
			out.quiet = quiet
			out.end(watch(out), "corr_1")
		}))
		defer server.Close()
		res, err := http.Get(server.URL) //nolint:noctx // it ends with the server
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(body)
	}
	confirm := func(out *sse) error {
		if err := out.Send(api.Watched{}); err != nil {
			return err
		}
		return out.Flush()
	}
	const begin = "retry: 2000\n\n: heartbeat\nid: 0.0\n\n"
	one := api.Watched{Event: &event.Stored{EventsAfterRow: db.EventsAfterRow{Type: "progress_update", Seq: 7}}}
	const events = 2000
	status, body := get(time.Millisecond, func(out *sse) error {
		if err := confirm(out); err != nil {
			return err
		}
		for range events {
			if err := out.Send(one); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
		}
		return nil
	})
	require.Equal(t, http.StatusOK, status)
	require.True(t, strings.HasPrefix(body, begin))
	require.Equal(t, events, strings.Count(body, "event: progress_update\n"))

	status, body = get(time.Hour, func(out *sse) error {
		require.NoError(t, confirm(out))
		return fault.New(fault.Unavailable, "the hub is stopping")
	})
	require.Equal(t, http.StatusOK, status)
	require.True(t, strings.HasPrefix(body, begin+"event: problem\ndata: {"), body)
	require.Contains(t, body, "the hub is stopping")
	require.Contains(t, body, "corr_1")

	status, body = get(time.Hour, confirm)
	require.Equal(t, http.StatusNoContent, status)
	require.Empty(t, body)

	status, body = get(time.Millisecond, func(out *sse) error {
		require.NoError(t, confirm(out))
		for { // until the timer has begun the response
			out.mu.Lock()
			state := out.state
			out.mu.Unlock()
			if state == sseBegun {
				return nil
			}
			runtime.Gosched()
		}
	})
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, begin+"event: end\ndata: {}\n\n", body)
}

// An event that cannot be written as JSON is replaced: its readers go on after it.
func TestAnEventThatCannotBeWrittenIsReplaced(t *testing.T) {
	t.Parallel()
	got := httptest.NewRecorder()
	out := newSSE(got)
	require.NoError(t, out.Send(api.Watched{Event: &event.Stored{EventsAfterRow: db.EventsAfterRow{Type: "progress_update", TaskID: "task_1", Seq: 7, CorrelationID: "\xff"}}}))
	require.NoError(t, out.Send(api.Watched{Event: &event.Stored{EventsAfterRow: db.EventsAfterRow{Type: "progress_update", TaskID: "task_1", Seq: 8}}}))
	lines := strings.Split(got.Body.String(), "\n")
	require.Contains(t, lines[4], `"seq":"7"`)
	require.Contains(t, lines[4], "invalid UTF-8")
	require.Contains(t, got.Body.String(), `8`)
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
