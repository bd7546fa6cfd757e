package env

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// The exit codes.
const (
	ExitDone        = 0
	ExitFailed      = 1   // the task or the command failed
	ExitUsage       = 2   // invalid flags, arguments or files
	ExitNotFound    = 3   // no such object
	ExitDenied      = 4   // not permitted, or no valid token
	ExitUnreachable = 5   // no hub answered
	ExitPending     = 8   // not finished at --timeout
	ExitConfig      = 78  // invalid configuration of hub, worker or up, EX_CONFIG of sysexits.h: systemd does not restart them
	ExitInterrupted = 130 // by a signal
)

// failure is an error with an exit code of its own.
type failure struct {
	code int
	err  *fault.Error
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// Status is the exit status of a command that ran on a node. It becomes the
// exit code of this process, and no error is printed.
type Status int

func (s Status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// Failed returns an error that ends the process with an exit code of its own.
func Failed(code int, err *fault.Error) error { return &failure{code: code, err: err} }

// Usage returns an error about the flags or arguments of a command, which
// points to its help.
func Usage(cmd *cobra.Command, format string, args ...any) error {
	return Failed(ExitUsage, fault.New(fault.Invalid, format, args...).WithFix("see `%s --help`", cmd.CommandPath()))
}

// UsageOf is Usage for an error of the parser of flags, which it keeps.
func UsageOf(cmd *cobra.Command, err error) error {
	return Failed(ExitUsage, fault.New(fault.Invalid, "%s", err).WithFix("see `%s --help`", cmd.CommandPath()).WithCause(err))
}
