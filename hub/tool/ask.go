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
	Options []Option
	// Attachments are paths of files in the workspace that a person needs for the reply.
	Attachments []string
	// Default is the reply if no one replies; "" for none.
	Default string
	// Timeout is how long the question waits; 0 for the persona's.
	Timeout time.Duration
}

// Option is a possible reply to a question of kind choice.
type Option struct {
	// Label is the reply itself.
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// Labels returns the possible replies; nil for a question of another kind.
func (q Question) Labels() (labels []string) {
	for _, o := range q.Options {
		labels = append(labels, o.Label)
	}
	return labels
}

// optionsOf reads options, each of which is a label or an object.
func optionsOf(arguments map[string]any) (options []Option) {
	list, ok := arguments["options"].([]any)
	if !ok {
		list, _ = arguments["choices"].([]any) // the name in steps of earlier releases
	}
	for _, one := range list {
		switch o := one.(type) {
		case string:
			options = append(options, Option{Label: o})
		case map[string]any:
			options = append(options, Option{Label: text(o, "label"), Description: text(o, "description")})
		}
	}
	return options
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
	q.Options, q.Attachments = optionsOf(arguments), texts(arguments, "attachments")
	if q.Kind == "" {
		q.Kind = askText
	}
	labels := q.Labels()
	slices.Sort(labels)
	switch {
	case q.Kind == askChoice && len(labels) < 2:
		return q, fault.New(fault.Invalid, "a question of kind choice needs at least two options")
	case q.Kind != askChoice && len(labels) > 0:
		return q, fault.New(fault.Invalid, "options go with kind choice only")
	case len(slices.Compact(labels)) < len(q.Options):
		return q, fault.New(fault.Invalid, "two options have the same label")
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
		if labels := q.Labels(); !slices.Contains(labels, reply) {
			return "", fault.New(fault.Invalid, "%.100q is none of the options", reply).WithFix("answer with one of: %s", strings.Join(labels, ", "))
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
			`Example: {"question": "Which region should the bucket be in?", "kind": "choice", "options": [{"label": "eu-west-1", "description": "Near the users, 8 % dearer"}, "us-east-1"], "default": "eu-west-1", "attachments": ["costs.csv"]}.`,
		Kind: KindCommunication, Expected: 10 * time.Minute,
		Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE,
		Place:    deckhandv1.ToolPlace_TOOL_PLACE_HUB,
		// It is asked once: its step is.
		Idempotent: true, Asks: true, Irreversible: "a person has seen the question", Timeout: 7 * 24 * time.Hour,
		schema: `{"type":"object","additionalProperties":false,"required":["question"],"properties":{
			"question":{"type":"string","minLength":1,"maxLength":4000,"description":"The question, with everything that the person needs to answer it"},
			"kind":{"enum":["text","choice","confirmation"],"description":"text by default; a confirmation is answered with yes or no"},
			"options":{"type":"array","minItems":2,"maxItems":20,"description":"With kind choice: the possible replies, each a label, or a label with what follows from choosing it","items":{"anyOf":[
				{"type":"string","minLength":1,"maxLength":200,"pattern":"^\\S(.*\\S)?$"},
				{"type":"object","additionalProperties":false,"required":["label"],"properties":{
					"label":{"type":"string","minLength":1,"maxLength":200,"pattern":"^\\S(.*\\S)?$","description":"The reply"},
					"description":{"type":"string","maxLength":1000}}}]}},
			"attachments":{"type":"array","maxItems":10,"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":4096},"description":"Paths of files that the person needs for the reply, of at most 4 MiB each and 10 MiB together. They are shown as they are now"},
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
	for _, o := range q.Options {
		out += "\n- " + o.Label
		if o.Description != "" {
			out += ": " + o.Description
		}
	}
	for _, path := range q.Attachments {
		out += "\n(attached: " + path + ")"
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
