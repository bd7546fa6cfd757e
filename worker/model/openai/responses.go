package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// respond asks by responses.
func (m *Model) respond(call *wire.Call, req *model.Request, answer *wire.Answer) (*deckhandv1.Turn, error) {
	input, err := m.transcript.Encode(req.Messages, func(message model.Message) ([]byte, error) {
		return wire.Items(m.inputItems(message)...)
	})
	var body []byte
	if err == nil {
		body, err = wire.Body(m.responseParams(req), "input", input)
	}
	if err != nil {
		return nil, m.broken(model.Invalid, err)
	}
	r := response{Answer: answer}
	err = m.ask(call.Context(), "/responses", body, r.add)
	switch {
	case r.wrong != nil:
		return nil, m.broken(model.Unavailable, r.wrong)
	case err != nil || r.end == nil:
		return nil, call.Fail(err, classify)
	}
	return r.turn(), nil
}

// responseParams makes the request, without its input. Nothing is kept at the provider's: what the
// model thought comes back sealed, and goes there again with the next request.
func (m *Model) responseParams(req *model.Request) object {
	out := object{"model": m.cfg.Model, "max_output_tokens": req.MaxTokens, "store": false}
	if req.System != "" {
		out["instructions"] = req.System
	}
	if m.knows.Thinks {
		out["include"] = []string{"reasoning.encrypted_content"}
		if how := reasoning(req.Thinking); how != nil {
			out["reasoning"] = how
		}
	}
	var tools []object
	for _, tool := range req.Tools {
		// Not strict: the registry checks the arguments, and its schemas have
		// what the strict form does not take.
		tools = append(tools, object{
			"type": "function", "name": tool.GetName(), "description": tool.GetDescription(), "parameters": tool.GetInputSchema().AsMap(), "strict": false,
		})
	}
	if len(tools) > 0 {
		out["tools"] = tools
	}
	return out
}

// inputItems are a message as the API wants it.
func (m *Model) inputItems(message model.Message) []object {
	if message.Turn != nil {
		return m.items(message.Turn)
	}
	var out []object
	for _, result := range message.Results {
		var output any = resultText(result, m.knows.ResultImages)
		if m.knows.ResultImages && len(result.Images) > 0 {
			output = pictured(result)
		}
		out = append(out, object{"type": "function_call_output", "call_id": wire.CallID(result.CallID), "output": output})
	}
	for _, text := range message.Texts() {
		out = append(out, object{"role": "user", "content": text})
	}
	return out
}

// pictured is a result with its images.
func pictured(result model.Result) []object {
	out := []object{{"type": "input_text", "text": resultText(result, true)}}
	for _, image := range result.Images {
		out = append(out, object{"type": "input_image", "image_url": wire.DataURL(image)})
	}
	return out
}

// reasoning says how hard to think; the API has no count of tokens for it. nil leaves it to the
// API.
func reasoning(t persona.Thinking) object {
	const little, much = 2048, 8192
	out := object{"summary": "auto"} // people follow what the model thinks
	switch {
	case t.Adaptive:
	case t.Tokens == 0:
		return nil
	case t.Tokens <= little:
		out["effort"] = "low"
	case t.Tokens <= much:
		out["effort"] = "medium"
	default:
		out["effort"] = "high"
	}
	return out
}

// items are a turn of the model as the API wants it back. What another provider
// thought stays out.
func (m *Model) items(turn *deckhandv1.Turn) []object {
	var out []object
	for _, block := range turn.GetBlocks() {
		switch kind := block.GetKind().(type) {
		case *deckhandv1.Block_Text_:
			if text := kind.Text.GetText(); text != "" {
				out = append(out, object{"role": "assistant", "content": text})
			}
		case *deckhandv1.Block_Reasoning_:
			if r := kind.Reasoning; turn.GetProvider() == m.cfg.Provider.Name && m.knows.Thinks && r.GetRedacted() != "" {
				summary := []object{}
				if r.GetText() != "" {
					summary = append(summary, object{"type": "summary_text", "text": r.GetText()})
				}
				out = append(out, object{"type": thought, "id": r.GetSignature(), "encrypted_content": r.GetRedacted(), "summary": summary})
			}
		case *deckhandv1.Block_ToolCall_:
			name, input := wire.Called(kind.ToolCall)
			out = append(out, object{"type": "function_call", "call_id": wire.CallID(kind.ToolCall.GetId()), "name": name, "arguments": string(input)})
		}
	}
	if !slices.ContainsFunc(out, func(i object) bool { return i["type"] != thought }) {
		// The API takes no thought back without what it led to.
		out = append(out, object{"role": "assistant", "content": wire.NoAnswer})
	}
	return out
}

// thought is the type of a part that is what the model thought.
const thought = "reasoning"

// response puts a turn together from the events of its stream.
type response struct {
	*wire.Answer

	// items are finished parts of the response.
	items   []item
	refused bool
	size    int
	end     *ended
	// wrong is what is wrong with the answer, and not with the call.
	wrong error
}

// ended is a whole response, without its parts.
type ended struct {
	Model  loose `json:"model"`
	Status loose `json:"status"`
	Usage  *struct {
		InputTokens  int64 `json:"input_tokens"`
		OutputTokens int64 `json:"output_tokens"`
		Details      struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	} `json:"usage"`
	Incomplete struct {
		Reason loose `json:"reason"`
	} `json:"incomplete_details"`
	Error json.RawMessage `json:"error"`
}

// item is one part, at its place.
type item struct {
	index  int64
	blocks []*deckhandv1.Block
}

// add takes an event. Pieces are shown as they come; a part counts as it is
// when it is done. Events that are not known are left alone, whatever they hold.
func (r *response) add(data []byte) error {
	var event struct {
		Type     string          `json:"type"`
		Delta    loose           `json:"delta"`
		Index    int64           `json:"output_index"`
		Item     json.RawMessage `json:"item"`
		Response json.RawMessage `json:"response"`
	}
	if err := json.Unmarshal(data, &event); err != nil {
		return err
	}
	switch event.Type {
	case "response.output_text.delta", "response.refusal.delta":
		r.wrong = r.AppendText(string(event.Delta))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		r.wrong = r.Think(string(event.Delta))
	case "response.output_item.done":
		blocks, err := r.blocks(event.Item)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			r.size += len(b.GetText().GetText()) + len(b.GetToolCall().GetArgumentsJson())
		}
		if r.size > wire.MaxAnswer {
			r.wrong = fmt.Errorf("the answer is longer than %d bytes", wire.MaxAnswer)
		}
		r.items = append(r.items, item{event.Index, blocks})
	case "response.completed", "response.incomplete", "response.failed":
		var end ended
		if err := json.Unmarshal(event.Response, &end); err != nil {
			return err
		}
		if event.Type == "response.failed" {
			return told(end.Error)
		}
		r.end = &end
	case "error":
		return told(data)
	}
	return r.wrong
}

// blocks are those of a finished part. The id of what the model thought is kept
// as its signature, and the sealed thought as what is redacted.
func (r *response) blocks(data []byte) ([]*deckhandv1.Block, error) {
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return nil, err
	}
	switch kind.Type {
	case "message":
		var part struct {
			Content []struct {
				Type    string `json:"type"`
				Text    loose  `json:"text"`
				Refusal loose  `json:"refusal"`
			} `json:"content"`
		}
		if err := json.Unmarshal(data, &part); err != nil {
			return nil, err
		}
		text := ""
		for _, content := range part.Content {
			r.refused = r.refused || content.Type == "refusal"
			text += string(content.Text + content.Refusal)
		}
		if text != "" {
			return []*deckhandv1.Block{model.TextBlock(text)}, nil
		}
	case thought:
		var part struct {
			ID      loose `json:"id"`
			Sealed  loose `json:"encrypted_content"`
			Summary []struct {
				Text string `json:"text"`
			} `json:"summary"`
		}
		if err := json.Unmarshal(data, &part); err != nil {
			return nil, err
		}
		var summary []string
		for _, s := range part.Summary {
			summary = append(summary, s.Text)
		}
		return []*deckhandv1.Block{model.ReasoningBlock(&deckhandv1.Block_Reasoning{
			Text: strings.Join(summary, "\n\n"), Signature: string(part.ID), Redacted: string(part.Sealed),
		})}, nil
	case "function_call":
		var part struct {
			CallID    loose `json:"call_id"`
			Name      loose `json:"name"`
			Arguments loose `json:"arguments"`
		}
		if err := json.Unmarshal(data, &part); err != nil {
			return nil, err
		}
		arguments := string(part.Arguments)
		if strings.TrimSpace(arguments) == "" {
			arguments = "{}"
		}
		return []*deckhandv1.Block{model.CallBlock(&deckhandv1.Block_ToolCall{Id: string(part.CallID), Name: string(part.Name), ArgumentsJson: arguments})}, nil
	}
	return nil, nil
}

func (r *response) turn() *deckhandv1.Turn {
	slices.SortStableFunc(r.items, func(a, b item) int { return cmp.Compare(a.index, b.index) })
	turn := &deckhandv1.Turn{Model: string(r.end.Model), StopReason: model.StopEndTurn}
	for _, part := range r.items {
		turn.Blocks = append(turn.Blocks, part.blocks...)
	}
	if u := r.end.Usage; u != nil {
		turn.Usage = usage(u.InputTokens, u.Details.CachedTokens, u.OutputTokens)
	}
	switch reason := r.end.Incomplete.Reason; {
	case reason == "content_filter", r.refused:
		turn.StopReason = model.StopRefusal
	case reason != "" || r.end.Status == "incomplete":
		turn.StopReason = model.StopMaxTokens
	case len(model.Calls(turn)) > 0:
		turn.StopReason = model.StopToolUse
	}
	return turn
}
