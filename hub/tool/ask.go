package tool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Answer is a person's reply to a question.
type Answer struct {
	Text string
	By   string
	// TimedOut reports that no reply came in time.
	TimedOut bool
}

// The kinds of a question.
const (
	askText         = "text"
	askChoice       = "choice"
	askConfirmation = "confirmation"
)

// blockedTimeout is how long a run that cannot go on waits for a person.
const blockedTimeout = 7 * 24 * time.Hour

// Question is what a call of a tool that asks wants to know.
type Question struct {
	Text string
	// Kind is text, choice or confirmation.
	Kind    string
	Choices []string
	// Default is the reply if no one replies; "" for none.
	Default string
	// Timeout is how long the question waits; 0 for the persona's.
	Timeout time.Duration
}

// QuestionOf reads the question in a call's arguments.
func QuestionOf(arguments map[string]any) (Question, error) {
	q := Question{
		Text: text(arguments, "question"), Kind: text(arguments, "kind"), Default: text(arguments, "default"),
		Timeout: time.Duration(number(arguments, "timeout_seconds")) * time.Second,
	}
	if blocked(arguments) {
		// The run has nothing else to do, and costs nothing while it waits.
		q.Text, q.Timeout = cmp.Or(q.Text, text(arguments, "summary")), blockedTimeout
	}
	choices, _ := arguments["choices"].([]any)
	for _, c := range choices {
		if s, ok := c.(string); ok {
			q.Choices = append(q.Choices, s)
		}
	}
	if q.Kind == "" {
		q.Kind = askText
	}
	switch {
	case q.Kind == askChoice && len(q.Choices) < 2:
		return q, fault.New(fault.Invalid, "a question of kind choice needs at least two choices")
	case q.Kind != askChoice && len(q.Choices) > 0:
		return q, fault.New(fault.Invalid, "choices go with kind choice only")
	}
	if q.Default == "" {
		return q, nil
	}
	fits, err := q.Check(q.Default)
	if err != nil {
		return q, fault.New(fault.Invalid, "the default is no answer to the question: %v", err)
	}
	q.Default = fits
	return q, nil
}

// Check returns a reply as the agent is to see it, or why it is invalid.
func (q Question) Check(reply string) (string, error) {
	reply = strings.TrimSpace(reply)
	switch q.Kind {
	case askChoice:
		if !slices.Contains(q.Choices, reply) {
			return "", fault.New(fault.Invalid, "%.100q is none of the choices", reply).WithFix("answer with one of: %s", strings.Join(q.Choices, ", "))
		}
	case askConfirmation:
		switch strings.ToLower(reply) {
		case "yes", "y":
			return "yes", nil
		case "no", "n":
			return "no", nil
		}
		return "", fault.New(fault.Invalid, "%.100q is neither yes nor no", reply).WithFix("answer with yes or no")
	}
	if reply == "" {
		return "", fault.New(fault.Invalid, "the answer is empty").WithFix("write something")
	}
	return reply, nil
}

func askTools() []*Tool {
	return []*Tool{{
		Name: toolname.RequestInput,
		Description: "Ask a person a question and wait for the reply. Ask only what you cannot find out yourself, and give a default if there is a safe one: " +
			"a reply may take long, or never come. If you cannot do anything without the reply, end with complete_task and status blocked instead. " +
			`Example: {"question": "Which region should the bucket be in?", "kind": "choice", "choices": ["eu-west-1", "us-east-1"], "default": "eu-west-1"}.`,
		Kind: KindCommunication, Expected: 10 * time.Minute,
		Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE,
		Place:    deckhandv1.ToolPlace_TOOL_PLACE_HUB,
		// It is asked once: its step is.
		Idempotent: true, Asks: true, Irreversible: "a person has seen the question", Timeout: 7 * 24 * time.Hour,
		schema: `{"type":"object","additionalProperties":false,"required":["question"],"properties":{
			"question":{"type":"string","minLength":1,"maxLength":4000,"description":"The question, with everything that the person needs to answer it"},
			"kind":{"enum":["text","choice","confirmation"],"description":"text by default; a confirmation is answered with yes or no"},
			"choices":{"type":"array","minItems":2,"maxItems":20,"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":200},"description":"With kind choice: the possible replies"},
			"default":{"type":"string","minLength":1,"maxLength":4000,"description":"The reply to assume if nobody replies in time"},
			"timeout_seconds":{"type":"integer","minimum":1,"maximum":604800,"description":"How long to wait"}}}`,
		run:     runAsk,
		preview: previewAsk,
	}}
}

func previewAsk(arguments map[string]any) string {
	q, err := QuestionOf(arguments)
	if err != nil {
		return text(arguments, "question")
	}
	out := q.Text
	for _, c := range q.Choices {
		out += "\n- " + c
	}
	if q.Default != "" {
		out += "\n(without an answer: " + q.Default + ")"
	}
	return out
}

// runAsk passes the answer on.
func runAsk(_ context.Context, c Call) (Result, error) {
	if !c.Answer.TimedOut {
		return Result{
			Observation: c.Answer.By + " answered: " + c.Answer.Text,
			Outcome:     map[string]any{"answer": c.Answer.Text, "answered_by": c.Answer.By},
		}, nil
	}
	q, err := QuestionOf(c.Arguments)
	if err != nil {
		return Result{}, err
	}
	if q.Default == "" {
		return Result{
			Failed: true, Code: fault.InputTimeout,
			Observation: fmt.Sprintf("error %s: nobody answered in time. Go on without the answer, or end the task and say what you need", fault.InputTimeout),
		}, nil
	}
	return Result{
		Observation: "nobody answered in time; your default holds: " + q.Default,
		Outcome:     map[string]any{"answer": q.Default, "answered_by": "", "timed_out": true},
	}, nil
}
