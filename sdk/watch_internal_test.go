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

func (s *silent) Watch(ctx context.Context, _ *deckhandv1.WatchRequest, stream *connect.ServerStream[deckhandv1.WatchResponse]) error {
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

// broken ends its first stream after a cursor, and keeps what it was asked.
type broken struct {
	deckhandv1connect.UnimplementedEventServiceHandler

	requests []*deckhandv1.WatchRequest
}

func (b *broken) Watch(_ context.Context, req *deckhandv1.WatchRequest, stream *connect.ServerStream[deckhandv1.WatchResponse]) error {
	b.requests = append(b.requests, req)
	if len(b.requests) > 1 {
		return nil
	}
	if err := stream.Send(&deckhandv1.WatchResponse{Cursor: "7"}); err != nil {
		return err
	}
	return connect.NewError(connect.CodeUnavailable, nil)
}

// The hub refuses a watch that begins both now and at a cursor.
func TestAWatchFromNowGoesOnAtItsCursor(t *testing.T) {
	t.Parallel()
	b := &broken{}
	mux := http.NewServeMux()
	mux.Handle(deckhandv1connect.NewEventServiceHandler(b))
	srv := httptest.NewServer(mux)
	client, err := New(Config{URL: srv.URL})
	require.NoError(t, err)
	t.Cleanup(func() {
		client.HTTPClient().CloseIdleConnections()
		srv.Close()
	})
	for _, err := range client.Watch(t.Context(), &deckhandv1.WatchRequest{FromNow: true}) {
		require.NoError(t, err)
	}
	require.Len(t, b.requests, 2)
	require.True(t, b.requests[0].GetFromNow())
	require.False(t, b.requests[1].GetFromNow())
	require.Equal(t, "7", b.requests[1].GetCursor())
}
