package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// Watched is one thing that a watch sends: an event, a piece of thinking, the progress of a
// step, or a heartbeat when all are nil.
type Watched struct {
	Cursor   event.Cursor
	Event    *event.Stored
	Thinking *deckhandv1.Thinking
	Progress *deckhandv1.StepProgress
}

// Sink takes what a watch sends. It may hold that back until Flush is called.
type Sink interface {
	Send(w Watched) error
	Flush() error
}

// WatchInto is a call of Watch that sends into a sink. The request has passed the door.
type WatchInto func(r *http.Request, req *deckhandv1.WatchRequest, to Sink) error

// Into returns what makes calls of Watch for a door that sends events in a form of its own.
// They pass the interceptors of all calls. Compared with a client of the RPC in the same
// process, a reader costs neither messages of its own nor goroutines.
func (h *Events) Into(interceptors []connect.Interceptor) WatchInto {
	method := deckhandv1.File_deckhand_v1_event_proto.Services().ByName("EventService").Methods().ByName("Watch")
	return func(r *http.Request, req *deckhandv1.WatchRequest, to Sink) error {
		call := connect.StreamingHandlerFunc(func(ctx context.Context, conn connect.StreamingHandlerConn) error {
			req := &deckhandv1.WatchRequest{}
			if err := conn.Receive(req); err != nil {
				return err
			}
			return h.watch(ctx, req, to)
		})
		for _, i := range slices.Backward(interceptors) {
			call = i.WrapStreamingHandler(call)
		}
		return call(r.Context(), &watchCall{r: r, req: req, response: http.Header{}, spec: connect.Spec{
			StreamType: connect.StreamTypeServer, Schema: method, Procedure: deckhandv1connect.EventServiceWatchProcedure,
		}})
	}
}

// watchCall is the stream of a call that has its request already and sends into a sink. What an
// interceptor adds to the response's headers is not sent.
type watchCall struct {
	r        *http.Request
	req      *deckhandv1.WatchRequest // nil when it was received
	spec     connect.Spec
	response http.Header
}

func (c *watchCall) Spec() connect.Spec { return c.spec }

func (c *watchCall) Peer() connect.Peer {
	return connect.Peer{Addr: c.r.RemoteAddr, Protocol: connect.ProtocolConnect}
}

func (c *watchCall) Receive(m any) error {
	to, ok := m.(proto.Message)
	if !ok {
		return errors.New("the request is not a message")
	}
	if c.req == nil {
		return io.EOF
	}
	proto.Merge(to, c.req)
	c.req = nil
	return nil
}

func (c *watchCall) RequestHeader() http.Header { return c.r.Header }

func (*watchCall) Send(any) error                { return errors.New("the response goes into a sink") }
func (c *watchCall) ResponseHeader() http.Header { return c.response }
func (*watchCall) ResponseTrailer() http.Header  { return http.Header{} }

// watchStream is the stream of the RPC, which sends each response at once.
type watchStream struct {
	out *connect.ServerStream[deckhandv1.WatchResponse]
}

func (s watchStream) Flush() error { return nil }

func (s watchStream) Send(w Watched) error {
	res := &deckhandv1.WatchResponse{Cursor: w.Cursor.String()}
	switch {
	case w.Event != nil:
		res.Item = &deckhandv1.WatchResponse_Event{Event: w.message()}
	case w.Thinking != nil:
		res.Item = &deckhandv1.WatchResponse_Thinking{Thinking: w.Thinking}
	case w.Progress != nil:
		res.Item = &deckhandv1.WatchResponse_StepProgress{StepProgress: w.Progress}
	default:
		res.Item = &deckhandv1.WatchResponse_Heartbeat_{Heartbeat: &deckhandv1.WatchResponse_Heartbeat{}}
	}
	return s.out.Send(res)
}

// message returns the event's message. It is shared by all watches at the same position and
// must not be modified.
func (w Watched) message() *deckhandv1.Event {
	m, _ := w.Event.Once(event.AsMessage, func() any { return eventMessage(&w.Event.EventsAfterRow) }).(*deckhandv1.Event)
	return m
}

// Once returns the event in a form of a sink, which make makes of its message once for all
// watches that share it. The message is that of a watch that has sent it as one; otherwise it
// is not kept.
func (w Watched) Once(form event.Form, make func(*deckhandv1.Event) any) any {
	return w.Event.Once(form, func() any {
		m, ok := w.Event.Made(event.AsMessage).(*deckhandv1.Event)
		if !ok {
			m = eventMessage(&w.Event.EventsAfterRow)
		}
		return make(m)
	})
}
