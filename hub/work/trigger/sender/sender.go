// Package sender declares the systems that send webhooks: one file and one literal
// for each, registered in the list below. The hub takes what it knows from here, and
// scripts/generate the lists of the console, the command line and docs/triggers.md.
//
// Named returns a Sender by its name; All returns every one. The literals
// do not change at run time. A name that is not registered is reported as unknown:
// the caller refuses it with an error that lists Names.
package sender

import (
	"net/http"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/work/trigger/verify"
)

// Sender is a system that sends webhooks.
type Sender struct {
	// Name is what triggers and personas call it; Label what people read.
	Name, Label string
	// How describes in docs/triggers.md how its requests are verified.
	How string
	// Verify is the rule that verifies its requests. As names the sender whose rule it
	// uses instead, if it has none.
	Verify verify.Rule
	As     string
	// ID and Event are the headers that have its id of a delivery and the name of the
	// event. Key is a CEL expression that returns the id from the body. Each is empty if
	// the sender has none.
	ID, Event, Key string
	// Challenge returns the hub's response to a request that checks the URL; nil if the
	// sender does not check it.
	Challenge func(body []byte) (string, bool)
	// Filter, Mapping and Goal are the defaults of its triggers. Without a goal there are
	// no defaults.
	Filter  string
	Mapping map[string]string
	Goal    string
	// Example is an example of its payloads.
	Example Example
}

// Example is what a sender sends, and what the prompt made from it contains.
type Example struct {
	Event, Body string
	Prompt      []string
}

// registered has every sender, in the order in which people are shown them.
var registered = []Sender{github, gitlab, slack, alertmanager, anyJSON, standard, jira, stripe, token, signed}

// All returns every sender.
func All() []Sender { return slices.Clone(registered) }

// Named returns the sender of a name, and whether there is one.
func Named(name string) (Sender, bool) {
	i := slices.IndexFunc(registered, func(s Sender) bool { return s.Name == name })
	if i < 0 {
		return Sender{}, false
	}
	return registered[i], true
}

// HasPreset reports whether the sender comes with a goal.
func (s Sender) HasPreset() bool { return s.Goal != "" }

// HasProof reports whether a webhook can be verified by the sender's name.
func (s Sender) HasProof() bool { return s.As == "" }

// Proof returns the name by which its webhooks are verified.
func (s Sender) Proof() string {
	if s.As != "" {
		return s.As
	}
	return s.Name
}

// EventOf returns what the sender calls the event.
func (s Sender) EventOf(h http.Header) string {
	if s.Event != "" {
		return h.Get(s.Event)
	}
	return h.Get("X-Event-Type")
}

// Names returns the names of the senders that a predicate holds for.
func Names(of func(Sender) bool) []string {
	var out []string
	for _, s := range registered {
		if of(s) {
			out = append(out, s.Name)
		}
	}
	return out
}

// Any holds for every sender.
func Any(Sender) bool { return true }
