package tool

import (
	"context"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Inspection is what a call would do if it were made now, for tools whose arguments do not say
// all of it.
type Inspection struct {
	// State identifies what the call would change, and into what. An approval is for this
	// state only, and the call is made with it: see Call.Approved.
	State string
	// Preview shows it to a person; it has at most maxInspection bytes and contains what an
	// agent wrote. Secrets in it are not masked.
	Preview string
	// Refused is why the call cannot be made; nil if it can be.
	Refused *fault.Error
}

// maxInspection bounds a preview of an inspection, in bytes.
const maxInspection = 64 << 10

// Inspects reports whether the tool has something to inspect before a call is approved.
func (t *Tool) Inspects() bool { return t.inspect != nil }

// Inspect looks at what a call would do, and changes nothing. c.ExecID names a command of its
// own, not that of the call. An error means that it could not be found out.
func (t *Tool) Inspect(ctx context.Context, c Call) (Inspection, error) {
	i, err := t.inspect(ctx, c)
	i.Preview = cut(i.Preview, maxInspection)
	return i, err
}
