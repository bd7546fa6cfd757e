// Package script implements a scripted model: it replays a YAML file of turns
// through the same loop as a real model, for demos, tests and evaluation
// without a provider. Its output is labelled as scripted everywhere. Its usage
// is what the script states, at no cost.
//
// The next turn is a function of the transcript alone: the model walks the
// script from its beginning along the turns and results so far. A task that is
// resumed on another worker therefore continues where it stopped.
//
// The format is described in docs/scripted-model.md.
package script

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// Provider is the name of this model family.
const Provider = "script"

// Script is a parsed script. It is a model.Model.
type Script struct {
	file  string
	turns []turn
	// byName finds the turns that others jump to.
	byName map[string]int
	// tools are the names of all tools that the script calls.
	tools []string
}

type turn struct {
	line      int
	name      string
	when      *regexp.Regexp
	reasoning string
	text      string
	calls     []call
	captures  []capture
	usage     *deckhandv1.Usage
	stop      string
	next      string
	delay     time.Duration
}

type call struct {
	line      int
	tool      string
	arguments map[string]any
	// raw replaces arguments, to simulate a model that writes invalid JSON.
	raw string
}

type capture struct {
	line     int
	name     string
	pattern  *regexp.Regexp
	fallback *string
}

// Tools returns the names of the tools that the script calls.
func (s *Script) Tools() []string { return s.tools }

// Generate implements model.Model.
func (s *Script) Generate(ctx context.Context, req *model.Request, sink model.Sink) (*deckhandv1.Turn, error) {
	messages := req.Messages
	if len(req.Before) > 0 {
		messages = slices.Concat(req.Before, req.Messages[1:])
	}
	next, captures, err := s.walk(messages)
	if err != nil {
		return nil, &model.Error{Kind: model.Invalid, Provider: Provider, Message: err.Error(), Err: err}
	}
	out, err := s.say(next, captures, len(messages))
	if err != nil {
		return nil, &model.Error{Kind: model.Invalid, Provider: Provider, Message: err.Error(), Err: err}
	}
	if err := stream(ctx, out, next.delay, sink); err != nil {
		return nil, err
	}
	return out, nil
}

// walk returns the turn that comes after the transcript, and what was captured
// on the way.
func (s *Script) walk(messages []model.Message) (*turn, map[string]string, error) {
	captures := map[string]string{}
	at := 0
	var current *turn
	for i, message := range messages {
		if message.Turn != nil {
			continue
		}
		said := resultText(message)
		if current != nil {
			if err := s.capture(current, said, captures); err != nil {
				return nil, nil, err
			}
		}
		index, err := s.choose(at, said, current)
		if err != nil {
			return nil, nil, err
		}
		current = &s.turns[index]
		at = index + 1
		if current.next != "" {
			at = s.byName[current.next]
		}
		if i == len(messages)-1 {
			return current, captures, nil
		}
	}
	return nil, nil, fmt.Errorf("%s: the transcript does not end with a message to the model", s.file)
}

// choose returns the first turn from at on whose pattern matches.
func (s *Script) choose(at int, said string, before *turn) (int, error) {
	for i := at; i < len(s.turns); i++ {
		if s.turns[i].when == nil || s.turns[i].when.MatchString(said) {
			return i, nil
		}
	}
	if before == nil {
		return 0, fmt.Errorf("%s: no turn's `when` matches the opening message: add a turn without `when`", s.file)
	}
	return 0, fmt.Errorf("%s:%d: the script has no turn for the results of this one: add one, or let it call complete_task", s.file, before.line)
}

func (s *Script) capture(t *turn, said string, captures map[string]string) error {
	for _, c := range t.captures {
		switch match := c.pattern.FindStringSubmatch(said); {
		case match != nil:
			captures[c.name] = match[1]
		case c.fallback != nil:
			captures[c.name] = *c.fallback
		default:
			return fmt.Errorf("%s:%d: capture %s: %s matches nothing in the result: correct the pattern or give a default",
				s.file, c.line, c.name, c.pattern)
		}
	}
	return nil
}

// resultText is what patterns see: the results one after the other, then the
// text. The opening message is text alone.
func resultText(message model.Message) string {
	parts := make([]string, 0, len(message.Results)+1)
	for _, result := range message.Results {
		parts = append(parts, result.Text)
	}
	if message.Text != "" {
		parts = append(parts, message.Text)
	}
	return strings.Join(parts, "\n")
}

// say makes the model's turn of a scripted one. position makes call ids that
// differ over the transcript.
func (s *Script) say(t *turn, captures map[string]string, position int) (*deckhandv1.Turn, error) {
	out := &deckhandv1.Turn{Provider: Provider, Model: "scripted", StopReason: model.StopEndTurn, Usage: t.usage}
	fill := func(text string) (string, error) { return fill(text, captures, s.file, t.line) }
	if t.reasoning != "" {
		text, err := fill(t.reasoning)
		if err != nil {
			return nil, err
		}
		out.Blocks = append(out.Blocks, model.ReasoningBlock(&deckhandv1.Block_Reasoning{Text: text}))
	}
	if t.text != "" {
		text, err := fill(t.text)
		if err != nil {
			return nil, err
		}
		out.Blocks = append(out.Blocks, model.TextBlock(text))
	}
	for i, c := range t.calls {
		arguments := c.raw
		if arguments == "" {
			filled, err := fillValue(c.arguments, captures, s.file, c.line)
			if err != nil {
				return nil, err
			}
			data, err := json.Marshal(filled)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: arguments: %w", s.file, c.line, err)
			}
			arguments = string(data)
		}
		out.Blocks = append(out.Blocks, model.CallBlock(&deckhandv1.Block_ToolCall{
			Id: fmt.Sprintf("call_%d_%d", position, i), Name: c.tool, ArgumentsJson: arguments,
		}))
		out.StopReason = model.StopToolUse
	}
	if t.stop != "" {
		out.StopReason = t.stop
	}
	return out, nil
}

// stream sends the visible text in pieces, spread over delay.
func stream(ctx context.Context, out *deckhandv1.Turn, delay time.Duration, sink model.Sink) error {
	var pieces []string
	for _, block := range out.GetBlocks() {
		pieces = append(pieces, cut(block.GetReasoning().GetText())...)
		pieces = append(pieces, cut(block.GetText().GetText())...)
	}
	pause := delay / time.Duration(len(pieces)+1)
	for i := 0; i <= len(pieces); i++ {
		if pause > 0 {
			if err := backoff.Wait(ctx, pause); err != nil {
				return err
			}
		}
		if i < len(pieces) && sink != nil {
			sink(model.Delta{Text: pieces[i]})
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func cut(text string) []string {
	const size = 48
	var out []string
	for len(text) > size {
		n := size
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		out = append(out, text[:n])
		text = text[n:]
	}
	if text != "" {
		out = append(out, text)
	}
	return out
}
