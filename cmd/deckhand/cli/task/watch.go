package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/event"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func watchCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.WatchRequest{}
	failed := ""
	cmd := &cobra.Command{
		Use: "watch [TASK...]", Short: "Show the events of tasks, live",
		Long: `Shows a task's history and goes on live until it has ended: phases, reasoning,
tool calls, what came of them, and what they cost. Without TASK it is the newest
one. The exit code is 1 when a watched task did not succeed.`,
		Example: `deckhand task watch
deckhand task watch task_3q9
# what has happened until now, for a program
deckhand task watch task_3q9 --follow=false -o jsonl
# which tools it chose, and how it ended
deckhand task watch task_3q9 --type tool_selected,execution_completed,execution_failed
# what went wrong, and how far the running commands are
deckhand task watch task_3q9 --error
deckhand task watch task_3q9 --progress`,
		Args: env.Args("[TASK...]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if e.Format == output.Name {
				return env.Usage(cmd, "events have no names, use another -o")
			}
			return watch(cmd.Context(), e, args, request, failed)
		},
	}
	cmd.Flags().BoolVar(&request.Follow, "follow", true, "follow the events until the tasks end")
	cmd.Flags().StringSliceVar(&request.Types, "type", nil, "show events of this `TYPE` only: a type, a group, or a beginning such as agent.* (repeatable, or a list with commas)")
	cmd.Flags().BoolVar(&request.Progress, "progress", false, "also show how far running commands are: output, processor time and last line")
	errorFlag(cmd, &failed, "show events with an error only")
	return cmd
}

func watch(ctx context.Context, e *env.Env, ids []string, request *deckhandv1.WatchRequest, failed string) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	// A watch waits for its hub to come back; one that was never there is said
	// at once. This also makes whole ids of shortened ones, and means them for
	// the whole watch.
	if ids, err = orNewest(ctx, e, client, ids); err != nil {
		return err
	}
	tasks, err := Get(ctx, client, ids)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		request.TaskIds = append(request.TaskIds, task.GetId())
	}
	show := event.Print(e)
	if e.Format.ForPeople() {
		show = event.PrintLines(e.Out, &event.Renderer{Detail: event.Everything, Many: len(tasks) > 1, Observation: event.Observations(ctx, client)})
	}
	for res, err := range client.Watch(ctx, request) {
		if err != nil {
			return err
		}
		if p := res.GetStepProgress(); p != nil {
			e.Notef("%s", progressLine(p))
			continue
		}
		if !withError(output.Field(res.GetEvent().GetPayload(), "error_code"), failed) {
			continue
		}
		if err := show(res.GetEvent()); err != nil {
			return err
		}
	}
	if !request.GetFollow() {
		return nil
	}
	if tasks, err = Get(ctx, client, request.GetTaskIds()); err != nil {
		return err
	}
	var failures []error
	for _, task := range tasks {
		if e.Format.ForPeople() {
			e.Notef("%s", Facts(task))
		}
		if err := Outcome(task); err != nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// progressLine says how far a running command is.
func progressLine(p *deckhandv1.StepProgress) string {
	out := fmt.Sprintf("step %d: %s", p.GetNumber(), cmp.Or(output.Size(p.GetLogBytes()), "0 B"))
	if p.GetCpuTime() != nil {
		out += fmt.Sprintf(", %s CPU", p.GetCpuTime().AsDuration().Round(100*time.Millisecond))
	}
	if p.GetLastLine() != "" {
		out += ": " + literal.Line(p.GetLastLine())
	}
	return output.Dim.Render(out)
}
