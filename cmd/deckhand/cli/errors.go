package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1   // the task or the command failed
	exitUsage       = 2   // what was given is not valid
	exitNotFound    = 3   // no such object
	exitDenied      = 4   // not allowed, or not known to the hub
	exitUnreachable = 5   // no hub answered
	exitPending     = 8   // not finished at --timeout
	exitInterrupted = 130 // by a signal
)

// failure is an error with an exit code of its own.
type failure struct {
	code int
	err  *fault.Error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// exitStatus is the exit status of a command that was run for somebody: it
// becomes the command line's own, and nothing is said about it.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

func failed(code int, err *fault.Error) error { return &failure{code: code, err: err} }

// usage returns an error about what was typed.
func usage(cmd *cobra.Command, format string, args ...any) error {
	return failed(exitUsage, fault.New(fault.Invalid, format, args...).WithFix("see `%s --help`", cmd.CommandPath()))
}

// report writes an error as one line and answers the exit code.
func (a *app) report(ctx context.Context, err error) int {
	code, e := a.explain(ctx, err)
	if e == nil {
		return code
	}
	line := termsafe.Line(e.Message)
	if e.Fix != "" {
		line += ": " + termsafe.Line(e.Fix)
	}
	if e.Code != "" {
		line += " (" + termsafe.Line(string(e.Code)) + ")"
	}
	// There is nobody left to tell when standard error is gone.
	_, _ = fmt.Fprintln(a.err, "error: "+line)
	return code
}

// explain returns the exit code of an error and what to say about it.
func (a *app) explain(ctx context.Context, err error) (int, *fault.Error) {
	if err == nil {
		return exitDone, nil
	}
	var status exitStatus
	if errors.As(err, &status) {
		return int(status), nil
	}
	var known *failure
	if errors.As(err, &known) {
		return known.code, known.err
	}
	var wire *connect.Error
	if errors.As(err, &wire) && fault.As(err) == nil {
		err = fault.FromConnect(err)
	}
	e := fault.As(err)
	switch {
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || fault.Is(err, fault.Canceled)):
		return exitInterrupted, &fault.Error{Message: "interrupted"}
	case e == nil:
		return exitFailed, &fault.Error{Message: err.Error()}
	case wire != nil && !connect.IsWireError(wire) && e.Code == "":
		return a.explainTransport(e, wire)
	case e.Kind == fault.Invalid:
		return exitUsage, readable(e, wire)
	case e.Kind == fault.NotFound:
		return exitNotFound, e
	case e.Kind == fault.Unauthenticated:
		return exitDenied, withFix(e, "give this hub's token with --token or DECKHAND_TOKEN, or choose its context with `deckhand context use NAME`")
	case e.Kind == fault.Denied:
		return exitDenied, e
	}
	return exitFailed, e
}

// explainTransport is for errors that no hub made: of the way there.
func (a *app) explainTransport(e *fault.Error, wire *connect.Error) (int, *fault.Error) {
	switch wire.Code() {
	case connect.CodeUnavailable:
		return exitUnreachable, (&fault.Error{Message: fmt.Sprintf("cannot reach the hub at %s (%s)", a.hubURL, wire.Message())}).
			WithFix("start one on this machine with `deckhand up`, or name yours with --hub URL")
	case connect.CodeUnimplemented, connect.CodeUnknown, connect.CodeInternal:
		return exitUnreachable, (&fault.Error{Message: fmt.Sprintf("what answers at %s is not a Deckhand hub of this version (%s)", a.hubURL, wire.Message())}).
			WithFix("check --hub, and compare versions with `deckhand version`")
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return exitDenied, withFix(e, "something on the way to the hub refuses: check --hub and --token")
	}
	return exitFailed, e
}

func withFix(e *fault.Error, fix string) *fault.Error {
	if e.Fix != "" {
		return e
	}
	with := *e
	with.Fix = fix
	return &with
}

// readable turns the details that connectrpc.com/validate attaches
// (buf.validate.Violations) into one line that names each field.
func readable(e *fault.Error, wire *connect.Error) *fault.Error {
	if wire == nil {
		return e
	}
	var parts []string
	for _, detail := range wire.Details() {
		value, err := detail.Value()
		if err != nil {
			continue
		}
		violations, ok := value.(*validate.Violations)
		if !ok {
			continue
		}
		for _, v := range violations.GetViolations() {
			parts = append(parts, protovalidate.FieldPathString(v.GetField())+" "+v.GetMessage())
		}
	}
	if len(parts) == 0 {
		return e
	}
	with := *e
	with.Message = "the hub refused the request: " + strings.Join(parts, "; ")
	return &with
}
