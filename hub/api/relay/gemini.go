package relay

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/provider"
)

// gemini is Google's Generative Language API.
// https://ai.google.dev/api/generate-content
type gemini struct{}

var geminiFields = []string{
	"contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings",
}

func (gemini) key(h http.Header) string { return h.Get("X-Goog-Api-Key") }

func (gemini) read(method, rest string, p provider.Provider, body []byte) (*request, error) {
	name, verb, _ := strings.Cut(strings.TrimPrefix(rest, "v1beta/models/"), ":")
	if method != http.MethodPost || !strings.HasPrefix(rest, "v1beta/models/") || name == "" || strings.Contains(name, "/") ||
		verb != "generateContent" && verb != "streamGenerateContent" {
		return nil, noEndpoint("POST v1beta/models/MODEL:generateContent and :streamGenerateContent")
	}
	m, err := fields(body, geminiFields)
	if err != nil {
		return nil, err
	}
	if err := held(m); err != nil {
		return nil, err
	}
	var generation struct {
		MaxOutputTokens int64 `json:"maxOutputTokens"`
		CandidateCount  int64 `json:"candidateCount"`
		Thinking        struct {
			Budget *int64 `json:"thinkingBudget"`
		} `json:"thinkingConfig"`
	}
	if raw := m["generationConfig"]; raw != nil {
		if exactly(raw, &generation) != nil {
			return nil, invalid("generationConfig is not what it should be")
		}
		if name := likened(fieldsOf(raw), "maxOutputTokens", "candidateCount", "thinkingConfig"); name != "" {
			return nil, invalid("generationConfig.%.60q is not written as the API has it", name)
		}
	}
	out := &request{model: name, maxTokens: generation.MaxOutputTokens}
	if verb == "streamGenerateContent" {
		out.query = "alt=sse"
	}
	if err := capped(out.maxTokens, "generationConfig.maxOutputTokens"); err != nil {
		return nil, err
	}
	if generation.CandidateCount > 1 {
		return nil, invalid("generationConfig.candidateCount is over 1")
	}
	var tools []map[string]json.RawMessage
	if raw := m["tools"]; raw != nil && exactly(raw, &tools) != nil {
		return nil, invalid("tools is not a list of objects")
	}
	for _, tool := range tools {
		for kind := range tool {
			if kind != "functionDeclarations" {
				return nil, invalid("a tool of kind %.60q would run at the provider", kind)
			}
		}
	}
	budget := generation.Thinking.Budget
	out.thinks = provider.ModelInfo(p.Name, name).Thinks && (budget == nil || *budget != 0)
	out.body = object(m)
	return out, nil
}

func (gemini) usage(string) func([]byte, bool) reading {
	return func(data []byte, stream bool) reading {
		var e struct {
			Candidates []struct {
				FinishReason string `json:"finishReason"`
				Content      struct {
					Parts []struct {
						Text         string          `json:"text"`
						FunctionCall json.RawMessage `json:"functionCall"`
					} `json:"parts"`
				} `json:"content"`
			} `json:"candidates"`
			Usage *struct {
				Prompt   *int64 `json:"promptTokenCount"`
				Output   *int64 `json:"candidatesTokenCount"`
				Thoughts *int64 `json:"thoughtsTokenCount"`
				Cached   *int64 `json:"cachedContentTokenCount"`
			} `json:"usageMetadata"`
			Feedback struct {
				BlockReason string `json:"blockReason"`
			} `json:"promptFeedback"`
		}
		r := nothing()
		if json.Unmarshal(data, &e) != nil {
			return r
		}
		last := !stream || e.Feedback.BlockReason != ""
		for _, c := range e.Candidates {
			last = last || c.FinishReason != ""
			for _, part := range c.Content.Parts {
				r.said += len(part.Text) + len(part.FunctionCall)
			}
		}
		if u := e.Usage; u != nil && pick(u.Prompt) >= 0 {
			r.input, r.cacheRead = less(u.Prompt, u.Cached), pick(u.Cached)
			// Figures of nothing are left out.
			r.output = max(0, pick(u.Output)) + max(0, pick(u.Thoughts))
			r.closing = last
		}
		return r
	}
}

var geminiKinds = map[int]string{
	http.StatusBadRequest: "INVALID_ARGUMENT", http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED",
	http.StatusNotFound: "NOT_FOUND", http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusRequestEntityTooLarge: "INVALID_ARGUMENT",
}

func (gemini) body(r refusal) []byte {
	kind := geminiKinds[r.Status]
	if kind == "" {
		kind = "UNAVAILABLE"
	}
	data, _ := json.Marshal(map[string]any{"error": map[string]any{"code": r.Status, "message": r.Message, "status": kind}})
	return data
}

func (f gemini) refuse(w http.ResponseWriter, r refusal) { write(w, r, f.body(r)) }
