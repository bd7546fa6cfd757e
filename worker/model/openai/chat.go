package openai

import (
	"encoding/json"
	"slices"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/respjson"
	"github.com/openai/openai-go/v3/shared"

	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// complete asks by chat completions.
func (m *Model) complete(call *wire.Call, req *model.Request, answer *wire.Answer) (*deckhandv1.Turn, error) {
	params := m.chatParams(req)
	messages, err := m.transcript.Encode(req.Messages, func(message model.Message) ([]byte, error) {
		return wire.Items(m.chatMessages(message)...)
	})
	if err == nil && req.System != "" {
		var system []byte
		system, err = wire.Items(sdk.SystemMessage(req.System))
		messages = slices.Insert(messages, 0, system)
	}
	var body []byte
	if err == nil {
		body, err = wire.Body(params, "messages", messages)
	}
	if err != nil {
		return nil, m.broken(model.Invalid, err)
	}
	stream := m.chat.NewStreaming(call.Context(), params, option.WithRequestBody("application/json", body))
	defer func() { _ = stream.Close() }()
	c := completion{Answer: answer, open: map[int64]*wire.Block{}}
	for stream.Next() {
		if err := c.add(stream.Current()); err != nil {
			return nil, m.broken(model.Unavailable, err)
		}
	}
	if err := stream.Err(); err != nil || c.reason == "" {
		return nil, call.Fail(err, classify)
	}
	return &deckhandv1.Turn{Model: c.model, Usage: c.usage, Blocks: c.Blocks(), StopReason: c.stop()}, nil
}

// chatParams makes the request, without its messages. What a model thought stays with it: the API
// takes no reasoning back. The cap is max_tokens, which all who are not OpenAI
// know.
func (m *Model) chatParams(req *model.Request) sdk.ChatCompletionNewParams {
	out := sdk.ChatCompletionNewParams{Model: m.cfg.Model, MaxTokens: param.NewOpt(int64(req.MaxTokens))}
	for _, tool := range req.Tools {
		out.Tools = append(out.Tools, sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: tool.GetName(), Description: param.NewOpt(tool.GetDescription()), Parameters: tool.GetInputSchema().AsMap(),
		}))
	}
	return out
}

// chatMessages are a message as the API wants it.
func (m *Model) chatMessages(message model.Message) []sdk.ChatCompletionMessageParamUnion {
	if message.Turn != nil {
		return []sdk.ChatCompletionMessageParamUnion{m.said(message.Turn)}
	}
	var out []sdk.ChatCompletionMessageParamUnion
	var pictures []sdk.ChatCompletionContentPartUnionParam
	for _, result := range message.Results {
		out = append(out, sdk.ToolMessage(resultText(result, m.knows.Images), m.callID(result.CallID)))
		if m.knows.Images && len(result.Images) > 0 {
			pictures = append(pictures, sdk.TextContentPart(wire.ShownWith(result)))
			for _, image := range result.Images {
				pictures = append(pictures, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: wire.DataURL(image)}))
			}
		}
	}
	if len(pictures) > 0 {
		out = append(out, sdk.UserMessage(pictures))
	}
	for _, text := range message.Texts() {
		out = append(out, sdk.UserMessage(text))
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
func (m *Model) said(turn *deckhandv1.Turn) sdk.ChatCompletionMessageParamUnion {
	out := &sdk.ChatCompletionAssistantMessageParam{}
	text := ""
	for _, block := range turn.GetBlocks() {
		switch kind := block.GetKind().(type) {
		case *deckhandv1.Block_Text_:
			text += kind.Text.GetText()
		case *deckhandv1.Block_ToolCall_:
			name, input := wire.Called(kind.ToolCall)
			out.ToolCalls = append(out.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID: m.callID(kind.ToolCall.GetId()),
					Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
						Name: name, Arguments: string(input),
					},
				},
			})
		}
	}
	if text == "" && len(out.ToolCalls) == 0 {
		text = wire.NoAnswer
	}
	if text != "" {
		out.Content.OfString = param.NewOpt(text)
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: out}
}

// callID is the id of a call as the server takes it: another model, whose place
// this one took, may have given it.
func (m *Model) callID(id string) string {
	if m.cfg.Provider.ShortCallIDs {
		return wire.ShortCallID(id)
	}
	return wire.CallID(id)
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

func (c *completion) add(chunk sdk.ChatCompletionChunk) error {
	if chunk.Model != "" {
		c.model = chunk.Model
	}
	if chunk.JSON.Usage.Valid() {
		c.usage = usage(chunk.Usage.PromptTokens, chunk.Usage.PromptTokensDetails.CachedTokens, chunk.Usage.CompletionTokens)
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		delta := choice.Delta
		// Those who show what the model thinks have a field of their own for it.
		if thought := extra(delta.JSON.ExtraFields, "reasoning_content", "reasoning"); thought != "" {
			if err := c.Think(thought); err != nil {
				return err
			}
		}
		c.refused = c.refused || delta.Refusal != ""
		if text := delta.Content + delta.Refusal; text != "" {
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
			c.reason = choice.FinishReason
		}
	}
	return nil
}

// call takes a piece of a tool call. Some servers send whole calls and give all
// of them the same index: another id is another call.
func (c *completion) call(piece sdk.ChatCompletionChunkChoiceDeltaToolCall) error {
	b := c.open[piece.Index]
	if b == nil || piece.ID != "" && piece.ID != b.Call.GetId() {
		id := piece.ID
		if id == "" {
			id = ident.New("call")
		}
		b = c.Open(&wire.Block{Call: &deckhandv1.Block_ToolCall{Id: id}})
		c.open[piece.Index] = b
	}
	if b.Call.GetName() == "" {
		b.Call.Name = piece.Function.Name
	}
	return c.Add(b, piece.Function.Arguments)
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

// extra reads the first of some fields that the SDK does not know.
func extra(fields map[string]respjson.Field, names ...string) string {
	for _, name := range names {
		var s string
		if field, ok := fields[name]; ok && json.Unmarshal([]byte(field.Raw()), &s) == nil && s != "" {
			return s
		}
	}
	return ""
}
