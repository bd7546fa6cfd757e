// Package env is what every command of the command line shares: where it reads
// and writes, how it finds its hub, how it reads files that were named to it,
// and how it ends.
//
// An Env is one run of the command line. Client returns a client of the hub
// that flags, environment, contexts and data folder name, in this order.
// Printer writes data to standard output in the format of -o; Notef writes
// everything else to standard error.
//
// A command returns an error. Report writes it, on a terminal as three lines (error, fix
// and code) and otherwise as one, and returns the exit code. Failed and Usage return errors
// with an exit code of their own; that of any other error follows from its fault.Kind.
//
// List, ListPage, Show and Change call the hub and print what it returns: most commands
// end with one of them.
package env

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
)

// Env is one run of the command line. It is used by one goroutine.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	// Now returns the current time, for ages.
	Now func() time.Time

	// Flags are the flags by which the hub is found.
	Flags Flags
	// Format is the value of -o.
	Format output.Format

	// Correct returns the command that was meant where a wrong one failed, or "";
	// nil for a program that corrects nothing.
	Correct func(ctx context.Context, err error) string
	// Failed is the command that ran, for Correct.
	Failed struct {
		Command *cobra.Command
		Args    []string
	}

	// hubURL is the hub that was called, for messages; empty before.
	hubURL string
	// failure is the error that the command returned. It does not travel
	// through cobra, so that cobra's own errors are known to be about usage.
	failure error
}

// Printer returns the printer of data, in the format of -o.
func (e *Env) Printer() *output.Printer {
	return &output.Printer{Format: e.Format, Out: e.Out, Colour: output.Colours(e.Out)}
}

// Notef writes a line of progress or advice to standard error.
func (e *Env) Notef(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	// A note that cannot be written is not worth failing for.
	_, _ = fmt.Fprintln(&colorprofile.Writer{Forward: e.Err, Profile: output.Colours(e.Err)}, text)
}

// Age returns how long ago something was, such as "5m"; "-" for no time.
func (e *Env) Age(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return output.Age(e.Now(), t.AsTime())
}
