package anthropic

import (
	"encoding/base64"
	"errors"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// params makes the API's request, without the messages, and request all of it.
// Two prompt caching markers are set: behind
// the system prompt, which also covers the tools before it, and behind the last
// message, so that the next turn finds everything up to here in the cache.
func (m *Model) params(req *model.Request) sdk.MessageNewParams {
	out := sdk.MessageNewParams{
		Model:     m.cfg.Model,
		MaxTokens: int64(req.MaxTokens),
	}
	if req.System != "" {
		out.System = []sdk.TextBlockParam{{Text: req.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	switch {
	case foreign(req.Messages):
		// With thinking, the API requires the thoughts that precede the calls
		// whose results it receives, and these calls come from another model.
	case req.Thinking.Adaptive:
		// Summarised, because people follow what the model thinks.
		out.Thinking = sdk.ThinkingConfigParamUnion{
			OfAdaptive: &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized},
		}
	case req.Thinking.Tokens > 0:
		out.Thinking = sdk.ThinkingConfigParamUnion{
			OfEnabled: &sdk.ThinkingConfigEnabledParam{BudgetTokens: int64(req.Thinking.Tokens)},
		}
	}
	for _, tool := range req.Tools {
		out.Tools = append(out.Tools, sdk.ToolUnionParam{OfTool: &sdk.ToolParam{
			Name:        tool.GetName(),
			Description: param.NewOpt(tool.GetDescription()),
			InputSchema: inputSchema(tool),
		}})
	}
	return out
}

func (m *Model) request(req *model.Request) (sdk.MessageNewParams, []byte, error) {
	params := m.params(req)
	if len(req.Messages) == 0 {
		return params, nil, errors.New("the transcript is empty")
	}
	before := len(req.Messages) - 1
	messages, err := m.transcript.Encode(req.Messages[:before], func(message model.Message) ([]byte, error) {
		converted, err := m.convert(message)
		if err != nil {
			return nil, err
		}
		return wire.Items(converted)
	})
	if err != nil {
		return params, nil, err
	}
	last, err := m.convert(req.Messages[before])
	if err != nil {
		return params, nil, err
	}
	if marker := last.Content[len(last.Content)-1].GetCacheControl(); marker != nil {
		*marker = sdk.NewCacheControlEphemeralParam()
	}
	newest, err := wire.Items(last)
	if err != nil {
		return params, nil, err
	}
	body, err := wire.Body(params, "messages", append(messages, newest))
	return params, body, err
}

// foreign reports whether the newest turn is another provider's.
func foreign(messages []model.Message) bool {
	for _, message := range slices.Backward(messages) {
		if message.Turn != nil {
			return message.Turn.GetProvider() != Provider && len(model.Calls(message.Turn)) > 0
		}
	}
	return false
}

func inputSchema(tool *deckhandv1.Tool) sdk.ToolInputSchemaParam {
	out := sdk.ToolInputSchemaParam{ExtraFields: map[string]any{}}
	for key, value := range tool.GetInputSchema().AsMap() {
		switch key {
		case "type":
		case "properties":
			out.Properties = value
		default:
			out.ExtraFields[key] = value
		}
	}
	if out.Properties == nil {
		out.Properties = map[string]any{}
	}
	return out
}

func (m *Model) convert(message model.Message) (sdk.MessageParam, error) {
	var blocks []sdk.ContentBlockParamUnion
	if message.Turn != nil {
		for _, block := range message.Turn.GetBlocks() {
			if converted, ok := convertBlock(message.Turn, block); ok {
				blocks = append(blocks, converted)
			}
		}
		if len(blocks) == 0 {
			// The API refuses an empty turn; this one said nothing.
			blocks = append(blocks, sdk.NewTextBlock(wire.NoAnswer))
		}
		return sdk.NewAssistantMessage(blocks...), nil
	}
	for _, result := range message.Results {
		block := sdk.NewToolResultBlock(wire.CallID(result.CallID), wire.ResultText(result, m.knows.ResultImages), result.IsError)
		if m.knows.ResultImages {
			for _, image := range result.Images {
				picture := sdk.NewImageBlockBase64(image.GetMediaType(), base64.StdEncoding.EncodeToString(image.GetData()))
				block.OfToolResult.Content = append(block.OfToolResult.Content, sdk.ToolResultBlockParamContentUnion{OfImage: picture.OfImage})
			}
		}
		blocks = append(blocks, block)
	}
	if message.Text != "" {
		blocks = append(blocks, sdk.NewTextBlock(message.Text))
	}
	if len(blocks) == 0 {
		return sdk.MessageParam{}, errors.New("a message of the transcript has neither results nor text")
	}
	return sdk.NewUserMessage(blocks...), nil
}

// convertBlock returns a block as the API wants it back, or false for one that
// it must not see again.
func convertBlock(turn *deckhandv1.Turn, block *deckhandv1.Block) (sdk.ContentBlockParamUnion, bool) {
	switch kind := block.GetKind().(type) {
	case *deckhandv1.Block_Text_:
		// The API refuses empty text.
		return sdk.NewTextBlock(kind.Text.GetText()), kind.Text.GetText() != ""
	case *deckhandv1.Block_Reasoning_:
		// Signatures are this provider's own: what another one thought stays out.
		switch r := kind.Reasoning; {
		case turn.GetProvider() != Provider:
			return sdk.ContentBlockParamUnion{}, false
		case r.GetRedacted() != "":
			return sdk.NewRedactedThinkingBlock(r.GetRedacted()), true
		default:
			return sdk.NewThinkingBlock(r.GetSignature(), r.GetText()), r.GetSignature() != ""
		}
	case *deckhandv1.Block_ToolCall_:
		return sdk.NewToolUseBlock(wire.CallID(kind.ToolCall.GetId()), wire.CallInput(kind.ToolCall.GetArgumentsJson()), kind.ToolCall.GetName()), true
	default:
		return sdk.ContentBlockParamUnion{}, false
	}
}
