package anthropic

import (
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// maxTurnBytes bounds what one answer may hold.
const maxTurnBytes = 8 << 20

// accumulator puts a turn together from the events of its stream. The SDK's
// own refuses arguments that are not JSON; here they are kept as the model
// wrote them, because the model is told what is wrong with them.
type accumulator struct {
	sink    model.Sink
	blocks  []*building
	size    int
	started bool
	stopped bool
	reason  sdk.StopReason
	name    string
	usage   *deckhandv1.Usage
}

type building struct {
	kind      string
	text      strings.Builder
	signature strings.Builder
	redacted  string
	id, name  string
	done      bool
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
		start := event.ContentBlock
		b := &building{kind: start.Type, id: start.ID, name: start.Name, redacted: start.Data}
		a.blocks = append(a.blocks, b)
		b.signature.WriteString(start.Signature)
		return a.grow(b, start.Text+start.Thinking, true)
	case "content_block_delta":
		if event.Index < 0 || event.Index >= int64(len(a.blocks)) || a.blocks[event.Index].done {
			return fmt.Errorf("the answer goes on with block %d, which is not open", event.Index)
		}
		b := a.blocks[event.Index]
		switch event.Delta.Type {
		case "text_delta":
			return a.grow(b, event.Delta.Text, true)
		case "thinking_delta":
			return a.grow(b, event.Delta.Thinking, true)
		case "signature_delta":
			b.signature.WriteString(event.Delta.Signature)
		case "input_json_delta":
			return a.grow(b, event.Delta.PartialJSON, false)
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

func (a *accumulator) grow(b *building, text string, visible bool) error {
	a.size += len(text)
	if a.size > maxTurnBytes {
		return fmt.Errorf("the answer is longer than %d bytes", maxTurnBytes)
	}
	b.text.WriteString(text)
	if visible && text != "" {
		a.sink(model.Delta{Text: text})
	}
	return nil
}

func (a *accumulator) turn() *deckhandv1.Turn {
	turn := &deckhandv1.Turn{Model: a.name, Usage: a.usage}
	for _, b := range a.blocks {
		switch b.kind {
		case "text":
			turn.Blocks = append(turn.Blocks, model.TextBlock(b.text.String()))
		case "thinking", "redacted_thinking":
			turn.Blocks = append(turn.Blocks, model.ReasoningBlock(&deckhandv1.Block_Reasoning{
				Text: b.text.String(), Signature: b.signature.String(), Redacted: b.redacted,
			}))
		case "tool_use":
			arguments := b.text.String()
			if strings.TrimSpace(arguments) == "" {
				// A call without arguments streams none.
				arguments = "{}"
			}
			turn.Blocks = append(turn.Blocks, model.CallBlock(&deckhandv1.Block_ToolCall{
				Id: b.id, Name: b.name, ArgumentsJson: arguments,
			}))
		}
	}
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
