package task

import (
	"context"
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Facts returns how a task ended, on one line.
func Facts(t *deckhandv1.Task) string {
	parts := []string{output.TaskStyle(t).Render(output.TaskState(t))}
	if t.GetStartedAt() != nil && t.GetFinishedAt() != nil {
		parts = append(parts, "in "+output.Duration(t.GetFinishedAt().AsTime().Sub(t.GetStartedAt().AsTime())))
	}
	parts = append(parts,
		fmt.Sprintf("%d iterations", t.GetIteration()), fmt.Sprintf("%d tokens", output.Tokens(t.GetUsage())), output.Cost(t.GetUsage()),
		termsafe.Line(output.ModelName(t.GetProvider(), t.GetModel())), termsafe.Line(t.GetId()))
	return strings.Join(parts, ", ")
}

// Get returns tasks by their ids, which may be shortened.
func Get(ctx context.Context, client *sdk.Client, ids []string) ([]*deckhandv1.Task, error) {
	tasks := make([]*deckhandv1.Task, 0, len(ids))
	for _, id := range ids {
		res, err := client.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: id})
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, res.GetTask())
	}
	return tasks, nil
}

// orNewest returns ids, or, if ids is empty, the id of the newest task, which it names to the
// user.
func orNewest(ctx context.Context, e *env.Env, client *sdk.Client, ids []string) ([]string, error) {
	if len(ids) > 0 {
		return ids, nil
	}
	res, err := client.Tasks.ListTasks(ctx, &deckhandv1.ListTasksRequest{PageSize: 1})
	if err != nil {
		return nil, err
	}
	if len(res.GetTasks()) == 0 {
		return nil, fault.New(fault.NotFound, "there is no task yet").WithFix("start one with `deckhand run AGENT GOAL`; the agents are in `deckhand agent list`")
	}
	newest := res.GetTasks()[0]
	e.Notef("%s", output.Dim.Render("the newest task, "+termsafe.Line(newest.GetId()+" of "+newest.GetAgentName())+":"))
	return []string{newest.GetId()}, nil
}

// Outcome returns the error of a task that has ended without success; nil for
// one that succeeded.
func Outcome(t *deckhandv1.Task) error {
	if t.GetState() == deckhandv1.TaskState_TASK_STATE_SUCCEEDED {
		return nil
	}
	if !output.Final(t.GetState()) {
		return env.Failed(env.ExitPending, fault.New(fault.Deadline, "task %s is not finished: it is %s", t.GetId(), output.WithReason(output.EnumName(t.GetState()), t.GetReason())).
			WithFix("follow it with `deckhand task watch %s`", t.GetId()))
	}
	why := t.GetErrorMessage()
	if why == "" {
		why = t.GetReason()
	}
	message := fmt.Sprintf("task %s %s", t.GetId(), ended(t))
	if why = termsafe.Line(why); why != "" {
		message += ": " + why
	}
	return env.Failed(env.ExitFailed, fault.New(fault.Aborted, "%s", message).WithCode(fault.Code(t.GetErrorCode())).
		WithFix("see `deckhand task steps %s`", t.GetId()))
}

func ended(t *deckhandv1.Task) string {
	switch t.GetState() {
	case deckhandv1.TaskState_TASK_STATE_TIMED_OUT:
		return "timed out"
	case deckhandv1.TaskState_TASK_STATE_CANCELLED:
		return "was cancelled"
	}
	return output.TaskState(t)
}
