package model

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// ErrorKind says what a model's error means for the task.
type ErrorKind int

// The kinds.
const (
	// Unavailable: the provider or the way to it failed; trying again may help.
	Unavailable ErrorKind = iota
	// Auth: the provider refuses the credential.
	Auth
	// NoCredential: the provider is not connected.
	NoCredential
	// RateLimit: too many calls; RetryAfter says when the next may come.
	RateLimit
	// Quota: what was paid for is spent.
	Quota
	// Budget: Deckhand's own budget refuses the call.
	Budget
	// Overloaded: the provider is busy.
	Overloaded
	// ContextTooLong: the transcript does not fit the model.
	ContextTooLong
	// Refused: the provider refuses to respond to this content.
	Refused
	// Invalid: the request is wrong; sending it again would not help.
	Invalid
)

// String names the kind in words.
func (k ErrorKind) String() string {
	switch k {
	case Auth:
		return "credential refused"
	case NoCredential:
		return "no credential"
	case RateLimit:
		return "rate limited"
	case Quota:
		return "quota spent"
	case Budget:
		return "budget reached"
	case Overloaded:
		return "overloaded"
	case ContextTooLong:
		return "context too long"
	case Refused:
		return "content refused"
	case Invalid:
		return "invalid request"
	default:
		return "unavailable"
	}
}

// Label names the kind as a metric's label.
func (k ErrorKind) Label() string { return strings.ReplaceAll(k.String(), " ", "_") }

// Error is what a model answered instead of a turn.
type Error struct {
	Kind     ErrorKind
	Provider string
	// Model is the model's name; empty where no provider was asked.
	Model string
	// Message is the provider's own, without secrets.
	Message string
	// RetryAfter is how long the provider asks to wait; 0 when it does not say.
	RetryAfter time.Duration
	// Status is the HTTP status; 0 where there was none.
	Status int
	// Code is the catalogue's, where the hub's relay answered it itself; Fix is
	// its advice.
	Code fault.Code
	Fix  string
	// Hub says that the hub, through which every model is asked, is at fault or
	// cannot be reached: another model would fare no better.
	Hub bool
	// Own says of a budget that it is the task's own.
	Own bool
	Err error
}

// Error is one line.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s", e.Provider, e.Kind)
	if e.Status != 0 {
		text += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// AsError returns the *Error in err's chain, or nil.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// Retryable reports whether sending the same request again may help.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case Unavailable, RateLimit, Overloaded:
		return true
	default:
		return false
	}
}

// Fault returns the error as a fault.Error, for people and programs.
func (e *Error) Fault() *fault.Error {
	code, fix := fault.ModelUnavailable, "try again later, or choose another model in the persona"
	kind := fault.Unavailable
	switch e.Kind {
	case Unavailable, Overloaded:
	case Auth:
		kind, code = fault.Precondition, fault.CredentialInvalid
		fix = fmt.Sprintf("connect %s again with a valid key, then run the task again", e.Provider)
	case NoCredential:
		kind, code = fault.Precondition, fault.NoCredentials
		fix = fmt.Sprintf("connect %s with a key, then run the task again", e.Provider)
	case RateLimit:
		kind, code = fault.Exhausted, fault.RateLimited
		fix = "run the task again later, or raise the provider's rate limit"
	case Quota:
		kind, code = fault.Exhausted, fault.BudgetLimit
		fix = fmt.Sprintf("add credit at %s, then run the task again", e.Provider)
	case Budget:
		kind, code = fault.Exhausted, fault.BudgetLimit
		fix = "raise the budget, then run the task again"
	case ContextTooLong:
		kind, code = fault.Invalid, fault.ContextTooLarge
		fix = "give the agent a smaller goal or have its commands print less"
	case Refused:
		kind, code = fault.Invalid, fault.ModelUnavailable
		fix = "the provider's rules refuse this content: change the goal or the persona"
	case Invalid:
		kind, code = fault.Invalid, fault.ModelUnavailable
		fix = "check the persona's model, max_tokens and tools"
	}
	if e.Code != "" {
		code = e.Code
	}
	if e.Fix != "" {
		fix = e.Fix
	}
	return fault.New(kind, "%s", e.Error()).WithCode(code).WithFix("%s", fix).WithCause(e)
}
