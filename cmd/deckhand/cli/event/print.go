package event

import (
	"context"
	"fmt"
	"io"

	"github.com/charmbracelet/colorprofile"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Print shows events for programs.
func Print(e *env.Env) func(*deckhandv1.Event) error {
	printer := e.Printer()
	return func(x *deckhandv1.Event) error {
		return output.Entry(printer, output.Noun[*deckhandv1.Event]{}, x)
	}
}

// PrintLines shows events for people, on w.
func PrintLines(w io.Writer, r *Renderer) func(*deckhandv1.Event) error {
	var failed error
	styled := &colorprofile.Writer{Forward: w, Profile: output.Colours(w)}
	r.line = func(line string) {
		if _, err := fmt.Fprintln(styled, line); err != nil {
			failed = err
		}
	}
	return func(x *deckhandv1.Event) error {
		r.event(x)
		return failed
	}
}

// Observations returns a look-up of what steps gave back.
func Observations(ctx context.Context, client *sdk.Client) func(taskID, stepID string) string {
	return func(taskID, stepID string) string {
		res, err := client.Tasks.ListSteps(ctx, &deckhandv1.ListStepsRequest{TaskId: taskID, StepId: stepID})
		if err != nil || len(res.GetSteps()) == 0 || res.GetSteps()[0].GetFinishedAt() == nil {
			// The watch goes on without; it has the same hub and will say if
			// that is gone.
			return ""
		}
		return res.GetSteps()[0].GetObservation()
	}
}
