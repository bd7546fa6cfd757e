package cli

import (
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (a *app) taskCommand() *cobra.Command {
	cmd := group("task", "See and steer tasks", `
A task is one run of an agent towards one goal. Ids may be shortened as long
as they name one thing.
`, `
deckhand task list --state running
deckhand task watch task_3q9
deckhand task logs step_7bc
`)
	cmd.AddCommand(a.taskListCommand(), a.filesCommand("task", "task_3q9"), a.taskShowCommand(), a.taskWatchCommand(),
		a.taskStepsCommand(), a.taskLogsCommand(), a.taskDiffCommand(), a.taskUndoCommand(), a.taskCancelCommand(),
		a.taskReorderCommand(), a.taskAssignCommand(), a.taskCompleteCommand(), a.taskPauseCommand(), a.taskResumeCommand(),
		a.taskMessageCommand(), a.taskRetryCommand(), a.taskResumeFromCommand(), a.taskCheckpointsCommand(),
		a.taskArtifactsCommand(), a.taskReceiptCommand(), a.taskExportCommand(), a.taskStatsCommand())
	return cmd
}

// pageSize is the most that the hub answers at once.
const pageSize = 500

func (a *app) taskListCommand() *cobra.Command {
	var states []string
	var limit int
	request := &deckhandv1.ListTasksRequest{}
	cmd := &cobra.Command{
		Use: "list", Short: "List tasks, newest first",
		Example: `deckhand task list --agent log-triage --state running,queued
# every id, for a script
deckhand task list --limit 0 -o name`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range states {
				state, ok := deckhandv1.TaskState_value["TASK_STATE_"+strings.ToUpper(name)]
				if !ok || state == 0 {
					return usage(cmd, "there is no task state %q, the states are %s", name, strings.Join(stateNames(), ", "))
				}
				request.States = append(request.States, deckhandv1.TaskState(state))
			}
			if limit < 0 {
				return usage(cmd, "--limit is %d, give 0 for all or a positive number", limit)
			}
			return a.taskList(cmd, request, limit)
		},
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only tasks in these states, for example running,queued")
	cmd.Flags().StringVar(&request.AgentId, "agent", "", "only tasks of this agent")
	cmd.Flags().StringVar(&request.Query, "search", "", "only tasks with these words in their title, goal or result")
	cmd.Flags().StringVar(&request.ParentId, "parent", "", "only subtasks of this task")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of items (0 = all)")
	cmd.Flags().StringVar(&request.PageToken, "page", "", "continue from this page token")
	return cmd
}

func stateNames() []string {
	var names []string
	for i := int32(1); i < int32(len(deckhandv1.TaskState_name)); i++ {
		names = append(names, enumName(deckhandv1.TaskState(i)))
	}
	return names
}

func (a *app) taskList(cmd *cobra.Command, request *deckhandv1.ListTasksRequest, limit int) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	var tasks []*deckhandv1.Task
	for {
		request.PageSize = pageSize
		if limit > 0 {
			request.PageSize = int32(min(pageSize, limit-len(tasks)))
		}
		res, err := client.Tasks.ListTasks(cmd.Context(), connect.NewRequest(request))
		if err != nil {
			return err
		}
		tasks = append(tasks, res.Msg.GetTasks()...)
		request.PageToken = res.Msg.GetNextPageToken()
		if request.PageToken == "" || limit > 0 && len(tasks) >= limit {
			break
		}
	}
	if err := output.List(a.printer(), a.taskNoun(), tasks); err != nil {
		return err
	}
	a.noteWaiting(tasks...)
	switch {
	case request.PageToken != "":
		a.notef("there are more: add --page %s, or --limit 0 for all", request.PageToken)
	case len(tasks) == 0 && (request.AgentId != "" || request.Query != "" || request.ParentId != "" || len(request.States) > 0):
		a.notef("no such tasks; all of them: deckhand task list")
	case len(tasks) == 0:
		a.notef(`no tasks yet; start one: deckhand run AGENT "what to reach"`)
	}
	return nil
}

func (a *app) taskShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show TASK", Short: "Show a task", Example: "deckhand task show task_3q9 -o yaml",
		Args: takes("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Tasks.GetTask(cmd.Context(), connect.NewRequest(&deckhandv1.GetTaskRequest{TaskId: args[0]}))
			if err != nil {
				return err
			}
			if err := output.One(a.printer(), a.taskNoun(), res.Msg.GetTask()); err != nil {
				return err
			}
			a.noteWaiting(res.Msg.GetTask())
			if task := res.Msg.GetTask(); task.GetAgentId() != "" && !final(task.GetState()) {
				a.noteEstimate(cmd.Context(), client, &deckhandv1.GetEstimateRequest{TaskId: task.GetId()})
			}
			return nil
		},
	}
}

func (a *app) taskStepsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "steps TASK", Short: "List a task's steps: its tool calls", Example: "deckhand task steps task_3q9",
		Args: takes("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			steps, err := client.Steps(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if len(steps) == 0 {
				a.notef("no steps yet; see what it is doing: deckhand task watch %s", args[0])
			}
			return output.List(a.printer(), a.stepNoun(), steps)
		},
	}
}

func (a *app) taskCancelCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "cancel TASK...", Short: "End tasks; their running commands are killed",
		Example: `deckhand task cancel task_3q9 --reason "wrong server"`,
		Args:    takes("TASK..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			var tasks []*deckhandv1.Task
			for _, id := range args {
				res, err := client.Tasks.CancelTask(cmd.Context(), connect.NewRequest(&deckhandv1.CancelTaskRequest{TaskId: id, Reason: reason}))
				if err != nil {
					return err
				}
				tasks = append(tasks, res.Msg.GetTask())
			}
			if len(tasks) == 1 {
				return output.Brief(a.printer(), a.taskNoun(), tasks[0])
			}
			return output.List(a.printer(), a.taskNoun(), tasks)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}
