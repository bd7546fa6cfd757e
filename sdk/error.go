package sdk

import "github.com/deckhand-sh/deckhand/internal/fault"

// Error is the type of the errors that calls return: errors.As(err, &e), with e
// a *sdk.Error, gives kind, code, message, fix, and when to call again.
type Error = fault.Error

// Code is a stable code of an error, such as CodeBudgetLimit.
type Code = fault.Code

// Kind is the class of an error, and corresponds to the RPC's code.
type Kind = fault.Kind

// The kinds of errors.
const (
	KindInternal        = fault.Internal
	KindInvalid         = fault.Invalid
	KindUnauthenticated = fault.Unauthenticated
	KindDenied          = fault.Denied
	KindNotFound        = fault.NotFound
	KindExists          = fault.Exists
	KindPrecondition    = fault.Precondition
	KindAborted         = fault.Aborted
	KindExhausted       = fault.Exhausted
	KindUnavailable     = fault.Unavailable
	KindDeadline        = fault.Deadline
	KindCanceled        = fault.Canceled
)

// CodeOf returns the code of an error; "" if it has none, or is not one of a call. Then its
// kind says everything: see IsKind.
func CodeOf(err error) Code {
	if e := fault.As(err); e != nil {
		return e.Code
	}
	return ""
}

// IsKind reports whether an error is one of a call, of that kind.
func IsKind(err error, kind Kind) bool { return fault.Is(err, kind) }
