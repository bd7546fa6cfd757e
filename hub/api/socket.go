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
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// socketMessage bounds a message of a browser: input is at most 64 KiB.
const socketMessage = 128 << 10

// TerminalSockets serves OpenTerminal to browsers, which have no stream in both
// directions but a WebSocket. Its binary messages are those of the RPC. What goes
// wrong is one text message with an ErrorInfo as JSON, before the end.
//
// Whether the page is this hub's own is checked by auth.SameOrigin.
type TerminalSockets struct {
	*Terminals

	Guards auth.Guards
	Log    hclog.Logger
	Redact *redact.Redactor
}

// ServeHTTP is one terminal.
func (h *TerminalSockets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const procedure = deckhandv1connect.TerminalServiceOpenTerminalProcedure
	edge := errorInterceptor{h.Log, h.Redact}
	ctx := edge.enter(r.Context(), r.Header.Get(logging.CorrelationHeader))
	caller, err := h.Guards.Admit(procedure, r.WithContext(ctx))
	if err != nil {
		// Who does not read the refusal is refused as well.
		_ = connect.NewErrorWriter().Write(w, r, edge.leave(ctx, procedure, err))
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // it is not a WebSocket; Accept has sent the error
	}
	defer conn.CloseNow() //nolint:errcheck // it is gone either way
	conn.SetReadLimit(socketMessage)
	kept, stop := h.Guards.Keep(caller, procedure, r)
	defer stop()
	ctx, cancel := context.WithCancel(kept)
	defer cancel()
	go wsping.Keep(ctx, conn, wsping.Interval)
	if err := h.serve(ctx, socket{ctx, conn}); err != nil {
		if text, e := protojson.Marshal(infoOf(edge.leave(ctx, procedure, err))); e == nil {
			_ = conn.Write(ctx, websocket.MessageText, text)
		}
		_ = conn.Close(websocket.StatusPolicyViolation, "")
		return
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

// infoOf returns an error in the form that a browser gets.
func infoOf(err error) *deckhandv1.ErrorInfo {
	var e *connect.Error
	if errors.As(err, &e) {
		for _, detail := range e.Details() {
			if value, err := detail.Value(); err == nil {
				if info, ok := value.(*deckhandv1.ErrorInfo); ok {
					return info
				}
			}
		}
	}
	return &deckhandv1.ErrorInfo{Code: connect.CodeOf(err).String(), Message: "the terminal broke off"}
}

// socket is a browser's end of a terminal.
type socket struct {
	ctx  context.Context //nolint:containedctx // a stream belongs to one call
	conn *websocket.Conn
}

// Receive returns the browser's next message. A closed connection is an error: a terminal
// without a viewer is hung up.
func (s socket) Receive() (*deckhandv1.OpenTerminalRequest, error) {
	kind, data, err := s.conn.Read(s.ctx)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the browser has left").WithFix("open another terminal")
	}
	message := new(deckhandv1.OpenTerminalRequest)
	if kind != websocket.MessageBinary || proto.Unmarshal(data, message) != nil {
		return nil, fault.New(fault.Invalid, "a terminal's message is no OpenTerminalRequest in binary").WithFix("send each as one binary message")
	}
	if err := protovalidate.Validate(message); err != nil {
		return nil, fault.New(fault.Invalid, "%v", err).WithFix("see terminal.proto")
	}
	if err := withoutNUL(message, deckhandv1connect.TerminalServiceOpenTerminalProcedure); err != nil {
		return nil, err
	}
	return message, nil
}

// Send sends a message to the browser.
func (s socket) Send(message *deckhandv1.OpenTerminalResponse) error {
	data, err := proto.Marshal(message)
	if err != nil {
		return err
	}
	return s.conn.Write(s.ctx, websocket.MessageBinary, data)
}
