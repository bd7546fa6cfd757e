package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/internal/logging"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// writeWithin is how long a reader may take for one write before it is disconnected.
	writeWithin = 30 * time.Second
	// ahead is how many events may wait for a slow reader.
	ahead = 16
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

// received is an item of a watch, or its end.
type received struct {
	res *deckhandv1.WatchResponse
	err error // of the end; nil when the watch is over
}

// receive reads a watch into a channel until it ends or stop is closed.
func receive(stream *connect.ServerStreamForClient[deckhandv1.WatchResponse], stop <-chan struct{}) <-chan received {
	out := make(chan received, ahead)
	go func() {
		defer close(out)
		for stream.Receive() {
			res := &deckhandv1.WatchResponse{}
			res.Cursor, res.Item = stream.Msg().GetCursor(), stream.Msg().GetItem()
			select {
			case out <- received{res: res}:
			case <-stop:
				return
			}
		}
		select {
		case out <- received{err: stream.Err()}:
		case <-stop:
		}
	}()
	return out
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
	stream, err := local{h.cfg.Door, r}.watch().Watch(r.Context(), req)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	defer stream.Close() //nolint:errcheck // it is over
	stop := make(chan struct{})
	defer close(stop)
	items := receive(stream, stop)
	// The first item confirms that the watch has begun; an error says why it has not.
	first := <-items
	if first.res == nil {
		h.refuse(w, r, first.err)
		return
	}
	pending := []received{first}
	if resumed != "" && len(req.GetTaskIds()) > 0 {
		select {
		case next := <-items:
			if next.res == nil && next.err == nil {
				w.WriteHeader(http.StatusNoContent) // the tasks have ended, and all was sent
				return
			}
			pending = append(pending, next)
		case <-time.After(quietFor):
		}
	}
	out := newSSE(w)
	out.begin()
	for {
		for _, item := range pending {
			if !out.item(item, r.Header.Get(logging.CorrelationHeader)) {
				return
			}
		}
		pending = pending[:0]
		select {
		case item, ok := <-items:
			if !ok {
				return
			}
			pending = append(pending, item)
			continue
		default:
		}
		if out.flush() != nil {
			return
		}
		select {
		case item, ok := <-items:
			if !ok {
				return
			}
			pending = append(pending, item)
		case <-r.Context().Done():
			return
		}
	}
}

// sse writes server-sent events.
type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
	within  time.Duration // for one write
	buf     bytes.Buffer
}

func newSSE(w http.ResponseWriter) *sse {
	return &sse{w: w, control: http.NewResponseController(w), within: writeWithin}
}

func (s *sse) begin() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // of a proxy
	s.w.WriteHeader(http.StatusOK)
	fmt.Fprintf(&s.buf, "retry: %d\n\n", reconnectAfter.Milliseconds())
}

// item writes one, and reports whether the stream goes on.
func (s *sse) item(item received, requestID string) bool {
	if item.res == nil {
		if item.err == nil {
			s.buf.WriteString("event: end\ndata: {}\n\n")
		} else if text, err := json.Marshal(problemOf(item.err, requestID)); err == nil {
			fmt.Fprintf(&s.buf, "event: problem\ndata: %s\n\n", text)
		}
		_ = s.flush() // it is over either way
		return false
	}
	cursor := item.res.GetCursor()
	switch {
	case item.res.GetEvent() != nil:
		text, err := eventJSON.Marshal(item.res.GetEvent())
		if err != nil {
			return false
		}
		fmt.Fprintf(&s.buf, "id: %s\nevent: %s\ndata: %s\n\n", cursor, oneLine(item.res.GetEvent().GetType()), text)
	case item.res.GetThinking() != nil:
		text, err := eventJSON.Marshal(item.res.GetThinking())
		if err != nil {
			return false
		}
		fmt.Fprintf(&s.buf, "event: thinking_live\ndata: %s\n\n", text)
	default:
		fmt.Fprintf(&s.buf, ": heartbeat\nid: %s\n\n", cursor)
	}
	return s.buf.Len() < compressFrom || s.flush() == nil
}

// oneLine keeps a name from ending its line.
func oneLine(name string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(name) }

// flush sends what is written. A reader that does not take it in time is disconnected.
func (s *sse) flush() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.within)) // without it, the connection's end is waited for
	if _, err := s.w.Write(s.buf.Bytes()); err != nil {
		return err
	}
	s.buf.Reset()
	return s.control.Flush()
}
