package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	jsonexact "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
)

// format is one wire format of model calls.
type format interface {
	// key returns what a client sends as its key.
	key(h http.Header) string
	// read checks a request to the path behind the provider's name.
	read(method, rest string, p provider.Provider, body []byte) (*request, error)
	// usage returns the reader of an endpoint's responses.
	usage(endpoint string) func(data []byte, stream bool) reading
	// body is an error as the provider would write it, so that every client of
	// it understands.
	body(r refusal) []byte
	refuse(w http.ResponseWriter, r refusal)
}

var formats = map[provider.Format]format{
	provider.Messages: anthropic{}, provider.OpenAI: openai{}, provider.Gemini: gemini{},
}

// request is what the relay knows of a call.
type request struct {
	// endpoint distinguishes the format's responses.
	endpoint string
	model    string
	// query is what is sent with the path.
	query string
	// maxTokens caps the output.
	maxTokens int64
	// thinks reports that the model may reason without sending the text.
	thinks bool
	// cachesHour reports that parts of the prompt may be cached for an hour.
	cachesHour bool
	// body is the request written again.
	body []byte
}

// refusal is an answer of the relay's own.
type refusal struct {
	Status  int
	Message string
	Code    fault.Code
	Fix     string
	// Own reports that the budget is the task's own.
	Own bool
}

// statuses are the HTTP statuses of refusals, by kind. Only some clients distinguish
// more; the code in the header is exact.
var statuses = map[fault.Kind]int{
	fault.Invalid: http.StatusBadRequest, fault.Unauthenticated: http.StatusUnauthorized, fault.Denied: http.StatusForbidden,
	fault.NotFound: http.StatusNotFound, fault.Precondition: http.StatusForbidden, fault.Exhausted: http.StatusTooManyRequests,
	fault.Exists: http.StatusConflict, fault.Aborted: http.StatusConflict,
	fault.Unavailable: http.StatusServiceUnavailable, fault.Deadline: http.StatusGatewayTimeout,
}

// refuseFault returns an error of the hub's own.
func refuseFault(err error) *refusal {
	e := fault.As(err)
	r := &refusal{Status: statuses[e.Kind], Message: e.Message, Code: e.Code, Fix: e.Fix}
	if e.Code == fault.LeaseEnded {
		r.Status = http.StatusUnauthorized
	}
	if r.Status == 0 {
		r.Status = http.StatusInternalServerError
	}
	return r
}

// refuse returns an error whose cause may be the hub itself.
func (r *Relay) refuse(err error, doing string) *refusal {
	if e := fault.As(err); e != nil && e.Kind != fault.Internal {
		return refuseFault(err)
	}
	r.cfg.Log.Error("cannot relay a model call", "doing", doing, "error", err)
	return &refusal{Status: http.StatusServiceUnavailable, Message: "the hub cannot " + doing + " now", Code: fault.HubUnavailable}
}

// retryAfter is when a call may come again that found too many waiting, in
// seconds.
const retryAfter = "15"

// write sends a refusal with a body.
func write(w http.ResponseWriter, r refusal, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	if r.Code != "" {
		w.Header().Set(fault.CodeHeader, string(r.Code))
	}
	if r.Fix != "" {
		w.Header().Set(fault.FixHeader, r.Fix)
	}
	if r.Own {
		w.Header().Set(fault.OwnHeader, "budget")
	}
	if r.Code == fault.RateLimited {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(body) // the client is gone otherwise
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...).WithCode(fault.InvalidParameters).WithFix("change the worker's request")
}

// noEndpoint refuses a path that is not relayed.
func noEndpoint(serves string) *fault.Error {
	return fault.New(fault.NotFound, "the relay serves %s only", serves).WithFix("use that")
}

// fields parses an object and refuses unknown fields, and fields that occur twice: the
// provider may read the other one. The request is parsed once, since most of it is a long
// transcript that each call repeats. Text that a model wrote stays unchanged in it, even
// with a repeated name.
func fields(data []byte, known []string) (map[string]json.RawMessage, error) {
	m := map[string]json.RawMessage{}
	d := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != jsontext.KindBeginObject {
		return nil, invalid("the request is not a JSON object")
	}
	for d.PeekKind() == jsontext.KindString {
		token, err := d.ReadToken()
		if err != nil {
			return nil, broken(err)
		}
		name := token.String()
		if !slices.Contains(known, name) {
			return nil, invalid("the request has a field %.60q, which the relay does not pass on", name)
		}
		if m[name] != nil {
			return nil, invalid("the request has the field %s twice", name)
		}
		value, err := d.ReadValue()
		if err != nil {
			return nil, broken(err)
		}
		// A slice of data itself: the decoder's result is only valid until the next read.
		end := d.InputOffset()
		m[name] = data[end-int64(len(value)) : end : end]
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, broken(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, invalid("the request has something behind its JSON object")
	}
	return m, nil
}

func broken(err error) error { return invalid("the request is not valid JSON: %s", err) }

// object writes fields that were parsed; their values are written unchanged.
func object(m map[string]json.RawMessage) []byte {
	size := 2
	for name, raw := range m {
		size += len(name) + len(raw) + len(`"":,`)
	}
	out := append(make([]byte, 0, size), '{')
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendQuote(out, name) // one of those that are known
		out = append(out, ':')
		out = append(out, m[name]...)
	}
	return append(out, '}')
}

// text reads a string.
func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // what is no string is empty
	return s
}

// integer reads the first number that is there.
func integer(raws ...json.RawMessage) int64 {
	for _, raw := range raws {
		var n int64
		if raw != nil && json.Unmarshal(raw, &n) == nil {
			return n
		}
	}
	return 0
}

const mostTokens = 1 << 24

// capped refuses a call whose output has no limit: its cost would be unbounded.
func capped(n int64, field string) error {
	if n < 1 || n > mostTokens {
		return invalid("%s is missing or not positive: the most that the call can cost is not known", field)
	}
	return nil
}

// onlyTools refuses tools that run at the provider, where the hub cannot decide on their
// calls. kinds are the types that the hub runs itself.
func onlyTools(raw json.RawMessage, kinds ...string) error {
	if raw == nil {
		return nil
	}
	var tools []map[string]json.RawMessage
	if err := exactly(raw, &tools); err != nil {
		return invalid("tools is not a list of objects with each field once: %s", err)
	}
	for _, t := range tools {
		for name := range t {
			if !slices.Contains(toolFields, name) {
				return invalid("a tool has a field %.60q, which the relay does not pass on", name)
			}
		}
		if kind := text(t["type"]); !slices.Contains(kinds, kind) || kind == "" && t["type"] != nil {
			return invalid("a tool of type %.60q would run at the provider", kind)
		}
	}
	return nil
}

// toolFields are those of tools that run here, in any format.
var toolFields = []string{
	"type", "name", "description", "input_schema", "cache_control", "strict", "function", "parameters", "defer_loading", "eager_input_streaming", "input_examples",
}

// exactly reads JSON whose names are taken as they are written, each once in its
// object. The library's own reading takes Type for type, and the last of two:
// a server may take another one.
func exactly(raw json.RawMessage, into any) error { return jsonexact.Unmarshal(raw, into) }

// fieldsOf returns an object's fields; nil if it is not an object.
func fieldsOf(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if exactly(raw, &m) != nil {
		return nil
	}
	return m
}

// likened returns a name of an object that a lenient server may take for one of the
// checked names, though it is spelt differently: with other letter cases, or with
// underscores.
func likened(m map[string]json.RawMessage, looked ...string) string {
	for name := range m {
		plain := strings.ReplaceAll(name, "_", "")
		for _, known := range looked {
			if name != known && strings.EqualFold(plain, strings.ReplaceAll(known, "_", "")) {
				return name
			}
		}
	}
	return ""
}

// pick returns a figure, or -1 if it is missing.
func pick(n *int64) int64 {
	if n == nil || *n < 0 {
		return -1
	}
	return *n
}

// less returns a figure minus a part of it.
func less(whole, part *int64) int64 {
	if pick(whole) < 0 {
		return -1
	}
	return max(0, *whole-max(0, pick(part)))
}
