package inference

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/deckhand-sh/deckhand/internal/provider"
)

// Prompt is what a text is asked for with.
type Prompt struct {
	// System says what to do, and Input what to do it with.
	System, Input string
	// MaxTokens bounds the answer.
	MaxTokens int64
}

// Text returns a model's answer to one prompt, without tools.
func (m *Models) Text(ctx context.Context, of Model, in Prompt) (said string, err error) {
	in.Input = m.cfg.Redact.Org(of.OrgID).String(in.Input)
	p, _ := provider.Of(of.Provider)
	var c call
	var read func(answer []byte) (string, used, error)
	switch p.Format {
	case provider.Messages:
		c, read = anthropicText(of, in)
	case provider.Gemini:
		c, read = geminiText(of, in)
	default:
		c, read = openaiText(of, p, in)
	}
	c.output = in.MaxTokens
	err = m.send(ctx, of, c, func(answer []byte) (u used, err error) {
		if said, u, err = read(answer); err == nil && said == "" {
			err = strange(of, "it has no text")
		}
		return u, err
	})
	return said, err
}

// tokens returns a figure of an answer, or -1 if it is missing.
func tokens(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// openaiText is https://platform.openai.com/docs/api-reference/chat.
func openaiText(of Model, p provider.Provider, in Prompt) (call, func([]byte) (string, used, error)) {
	most := "max_tokens"
	if p.Responses {
		most = "max_completion_tokens" // max_tokens is refused by its newer models
	}
	body := map[string]any{"model": of.Name, most: in.MaxTokens, "messages": []any{
		map[string]any{"role": "system", "content": in.System}, map[string]any{"role": "user", "content": in.Input},
	}}
	return call{path: "/chat/completions", body: body}, func(answer []byte) (string, used, error) {
		var got struct {
			Choices []struct {
				Message struct {
					Content string `json:"content"`
				} `json:"message"`
			} `json:"choices"`
			Usage struct {
				Prompt     *int64 `json:"prompt_tokens"`
				Completion *int64 `json:"completion_tokens"`
			} `json:"usage"`
		}
		if json.Unmarshal(answer, &got) != nil || len(got.Choices) == 0 {
			return "", used{-1, -1}, strange(of, "it has no text")
		}
		return got.Choices[0].Message.Content, used{tokens(got.Usage.Prompt), tokens(got.Usage.Completion)}, nil
	}
}

// anthropicText is https://docs.anthropic.com/en/api/messages.
func anthropicText(of Model, in Prompt) (call, func([]byte) (string, used, error)) {
	body := map[string]any{"model": of.Name, "max_tokens": in.MaxTokens, "system": in.System, "messages": []any{map[string]any{"role": "user", "content": in.Input}}}
	return call{path: "/v1/messages", body: body, header: http.Header{"Anthropic-Version": {"2023-06-01"}}}, func(answer []byte) (string, used, error) {
		var got struct {
			Content []struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"content"`
			Usage struct {
				Input  *int64 `json:"input_tokens"`
				Output *int64 `json:"output_tokens"`
			} `json:"usage"`
		}
		if json.Unmarshal(answer, &got) != nil {
			return "", used{-1, -1}, strange(of, "it has no text")
		}
		text := ""
		for _, part := range got.Content {
			if part.Type == "text" {
				text += part.Text
			}
		}
		return text, used{tokens(got.Usage.Input), tokens(got.Usage.Output)}, nil
	}
}

// geminiText is https://ai.google.dev/api/generate-content.
func geminiText(of Model, in Prompt) (call, func([]byte) (string, used, error)) {
	part := func(text string) map[string]any {
		return map[string]any{"parts": []any{map[string]any{"text": text}}}
	}
	input := part(in.Input)
	input["role"] = "user"
	body := map[string]any{"systemInstruction": part(in.System), "contents": []any{input}, "generationConfig": map[string]any{"maxOutputTokens": in.MaxTokens}}
	return call{path: "/v1beta/models/" + url.PathEscape(of.Name) + ":generateContent", body: body}, func(answer []byte) (string, used, error) {
		var got struct {
			Candidates []struct {
				Content struct {
					Parts []struct {
						Text    string `json:"text"`
						Thought bool   `json:"thought"`
					} `json:"parts"`
				} `json:"content"`
			} `json:"candidates"`
			Usage struct {
				Prompt   *int64 `json:"promptTokenCount"`
				Output   *int64 `json:"candidatesTokenCount"`
				Thoughts *int64 `json:"thoughtsTokenCount"`
			} `json:"usageMetadata"`
		}
		if json.Unmarshal(answer, &got) != nil || len(got.Candidates) == 0 {
			return "", used{-1, -1}, strange(of, "it has no text")
		}
		text := ""
		for _, p := range got.Candidates[0].Content.Parts {
			if !p.Thought {
				text += p.Text
			}
		}
		return text, used{tokens(got.Usage.Prompt), max(tokens(got.Usage.Output), 0) + max(tokens(got.Usage.Thoughts), 0)}, nil
	}
}
