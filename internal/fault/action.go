package fault

import (
	"maps"
	"regexp"
	"strings"
)

// Action is the place where a person can correct what an error is about. Path and Command may
// contain placeholders, {task} and {agent}, for the objects that the error is about.
type Action struct {
	// Label is a verb and its object, for a button.
	Label string
	// Path is that of the console's page, from its root.
	Path string
	// Command does the same on the command line, or shows what to do. Its words in capitals
	// are for the caller to replace.
	Command string
}

// actions are the places by code.
var actions = map[Code]Action{
	MaxIterations:     {"Resume with a higher limit", "/tasks/{task}", "deckhand task resume-from {task} --limit iterations=100"},
	ExecutionTimeout:  {"Resume with a higher limit", "/tasks/{task}", "deckhand task resume-from {task} --limit active_time=2h"},
	InputTimeout:      {"Retry the task", "/tasks/{task}", "deckhand task retry {task}"},
	BudgetLimit:       {"Raise the budget", "/budgets", "deckhand budget show"},
	EgressDenied:      {"Allow the host", "/agents/{agent}/edit", "deckhand agent show {agent}"},
	OutcomeUnknown:    {"Open the inbox", "/inbox", "deckhand inbox list"},
	NodeUnavailable:   {"Open the nodes", "/nodes", "deckhand node list"},
	NodeLocked:        {"Open the nodes", "/nodes", "deckhand node list"},
	CredentialInvalid: {"Connect the provider again", "/providers", "deckhand provider list"},
	UnpricedModel:     {"Set the price", "/providers", "deckhand provider list"},
	NoCredentials:     {"Connect the provider", "/providers", "deckhand provider list"},
	ImageUnavailable:  {"Edit the agent", "/agents/{agent}/edit", "deckhand agent show {agent}"},
	SetupFailed:       {"Edit the agent", "/agents/{agent}/edit", "deckhand agent prepare {agent}"},
	CredentialRefused: {"Open the credentials", "/credentials", "deckhand credential list"},
	Killed:            {"See what is on hold", "/fleet", "deckhand hold list"},
	PartlyDone:        {"Go on with the rest", "/tasks/{task}", "deckhand task resume-from {task}"},
	Stuck:             {"Tell the agent what to do", "/tasks/{task}", "deckhand task message {task} TEXT"},
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// Actions returns the places by code.
func Actions() map[Code]Action { return maps.Clone(actions) }

// ActionOf returns the place where a person can correct an error of a code, and whether there
// is one. objects are the values of placeholders; one without a value means that there is no
// place.
func ActionOf(code Code, objects map[string]string) (Action, bool) {
	a, ok := actions[code]
	if !ok {
		return Action{}, false
	}
	fill := func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(p string) string {
			value := objects[strings.Trim(p, "{}")]
			ok = ok && value != ""
			return value
		})
	}
	a.Path, a.Command = fill(a.Path), fill(a.Command)
	return a, ok
}
