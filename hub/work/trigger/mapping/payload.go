package mapping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep a payload may be nested.
const maxDepth = 100

// Payload reads a body by its content type: JSON as it is; a form as an object
// of its fields, or the JSON in its only field payload, as some senders have it;
// other text as {"text": …}.
func Payload(contentType string, body []byte) (any, error) {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = ""
	}
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return map[string]any{}, nil
	case kind == "application/x-www-form-urlencoded":
		return form(body)
	case kind == "application/json", strings.HasSuffix(kind, "+json"):
		return readJSON(body)
	}
	if v, err := readJSON(body); err == nil {
		return v, nil // whatever it calls itself
	}
	if kind == "" || strings.HasPrefix(kind, "text/") {
		if !utf8.Valid(body) {
			return nil, errors.New("the body is neither JSON nor text in UTF-8")
		}
		return map[string]any{"text": string(body)}, nil
	}
	return nil, fmt.Errorf("the body is %s: send JSON, a form or text", kind)
}

func form(body []byte) (any, error) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errors.New("the body is not a form, which its content type says")
	}
	if inner, ok := values["payload"]; ok && len(inner) == 1 && len(values) == 1 {
		return readJSON([]byte(inner[0]))
	}
	out := map[string]any{}
	for name, list := range values {
		if len(list) == 1 {
			out[name] = strings.ToValidUTF8(list[0], "�")
			continue
		}
		many := make([]any, len(list))
		for i, v := range list {
			many[i] = strings.ToValidUTF8(v, "�")
		}
		out[name] = many
	}
	return out, nil
}

// readJSON reads one value. Integers keep all their digits: as int64, or as text if they
// are too large for that, and so do numbers that no double represents.
func readJSON(body []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("the body is not JSON: %s", plainError(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the body is not JSON: something follows its value")
	}
	return native(v, maxDepth)
}

func plainError(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return err.Error()
}

func native(v any, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("the body is nested deeper than %d", maxDepth)
	}
	var err error
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if v[k], err = native(inner, depth-1); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, inner := range v {
			if v[i], err = native(inner, depth-1); err != nil {
				return nil, err
			}
		}
	case json.Number:
		return number(v.String()), nil
	}
	return v, nil
}

func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if !strings.ContainsAny(text, ".eE") {
		return text // whole, and larger than an integer
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return text
	}
	return f
}
