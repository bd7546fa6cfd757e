package sdk

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

type silent struct {
	deckhandv1connect.UnimplementedEventServiceHandler

	calls int
}

func (s *silent) Watch(ctx context.Context, _ *connect.Request[deckhandv1.WatchRequest], stream *connect.ServerStream[deckhandv1.WatchResponse]) error {
	s.calls++
	if s.calls == 1 {
		<-ctx.Done() // never says anything, not even a heartbeat
		return ctx.Err()
	}
	return stream.Send(&deckhandv1.WatchResponse{Cursor: "1", Item: &deckhandv1.WatchResponse_Event{Event: &deckhandv1.Event{Seq: 1}}})
}

func TestALinkThatFallsSilentIsLeft(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle(deckhandv1connect.NewEventServiceHandler(&silent{}))
	srv := httptest.NewServer(mux)
	client, err := New(Config{URL: srv.URL})
	require.NoError(t, err)
	t.Cleanup(func() {
		client.HTTPClient().CloseIdleConnections()
		srv.CloseClientConnections()
		srv.Close()
	})
	var got []int64
	for res, err := range client.watch(t.Context(), &deckhandv1.WatchRequest{}, 50*time.Millisecond) {
		require.NoError(t, err)
		got = append(got, res.GetEvent().GetSeq())
	}
	require.Equal(t, []int64{1}, got)
}
