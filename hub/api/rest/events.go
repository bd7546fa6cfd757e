package rest

import (
	"encoding/json"
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
var parameters = []string{"task", "agent", "kinds", "after", "thinking", "progress", "follow"}

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
	for name, to := range map[string]*bool{"thinking": &req.Thinking, "progress": &req.Progress, "follow": &req.Follow} {
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
		defer out.close()
		if resumed != "" && len(req.GetTaskIds()) > 0 {
			out.quiet = quietFor
		}
		err := h.cfg.Watch(r, req, out)
		if err != nil && !out.established() {
			h.refuse(w, r, err)
			return
		}
		out.end(err, r.Header.Get(logging.CorrelationHeader))
	}))
}

// progress is how far a stream is.
type progress int

const (
	// sseUnconfirmed: the watch may be refused still.
	sseUnconfirmed progress = iota
	// sseConfirmed: the watch is established, and nothing is written yet.
	sseConfirmed
	// sseBegun: the headers are written.
	sseBegun
	// sseOver: nothing more may be written.
	sseOver
)

// sse writes server-sent events. It is an api.Sink. It copies nothing: the texts of events are
// shared by all readers, and net/http holds back the little that has not been sent.
type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
	within  time.Duration // for one write; a watch whose writes end needs no api.Cuttable
	limited time.Time     // when that began to count
	// quiet, if it is set, is how long the response of a resumed watch waits for its second
	// item: the first one only confirms that the watch is established.
	quiet time.Duration

	// mu is held by the watch and by the timer of a resumed one.
	mu    sync.Mutex
	state progress
	// first is the item that has confirmed a resumed watch. timer writes it when nothing
	// follows in time.
	first []byte
	timer *time.Timer
	// held says that something was written since the last flush.
	held bool
}

func newSSE(w http.ResponseWriter) *sse {
	return &sse{w: w, control: http.NewResponseController(w), within: writeWithin}
}

// Send writes an item.
func (s *sse) Send(item api.Watched) error {
	text, err := itemText(item)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == sseUnconfirmed && s.quiet > 0 {
		s.state, s.first = sseConfirmed, text
		s.timer = time.AfterFunc(s.quiet, s.begin)
		return nil
	}
	return s.write(text)
}

// Flush sends what was written.
func (s *sse) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flush()
}

func (s *sse) flush() error {
	if !s.held {
		return nil
	}
	s.held = false
	s.limit()
	return s.control.Flush()
}

// limit has a reader disconnected that does not take what is written next in time. A deadline
// that was just set is not set again: a thousand readers get each event at once.
func (s *sse) limit() {
	now := time.Now()
	if now.Sub(s.limited) < s.within/30 {
		return
	}
	s.limited = now
	_ = s.control.SetWriteDeadline(now.Add(s.within)) // without it, the connection's end is waited for
}

// write writes a text, after the headers and what was kept.
func (s *sse) write(text []byte) error {
	s.limit()
	s.held = true
	if s.state < sseBegun {
		s.state = sseBegun
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // of a proxy
		s.w.WriteHeader(http.StatusOK)
		if _, err := fmt.Fprintf(s.w, "retry: %d\n\n%s", reconnectAfter.Milliseconds(), s.first); err != nil {
			return err
		}
		s.first = nil
	}
	_, err := s.w.Write(text)
	return err
}

// begin begins the response of a resumed watch that has sent nothing yet.
func (s *sse) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != sseConfirmed {
		return
	}
	if s.write(nil) == nil {
		_ = s.flush() // the watch's next one fails, too
	}
}

// established reports whether the watch is.
func (s *sse) established() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state > sseUnconfirmed
}

// end ends the response of a watch that was established. One that came back and got nothing
// is told not to come again: its tasks have ended, and all was sent.
func (s *sse) end(err error, requestID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.state < sseBegun {
		s.state = sseOver
		s.w.WriteHeader(http.StatusNoContent)
		return
	}
	text := []byte("event: end\ndata: {}\n\n")
	if err != nil {
		problem, failed := json.Marshal(problemOf(err, requestID))
		if failed != nil {
			return
		}
		text = fmt.Appendf(nil, "event: problem\ndata: %s\n\n", problem)
	}
	if s.write(text) == nil {
		_ = s.flush() // it is over either way
	}
	s.state = sseOver
}

// close ends what may still be written. The ResponseWriter must not be used when its handler
// has returned.
func (s *sse) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state = sseOver; s.timer != nil {
		s.timer.Stop()
	}
}

// itemText returns an item as a server-sent event. That of a stored event is shared.
func itemText(item api.Watched) ([]byte, error) {
	switch {
	case item.Event != nil:
		text, _ := item.Once(event.AsServerSent, func(m *deckhandv1.Event) any { return eventText(item.Cursor, m) }).([]byte)
		return text, nil
	case item.Thinking != nil:
		text, err := eventJSON.Marshal(item.Thinking)
		if err != nil {
			return nil, fmt.Errorf("write thinking as JSON: %w", err)
		}
		return fmt.Appendf(nil, "event: thinking_live\ndata: %s\n\n", text), nil
	case item.Progress != nil:
		text, err := eventJSON.Marshal(item.Progress)
		if err != nil {
			return nil, fmt.Errorf("write the progress of a step as JSON: %w", err)
		}
		return fmt.Appendf(nil, "event: step_progress\ndata: %s\n\n", text), nil
	default:
		return fmt.Appendf(nil, ": heartbeat\nid: %s\n\n", item.Cursor), nil
	}
}

// eventText returns an event as a server-sent one.
func eventText(at event.Cursor, e *deckhandv1.Event) []byte {
	return fmt.Appendf(nil, "id: %s\nevent: %s\ndata: %s\n\n", at, oneLine(e.GetType()), eventData(e))
}

// eventData returns an event as JSON. One that cannot be written is replaced, since its
// readers would come back for it again and again.
func eventData(e *deckhandv1.Event) []byte {
	text, err := eventJSON.Marshal(e)
	if err != nil {
		text, _ = json.Marshal(map[string]any{"seq": strconv.FormatInt(e.GetSeq(), 10), "taskId": e.GetTaskId(), "type": e.GetType(), "unreadable": err.Error()})
	}
	return text
}

// oneLine keeps a name from ending its line.
func oneLine(name string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(name) }
