package edge

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/traceparent"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// interceptUnary sends correlation id and trace context to the node and turns the errors
// of calls into errors of package fault.
func (l *Link) interceptUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if !l.alive() {
		return lost(l.node.ID, l.reason())
	}
	return l.explain(ctx, invoke(outgoing(ctx), method, req, reply, cc, opts...))
}

// interceptStream does the same for streams, but for the session itself, which
// is the link.
func (l *Link) interceptStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if method == nodev1.SessionService_Session_FullMethodName {
		return open(ctx, desc, cc, method, opts...)
	}
	if !l.alive() {
		return nil, lost(l.node.ID, l.reason())
	}
	stream, err := open(outgoing(ctx), desc, cc, method, opts...)
	if err != nil {
		return nil, l.explain(ctx, err)
	}
	return &explained{ClientStream: stream, explain: func(err error) error { return l.explain(ctx, err) }}, nil
}

func outgoing(ctx context.Context) context.Context {
	if text := traceparent.Of(ctx); text != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, traceparent.Header, text)
	}
	if id := logging.Correlation(ctx); id != "" {
		return metadata.AppendToOutgoingContext(ctx, logging.CorrelationHeader, id)
	}
	return ctx
}

// explain returns a call's error as one of package fault. The node's own errors, which
// have details, are kept; a connection that broke during the call becomes AGENT_018,
// unless the caller disconnected.
func explain(ctx context.Context, nodeID string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	st, _ := status.FromError(err)
	if len(st.Details()) == 0 && ctx.Err() == nil && (st.Code() == codes.Unavailable || st.Code() == codes.Canceled) {
		return lost(nodeID, err)
	}
	return fault.FromGRPC(err)
}

func (l *Link) explain(ctx context.Context, err error) error { return explain(ctx, l.node.ID, err) }

func lost(nodeID string, cause error) error {
	return unavailable(nodeID, "lost its link to the hub").WithCause(cause)
}

// explained is a stream whose errors are explained.
type explained struct {
	grpc.ClientStream

	explain func(error) error
}

// SendMsg sends a message.
func (s *explained) SendMsg(m any) error { return s.explain(s.ClientStream.SendMsg(m)) }

// RecvMsg receives a message.
func (s *explained) RecvMsg(m any) error { return s.explain(s.ClientStream.RecvMsg(m)) }
