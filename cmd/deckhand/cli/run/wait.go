package run

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/event"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// errTimeout ends the wait, not the task.
var errTimeout = errors.New("--timeout reached")

// wait shows a task until it has ended and prints its result.
func wait(ctx context.Context, e *env.Env, client *sdk.Client, id string, o options) error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	if o.timeout > 0 {
		waiting, stop = context.WithTimeoutCause(ctx, o.timeout, errTimeout)
		defer stop()
	}
	r := &event.Renderer{Detail: event.PhasesOnly, Observation: event.Observations(waiting, client)}
	if o.watch {
		r.Detail = event.Everything
	}
	show := event.PrintLines(e.Err, r)
	for res, err := range client.Watch(waiting, &deckhandv1.WatchRequest{TaskIds: []string{id}, Follow: true}) {
		if err != nil && ctx.Err() != nil {
			return env.Failed(env.ExitInterrupted, fault.New(fault.Canceled, "interrupted, but task %s goes on", id).
				WithFix("follow it with `deckhand task watch %s` or end it with `deckhand task cancel %s`", id, id))
		}
		if err != nil && waiting.Err() == nil {
			return err
		}
		if err != nil {
			break
		}
		// If progress cannot be printed, the result still can.
		_ = show(res.GetEvent())
	}
	tasks, err := task.Get(ctx, client, []string{id})
	if err != nil {
		return err
	}
	return result(e, tasks[0])
}

// result prints the result of a task: for people the summary that the agent
// wrote, for programs the task.
func result(e *env.Env, t *deckhandv1.Task) error {
	if !e.Format.ForPeople() {
		if err := output.One(e.Printer(), task.Noun(e), t); err != nil {
			return err
		}
		return task.Outcome(t)
	}
	if output.Final(t.GetState()) {
		e.Notef("%s", task.Facts(t))
	}
	if summary := strings.TrimSpace(termsafe.Text(t.GetSummary())); summary != "" && output.Final(t.GetState()) {
		if _, err := fmt.Fprintln(e.Out, summary); err != nil {
			return err
		}
	}
	return task.Outcome(t)
}
