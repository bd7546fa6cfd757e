package api

import (
	"context"
	"errors"
	"net/http"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"github.com/coder/websocket"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/wsping"
	errorv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/error/v1"
)

// socketMessage bounds a message of a browser: input is at most 64 KiB.
const socketMessage = 128 << 10

// duplex is the person's end of streams both ways: of an RPC, or a WebSocket.
type duplex[In, Out any] interface {
	// Receive returns io.EOF when nothing more will be said.
	Receive() (*In, error)
	Send(*Out) error
}

// message is a pointer to a message.
type message[T any] interface {
	*T
	proto.Message
}

// Sockets serves an RPC with streams both ways to browsers, which have no such streams but
// WebSockets. Its binary messages are those of the RPC. What goes wrong is one text message with
// an ErrorInfo as JSON, before the end.
//
// Whether the page is this hub's own is checked by auth.SameOrigin.
type Sockets[In, Out any, PIn message[In], POut message[Out]] struct {
	Procedure string
	// Serve is one call, from its first message to its last.
	Serve  func(ctx context.Context, stream duplex[In, Out]) error
	Guards auth.Guards
	Log    hclog.Logger
	Redact *redact.Redactor
}

// ServeHTTP is one call.
func (h *Sockets[In, Out, PIn, POut]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	edge := errorInterceptor{h.Log, h.Redact}
	ctx := edge.enter(r.Context(), r.Header.Get(logging.CorrelationHeader))
	caller, err := h.Guards.Admit(h.Procedure, r.WithContext(ctx))
	if err != nil {
		// Who does not read the refusal is refused as well.
		_ = connect.NewErrorWriter().Write(w, r, edge.leave(ctx, h.Procedure, err))
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // it is not a WebSocket; Accept has sent the error
	}
	defer conn.CloseNow() //nolint:errcheck // it is gone either way
	conn.SetReadLimit(socketMessage)
	kept, stop := h.Guards.Keep(caller, h.Procedure, r)
	defer stop()
	ctx, cancel := context.WithCancel(kept)
	defer cancel()
	go wsping.Keep(ctx, conn, wsping.Interval)
	if err := h.Serve(ctx, socket[In, Out, PIn, POut]{ctx, conn, h.Procedure}); err != nil {
		left := edge.leave(ctx, h.Procedure, err)
		if text, e := protojson.Marshal(infoOf(left)); e == nil {
			_ = conn.Write(ctx, websocket.MessageText, text)
		}
		status := websocket.StatusPolicyViolation // it will be the same again
		if code := connect.CodeOf(left); code == connect.CodeUnavailable || code == connect.CodeInternal || code == connect.CodeUnknown {
			status = websocket.StatusTryAgainLater
		}
		_ = conn.Close(status, "")
		return
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

// infoOf returns an error in the form that a browser gets.
func infoOf(err error) *errorv1.ErrorInfo {
	var e *connect.Error
	if errors.As(err, &e) {
		for _, detail := range e.Details() {
			if value, err := detail.Value(); err == nil {
				if info, ok := value.(*errorv1.ErrorInfo); ok {
					return info
				}
			}
		}
	}
	return &errorv1.ErrorInfo{Code: connect.CodeOf(err).String(), Message: "the connection broke off"}
}

// socket is a browser's end of a call.
type socket[In, Out any, PIn message[In], POut message[Out]] struct {
	ctx       context.Context //nolint:containedctx // a stream belongs to one call
	conn      *websocket.Conn
	procedure string
}

// Receive returns the browser's next message. A closed connection is an error: what has no viewer
// any more ends.
func (s socket[In, Out, PIn, POut]) Receive() (*In, error) {
	kind, data, err := s.conn.Read(s.ctx)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the browser has left").WithFix("connect again")
	}
	in := new(In)
	if kind != websocket.MessageBinary || proto.Unmarshal(data, PIn(in)) != nil {
		return nil, fault.New(fault.Invalid, "a message is no %s in binary", PIn(in).ProtoReflect().Descriptor().Name()).WithFix("send each as one binary message")
	}
	if err := protovalidate.Validate(PIn(in)); err != nil {
		return nil, fault.New(fault.Invalid, "%v", err).WithFix("see the description of the API")
	}
	if err := withoutNUL(PIn(in), s.procedure); err != nil {
		return nil, err
	}
	return in, nil
}

// Send sends a message to the browser.
func (s socket[In, Out, PIn, POut]) Send(out *Out) error {
	data, err := proto.Marshal(POut(out))
	if err != nil {
		return err
	}
	return s.conn.Write(s.ctx, websocket.MessageBinary, data)
}
