package anthropic

import (
	"encoding/base64"
	"errors"
	"slices"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// params makes the API's request, without the messages, and request all of it. For the
// same request it makes the same bytes, or the provider's cache would not find them.
func (m *Model) params(req *model.Request) sdk.MessageNewParams {
	out := sdk.MessageNewParams{
		Model:     m.cfg.Model,
		MaxTokens: int64(req.MaxTokens),
	}
	if req.System != "" {
		out.System = []sdk.TextBlockParam{{Text: req.System, CacheControl: mark(req)}}
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
			InputSchema: param.Override[sdk.ToolInputSchemaParam](wire.Schema(tool)),
		}})
	}
	return out
}

// lookBack is the number of content blocks before a mark in which the API finds an earlier
// one; it looks at 20.
const lookBack = 18

// mark is a cache breakpoint. A request has at most four: behind the system prompt, which
// also covers the tools before it; behind the newest message, so that the next request
// finds everything up to there; behind the message where the last request had that one,
// so that this request finds what the last one wrote; and between these two if more than
// lookBack blocks lie between them.
func mark(req *model.Request) sdk.CacheControlEphemeralParam {
	out := sdk.NewCacheControlEphemeralParam()
	if req.CacheTTL > 5*time.Minute {
		out.TTL = sdk.CacheControlEphemeralTTLTTL1h
	}
	return out
}

// marked is the number of messages at the end that can have a mark: two to the model, and
// the turn between them.
const marked = 3

func (m *Model) request(req *model.Request) (sdk.MessageNewParams, []byte, error) {
	params := m.params(req)
	if len(req.Messages) == 0 {
		return params, nil, errors.New("the transcript is empty")
	}
	before := max(0, len(req.Messages)-marked)
	items, err := m.transcript.Encode(req.Messages[:before], func(message model.Message) ([]byte, error) {
		converted, err := m.convert(message)
		if err != nil {
			return nil, err
		}
		return wire.Items(converted)
	})
	if err != nil {
		return params, nil, err
	}
	newest := make([]sdk.MessageParam, 0, marked)
	for _, message := range req.Messages[before:] {
		converted, err := m.convert(message)
		if err != nil {
			return params, nil, err
		}
		newest = append(newest, converted)
	}
	markNewest(newest, mark(req))
	for _, message := range newest {
		item, err := wire.Items(message)
		if err != nil {
			return params, nil, err
		}
		items = append(items, item)
	}
	body, err := wire.Body(params, "messages", items)
	return params, body, err
}

// markNewest sets the marks on the newest messages of a request.
func markNewest(newest []sdk.MessageParam, as sdk.CacheControlEphemeralParam) {
	// places are what can be marked: thoughts cannot.
	var places []*sdk.CacheControlEphemeralParam
	last := 0 // the place at the end of the last request
	for i, message := range newest {
		for _, block := range message.Content {
			if place := block.GetCacheControl(); place != nil {
				places = append(places, place)
			}
		}
		if i == len(newest)-marked {
			last = len(places) - 1
			*places[last] = as
		}
	}
	end := len(places) - 1
	*places[end] = as
	if end-last > lookBack {
		*places[end-lookBack] = as
	}
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

func (m *Model) convert(message model.Message) (sdk.MessageParam, error) {
	var blocks []sdk.ContentBlockParamUnion
	if message.Turn != nil {
		for _, block := range message.Turn.GetBlocks() {
			if converted, ok := convertBlock(message.Turn, block); ok {
				blocks = append(blocks, converted)
			}
		}
		if !slices.ContainsFunc(blocks, func(b sdk.ContentBlockParamUnion) bool { return b.OfText != nil || b.OfToolUse != nil }) {
			// The API refuses a turn without an answer; this one only thought, or said nothing.
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
	for _, text := range message.Texts() {
		blocks = append(blocks, sdk.NewTextBlock(text))
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
		name, input := wire.Called(kind.ToolCall)
		return sdk.NewToolUseBlock(wire.CallID(kind.ToolCall.GetId()), input, name), true
	default:
		return sdk.ContentBlockParamUnion{}, false
	}
}
