// Package anthropictest is a fake server of the Messages API's streaming wire
// format, for tests that involve a model. It sends the events that the API
// documents (message_start, ping, content_block_start, _delta, _stop,
// message_delta, message_stop, error), and its error bodies.
//
// Its response is a function of the request, so that it can take part in a
// conversation; List returns a fixed sequence of responses.
package anthropictest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Block is one content block of a response. Set one of Text, Thinking (with
// Signature), Redacted or Tool.
type Block struct {
	Text      string
	Thinking  string
	Signature string
	Redacted  string
	// Tool is a call's tool name, ID the call's id and Input its arguments as
	// the model writes them, which need not be JSON.
	Tool  string
	ID    string
	Input string
}

// Usage is the usage that the API reports for a response.
type Usage struct {
	Input, Output, CacheRead, CacheWrite int64
}

// Answer is one response of the API.
type Answer struct {
	// Status other than 200 sends an error body instead of a stream.
	Status int
	// ErrorType and ErrorMessage fill the error body; with Status 200 they come
	// as an error event after Break events.
	ErrorType    string
	ErrorMessage string
	// Header is added to the response, for example Retry-After.
	Header map[string]string

	Blocks []Block
	// StopReason is "tool_use" when a block calls a tool and "end_turn"
	// otherwise, unless set.
	StopReason string
	Usage      Usage
	// Piece is the number of characters in one delta; 0 means 7.
	Piece int
	// Break ends the stream after so many events, pings not counted; 0 for
	// never.
	Break int
	// Stall, instead of ending it there, holds the stream open and silent
	// until the caller leaves.
	Stall bool
}

// Request is what the server was asked.
type Request struct {
	Header http.Header
	// Body is the JSON of the request.
	Body map[string]any
	// Number counts requests from 1.
	Number int
}

// Messages returns the request's messages.
func (r Request) Messages() []map[string]any {
	list, _ := r.Body["messages"].([]any)
	out := make([]map[string]any, 0, len(list))
	for _, m := range list {
		if message, ok := m.(map[string]any); ok {
			out = append(out, message)
		}
	}
	return out
}

// LastText returns all text of the last message, tool results included.
func (r Request) LastText() string {
	messages := r.Messages()
	if len(messages) == 0 {
		return ""
	}
	var out strings.Builder
	collect(messages[len(messages)-1]["content"], &out)
	return out.String()
}

func collect(v any, out *strings.Builder) {
	switch v := v.(type) {
	case string:
		out.WriteString(v + "\n")
	case []any:
		for _, item := range v {
			collect(item, out)
		}
	case map[string]any:
		collect(v["text"], out)
		collect(v["content"], out)
	}
}

// Handler serves POST …/v1/messages. The zero value responds with errors only:
// set Answer.
type Handler struct {
	// Answer returns the response to a request. It is called by one goroutine
	// at a time.
	Answer func(Request) Answer

	mu       sync.Mutex
	requests []Request
}

// List returns a function that returns the given responses in order, and an
// error after the last.
func List(answers ...Answer) func(Request) Answer {
	return func(r Request) Answer {
		if r.Number > len(answers) {
			return Answer{Status: 500, ErrorType: "api_error", ErrorMessage: "anthropictest: no answer left"}
		}
		return answers[r.Number-1]
	}
}

// Requests returns what was asked so far.
func (h *Handler) Requests() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Request(nil), h.requests...)
}

// Server is a Handler that listens.
type Server struct {
	*Handler

	URL string
}

// New starts a server that ends with the test.
func New(t testing.TB, answer func(Request) Answer) *Server {
	t.Helper()
	h := &Handler{Answer: answer}
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return &Server{Handler: h, URL: srv.URL}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/messages") {
		h.fail(w, Answer{Status: http.StatusNotFound, ErrorType: "not_found_error", ErrorMessage: "Not found"})
		return
	}
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		h.fail(w, Answer{Status: http.StatusBadRequest, ErrorType: "invalid_request_error", ErrorMessage: err.Error()})
		return
	}
	h.mu.Lock()
	req := Request{Header: r.Header.Clone(), Body: body, Number: len(h.requests) + 1}
	h.requests = append(h.requests, req)
	answer := h.Answer(req)
	h.mu.Unlock()

	for name, value := range answer.Header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Request-Id", fmt.Sprintf("req_%d", req.Number))
	if answer.Status != 0 && answer.Status != http.StatusOK {
		h.fail(w, answer)
		return
	}
	model, _ := body["model"].(string)
	h.stream(w, r, model, req.Number, answer)
}

func (h *Handler) fail(w http.ResponseWriter, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Status)
	_ = json.NewEncoder(w).Encode(errorBody(a))
}

func errorBody(a Answer) map[string]any {
	return map[string]any{"type": "error", "error": map[string]any{"type": a.ErrorType, "message": a.ErrorMessage}}
}

func (h *Handler) stream(w http.ResponseWriter, r *http.Request, model string, number int, a Answer) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	flusher := http.NewResponseController(w)
	for i, event := range Events(model, number, a) {
		if a.Break > 0 && i == a.Break {
			_ = flusher.Flush()
			switch {
			case a.Stall:
				<-r.Context().Done()
			case a.ErrorType != "":
				write(w, errorBody(a))
			default:
				// Cut the connection as a dying proxy does.
				panic(http.ErrAbortHandler)
			}
			return
		}
		write(w, event)
		if i == 0 {
			write(w, map[string]any{"type": "ping"})
		}
		_ = flusher.Flush()
	}
}

func write(w http.ResponseWriter, event map[string]any) {
	data, _ := json.Marshal(event)
	_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], data)
}
