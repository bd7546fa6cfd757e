package relay

import (
	"encoding/json"
	"net/http"
	"regexp"

	"github.com/deckhand-sh/deckhand/internal/provider"
)

// anthropic is the Messages API.
// https://docs.anthropic.com/en/docs/build-with-claude/streaming
type anthropic struct{}

var anthropicFields = []string{
	"model", "messages", "max_tokens", "system", "tools", "tool_choice", "thinking", "stream", "stop_sequences",
	"temperature", "top_p", "top_k", "output_config",
}

func (anthropic) key(h http.Header) string { return h.Get("X-Api-Key") }

func (anthropic) read(method, rest string, _ provider.Provider, body []byte) (*request, error) {
	if method != http.MethodPost || rest != "v1/messages" {
		return nil, noEndpoint("POST v1/messages")
	}
	m, err := fields(body, anthropicFields)
	if err != nil {
		return nil, err
	}
	if err := held(m); err != nil {
		return nil, err
	}
	out := &request{model: text(m["model"]), maxTokens: integer(m["max_tokens"])}
	if err := capped(out.maxTokens, "max_tokens"); err != nil {
		return nil, err
	}
	if err := onlyTools(m["tools"], "", "custom"); err != nil {
		return nil, err
	}
	var thinking struct {
		Type string `json:"type"`
	}
	if raw := m["thinking"]; raw != nil && (exactly(raw, &thinking) != nil || likened(fieldsOf(raw), "type", "budget_tokens") != "") {
		return nil, invalid("thinking is not an object of type and budget_tokens")
	}
	out.thinks = thinking.Type != "" && thinking.Type != "disabled"
	out.body = object(m)
	out.cachesHour = hourMark.Match(body)
	return out, nil
}

// hourMark finds a cache breakpoint that lasts an hour. Text of a prompt in which it finds
// one only makes the reservation larger.
var hourMark = regexp.MustCompile(`"ttl"\s*:\s*"1h"`)

// anthropicUsage is the API's usage; output_tokens of a stream's opening is not
// the final one.
type anthropicUsage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	// Creation divides CacheWrite by how long it is kept.
	Creation struct {
		Hour *int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
}

func (u *anthropicUsage) reading(closing bool) reading {
	if u == nil {
		return nothing()
	}
	return reading{input: pick(u.Input), output: pick(u.Output), cacheRead: pick(u.CacheRead), cacheWrite: pick(u.CacheWrite), cacheHour: pick(u.Creation.Hour), closing: closing}
}

func (anthropic) usage(string) func([]byte, bool) reading {
	return func(data []byte, stream bool) reading {
		var e struct {
			Type    string          `json:"type"`
			Usage   *anthropicUsage `json:"usage"`
			Message struct {
				Usage *anthropicUsage `json:"usage"`
			} `json:"message"`
			Delta struct {
				Text     string `json:"text"`
				Thinking string `json:"thinking"`
				JSON     string `json:"partial_json"`
			} `json:"delta"`
		}
		if json.Unmarshal(data, &e) != nil {
			return nothing()
		}
		if !stream {
			return e.Usage.reading(true)
		}
		switch e.Type {
		case "message_start":
			return e.Message.Usage.reading(false)
		case "message_delta":
			return e.Usage.reading(true)
		case "message_stop":
			r := nothing()
			r.done = true
			return r
		}
		r := nothing()
		r.said = len(e.Delta.Text) + len(e.Delta.Thinking) + len(e.Delta.JSON)
		return r
	}
}

var anthropicKinds = map[int]string{
	http.StatusBadRequest: "invalid_request_error", http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
}

func (anthropic) body(r refusal) []byte {
	kind := anthropicKinds[r.Status]
	if kind == "" {
		kind = "api_error"
	}
	data, _ := json.Marshal(map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": r.Message}})
	return data
}

func (f anthropic) refuse(w http.ResponseWriter, r refusal) { write(w, r, f.body(r)) }
