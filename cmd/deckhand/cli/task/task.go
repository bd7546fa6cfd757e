// Package task is the command "deckhand task": it shows, watches, steers and
// undoes tasks.
//
// Other packages that show or await tasks use Noun, Get, Outcome and Facts.
package task

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/file"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/taskplan"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Command returns the command "deckhand task".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("task", "Manage tasks", `
A task is one run of an agent towards one goal. Ids may be shortened as long
as they name one thing.
`, `
deckhand task list --state running
deckhand task watch task_3q9
deckhand task logs step_7bc
`)
	cmd.AddCommand(listCommand(e), file.Command(e, "task", "task_3q9"), taskplan.Command(e), showCommand(e), watchCommand(e),
		stepsCommand(e), logsCommand(e), diffCommand(e), undoCommand(e), cancelCommand(e),
		reorderCommand(e), assignCommand(e), completeCommand(e), pauseCommand(e), resumeCommand(e),
		messageCommand(e), replyCommand(e), withdrawCommand(e), retryCommand(e), resumeFromCommand(e), checkpointsCommand(e), keepCheckpointCommand(e),
		jobsCommand(e), killJobCommand(e),
		artifactsCommand(e), receiptCommand(e), exportCommand(e), explainCommand(e), statsCommand(e))
	return cmd
}

// changeEach calls change for each task and prints the results.
func changeEach(e *env.Env, cmd *cobra.Command, ids []string, change func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error)) error {
	tasks, err := env.Each(cmd.Context(), e, ids, change)
	if err != nil {
		return err
	}
	if len(tasks) == 1 {
		return output.Brief(e.Printer(), Noun(e), tasks[0])
	}
	return output.List(e.Printer(), Noun(e), tasks)
}

// Noun shows tasks.
func Noun(e *env.Env) output.Noun[*deckhandv1.Task] {
	state := func(x *deckhandv1.Task) lipgloss.Style { return output.TaskStyle(x) }
	return output.Noun[*deckhandv1.Task]{
		Name: (*deckhandv1.Task).GetId,
		Columns: []output.Column[*deckhandv1.Task]{
			{Header: "id", Value: (*deckhandv1.Task).GetId},
			{Header: "agent", Value: (*deckhandv1.Task).GetAgentName},
			{Header: "state", Value: output.TaskState, Style: state},
			{Header: "progress", Value: func(x *deckhandv1.Task) string { return fmt.Sprintf("%.0f%%", 100*x.GetProgress()) }},
			{Header: "cost", Value: func(x *deckhandv1.Task) string { return output.Cost(x.GetUsage()) }},
			{Header: "age", Value: func(x *deckhandv1.Task) string { return e.Age(x.GetCreatedAt()) }},
			{Header: "title", Value: title, Max: 50},
			{Header: "why", Value: why, Max: 80},
			{Header: "queue", Value: queuePosition, Wide: true},
			{Header: "assignee", Value: (*deckhandv1.Task).GetAssignee, Wide: true},
			{Header: "model", Value: func(x *deckhandv1.Task) string { return output.ModelName(x.GetProvider(), x.GetModel()) }, Wide: true},
			{Header: "priority", Value: func(x *deckhandv1.Task) string { return fmt.Sprint(x.GetPriority()) }, Wide: true},
			{Header: "iterations", Value: func(x *deckhandv1.Task) string { return fmt.Sprint(x.GetIteration()) }, Wide: true},
			{Header: "tokens", Value: func(x *deckhandv1.Task) string { return fmt.Sprint(output.Tokens(x.GetUsage())) }, Wide: true},
			{Header: "attempt", Value: func(x *deckhandv1.Task) string { return fmt.Sprint(x.GetAttempt()) }, Wide: true},
			{Header: "node", Value: (*deckhandv1.Task).GetNodeId, Wide: true},
			{Header: "image", Value: (*deckhandv1.Task).GetImage, Alone: true},
			{Header: "worker", Value: (*deckhandv1.Task).GetWorkerId, Wide: true},
			{Header: "created", Value: func(x *deckhandv1.Task) string { return output.Moment(x.GetCreatedAt()) }, Wide: true},
			{Header: "started", Value: func(x *deckhandv1.Task) string { return output.Moment(x.GetStartedAt()) }, Alone: true},
			{Header: "finished", Value: func(x *deckhandv1.Task) string { return output.Moment(x.GetFinishedAt()) }, Alone: true},
			{Header: "agent version", Value: func(x *deckhandv1.Task) string { return fmt.Sprint(x.GetAgentVersion()) }, Alone: true},
			{Header: "by", Value: (*deckhandv1.Task).GetCreatedBy, Alone: true},
			{Header: "assigned by", Value: (*deckhandv1.Task).GetAssignedBy, Alone: true},
			{Header: "after", Value: func(x *deckhandv1.Task) string { return strings.Join(x.GetAfter(), " ") }, Alone: true},
			{Header: "part of", Value: (*deckhandv1.Task).GetParentId, Alone: true},
			{Header: "handed over by", Value: (*deckhandv1.Task).GetHandedFrom, Alone: true},
			{Header: "subtasks", Value: subtasks, Alone: true},
			{Header: "not before", Value: func(x *deckhandv1.Task) string { return output.Moment(x.GetNotBefore()) }, Alone: true},
			{Header: "correlation id", Value: (*deckhandv1.Task).GetCorrelationId, Alone: true},
			{Header: "error", Value: func(x *deckhandv1.Task) string {
				return strings.TrimSpace(x.GetErrorCode() + " " + x.GetErrorMessage())
			}, Alone: true},
			{Header: "active time", Value: activeTime, Alone: true},
			{Header: "undo until", Value: func(x *deckhandv1.Task) string { return output.Moment(x.GetUndoUntil()) }, Alone: true},
			{Header: "what to do", Value: func(x *deckhandv1.Task) string { return x.GetAction().GetCommand() }, Alone: true},
			{Header: "goal", Value: (*deckhandv1.Task).GetGoal, Block: true},
			{Header: "context", Value: (*deckhandv1.Task).GetContext, Block: true},
			{Header: "summary", Value: (*deckhandv1.Task).GetSummary, Block: true},
			{Header: "sources", Value: sources, Block: true},
		},
	}
}

func activeTime(x *deckhandv1.Task) string {
	if x.GetActiveTime().AsDuration() <= 0 {
		return ""
	}
	return x.GetActiveTime().AsDuration().Round(time.Second).String()
}

// sources lists what the agent says that its result is based on.
func sources(x *deckhandv1.Task) string {
	out := make([]string, len(x.GetSources()))
	for i, s := range x.GetSources() {
		out[i] = "- " + s.GetKind() + " " + literal.Line(s.GetReference())
		if s.GetTitle() != "" {
			out[i] += ": " + literal.Line(s.GetTitle())
		}
	}
	return strings.Join(out, "\n")
}

// subtasks sums up what is below a task.
func subtasks(x *deckhandv1.Task) string {
	s := x.GetSubtasks()
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%d (%d in progress, %d succeeded), %.0f%%, %s", s.GetTasks(), s.GetLive(), s.GetSucceeded(), 100*s.GetProgress(), output.Cost(s.GetUsage()))
}

// why says why a task is in its state: of one that failed, its error where it has no
// other reason.
func why(t *deckhandv1.Task) string {
	return cmp.Or(t.GetReason(), strings.TrimSpace(t.GetErrorCode()+" "+t.GetErrorMessage()))
}

func title(t *deckhandv1.Task) string {
	if t.GetTitle() != "" {
		return t.GetTitle()
	}
	return t.GetGoal()
}
