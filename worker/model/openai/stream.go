package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

const (
	// maxEvent bounds one event of a stream, and maxRefusal the body of an error response.
	maxEvent   = 32 << 20
	maxRefusal = 1 << 20
)

// object is a part of a request. Its keys are encoded in order.
type object map[string]any

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // it is no page, and code has many of those characters
	if err := enc.Encode(map[string]any(o)); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// loose is a text of a response. Anything else is no text: servers that only speak like OpenAI
// put other things there.
type loose string

// UnmarshalJSON implements json.Unmarshaler.
func (l *loose) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*l = loose(text)
	}
	return nil
}

// refused is a response with an error status.
type refused struct {
	status int
	body   []byte
}

// Error implements error. The body may hold anything.
func (r *refused) Error() string {
	return fmt.Sprintf("the provider answered %d %s", r.status, http.StatusText(r.status))
}

// ask posts a request and calls each with the data of each event of the response, until each
// returns an error, or the stream ends. An event that is cut off counts for nothing.
func (m *Model) ask(ctx context.Context, path string, body []byte, each func(data []byte) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.cfg.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+m.cfg.Key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	res, err := m.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		text, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
		if err != nil {
			return err
		}
		return &refused{res.StatusCode, text}
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxEvent)
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) > 0 {
			if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				data = append(append(data, bytes.TrimPrefix(rest, []byte(" "))...), '\n')
			}
			if len(data) > maxEvent {
				return fmt.Errorf("an event of the stream is longer than %d bytes", maxEvent)
			}
			continue
		}
		if len(data) == 0 {
			continue
		}
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			return nil
		}
		var broken struct {
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(data, &broken); err != nil {
			return fmt.Errorf("read an event of the stream: %w", err)
		}
		if len(broken.Error) > 0 && !bytes.Equal(broken.Error, []byte("null")) {
			return told(broken.Error)
		}
		if err := each(data); err != nil {
			return err
		}
		data = data[:0]
	}
	return lines.Err()
}
