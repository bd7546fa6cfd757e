package wsping_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/wsping"
)

// A client that does not read responds to no ping, and is disconnected.
func TestAConnectionWithoutResponsesIsClosed(t *testing.T) {
	t.Parallel()
	closed := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			closed <- nil
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go wsping.Keep(ctx, conn, 50*time.Millisecond)
		_, _, err = conn.Read(ctx)
		closed <- err
	}))
	t.Cleanup(server.Close)
	conn, _, err := websocket.Dial(t.Context(), server.URL, nil)
	require.NoError(t, err)
	defer conn.CloseNow() //nolint:errcheck // it is gone
	select {
	case err := <-closed:
		require.Error(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the connection is still open")
	}
}
