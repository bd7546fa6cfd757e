package gemini

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	sdk "google.golang.org/genai"

	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// accumulator puts a turn together from the chunks of its stream.
type accumulator struct {
	wire.Answer

	name    string
	reason  sdk.FinishReason
	message string
	block   *sdk.GenerateContentResponsePromptFeedback
	usage   *deckhandv1.Usage
}

func (a *accumulator) add(chunk *sdk.GenerateContentResponse) error {
	if chunk.ModelVersion != "" {
		a.name = chunk.ModelVersion
	}
	if chunk.PromptFeedback != nil && chunk.PromptFeedback.BlockReason != "" {
		a.block = chunk.PromptFeedback
	}
	if u := chunk.UsageMetadata; u != nil {
		a.usage = &deckhandv1.Usage{
			InputTokens: int64(max(0, u.PromptTokenCount-u.CachedContentTokenCount)), CacheReadTokens: int64(u.CachedContentTokenCount),
			OutputTokens: int64(u.CandidatesTokenCount) + int64(u.ThoughtsTokenCount),
		}
	}
	if len(chunk.Candidates) == 0 {
		return nil
	}
	candidate := chunk.Candidates[0]
	if candidate.Content != nil {
		for _, part := range candidate.Content.Parts {
			if err := a.part(part); err != nil {
				return err
			}
		}
	}
	if candidate.FinishReason != "" {
		a.reason, a.message = candidate.FinishReason, candidate.FinishMessage
	}
	return nil
}

// part adds a part of the response. Text may be spread over several parts; a
// call is in one. A signature gets its own block before the part that it came
// with.
func (a *accumulator) part(p *sdk.Part) error {
	if len(p.ThoughtSignature) > 0 {
		a.Open(&wire.Block{Reasoning: &deckhandv1.Block_Reasoning{Signature: base64.StdEncoding.EncodeToString(p.ThoughtSignature)}})
	}
	switch {
	case p.FunctionCall != nil:
		arguments := []byte("{}")
		if p.FunctionCall.Args != nil {
			var err error
			if arguments, err = json.Marshal(p.FunctionCall.Args); err != nil {
				return fmt.Errorf("write the arguments of %s: %w", p.FunctionCall.Name, err)
			}
			arguments = plain(arguments)
		}
		id := p.FunctionCall.ID
		if id == "" {
			id = ident.New(ours[:len(ours)-1])
		}
		return a.Add(a.Open(&wire.Block{Call: &deckhandv1.Block_ToolCall{Id: id, Name: p.FunctionCall.Name}}), string(arguments))
	case p.Text == "":
		return nil
	case p.Thought:
		return a.Think(p.Text)
	default:
		return a.AppendText(p.Text)
	}
}

// blocked is the error of a prompt that was not answered; nil where it only
// broke off.
func (a *accumulator) blocked() error {
	if a.block == nil {
		return nil
	}
	return &refusal{string(a.block.BlockReason), a.block.BlockReasonMessage}
}

func (a *accumulator) turn() (*deckhandv1.Turn, error) {
	turn := &deckhandv1.Turn{Model: a.name, Usage: a.usage, Blocks: a.Blocks(), StopReason: model.StopRefusal}
	switch a.reason {
	case sdk.FinishReasonStop:
		if turn.StopReason = model.StopEndTurn; a.Calls() {
			turn.StopReason = model.StopToolUse
		}
	case sdk.FinishReasonMaxTokens:
		turn.StopReason = model.StopMaxTokens
	case sdk.FinishReasonMalformedFunctionCall, sdk.FinishReasonUnexpectedToolCall, sdk.FinishReasonTooManyToolCalls, sdk.FinishReasonOther:
		// Only the API saw what the model wrote, so the model must write it
		// again.
		return nil, &unreadable{a.reason, a.message}
	}
	return turn, nil
}
