package openai

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// respond asks by responses.
func (m *Model) respond(call *wire.Call, req *model.Request, answer *wire.Answer) (*deckhandv1.Turn, error) {
	params := m.responseParams(req)
	input, err := m.transcript.Encode(req.Messages, func(message model.Message) ([]byte, error) {
		return wire.Items(m.inputItems(message)...)
	})
	var body []byte
	if err == nil {
		body, err = wire.Body(params, "input", input)
	}
	if err != nil {
		return nil, m.broken(model.Invalid, err)
	}
	stream := m.responses.NewStreaming(call.Context(), params, option.WithRequestBody("application/json", body))
	defer func() { _ = stream.Close() }()
	r := response{Answer: answer}
	for stream.Next() {
		event := stream.Current()
		if err := failure(event); err != nil {
			return nil, call.Fail(err, classify)
		}
		if err := r.add(event); err != nil {
			return nil, m.broken(model.Unavailable, err)
		}
	}
	if err := stream.Err(); err != nil || r.end == nil {
		return nil, call.Fail(err, classify)
	}
	return r.turn(), nil
}

// responseParams makes the request, without its input. Nothing is kept at the provider's: what the
// model thought comes back sealed, and goes there again with the next request.
func (m *Model) responseParams(req *model.Request) responses.ResponseNewParams {
	out := responses.ResponseNewParams{Model: m.cfg.Model, MaxOutputTokens: param.NewOpt(int64(req.MaxTokens)), Store: param.NewOpt(false)}
	if req.System != "" {
		out.Instructions = param.NewOpt(req.System)
	}
	if m.knows.Thinks {
		out.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
		out.Reasoning = reasoning(req.Thinking)
	}
	for _, tool := range req.Tools {
		// Not strict: the registry checks the arguments, and its schemas have
		// what the strict form does not take.
		out.Tools = append(out.Tools, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
			Name: tool.GetName(), Description: param.NewOpt(tool.GetDescription()), Parameters: tool.GetInputSchema().AsMap(),
			Strict: param.NewOpt(false),
		}})
	}
	return out
}

// inputItems are a message as the API wants it.
func (m *Model) inputItems(message model.Message) []responses.ResponseInputItemUnionParam {
	if message.Turn != nil {
		return m.items(message.Turn)
	}
	var out []responses.ResponseInputItemUnionParam
	for _, result := range message.Results {
		output := responses.ResponseInputItemParamOfFunctionCallOutput(resultText(result, m.knows.ResultImages))
		if m.knows.ResultImages && len(result.Images) > 0 {
			output = responses.ResponseInputItemParamOfFunctionCallOutput(pictured(result))
		}
		output.OfFunctionCallOutput.CallID = param.NewOpt(wire.CallID(result.CallID))
		out = append(out, output)
	}
	for _, text := range message.Texts() {
		out = append(out, responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser))
	}
	return out
}

// pictured is a result with its images.
func pictured(result model.Result) responses.ResponseFunctionCallOutputItemListParam {
	out := responses.ResponseFunctionCallOutputItemListParam{
		{OfInputText: &responses.ResponseInputTextContentParam{Text: resultText(result, true)}},
	}
	for _, image := range result.Images {
		out = append(out, responses.ResponseFunctionCallOutputItemUnionParam{OfInputImage: &responses.ResponseInputImageContentParam{
			ImageURL: param.NewOpt(wire.DataURL(image)),
		}})
	}
	return out
}

// reasoning says how hard to think; the API has no count of tokens for it.
func reasoning(t persona.Thinking) shared.ReasoningParam {
	const little, much = 2048, 8192
	out := shared.ReasoningParam{Summary: shared.ReasoningSummaryAuto} // people follow what the model thinks
	switch {
	case t.Adaptive:
	case t.Tokens == 0:
		return shared.ReasoningParam{}
	case t.Tokens <= little:
		out.Effort = shared.ReasoningEffortLow
	case t.Tokens <= much:
		out.Effort = shared.ReasoningEffortMedium
	default:
		out.Effort = shared.ReasoningEffortHigh
	}
	return out
}

// items are a turn of the model as the API wants it back. What another provider
// thought stays out.
func (m *Model) items(turn *deckhandv1.Turn) []responses.ResponseInputItemUnionParam {
	var out []responses.ResponseInputItemUnionParam
	for _, block := range turn.GetBlocks() {
		switch kind := block.GetKind().(type) {
		case *deckhandv1.Block_Text_:
			if text := kind.Text.GetText(); text != "" {
				out = append(out, responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleAssistant))
			}
		case *deckhandv1.Block_Reasoning_:
			if r := kind.Reasoning; turn.GetProvider() == m.cfg.Provider.Name && m.knows.Thinks && r.GetRedacted() != "" {
				item := &responses.ResponseReasoningItemParam{
					ID: r.GetSignature(), EncryptedContent: param.NewOpt(r.GetRedacted()), Summary: []responses.ResponseReasoningItemSummaryParam{},
				}
				if r.GetText() != "" {
					item.Summary = append(item.Summary, responses.ResponseReasoningItemSummaryParam{Text: r.GetText()})
				}
				out = append(out, responses.ResponseInputItemUnionParam{OfReasoning: item})
			}
		case *deckhandv1.Block_ToolCall_:
			name, input := wire.Called(kind.ToolCall)
			out = append(out, responses.ResponseInputItemParamOfFunctionCall(string(input), wire.CallID(kind.ToolCall.GetId()), name))
		}
	}
	if !slices.ContainsFunc(out, func(i responses.ResponseInputItemUnionParam) bool { return i.OfReasoning == nil }) {
		// The API takes no thought back without what it led to.
		out = append(out, responses.ResponseInputItemParamOfMessage(wire.NoAnswer, responses.EasyInputMessageRoleAssistant))
	}
	return out
}

// response puts a turn together from the events of its stream.
type response struct {
	*wire.Answer

	// items are finished parts of the response.
	items   []item
	refused bool
	size    int
	end     *responses.Response
}

// item is one part, at its place.
type item struct {
	index  int64
	blocks []*deckhandv1.Block
}

// add takes an event. Pieces are shown as they come; a part counts as it is
// when it is done.
func (r *response) add(event responses.ResponseStreamEventUnion) error {
	switch event.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return r.AppendText(event.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return r.Think(event.Delta)
	case "response.output_item.done":
		blocks := r.blocks(event.Item)
		for _, b := range blocks {
			r.size += len(b.GetText().GetText()) + len(b.GetToolCall().GetArgumentsJson())
		}
		if r.size > wire.MaxAnswer {
			return fmt.Errorf("the answer is longer than %d bytes", wire.MaxAnswer)
		}
		r.items = append(r.items, item{event.OutputIndex, blocks})
	case "response.completed", "response.incomplete":
		r.end = &event.Response
	}
	return nil
}

// blocks are those of a finished part. The id of what the model thought is kept
// as its signature, and the sealed thought as what is redacted.
func (r *response) blocks(part responses.ResponseOutputItemUnion) []*deckhandv1.Block {
	switch part.Type {
	case "message":
		text := ""
		for _, content := range part.Content {
			r.refused = r.refused || content.Type == "refusal"
			text += content.Text + content.Refusal
		}
		if text != "" {
			return []*deckhandv1.Block{model.TextBlock(text)}
		}
	case "reasoning":
		var summary []string
		for _, s := range part.Summary {
			summary = append(summary, s.Text)
		}
		return []*deckhandv1.Block{model.ReasoningBlock(&deckhandv1.Block_Reasoning{
			Text: strings.Join(summary, "\n\n"), Signature: part.ID, Redacted: part.EncryptedContent,
		})}
	case "function_call":
		arguments := part.Arguments.OfString
		if strings.TrimSpace(arguments) == "" {
			arguments = "{}"
		}
		return []*deckhandv1.Block{model.CallBlock(&deckhandv1.Block_ToolCall{Id: part.CallID, Name: part.Name, ArgumentsJson: arguments})}
	}
	return nil
}

func (r *response) turn() *deckhandv1.Turn {
	slices.SortStableFunc(r.items, func(a, b item) int { return cmp.Compare(a.index, b.index) })
	turn := &deckhandv1.Turn{Model: r.end.Model, StopReason: model.StopEndTurn}
	for _, part := range r.items {
		turn.Blocks = append(turn.Blocks, part.blocks...)
	}
	if u := r.end.Usage; r.end.JSON.Usage.Valid() {
		turn.Usage = usage(u.InputTokens, u.InputTokensDetails.CachedTokens, u.OutputTokens)
	}
	switch reason := r.end.IncompleteDetails.Reason; {
	case reason == "content_filter", r.refused:
		turn.StopReason = model.StopRefusal
	case reason != "" || r.end.Status == responses.ResponseStatusIncomplete:
		turn.StopReason = model.StopMaxTokens
	case len(model.Calls(turn)) > 0:
		turn.StopReason = model.StopToolUse
	}
	return turn
}
