package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/hub/api"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/internal/logging"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

const (
	// writeWithin is how long a reader may take for one write before it is disconnected.
	writeWithin = 30 * time.Second
	// reconnectAfter is when a browser connects again.
	reconnectAfter = 2 * time.Second
	// quietFor is how long a resumed stream is waited for before it is begun: one that has
	// nothing more to send is refused with 204, so that a browser does not come back.
	quietFor = 250 * time.Millisecond
)

// eventJSON is how an event is written: on one line.
var eventJSON = protojson.MarshalOptions{EmitDefaultValues: true}

// parameters are those of the two streams of events.
var parameters = []string{"task", "agent", "kinds", "after", "thinking", "follow"}

// watchRequest reads the parameters of a stream.
func watchRequest(q url.Values) (*deckhandv1.WatchRequest, error) {
	for name := range q {
		if !slices.Contains(parameters, name) {
			return nil, fmt.Errorf("there is no parameter %.60q: use %s", name, strings.Join(parameters, ", "))
		}
	}
	req := &deckhandv1.WatchRequest{
		TaskIds: list(q["task"]), AgentIds: list(q["agent"]), Types: list(q["kinds"]), Cursor: q.Get("after"), Follow: true,
	}
	if req.GetCursor() == "now" {
		req.Cursor, req.FromNow = "", true
	}
	for name, to := range map[string]*bool{"thinking": &req.Thinking, "follow": &req.Follow} {
		if text := q.Get(name); text != "" {
			value, err := strconv.ParseBool(text)
			if err != nil {
				return nil, fmt.Errorf("%s is %.60q: use true or false", name, text)
			}
			*to = value
		}
	}
	return req, nil
}

// events serves GET /v1/events: events as server-sent events. A client that connects again
// with the header Last-Event-ID gets those that came after it.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	req, err := watchRequest(r.URL.Query())
	if err != nil {
		newProblem(r, http.StatusBadRequest, err.Error(), "see docs/api.md").write(w)
		return
	}
	resumed := r.Header.Get("Last-Event-Id")
	if resumed != "" {
		req.Cursor, req.FromNow = resumed, false
	}
	h.cfg.Door.ServeCall(w, r, deckhandv1connect.EventServiceWatchProcedure, h.refuse, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := newSSE(w)
		if resumed != "" && len(req.GetTaskIds()) > 0 {
			out.quiet = quietFor
		}
		err := h.cfg.Watch(r, req, out)
		if err != nil && !out.confirmed {
			h.refuse(w, r, err)
			return
		}
		out.end(err, r.Header.Get(logging.CorrelationHeader))
	}))
}

// sse writes server-sent events. It is an api.Sink.
type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
	within  time.Duration // for one write
	// quiet, if it is set, is how long the response of a resumed watch waits for its second
	// item: the first one only confirms that the watch is established.
	quiet time.Duration

	// mu is held by the watch and by the timer of a resumed one.
	mu sync.Mutex
	// confirmed says that the watch is established, begun that the response may be written,
	// answered that its headers are, and over that nothing more may be.
	confirmed, begun, answered, over bool
	// buf is what is not written yet; nil for nothing. held says that the connection has
	// something that was written and not sent.
	buf  *bytes.Buffer
	held bool
}

// buffers are for what is being sent, so that a reader who waits holds none.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// mostKept is the size up to which a buffer is used again.
const mostKept = 4 * compressFrom

func newSSE(w http.ResponseWriter) *sse {
	return &sse{w: w, control: http.NewResponseController(w), within: writeWithin}
}

// Send writes an item.
func (s *sse) Send(item api.Watched) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case item.Event != nil:
		text, _ := item.Once(event.AsServerSent, func(m *deckhandv1.Event) any { return eventText(item.Cursor, m) }).([]byte)
		if text == nil {
			return errors.New("an event cannot be written as JSON")
		}
		s.out().Write(text)
	case item.Thinking != nil:
		text, err := eventJSON.Marshal(item.Thinking)
		if err != nil {
			return fmt.Errorf("write thinking as JSON: %w", err)
		}
		fmt.Fprintf(s.out(), "event: thinking_live\ndata: %s\n\n", text)
	default:
		fmt.Fprintf(s.out(), ": heartbeat\nid: %s\n\n", item.Cursor)
	}
	if !s.confirmed && s.quiet > 0 {
		s.confirmed = true
		time.AfterFunc(s.quiet, s.begin)
		return nil
	}
	s.confirmed, s.begun = true, true
	if s.buf.Len() < compressFrom {
		return nil
	}
	return s.write()
}

// out returns where to write what is to be sent.
func (s *sse) out() *bytes.Buffer {
	if s.buf == nil {
		s.buf, _ = buffers.Get().(*bytes.Buffer)
	}
	return s.buf
}

// Flush sends what was written.
func (s *sse) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flush()
}

func (s *sse) flush() error {
	if !s.begun {
		return nil
	}
	if s.buf != nil {
		if err := s.write(); err != nil {
			return err
		}
	}
	if !s.held {
		return nil
	}
	s.held = false
	return s.control.Flush()
}

// write hands what was written to the connection. A reader that does not take it in time is
// disconnected.
func (s *sse) write() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.within)) // without it, the connection's end is waited for
	if !s.answered {
		s.answered = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // of a proxy
		s.w.WriteHeader(http.StatusOK)
		if _, err := fmt.Fprintf(s.w, "retry: %d\n\n", reconnectAfter.Milliseconds()); err != nil {
			return err
		}
	}
	s.held = true
	_, err := s.w.Write(s.buf.Bytes())
	if s.buf.Reset(); s.buf.Cap() <= mostKept {
		buffers.Put(s.buf)
	}
	s.buf = nil
	return err
}

// begin begins the response of a resumed watch that has sent nothing yet.
func (s *sse) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun || s.over {
		return
	}
	s.begun = true
	_ = s.flush() // the watch's next one fails, too
}

// end ends the response of a watch that was established. One that came back and got nothing
// is told not to come again: its tasks have ended, and all was sent.
func (s *sse) end(err error, requestID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if err == nil && !s.begun {
		s.w.WriteHeader(http.StatusNoContent)
		return
	}
	s.begun = true
	if err == nil {
		s.out().WriteString("event: end\ndata: {}\n\n")
	} else if text, failed := json.Marshal(problemOf(err, requestID)); failed == nil {
		fmt.Fprintf(s.out(), "event: problem\ndata: %s\n\n", text)
	}
	_ = s.flush() // it is over either way
}

// eventText returns an event as a server-sent one; nil if it cannot be written.
func eventText(at event.Cursor, e *deckhandv1.Event) []byte {
	text, err := eventJSON.Marshal(e)
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, "id: %s\nevent: %s\ndata: %s\n\n", at, oneLine(e.GetType()), text)
}

// oneLine keeps a name from ending its line.
func oneLine(name string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(name) }
