package env

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// KeepErrors keeps the errors that the commands below cmd return, for Report.
func (e *Env) KeepErrors(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			e.failure = run(cmd, args)
			e.Failed.Command, e.Failed.Args = cmd, args
			return nil
		}
	}
	for _, child := range cmd.Commands() {
		e.KeepErrors(child)
	}
}

// Report writes the error of the run and returns the exit code: three lines on a
// terminal (error, fix, code), and one line otherwise. err is cobra's; without one
// it is the command's own.
func (e *Env) Report(ctx context.Context, err error) int {
	if err == nil {
		err = e.failure
	}
	code, problem := e.Explain(ctx, err)
	if problem == nil {
		return code
	}
	fix := problem.Fix
	if e.Correct != nil {
		if meant := e.Correct(ctx, err); meant != "" {
			fix = "did you mean `" + meant + "`?"
		}
	}
	parts := []string{"error: " + termsafe.Line(problem.Message)}
	if fix != "" {
		parts = append(parts, "fix: "+termsafe.Line(fix))
	}
	if problem.Code != "" {
		parts = append(parts, "code: "+termsafe.Line(string(problem.Code)))
	}
	text := oneLine(parts)
	if output.IsTerminal(e.Err) {
		text = strings.Join(parts, "\n  ")
	}
	// Nothing else can be done when standard error is closed.
	_, _ = fmt.Fprintln(e.Err, text)
	return code
}

// oneLine joins the parts of an error: "error: what: fix (code)".
func oneLine(parts []string) string {
	line := parts[0]
	for _, part := range parts[1:] {
		if fix, ok := strings.CutPrefix(part, "fix: "); ok {
			line += ": " + fix
		} else {
			line += " (" + strings.TrimPrefix(part, "code: ") + ")"
		}
	}
	return line
}

// Explain returns the exit code of an error and what to say about it.
func (e *Env) Explain(ctx context.Context, err error) (int, *fault.Error) {
	if err == nil {
		return ExitDone, nil
	}
	var status Status
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
	problem := fault.As(err)
	switch {
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || fault.Is(err, fault.Canceled)):
		return ExitInterrupted, &fault.Error{Message: "interrupted"}
	case problem == nil:
		return ExitFailed, &fault.Error{Message: err.Error()}
	case wire != nil && !connect.IsWireError(wire) && problem.Code == "":
		return e.explainTransport(problem, wire)
	case problem.Kind == fault.Invalid:
		return ExitUsage, readable(problem, wire)
	case problem.Kind == fault.NotFound:
		return ExitNotFound, problem
	case problem.Kind == fault.Unauthenticated:
		return ExitDenied, withFix(problem, "give this hub's token with --token or DECKHAND_TOKEN, or choose its context with `deckhand context use NAME`")
	case problem.Kind == fault.Denied:
		return ExitDenied, problem
	}
	return ExitFailed, problem
}

// explainTransport explains errors that no hub returned: of the connection.
func (e *Env) explainTransport(problem *fault.Error, wire *connect.Error) (int, *fault.Error) {
	switch wire.Code() {
	case connect.CodeUnavailable:
		return ExitUnreachable, (&fault.Error{Message: fmt.Sprintf("cannot reach the hub at %s (%s)", e.hubURL, wire.Message())}).
			WithFix("start one on this machine with `deckhand up`, or name yours with --hub URL")
	case connect.CodeUnimplemented, connect.CodeUnknown, connect.CodeInternal:
		return ExitUnreachable, (&fault.Error{Message: fmt.Sprintf("what answers at %s is not a Deckhand hub of this version (%s)", e.hubURL, wire.Message())}).
			WithFix("check --hub, and compare versions with `deckhand version`")
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return ExitDenied, withFix(problem, "something on the way to the hub refuses: check --hub and --token")
	}
	return ExitFailed, problem
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
