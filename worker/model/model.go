// Package model defines the interface between the agent loop and a language
// model of any provider. A Model takes a provider-neutral transcript, streams
// pieces of the response, and returns the finished turn with its usage, or a
// typed error.
//
// A Model holds no conversation: everything it needs is in the Request, so that
// any worker can continue where another one stopped. A turn that did not finish
// is an error and leaves nothing behind; a retry starts it from the beginning.
package model

import (
	"cmp"
	"context"
	"time"

	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Model generates one turn at a time. Implementations are safe for use by many
// goroutines.
type Model interface {
	// Generate asks for the next turn. Pieces go to sink as they arrive, from
	// one goroutine; sink may be nil. The turn that is answered has its blocks,
	// stop reason, provider, model and usage set; the caller numbers it. An
	// error that the model answered with is an *Error.
	Generate(ctx context.Context, req *Request, sink Sink) (*deckhandv1.Turn, error)
}

// Request is all that a model needs for its next turn.
type Request struct {
	// System is the system prompt. It stays the same over a task's turns.
	System string
	// Messages alternate: to the model, its turn, to the model, …; the first
	// and the last are to the model.
	Messages []Message
	// Before contains the original messages that the first message summarises.
	// They are not sent to a provider; a script finds its position by them.
	Before []Message
	// Tools that the model may call. They stay the same over a task's turns.
	Tools []*deckhandv1.Tool
	// MaxTokens caps the output of this turn, thinking included.
	MaxTokens int
	// CacheTTL is for how long the provider is asked to cache the prompt; 0 for its
	// default.
	CacheTTL time.Duration
	Thinking persona.Thinking
	// Speed is how the user wants the run to work: fast, careful, or as it is. It changes
	// Thinking for each model as its provider takes it.
	Speed string
	// FailedOver, if set, is called when another model continues with the
	// request.
	FailedOver func(Failover)
}

// Failover describes that another model took over from one that failed.
type Failover struct {
	FromProvider, FromModel string
	ToProvider, ToModel     string
	// Reason is what the first one answered, or why it was not asked.
	Reason string
}

// Message is one entry of the transcript: a turn of the model, or what is said
// to it.
type Message struct {
	// Turn is what the model said; nil for what is said to it.
	Turn *deckhandv1.Turn
	// Results contains the result of every call of the previous turn, in the
	// order of the calls.
	Results []Result
	// Text follows the results.
	Text string
	// Environment follows the text, as a part of its own: what an attempt that begins
	// here finds. Text stays as earlier attempts sent it.
	Environment string
}

// Texts returns what is said to the model besides results, part by part.
func (m Message) Texts() []string {
	var out []string
	for _, text := range [...]string{m.Text, m.Environment} {
		if text != "" {
			out = append(out, text)
		}
	}
	return out
}

// Result is what came of one tool call.
type Result struct {
	CallID string
	Tool   string
	// Via is the tool through which the model called Tool; empty for none.
	Via     string
	Text    string
	IsError bool
	// Images belong to it. A model without vision is told that there were some.
	Images []*deckhandv1.Image
}

// Calls returns the name of the tool that the model called itself.
func (r Result) Calls() string { return cmp.Or(r.Via, r.Tool) }

// Delta is a piece of a streamed response.
type Delta struct {
	// Restart reports that everything streamed of this turn so far is void: the
	// response broke off and begins again. Text is empty then.
	Restart bool
	// Text is visible text, whether reasoning or reply.
	Text string
}

// Sink receives the pieces of a response. It must not block for long.
type Sink func(Delta)

// Stop reasons of a turn, in any provider's case.
const (
	StopEndTurn   = "end_turn"
	StopToolUse   = "tool_use"
	StopMaxTokens = "max_tokens"
	StopRefusal   = "refusal"
)

// Calls returns the tool calls of a turn, in order.
func Calls(turn *deckhandv1.Turn) []*deckhandv1.Block_ToolCall {
	var out []*deckhandv1.Block_ToolCall
	for _, block := range turn.GetBlocks() {
		if call := block.GetToolCall(); call != nil {
			out = append(out, call)
		}
	}
	return out
}

// TextBlock makes a block of text.
func TextBlock(text string) *deckhandv1.Block {
	return &deckhandv1.Block{Kind: &deckhandv1.Block_Text_{Text: &deckhandv1.Block_Text{Text: text}}}
}

// ReasoningBlock makes a block of reasoning.
func ReasoningBlock(r *deckhandv1.Block_Reasoning) *deckhandv1.Block {
	return &deckhandv1.Block{Kind: &deckhandv1.Block_Reasoning_{Reasoning: r}}
}

// CallBlock makes a block that calls a tool.
func CallBlock(call *deckhandv1.Block_ToolCall) *deckhandv1.Block {
	return &deckhandv1.Block{Kind: &deckhandv1.Block_ToolCall_{ToolCall: call}}
}
