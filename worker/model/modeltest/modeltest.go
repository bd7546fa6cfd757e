// Package modeltest is a fake server of the streaming wire formats of model
// APIs, for tests that involve a model: Anthropic's Messages, OpenAI's chat
// completions and responses, and Google's generateContent. Tests describe
// responses in Anthropic's format (see anthropictest), so that one test covers
// all of them.
package modeltest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

// Format is a wire format, by the end of its path.
type Format string

// The formats.
const (
	Messages  Format = "/v1/messages"
	Chat      Format = "/chat/completions"
	Responses Format = "/responses"
	Gemini    Format = ":streamGenerateContent"
)

// Formats are all of them, by name.
var Formats = map[string]Format{"messages": Messages, "chat": Chat, "responses": Responses, "gemini": Gemini}

// Answer is one response of the API. See anthropictest for its fields; Redacted
// is the encrypted reasoning of a response, and a block's Signature its id, or
// the signature that Gemini puts on the next part.
type Answer struct {
	anthropictest.Answer

	// Silent says nothing of the usage.
	Silent bool
	// Raw is sent instead of the events, or of the error.
	Raw string
}

// Request is what the server was asked.
type Request struct {
	Format Format
	Header http.Header
	Path   string
	// Body is the JSON of the request, and Text that as it came.
	Body map[string]any
	Text string
	// Number counts requests from 1.
	Number int
}

// Server answers requests.
type Server struct {
	URL string

	answer   func(Request) Answer
	mu       sync.Mutex
	requests []Request
}

// New starts a server that ends with the test.
func New(t testing.TB, answer func(Request) Answer) *Server {
	t.Helper()
	s := &Server{answer: answer}
	srv := httptest.NewServer(s)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	s.URL = srv.URL
	return s
}

// List returns a function that returns the given responses in order, and the
// last one again after that.
func List(answers ...Answer) func(Request) Answer {
	return func(r Request) Answer { return answers[min(r.Number, len(answers))-1] }
}

// Requests returns what was asked so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models") {
		_, _ = fmt.Fprint(w, "{}") // a key is tested with it
		return
	}
	req := Request{Header: r.Header.Clone(), Path: r.URL.Path}
	for _, f := range Formats {
		if strings.HasSuffix(r.URL.Path, string(f)) {
			req.Format = f
		}
	}
	raw := json.RawMessage{}
	if req.Format == "" || json.NewDecoder(r.Body).Decode(&raw) != nil || json.Unmarshal(raw, &req.Body) != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	req.Text = string(raw)
	a := s.next(&req)
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	if a.Status != 0 && a.Status != http.StatusOK {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.Status)
		_, _ = fmt.Fprint(w, cmp.Or(a.Raw, failure(req.Format, a, false)))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flusher := http.NewResponseController(w)
	for i, event := range events(req, a) {
		if a.Break > 0 && i == a.Break {
			_ = flusher.Flush()
			switch {
			case a.Stall:
				<-r.Context().Done()
			case a.ErrorType != "":
				_, _ = fmt.Fprint(w, line(failure(req.Format, a, true)))
			default:
				panic(http.ErrAbortHandler) // as a dying proxy cuts the connection
			}
			return
		}
		if _, err := fmt.Fprint(w, event); err != nil {
			return
		}
		_ = flusher.Flush()
	}
}

// next records a request and returns the response; it is called by one
// goroutine at a time.
func (s *Server) next(req *Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	req.Number = len(s.requests) + 1
	s.requests = append(s.requests, *req)
	return s.answer(*req)
}

func object(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// line is one event without a name.
func line(data string) string { return "data: " + data + "\n\n" }

// named is one event with the name that is its type.
func named(event map[string]any) string {
	return fmt.Sprintf("event: %s\ndata: %s\n\n", event["type"], object(event))
}

// events returns the events of one streamed response.
func events(r Request, a Answer) []string {
	if a.Raw != "" {
		return []string{a.Raw}
	}
	switch r.Format {
	case Chat:
		return chat(r, a)
	case Responses:
		return responses(r, a)
	case Gemini:
		return gemini(a)
	default:
		name, _ := r.Body["model"].(string)
		var out []string
		for _, e := range anthropictest.Events(name, r.Number, a.Answer) {
			if a.Silent {
				delete(e, "usage")
				if m, ok := e["message"].(map[string]any); ok {
					delete(m, "usage")
				}
			}
			out = append(out, named(e))
		}
		return out
	}
}

// reason translates a stop reason; the format's own passes as it is.
func reason(a Answer, calls, ends string, others map[string]string) string {
	if theirs, ok := others[a.StopReason]; ok {
		return theirs
	}
	if a.StopReason != "" {
		return a.StopReason
	}
	for _, b := range a.Blocks {
		if b.Tool != "" {
			return calls
		}
	}
	return ends
}

// failure is the body of an error in a format.
func failure(f Format, a Answer, streamed bool) string {
	status := a.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	switch f {
	case Messages:
		return object(map[string]any{"type": "error", "error": map[string]any{"type": a.ErrorType, "message": a.ErrorMessage}})
	case Gemini:
		return object(map[string]any{"error": map[string]any{"code": status, "message": a.ErrorMessage, "status": a.ErrorType}})
	case Responses:
		if streamed {
			return object(map[string]any{"type": "error", "code": a.ErrorType, "message": a.ErrorMessage, "param": nil, "sequence_number": 9})
		}
	}
	return object(map[string]any{"error": map[string]any{"message": a.ErrorMessage, "type": a.ErrorType, "param": nil, "code": a.ErrorType}})
}
