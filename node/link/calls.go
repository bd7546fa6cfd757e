package link

import (
	"context"
	"errors"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/traceparent"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// interceptUnary accepts a call only while the session is established. It adds
// the correlation id, validates the request against the proto's rules, and maps
// the error to one for the wire.
func (s *session) interceptUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	ctx = incoming(ctx)
	if endless[info.FullMethod] {
		if err := s.gate.admit(); err != nil {
			return nil, fault.ToGRPC(err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ending, cancel)()
	} else {
		leave, err := s.gate.enter(info.FullMethod)
		if err != nil {
			return nil, fault.ToGRPC(err)
		}
		defer leave()
	}
	if err := s.link.validate(req); err != nil {
		return nil, fault.ToGRPC(err)
	}
	response, err := handle(ctx, req)
	if err != nil && endless[info.FullMethod] && s.ending.Err() != nil {
		return nil, errStopping()
	}
	return response, s.link.answer(ctx, info.FullMethod, err)
}

// errStopping is the end of a call that a stop does not wait for.
func errStopping() error {
	return fault.ToGRPC(fault.New(fault.Unavailable, "the node is stopping").
		WithCode(fault.NodeUnavailable).WithFix("try again when the node is connected"))
}

// endless are the calls that last as long as somebody reads them or a command runs: a stop
// does not wait for them. A hub makes them again when the node is back.
var endless = map[string]bool{
	nodev1.EgressService_Channel_FullMethodName:           true,
	nodev1.EgressService_Tunnel_FullMethodName:            true,
	nodev1.ExecService_ReadLog_FullMethodName:             true,
	nodev1.ExecService_WaitExec_FullMethodName:            true,
	nodev1.FileService_WatchFiles_FullMethodName:          true,
	nodev1.TelemetryService_WatchTelemetry_FullMethodName: true,
}

// interceptStream does the same for streams. The session itself passes.
func (s *session) interceptStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if info.FullMethod == nodev1.SessionService_Session_FullMethodName {
		return handle(srv, stream)
	}
	ctx := incoming(stream.Context())
	if endless[info.FullMethod] {
		return s.untilStop(ctx, srv, stream, info.FullMethod, handle)
	}
	leave, err := s.gate.enter(info.FullMethod)
	if err != nil {
		return fault.ToGRPC(err)
	}
	defer leave()
	return s.link.answer(ctx, info.FullMethod, handle(srv, &checked{ServerStream: stream, link: s.link, ctx: ctx}))
}

// untilStop handles a stream whose context ends when the node stops, which is an error
// for the hub whatever the handler made of it.
func (s *session) untilStop(ctx context.Context, srv any, stream grpc.ServerStream, method string, handle grpc.StreamHandler) error {
	if err := s.gate.admit(); err != nil {
		return fault.ToGRPC(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	err := handle(srv, &checked{ServerStream: stream, link: s.link, ctx: ctx})
	if s.ending.Err() != nil {
		return errStopping()
	}
	return s.link.answer(ctx, method, err)
}

// checked is a stream whose requests are validated.
type checked struct {
	grpc.ServerStream

	link *Link
	ctx  context.Context // with the correlation id
}

// Context returns the call's context.
func (c *checked) Context() context.Context { return c.ctx }

// RecvMsg receives a request that keeps the proto's rules.
func (c *checked) RecvMsg(m any) error {
	if err := c.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return c.link.validate(m)
}

// incoming takes over the caller's correlation id and trace context.
func incoming(ctx context.Context) context.Context {
	for _, text := range metadata.ValueFromIncomingContext(ctx, traceparent.Header) {
		ctx = traceparent.With(ctx, text)
	}
	for _, id := range metadata.ValueFromIncomingContext(ctx, logging.CorrelationHeader) {
		if logging.ValidCorrelation(id) {
			return logging.WithCorrelation(ctx, id)
		}
	}
	return ctx
}

// validate names the first field that breaks a rule of the proto.
func (l *Link) validate(message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	err := protovalidate.GlobalValidator.Validate(m)
	var invalid *protovalidate.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid) && len(invalid.Violations) > 0:
		return fault.New(fault.Invalid, "%s", invalid.Violations[0].String()).WithCause(err)
	}
	return fault.New(fault.Internal, "cannot check the request").WithCause(err)
}

// answer maps a call's error to one for the wire. Details of an internal error
// are only logged.
func (l *Link) answer(ctx context.Context, method string, err error) error {
	if err == nil {
		return nil
	}
	said := fault.As(err)
	_, isStatus := status.FromError(err)
	if internal := said == nil && !isStatus || said != nil && said.Kind == fault.Internal; internal && ctx.Err() == nil {
		logging.From(ctx, l.cfg.Log).Error("a call failed", "method", method, "error", err, "cause", errors.Unwrap(err))
	}
	return fault.ToGRPC(err)
}
