package relay

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/provider"
)

// openai is OpenAI's API, which many others speak: chat completions and
// responses.
// https://platform.openai.com/docs/api-reference/chat-streaming
// https://platform.openai.com/docs/api-reference/responses-streaming
type openai struct{}

const (
	chat      = "chat/completions"
	responses = "responses"
)

var chatFields = []string{
	"model", "messages", "max_tokens", "max_completion_tokens", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options",
	"stop", "temperature", "top_p", "reasoning_effort", "seed",
}

var responsesFields = []string{
	"model", "input", "instructions", "max_output_tokens", "tools", "tool_choice", "parallel_tool_calls", "stream", "store", "include",
	"reasoning", "temperature", "top_p", "text", "truncation",
}

func (openai) key(h http.Header) string {
	key, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return key
}

func (openai) read(method, rest string, p provider.Provider, body []byte) (*request, error) {
	if method != http.MethodPost || rest != chat && rest != responses {
		return nil, noEndpoint("POST " + chat + " and POST " + responses)
	}
	known := chatFields
	if rest == responses {
		known = responsesFields
	}
	m, err := fields(body, known)
	if err != nil {
		return nil, err
	}
	if err := held(m); err != nil {
		return nil, err
	}
	out := &request{endpoint: rest, model: text(m["model"])}
	out.thinks = provider.ModelInfo(p.Name, out.model).Thinks
	if err := onlyTools(m["tools"], "function"); err != nil {
		return nil, err
	}
	if rest == responses {
		out.maxTokens = integer(m["max_output_tokens"])
		// Nothing is kept there: the worker sends all that the model needs.
		m["store"] = json.RawMessage("false")
		if err := capped(out.maxTokens, "max_output_tokens"); err != nil {
			return nil, err
		}
	} else {
		if m["max_tokens"] != nil && m["max_completion_tokens"] != nil {
			return nil, invalid("max_tokens and max_completion_tokens are both given")
		}
		out.maxTokens = integer(m["max_completion_tokens"], m["max_tokens"])
		if err := capped(out.maxTokens, "max_completion_tokens"); err != nil {
			return nil, err
		}
		delete(m, "stream_options")
		if bytes.Equal(m["stream"], []byte("true")) && !p.SilentUsage {
			m["stream_options"] = json.RawMessage(`{"include_usage":true}`)
		}
	}
	out.body = object(m)
	return out, nil
}

func (openai) usage(endpoint string) func([]byte, bool) reading {
	if endpoint == responses {
		return responsesUsage
	}
	return chatUsage
}

func chatUsage(data []byte, stream bool) reading {
	if bytes.Equal(data, []byte("[DONE]")) {
		r := nothing()
		r.done = true
		return r
	}
	var e struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Delta        struct {
				Content          string `json:"content"`
				Refusal          string `json:"refusal"`
				Reasoning        string `json:"reasoning"`
				ReasoningContent string `json:"reasoning_content"`
				ToolCalls        []struct {
					Function struct {
						Name      string `json:"name"`
						Arguments string `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"delta"`
		} `json:"choices"`
		Usage *struct {
			Prompt     *int64 `json:"prompt_tokens"`
			Completion *int64 `json:"completion_tokens"`
			Details    struct {
				Cached *int64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	r := nothing()
	if json.Unmarshal(data, &e) != nil {
		return r
	}
	last := len(e.Choices) == 0 || !stream
	for _, c := range e.Choices {
		d := c.Delta
		r.said += len(d.Content) + len(d.Refusal) + len(d.Reasoning) + len(d.ReasoningContent)
		for _, call := range d.ToolCalls {
			r.said += len(call.Function.Name) + len(call.Function.Arguments)
		}
		last = last || c.FinishReason != ""
	}
	if u := e.Usage; u != nil {
		r.input, r.output, r.cacheRead = less(u.Prompt, u.Details.Cached), pick(u.Completion), pick(u.Details.Cached)
		r.closing = last
	}
	return r
}

func responsesUsage(data []byte, stream bool) reading {
	type usage struct {
		Input   *int64 `json:"input_tokens"`
		Output  *int64 `json:"output_tokens"`
		Details struct {
			Cached *int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
	var e struct {
		Type     string          `json:"type"`
		Delta    json.RawMessage `json:"delta"`
		Usage    *usage          `json:"usage"`
		Response struct {
			Usage *usage `json:"usage"`
		} `json:"response"`
	}
	r := nothing()
	if json.Unmarshal(data, &e) != nil {
		return r
	}
	u := e.Usage
	if stream {
		u = nil
		switch e.Type {
		case "response.completed", "response.incomplete", "response.failed":
			u, r.done = e.Response.Usage, true
		default:
			r.said = len(text(e.Delta))
		}
	}
	if u != nil {
		r.input, r.output, r.cacheRead, r.closing = less(u.Input, u.Details.Cached), pick(u.Output), pick(u.Details.Cached), true
	}
	return r
}

func (openai) body(r refusal) []byte {
	kind := "invalid_request_error"
	if r.Status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	data, _ := json.Marshal(map[string]any{"error": map[string]any{"message": r.Message, "type": kind, "param": nil, "code": nil}})
	return data
}

func (f openai) refuse(w http.ResponseWriter, r refusal) { write(w, r, f.body(r)) }
