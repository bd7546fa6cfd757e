package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"
	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) taskWatchCommand() *cobra.Command {
	request := &deckhandv1.WatchRequest{}
	cmd := &cobra.Command{
		Use: "watch TASK...", Short: "Show what happens in tasks, live",
		Long: `Shows a task's history and goes on live until it has ended: phases, reasoning,
tool calls, what came of them, and what they cost. The exit code is 1 when a
watched task did not succeed.`,
		Example: `deckhand task watch task_3q9
# what has happened until now, for a program
deckhand task watch task_3q9 --follow=false -o jsonl
# which tools it chose, and how it ended
deckhand task watch task_3q9 --type tool_selected,execution_completed,execution_failed`,
		Args: takes("TASK..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.format == output.Name {
				return usage(cmd, "events have no names, use another -o")
			}
			return a.taskWatch(cmd.Context(), args, request)
		},
	}
	cmd.Flags().BoolVar(&request.Follow, "follow", true, "go on until the tasks have ended")
	cmd.Flags().StringSliceVar(&request.Types, "type", nil, "show events of this `TYPE` only (repeatable, or a list with commas)")
	return cmd
}

func (a *app) taskWatch(ctx context.Context, ids []string, request *deckhandv1.WatchRequest) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	// A watch waits for its hub to come back; one that was never there is said
	// at once. This also makes whole ids of shortened ones, and means them for
	// the whole watch.
	tasks, err := getTasks(ctx, client, ids)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		request.TaskIds = append(request.TaskIds, task.GetId())
	}
	show := a.eventPrinter()
	if a.format.ForPeople() {
		show = a.eventLines(a.out, &renderer{detail: everything, many: len(tasks) > 1, observation: observations(ctx, client)})
	}
	for res, err := range client.Watch(ctx, request) {
		if err != nil {
			return err
		}
		if err := show(res.GetEvent()); err != nil {
			return err
		}
	}
	if !request.GetFollow() {
		return nil
	}
	if tasks, err = getTasks(ctx, client, request.GetTaskIds()); err != nil {
		return err
	}
	var failures []error
	for _, task := range tasks {
		if a.format.ForPeople() {
			a.notef("%s", a.facts(task))
		}
		if err := outcome(task); err != nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func getTasks(ctx context.Context, client *sdk.Client, ids []string) ([]*deckhandv1.Task, error) {
	tasks := make([]*deckhandv1.Task, 0, len(ids))
	for _, id := range ids {
		res, err := client.Tasks.GetTask(ctx, connect.NewRequest(&deckhandv1.GetTaskRequest{TaskId: id}))
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, res.Msg.GetTask())
	}
	return tasks, nil
}

// eventPrinter shows events for programs.
func (a *app) eventPrinter() func(*deckhandv1.Event) error {
	printer := a.printer()
	return func(e *deckhandv1.Event) error {
		return output.Entry(printer, output.Noun[*deckhandv1.Event]{}, e)
	}
}

// eventLines shows events for people, on w.
func (a *app) eventLines(w io.Writer, r *renderer) func(*deckhandv1.Event) error {
	var failed error
	styled := &colorprofile.Writer{Forward: w, Profile: output.Colours(w)}
	r.line = func(line string) {
		if _, err := fmt.Fprintln(styled, line); err != nil {
			failed = err
		}
	}
	return func(e *deckhandv1.Event) error {
		r.event(e)
		return failed
	}
}

// observations returns a look-up of what steps gave back.
func observations(ctx context.Context, client *sdk.Client) func(taskID, stepID string) string {
	return func(taskID, stepID string) string {
		res, err := client.Tasks.ListSteps(ctx, connect.NewRequest(&deckhandv1.ListStepsRequest{TaskId: taskID, StepId: stepID}))
		if err != nil || len(res.Msg.GetSteps()) == 0 || res.Msg.GetSteps()[0].GetFinishedAt() == nil {
			// The watch goes on without; it has the same hub and will say if
			// that is gone.
			return ""
		}
		return res.Msg.GetSteps()[0].GetObservation()
	}
}

// outcome returns the error of a task that has ended without success; nil for
// one that succeeded.
func outcome(t *deckhandv1.Task) error {
	if t.GetState() == deckhandv1.TaskState_TASK_STATE_SUCCEEDED {
		return nil
	}
	if !final(t.GetState()) {
		return failed(exitPending, fault.New(fault.Deadline, "task %s is not finished: it is %s", t.GetId(), withReason(enumName(t.GetState()), t.GetReason())).
			WithFix("follow it with `deckhand task watch %s`", t.GetId()))
	}
	why := t.GetErrorMessage()
	if why == "" {
		why = t.GetReason()
	}
	message := fmt.Sprintf("task %s %s", t.GetId(), ended(t.GetState()))
	if why = termsafe.Line(why); why != "" {
		message += ": " + why
	}
	return failed(exitFailed, fault.New(fault.Aborted, "%s", message).WithCode(fault.Code(t.GetErrorCode())).
		WithFix("see `deckhand task steps %s`", t.GetId()))
}

func ended(s deckhandv1.TaskState) string {
	switch s {
	case deckhandv1.TaskState_TASK_STATE_TIMED_OUT:
		return "timed out"
	case deckhandv1.TaskState_TASK_STATE_CANCELLED:
		return "was cancelled"
	}
	return enumName(s)
}
