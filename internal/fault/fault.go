// Package fault defines the error that crosses an API boundary of Deckhand. An
// [Error] has a kind that maps to an RPC code, a stable code from the
// catalogue, a message that says what happened, and a fix that says what to do
// about it. An error of any other type is internal: a client sees no details of
// it.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind is the class of an error. Kinds map one to one to RPC codes (rpc.go).
type Kind int

// The kinds.
const (
	Internal Kind = iota
	Invalid
	Unauthenticated
	Denied
	NotFound
	Exists
	Precondition
	Aborted
	Exhausted
	Unavailable
	Deadline
	Canceled
)

// Code is a stable code of the catalogue, for example "AGENT_010". The zero
// value is for errors that need none.
type Code string

// The codes. Catalogue (catalogue.go) says of each one what it means, and
// docs/errors.md is generated from that.
const (
	TaskParsing        Code = "AGENT_001"
	PermissionDenied   Code = "AGENT_002"
	ToolNotFound       Code = "AGENT_003"
	ToolFailed         Code = "AGENT_004"
	MaxIterations      Code = "AGENT_005"
	ExecutionTimeout   Code = "AGENT_006"
	InputTimeout       Code = "AGENT_007"
	CheckpointNotFound Code = "AGENT_008"
	ResumeFailed       Code = "AGENT_009"
	BudgetLimit        Code = "AGENT_010"
	RateLimited        Code = "AGENT_011"
	InvalidParameters  Code = "AGENT_012"
	ContextTooLarge    Code = "AGENT_013"
	ModelUnavailable   Code = "AGENT_014"
	SandboxViolation   Code = "AGENT_015"
	EgressDenied       Code = "AGENT_016"
	OutcomeUnknown     Code = "AGENT_017"
	NodeUnavailable    Code = "AGENT_018"
	NodeLocked         Code = "AGENT_019"
	CredentialInvalid  Code = "AGENT_020"
	Stuck              Code = "AGENT_021"
	ApprovalExpired    Code = "AGENT_022"
	CircularDelegation Code = "AGENT_023"
	UnpricedModel      Code = "AGENT_024"
	NoCredentials      Code = "AGENT_025"
	FileConflict       Code = "AGENT_026"
	Killed             Code = "AGENT_027"
	GivenUp            Code = "AGENT_028"
	PartlyDone         Code = "AGENT_029"
	CommandFailed      Code = "AGENT_030"
	ImageUnavailable   Code = "AGENT_031"
	SetupFailed        Code = "AGENT_032"
	CredentialRefused  Code = "AGENT_033"

	// WatchSlow ends a watch whose caller does not read: it may continue from
	// its cursor.
	WatchSlow Code = "WATCH_SLOW"
	// CursorExpired refuses a watch whose cursor has missed events that were
	// deleted.
	CursorExpired Code = "CURSOR_EXPIRED"

	// IdempotencyKeyReused refuses a key that was used with another request.
	IdempotencyKeyReused Code = "IDEMPOTENCY_KEY_REUSED"
	// IdempotencyInProgress refuses a call while another with its key is running.
	IdempotencyInProgress Code = "IDEMPOTENCY_IN_PROGRESS"
	// IdempotencyUnknown refuses a call whose predecessor with the same key broke off.
	IdempotencyUnknown Code = "IDEMPOTENCY_UNKNOWN"

	// LeaseEnded is between hub and worker only: the write came too late.
	LeaseEnded Code = "LEASE_ENDED"
	// HubUnavailable is used only between hub and worker: the hub itself could
	// not serve a model call, and no provider is at fault.
	HubUnavailable Code = "HUB_UNAVAILABLE"
)

// Error is what crosses a boundary. Message and Fix are for people: whole
// sentences without a full stop, naming objects by id and never a secret.
type Error struct {
	Kind     Kind
	Code     Code
	Message  string
	Fix      string
	ObjectID string
	// RetryAfter is when to try again, where that is known; it becomes the header
	// Retry-After.
	RetryAfter time.Duration
	// Err is the cause, for logs; it is not shown to callers.
	Err error
}

// New creates an error of a kind with a formatted message.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// WithCode adds a code of the catalogue.
func (e *Error) WithCode(code Code) *Error { e.Code = code; return e }

// WithFix says what to do.
func (e *Error) WithFix(format string, args ...any) *Error {
	e.Fix = fmt.Sprintf(format, args...)
	return e
}

// WithObject names the object at fault.
func (e *Error) WithObject(id string) *Error { e.ObjectID = id; return e }

// WithRetryAfter says when to try again.
func (e *Error) WithRetryAfter(d time.Duration) *Error { e.RetryAfter = d; return e }

// WithCause keeps the cause for logs and errors.Is.
func (e *Error) WithCause(err error) *Error { e.Err = err; return e }

// Error is one line: the message, then the fix.
func (e *Error) Error() string {
	text := e.Message
	if e.Code != "" {
		text += " (" + string(e.Code) + ")"
	}
	if e.Fix != "" {
		text += ": " + e.Fix
	}
	return text
}

// Explanation is the message, then the fix, without the code.
func (e *Error) Explanation() string {
	if e.Fix == "" {
		return e.Message
	}
	return e.Message + ": " + e.Fix
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// As returns the Error in err's chain, or nil.
func As(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// Is reports whether err's chain holds an Error of the kind.
func Is(err error, kind Kind) bool {
	e := As(err)
	return e != nil && e.Kind == kind
}
