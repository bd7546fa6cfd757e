package openai

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// complete asks by chat completions.
func (m *Model) complete(call *wire.Call, req *model.Request, answer *wire.Answer) (*deckhandv1.Turn, error) {
	messages, err := m.transcript.Encode(req.Messages, func(message model.Message) ([]byte, error) {
		return wire.Items(m.chatMessages(message)...)
	})
	if err == nil && req.System != "" {
		var system []byte
		system, err = wire.Items(object{"role": "system", "content": req.System})
		messages = slices.Insert(messages, 0, system)
	}
	var body []byte
	if err == nil {
		body, err = wire.Body(m.chatParams(req), "messages", messages)
	}
	if err != nil {
		return nil, m.broken(model.Invalid, err)
	}
	c := completion{Answer: answer, open: map[int64]*wire.Block{}}
	var wrong error // with the answer
	err = m.ask(call.Context(), "/chat/completions", body, func(data []byte) error {
		var part chunk
		if err := json.Unmarshal(data, &part); err != nil {
			return err
		}
		wrong = c.add(part)
		return wrong
	})
	switch {
	case wrong != nil:
		return nil, m.broken(model.Unavailable, wrong)
	case err != nil || c.reason == "":
		return nil, call.Fail(err, classify)
	}
	return &deckhandv1.Turn{Model: c.model, Usage: c.usage, Blocks: c.Blocks(), StopReason: c.stop()}, nil
}

// chatParams makes the request, without its messages. What a model thought stays with it: the API
// takes no reasoning back. The cap is max_tokens, which all who are not OpenAI
// know.
func (m *Model) chatParams(req *model.Request) object {
	out := object{"model": m.cfg.Model, "max_tokens": req.MaxTokens}
	var tools []object
	for _, tool := range req.Tools {
		tools = append(tools, object{"type": "function", "function": object{
			"name": tool.GetName(), "description": tool.GetDescription(), "parameters": tool.GetInputSchema().AsMap(),
		}})
	}
	if len(tools) > 0 {
		out["tools"] = tools
	}
	return out
}

// chatMessages are a message as the API wants it.
func (m *Model) chatMessages(message model.Message) []object {
	if message.Turn != nil {
		return []object{m.said(message.Turn)}
	}
	var out, pictures []object
	for _, result := range message.Results {
		out = append(out, object{"role": "tool", "tool_call_id": m.callID(result.CallID), "content": resultText(result, m.knows.Images)})
		if m.knows.Images && len(result.Images) > 0 {
			pictures = append(pictures, object{"type": "text", "text": wire.ShownWith(result)})
			for _, image := range result.Images {
				pictures = append(pictures, object{"type": "image_url", "image_url": object{"url": wire.DataURL(image)}})
			}
		}
	}
	if len(pictures) > 0 {
		out = append(out, object{"role": "user", "content": pictures})
	}
	for _, text := range message.Texts() {
		out = append(out, object{"role": "user", "content": text})
	}
	return out
}

// resultText is a result in a format that cannot mark a call as failed.
func resultText(result model.Result, shown bool) string {
	text := wire.ResultText(result, shown)
	if result.IsError {
		text = "error: " + text
	}
	return text
}

// said is a turn of the model as the API wants it back.
func (m *Model) said(turn *deckhandv1.Turn) object {
	out := object{"role": "assistant"}
	text := ""
	var calls []object
	for _, block := range turn.GetBlocks() {
		switch kind := block.GetKind().(type) {
		case *deckhandv1.Block_Text_:
			text += kind.Text.GetText()
		case *deckhandv1.Block_ToolCall_:
			name, input := wire.Called(kind.ToolCall)
			calls = append(calls, object{
				"id": m.callID(kind.ToolCall.GetId()), "type": "function", "function": object{"name": name, "arguments": string(input)},
			})
		}
	}
	if len(calls) > 0 {
		out["tool_calls"] = calls
	} else {
		text = cmp.Or(text, wire.NoAnswer)
	}
	if text != "" {
		out["content"] = text
	}
	return out
}

// callID is the id of a call as the server takes it: another model, whose place
// this one took, may have given it.
func (m *Model) callID(id string) string {
	if m.cfg.Provider.ShortCallIDs {
		return wire.ShortCallID(id)
	}
	return wire.CallID(id)
}

// chunk is a piece of a completion.
type chunk struct {
	Model loose `json:"model"`
	Usage *struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		Details          struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Choices []struct {
		Index int64 `json:"index"`
		Delta struct {
			Content   loose      `json:"content"`
			Refusal   loose      `json:"refusal"`
			ToolCalls []callPart `json:"tool_calls"`
			// Those who show what the model thinks have a field of their own for it.
			ReasoningContent loose `json:"reasoning_content"`
			Reasoning        loose `json:"reasoning"`
		} `json:"delta"`
		FinishReason loose `json:"finish_reason"`
	} `json:"choices"`
}

// callPart is a piece of a tool call.
type callPart struct {
	Index    int64 `json:"index"`
	ID       loose `json:"id"`
	Function struct {
		Name      loose `json:"name"`
		Arguments loose `json:"arguments"`
	} `json:"function"`
}

// completion puts a turn together from the chunks of its stream.
type completion struct {
	*wire.Answer

	model, reason string
	usage         *deckhandv1.Usage
	refused       bool
	// open are the calls by the API's index.
	open map[int64]*wire.Block
}

func (c *completion) add(part chunk) error {
	if part.Model != "" {
		c.model = string(part.Model)
	}
	if u := part.Usage; u != nil {
		c.usage = usage(u.PromptTokens, u.Details.CachedTokens, u.CompletionTokens)
	}
	for _, choice := range part.Choices {
		if choice.Index != 0 {
			continue
		}
		delta := choice.Delta
		if thought := string(cmp.Or(delta.ReasoningContent, delta.Reasoning)); thought != "" {
			if err := c.Think(thought); err != nil {
				return err
			}
		}
		c.refused = c.refused || delta.Refusal != ""
		if text := string(delta.Content + delta.Refusal); text != "" {
			if err := c.AppendText(text); err != nil {
				return err
			}
		}
		for _, piece := range delta.ToolCalls {
			if err := c.call(piece); err != nil {
				return err
			}
		}
		if choice.FinishReason != "" {
			c.reason = string(choice.FinishReason)
		}
	}
	return nil
}

// call takes a piece of a tool call. Some servers send whole calls and give all
// of them the same index: another id is another call.
func (c *completion) call(piece callPart) error {
	b := c.open[piece.Index]
	if b == nil || piece.ID != "" && string(piece.ID) != b.Call.GetId() {
		id := string(piece.ID)
		if id == "" {
			id = ident.New("call")
		}
		b = c.Open(&wire.Block{Call: &deckhandv1.Block_ToolCall{Id: id}})
		c.open[piece.Index] = b
	}
	if b.Call.GetName() == "" {
		b.Call.Name = string(piece.Function.Name)
	}
	return c.Add(b, string(piece.Function.Arguments))
}

func (c *completion) stop() string {
	switch {
	case c.reason == "length":
		return model.StopMaxTokens
	case c.reason == "content_filter", c.refused:
		return model.StopRefusal
	case c.Calls(): // some say "stop" all the same
		return model.StopToolUse
	default:
		return model.StopEndTurn
	}
}
