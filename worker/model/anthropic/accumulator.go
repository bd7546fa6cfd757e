package anthropic

import (
	"fmt"

	sdk "github.com/anthropics/anthropic-sdk-go"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// accumulator assembles a turn from the events of its stream. The SDK's own
// accumulator rejects arguments that are not JSON; this one keeps them as the
// model wrote them, because the model is told what is wrong with them.
type accumulator struct {
	wire.Answer

	blocks  []*building
	started bool
	stopped bool
	reason  sdk.StopReason
	name    string
	usage   *deckhandv1.Usage
}

// building is a block of the API's; block is nil for a kind that is not kept.
type building struct {
	block *wire.Block
	done  bool
}

// open begins a block as the API describes it.
func (a *accumulator) open(start sdk.ContentBlockStartEventContentBlockUnion) error {
	b := &building{}
	a.blocks = append(a.blocks, b)
	switch start.Type {
	case "text":
		b.block = a.Open(&wire.Block{})
	case "thinking", "redacted_thinking":
		b.block = a.Open(&wire.Block{Reasoning: &deckhandv1.Block_Reasoning{Signature: start.Signature, Redacted: start.Data}})
	case "tool_use":
		b.block = a.Open(&wire.Block{Call: &deckhandv1.Block_ToolCall{Id: start.ID, Name: start.Name}})
	default:
		return nil
	}
	return a.Add(b.block, start.Text+start.Thinking)
}

func (a *accumulator) add(event sdk.MessageStreamEventUnion) error {
	if !a.started && event.Type != "message_start" {
		return fmt.Errorf("the answer begins with %s in place of message_start", event.Type)
	}
	switch event.Type {
	case "message_start":
		a.started = true
		a.name = event.Message.Model
		u := event.Message.Usage
		a.usage = &deckhandv1.Usage{
			InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
			CacheReadTokens: u.CacheReadInputTokens, CacheWriteTokens: u.CacheCreationInputTokens,
		}
	case "content_block_start":
		if event.Index != int64(len(a.blocks)) {
			return fmt.Errorf("the answer's block %d came when %d was due", event.Index, len(a.blocks))
		}
		return a.open(event.ContentBlock)
	case "content_block_delta":
		if event.Index < 0 || event.Index >= int64(len(a.blocks)) || a.blocks[event.Index].done {
			return fmt.Errorf("the response continues block %d, which is not open", event.Index)
		}
		b := a.blocks[event.Index].block
		switch {
		case b == nil:
		case event.Delta.Type == "signature_delta" && b.Reasoning != nil:
			b.Reasoning.Signature += event.Delta.Signature
		default:
			return a.Add(b, event.Delta.Text+event.Delta.Thinking+event.Delta.PartialJSON)
		}
	case "content_block_stop":
		if event.Index >= 0 && event.Index < int64(len(a.blocks)) {
			a.blocks[event.Index].done = true
		}
	case "message_delta":
		a.reason = event.Delta.StopReason
		a.addUsage(event.Usage)
	case "message_stop":
		for i, b := range a.blocks {
			if !b.done {
				return fmt.Errorf("the answer ended in the middle of its block %d", i)
			}
		}
		a.stopped = true
	}
	return nil
}

// addUsage takes the closing figures. They are cumulative; one that the event
// leaves out keeps its opening value.
func (a *accumulator) addUsage(u sdk.MessageDeltaUsage) {
	for _, figure := range []struct {
		present bool
		value   int64
		into    *int64
	}{
		{u.JSON.InputTokens.Valid(), u.InputTokens, &a.usage.InputTokens},
		{u.JSON.OutputTokens.Valid(), u.OutputTokens, &a.usage.OutputTokens},
		{u.JSON.CacheReadInputTokens.Valid(), u.CacheReadInputTokens, &a.usage.CacheReadTokens},
		{u.JSON.CacheCreationInputTokens.Valid(), u.CacheCreationInputTokens, &a.usage.CacheWriteTokens},
	} {
		if figure.present {
			*figure.into = figure.value
		}
	}
}

func (a *accumulator) turn() *deckhandv1.Turn {
	turn := &deckhandv1.Turn{Model: a.name, Usage: a.usage, Blocks: a.Blocks()}
	switch a.reason {
	case sdk.StopReasonToolUse:
		turn.StopReason = model.StopToolUse
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		turn.StopReason = model.StopMaxTokens
	case sdk.StopReasonRefusal:
		turn.StopReason = model.StopRefusal
	default:
		turn.StopReason = model.StopEndTurn
	}
	return turn
}
