package gemini

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"regexp"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// The SDK decodes the arguments of a call into floating point, which cannot
// represent integers beyond 2^53, such as the ids of many databases. Such
// integers therefore pass through it as strings with a random mark: exact marks
// them in the response and removes the mark from the request, and marked and
// plain convert the turn.
var mark = ident.New("integer") + ":"

var (
	marked = regexp.MustCompile(`"` + regexp.QuoteMeta(mark) + `(-?[0-9]+)"`)
	// long is what may be an integer beyond 2^53.
	long  = regexp.MustCompile(`[0-9]{16}`)
	exact = new(big.Int).Lsh(big.NewInt(1), 53)
)

// plain takes the marks away.
func plain(data []byte) []byte { return marked.ReplaceAll(data, []byte("$1")) }

// withMarks marks the integers that floating point cannot represent, and
// returns all other numbers as floating point.
func withMarks(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = withMarks(value)
		}
	case []any:
		for i, value := range v {
			v[i] = withMarks(value)
		}
	case json.Number:
		if n, ok := new(big.Int).SetString(v.String(), 10); ok && n.CmpAbs(exact) > 0 {
			return mark + v.String()
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	}
	return v
}

// numbers reads JSON and keeps its numbers as they are written.
func numbers(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

// exactly is a client's transport that keeps integers exact.
type exactly struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (e exactly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err = errors.Join(err, req.Body.Close()); err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
		body = plain(body)
		req = req.Clone(req.Context())
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		req.GetBody = nil
	}
	res, err := e.base.RoundTrip(req)
	if err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return res, err
	}
	res.Body = &lines{ReadCloser: res.Body, in: bufio.NewReader(res.Body)}
	return res, nil
}

// lines reads a stream of events and marks the integers of its calls.
type lines struct {
	io.ReadCloser

	in   *bufio.Reader
	left []byte
	err  error
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.left) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		l.left, l.err = l.next()
	}
	n := copy(p, l.left)
	l.left = l.left[n:]
	return n, nil
}

// next returns the next line.
func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		piece, err := l.in.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > 2*wire.MaxAnswer:
			return nil, fmt.Errorf("a line of the answer is longer than %d bytes", 2*wire.MaxAnswer)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		return markLine(line), err
	}
}

// markLine marks the integers in the calls of one event.
func markLine(line []byte) []byte {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok || !long.Match(data) {
		return line
	}
	var event any
	if numbers(data, &event) != nil {
		return line
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(markCalls(event)) != nil {
		return line
	}
	return append([]byte("data: "), out.Bytes()...) // Encode ends the line
}

// markCalls marks the integers below any functionCall; all other numbers stay
// as they are written.
func markCalls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if call, ok := value.(map[string]any); ok && key == "functionCall" {
				withMarks(call["args"])
				continue
			}
			v[key] = markCalls(value)
		}
	case []any:
		for i, value := range v {
			v[i] = markCalls(value)
		}
	}
	return v
}
