package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"github.com/coder/websocket"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/api"
	"github.com/deckhand-sh/deckhand/hub/api/idempotency"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	"github.com/deckhand-sh/deckhand/internal/wsping"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

const (
	// commandBytes bounds a message of a client: the text of a message to an agent is the
	// longest.
	commandBytes = 256 << 10
	// commandsWaiting is how many commands of a connection may wait for the one that runs.
	commandsWaiting = 16
	// reasonBytes bounds the reason in a close frame.
	reasonBytes = 120
)

// update is a message to the client: an event with its cursor, the answer to a command, or
// why the connection ends.
type update struct {
	Cursor string          `json:"cursor,omitempty"`
	Event  json.RawMessage `json:"event,omitempty"`
	// Thinking and StepProgress are what is not stored.
	Thinking     json.RawMessage `json:"thinking,omitempty"`
	StepProgress json.RawMessage `json:"stepProgress,omitempty"`
	// ID is that of the command that Result or Problem is the answer to; empty for a
	// Problem that ends the connection.
	ID      string          `json:"id,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Problem *Problem        `json:"problem,omitempty"`
}

// command is a message of the client. One of its objects is set; each has the fields of
// its RPC's request, but for the task.
type command struct {
	ID string `json:"id"`
	// Key is the idempotency key of the call: the command can be repeated with it, also on
	// another connection.
	Key string `json:"key"`
	// Message is a TellTaskRequest, Pause a PauseTaskRequest, and Resume a
	// ResumeTaskRequest.
	Message json.RawMessage `json:"message"`
	Pause   json.RawMessage `json:"pause"`
	Resume  json.RawMessage `json:"resume"`
	// Approve is an AnswerInboxItemRequest for an item of the task.
	Approve json.RawMessage `json:"approve"`
}

// updates serves GET /v1/tasks/{task}/updates: a WebSocket with the events of a task and
// commands for it, as JSON in text messages.
func (h *Handler) updates(w http.ResponseWriter, r *http.Request) {
	task := r.PathValue("task")
	req, err := watchRequest(r.URL.Query())
	switch {
	case err != nil:
		newProblem(r, http.StatusBadRequest, err.Error(), "see docs/api.md").write(w)
		return
	case len(req.GetTaskIds())+len(req.GetAgentIds()) > 0:
		newProblem(r, http.StatusBadRequest, "the path names the task", "leave out the parameters task and agent").write(w)
		return
	case r.Header.Get("Upgrade") == "":
		w.Header().Set("Upgrade", "websocket")
		newProblem(r, http.StatusUpgradeRequired, "this path is a WebSocket", "connect with a WebSocket client, or use GET /v1/events?task=").write(w)
		return
	}
	req.TaskIds = []string{task}
	// A watch that ends, since the caller's rights have for example, does not end the connection,
	// which is told why.
	ctx, cancel := context.WithCancel(r.Context())
	s := &updating{h: h, w: w, r: r.WithContext(ctx), cancel: cancel, calls: local{h.cfg.Door, r}, task: task}
	defer s.close()
	h.cfg.Door.ServeCall(w, r, deckhandv1connect.EventServiceWatchProcedure, h.refuse, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		watching, stop := context.WithCancel(r.Context())
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		err := h.cfg.Watch(r.WithContext(watching), req, s)
		if s.conn != nil {
			s.end(err)
		} else if err != nil && !s.answered {
			h.refuse(w, r, err)
		}
	}))
}

// closeCode returns the status of a connection that ends with an error.
func closeCode(err error) websocket.StatusCode {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable:
		return websocket.StatusServiceRestart
	case connect.CodePermissionDenied, connect.CodeUnauthenticated, connect.CodeResourceExhausted, connect.CodeAborted:
		return websocket.StatusPolicyViolation
	default:
		return websocket.StatusInternalError
	}
}

// updating is one connection. It is an api.Sink.
type updating struct {
	h      *Handler
	w      http.ResponseWriter
	r      *http.Request // its context ends with the connection
	cancel context.CancelFunc
	calls  local
	task   string
	// conn is nil until the watch is established, before which the caller may be refused.
	conn *websocket.Conn
	// answered says that the request was, by accepting the connection or refusing to.
	answered bool
	// unread is why an item could not be sent.
	unread error
}

// Flush does nothing: each item is sent at once.
func (*updating) Flush() error { return nil }

// Send sends an item. The first one only says that the watch is established.
func (s *updating) Send(item api.Watched) error {
	if s.conn == nil {
		return s.accept()
	}
	var text []byte
	if item.Event != nil {
		text, _ = item.Once(event.AsUpdate, func(m *deckhandv1.Event) any {
			return updateText(update{Cursor: item.Cursor.String(), Event: eventData(m)})
		}).([]byte)
	} else {
		u := update{Cursor: item.Cursor.String()}
		var err error
		switch {
		case item.Thinking != nil:
			u.Thinking, err = eventJSON.Marshal(item.Thinking)
		case item.Progress != nil:
			u.StepProgress, err = eventJSON.Marshal(item.Progress)
		}
		if err != nil {
			return fmt.Errorf("write an update as JSON: %w", err)
		}
		text = updateText(u)
	}
	s.unread = s.write(s.r.Context(), text)
	return s.unread
}

// accept accepts the connection. What the client sends ends it when it cannot be read.
// Commands run beside the reader, which also has to receive the answers to pings.
func (s *updating) accept() error {
	s.answered = true
	// auth.SameOrigin has checked where the page is from.
	conn, err := websocket.Accept(s.w, s.r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return err // Accept has sent it
	}
	conn.SetReadLimit(commandBytes)
	s.conn = conn
	ctx := s.r.Context()
	go wsping.Keep(ctx, conn, wsping.Interval)
	waiting := make(chan command, commandsWaiting)
	go func() {
		defer s.cancel()
		s.read(ctx, waiting)
	}()
	go func() {
		defer s.cancel()
		s.work(ctx, waiting)
	}()
	return nil
}

// end tells the client how the watch has ended.
func (s *updating) end(err error) {
	switch {
	case s.unread != nil:
		_ = s.conn.Close(websocket.StatusPolicyViolation, "the client does not read")
	case err == nil:
		_ = s.conn.Close(websocket.StatusNormalClosure, "the task has ended")
	default:
		problem := problemOf(err, s.r.Header.Get(logging.CorrelationHeader))
		_ = s.send(s.r.Context(), update{Problem: &problem})
		_ = s.conn.Close(closeCode(err), textcut.WholeRunes(problem.Detail, reasonBytes))
	}
}

func (s *updating) close() {
	if s.cancel(); s.conn != nil {
		_ = s.conn.CloseNow() // it is gone either way
	}
}

// send sends a message.
func (s *updating) send(ctx context.Context, u update) error { return s.write(ctx, updateText(u)) }

// write writes a message; a client has writeWithin to take it. The connection takes one
// writer at a time.
func (s *updating) write(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, text)
}

// updateText returns a message as JSON.
func updateText(u update) []byte {
	text, err := json.Marshal(u)
	if err != nil {
		panic(err) // its parts are JSON already
	}
	return text
}

// read receives the client's messages until the connection ends.
func (s *updating) read(ctx context.Context, waiting chan<- command) {
	for {
		kind, data, err := s.conn.Read(ctx)
		if err != nil {
			return
		}
		c := command{}
		var problem Problem
		if kind != websocket.MessageText || json.Unmarshal(data, &c) != nil {
			problem = newProblem(s.r, http.StatusBadRequest, "a message is not a JSON object in text", `send {"id": "1", "message": {"text": "…"}}`)
			c = command{}
		} else {
			select {
			case waiting <- c:
				continue
			default:
				problem = newProblem(s.r, http.StatusTooManyRequests, "too many commands are waiting", "wait for the answers to earlier commands")
			}
		}
		if s.send(ctx, update{ID: c.ID, Problem: &problem}) != nil {
			return
		}
	}
}

// work runs the client's commands, one after the other, until the connection ends.
func (s *updating) work(ctx context.Context, waiting <-chan command) {
	for {
		var c command
		select {
		case <-ctx.Done():
			return
		case c = <-waiting:
		}
		answer := update{ID: c.ID}
		result, err := s.run(ctx, c)
		if answer.Result = result; err != nil {
			problem := problemOf(s.h.cfg.Show(s.r, err), s.r.Header.Get(logging.CorrelationHeader))
			answer.Problem, answer.Result = &problem, nil
		}
		if s.send(ctx, answer) != nil {
			return
		}
	}
}

// run makes the call of a command. It passes the same checks as any call of the client's.
func (s *updating) run(ctx context.Context, c command) (json.RawMessage, error) {
	set := 0
	for _, part := range []json.RawMessage{c.Message, c.Pause, c.Resume, c.Approve} {
		if part != nil {
			set++
		}
	}
	if set != 1 {
		return nil, fault.New(fault.Invalid, "a command has %d of message, pause, resume and approve", set).WithFix("send one of them in each message")
	}
	switch {
	case c.Message != nil:
		req := &deckhandv1.TellTaskRequest{}
		if err := decode(c.Message, req); err != nil {
			return nil, err
		}
		req.TaskId = s.task
		return encode(s.calls.tasks().TellTask(keyed(ctx, c), req))
	case c.Pause != nil:
		req := &deckhandv1.PauseTaskRequest{}
		if err := decode(c.Pause, req); err != nil {
			return nil, err
		}
		req.TaskId = s.task
		return encode(s.calls.tasks().PauseTask(keyed(ctx, c), req))
	case c.Resume != nil:
		req := &deckhandv1.ResumeTaskRequest{}
		if err := decode(c.Resume, req); err != nil {
			return nil, err
		}
		req.TaskId = s.task
		return encode(s.calls.tasks().ResumeTask(keyed(ctx, c), req))
	default:
		return s.approve(ctx, c)
	}
}

// approve approves an item of the task.
func (s *updating) approve(ctx context.Context, c command) (json.RawMessage, error) {
	req := &deckhandv1.AnswerInboxItemRequest{}
	if err := decode(c.Approve, req); err != nil {
		return nil, err
	}
	if req.GetAnswer() == nil {
		req.Answer = &deckhandv1.AnswerInboxItemRequest_Approve_{Approve: &deckhandv1.AnswerInboxItemRequest_Approve{}}
	}
	if req.GetApprove() == nil {
		return nil, fault.New(fault.Invalid, "approve has another answer").WithFix("other answers go to POST /v1/inbox-items/{item_id}:answer")
	}
	item, err := s.calls.inbox().GetInboxItem(ctx, &deckhandv1.GetInboxItemRequest{ItemId: req.GetItemId()})
	if err != nil {
		return nil, err
	}
	task, err := s.calls.tasks().GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: s.task})
	if err != nil {
		return nil, err
	}
	if item.GetItem().GetTaskId() != task.GetTask().GetId() {
		return nil, fault.New(fault.Invalid, "item %s is of another task", item.GetItem().GetId()).WithFix("approve items of this task only")
	}
	req.ItemId = item.GetItem().GetId()
	return encode(s.calls.inbox().AnswerInboxItem(keyed(ctx, c), req))
}

// keyed returns the context of a command's call, with its idempotency key.
func keyed(ctx context.Context, c command) context.Context {
	if c.Key == "" {
		return ctx
	}
	ctx, call := connect.NewClientContext(ctx)
	call.RequestHeader().Set(idempotency.Header, c.Key)
	return ctx
}

func decode(body json.RawMessage, to proto.Message) error {
	if err := protojson.Unmarshal(body, to); err != nil {
		return fault.New(fault.Invalid, "the command cannot be read: %v", err).WithFix("see docs/api.md")
	}
	return nil
}

func encode[T any](res *T, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	message, ok := any(res).(proto.Message)
	if !ok {
		return nil, errors.New("the response is not a message")
	}
	return eventJSON.Marshal(message)
}
