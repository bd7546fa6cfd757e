package cli

import (
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) taskReorderCommand() *cobra.Command {
	var first bool
	var before string
	var priority int32
	cmd := &cobra.Command{
		Use: "reorder TASK", Short: "Move a queued task",
		Long: `
The queue goes by priority, 10 first. Within one priority users take turns:
whoever has the fewest tasks under way is next.
`,
		Example: `deckhand task reorder task_3q9 --first
deckhand task reorder task_3q9 --before task_7bc
deckhand task reorder task_3q9 --priority 8`,
		Args: takes("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.ReorderTaskRequest{TaskId: args[0]}
			given := 0
			if first {
				request.Place, given = &deckhandv1.ReorderTaskRequest_First{First: true}, given+1
			}
			if before != "" {
				request.Place, given = &deckhandv1.ReorderTaskRequest_Before{Before: before}, given+1
			}
			if priority != 0 {
				request.Place, given = &deckhandv1.ReorderTaskRequest_Priority{Priority: priority}, given+1
			}
			if given != 1 {
				return usage(cmd, "give one of --first, --before TASK and --priority N")
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Queue.ReorderTask(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.taskNoun(), res.Msg.GetTask())
		},
	}
	cmd.Flags().BoolVar(&first, "first", false, "before all others")
	cmd.Flags().StringVar(&before, "before", "", "before that queued task")
	cmd.Flags().Int32Var(&priority, "priority", 0, "with that priority, 1 to 10")
	cmd.Flags().Lookup("priority").DefValue = ""
	return cmd
}

func (a *app) taskAssignCommand() *cobra.Command {
	return &cobra.Command{
		Use: "assign TASK WHO", Short: "Assign a task: @agent:NAME, @human:NAME or none",
		Example: `deckhand task assign task_3q9 @agent:log-triage
deckhand task assign task_3q9 @human:bob`,
		Args: takes("TASK", "WHO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Queue.AssignTask(cmd.Context(), connect.NewRequest(&deckhandv1.AssignTaskRequest{TaskId: args[0], AssignTo: args[1]}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.taskNoun(), res.Msg.GetTask())
		},
	}
}

func (a *app) taskCompleteCommand() *cobra.Command {
	var summary string
	cmd := &cobra.Command{
		Use: "complete TASK", Short: "End a task that a person did by hand",
		Example: `deckhand task complete task_3q9 --summary "swapped the disk"`,
		Args:    takes("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Queue.CompleteTask(cmd.Context(), connect.NewRequest(&deckhandv1.CompleteTaskRequest{TaskId: args[0], Summary: summary}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.taskNoun(), res.Msg.GetTask())
		},
	}
	cmd.Flags().StringVar(&summary, "summary", "", "what came of it")
	return cmd
}

func (a *app) workersCommand() *cobra.Command {
	cmd := group("workers", "See and drain workers", `
A worker runs agents' loops; deckhand worker starts one. One that is drained
takes no new tasks; those it has go on.
`, `
deckhand workers list
deckhand workers drain worker_3q9 --reason "new kernel"
`)
	list := &cobra.Command{
		Use: "list", Short: "List the workers that were heard lately", Example: "deckhand workers list",
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			workers, err := sdk.All(cmd.Context(), client.Queue.ListWorkers, func(token string) *deckhandv1.ListWorkersRequest {
				return &deckhandv1.ListWorkersRequest{PageToken: token}
			}, (*deckhandv1.ListWorkersResponse).GetWorkers)
			if err != nil {
				return err
			}
			return output.List(a.printer(), a.workerNoun(), workers)
		},
	}
	var reason string
	drain := &cobra.Command{
		Use: "drain WORKER", Short: "Keep new tasks off a worker; those it has go on",
		Example: `deckhand workers drain worker_3q9 --reason "new kernel"`, Args: takes("WORKER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Queue.DrainWorker(cmd.Context(), connect.NewRequest(&deckhandv1.DrainWorkerRequest{WorkerId: args[0], Reason: reason}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.workerNoun(), res.Msg.GetWorker())
		},
	}
	drain.Flags().StringVar(&reason, "reason", "", "why, for others")
	undrain := &cobra.Command{
		Use: "undrain WORKER", Short: "Let a worker take tasks again", Example: "deckhand workers undrain worker_3q9",
		Args: takes("WORKER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Queue.UndrainWorker(cmd.Context(), connect.NewRequest(&deckhandv1.UndrainWorkerRequest{WorkerId: args[0]}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.workerNoun(), res.Msg.GetWorker())
		},
	}
	cmd.AddCommand(list, drain, undrain)
	return cmd
}

func (a *app) workerNoun() output.Noun[*deckhandv1.Worker] {
	return output.Noun[*deckhandv1.Worker]{
		Name: (*deckhandv1.Worker).GetId,
		Columns: []output.Column[*deckhandv1.Worker]{
			{Header: "id", Value: (*deckhandv1.Worker).GetId},
			{Header: "name", Value: (*deckhandv1.Worker).GetName},
			{Header: "pool", Value: (*deckhandv1.Worker).GetPool},
			{Header: "tasks", Value: func(x *deckhandv1.Worker) string { return fmt.Sprintf("%d of %d", x.GetActive(), x.GetSlots()) }},
			{Header: "work", Value: workerWork, Max: 60},
			{Header: "seen", Value: func(x *deckhandv1.Worker) string { return a.age(x.GetLastSeenAt()) }},
			{Header: "version", Value: (*deckhandv1.Worker).GetVersion, Wide: true},
			{Header: "registered", Value: func(x *deckhandv1.Worker) string { return moment(x.GetRegisteredAt()) }, Wide: true},
		},
	}
}

// workerWork reports whether a worker takes tasks, and why it does not.
func workerWork(x *deckhandv1.Worker) string {
	switch {
	case x.GetDrain() != nil:
		return withReason("drained by "+x.GetDrain().GetBy(), x.GetDrain().GetReason())
	case x.GetPressure() != "":
		return withReason("under pressure", x.GetPressure())
	}
	return "takes tasks"
}

// place says where a task stands in the queue.
func place(t *deckhandv1.Task) string {
	if t.GetStanding().GetPlace() == 0 {
		return ""
	}
	return fmt.Sprintf("%d, %s", t.GetStanding().GetPlace(), waits(t.GetStanding()))
}

// waits says how long a task is likely to wait, and from what that is known.
func waits(s *deckhandv1.Standing) string {
	if s.GetWait() == nil {
		return s.GetBasis()
	}
	if wait := s.GetWait().AsDuration(); wait >= time.Second {
		return fmt.Sprintf("about %s by %s", output.Duration(wait), s.GetBasis())
	}
	return "at once by " + s.GetBasis()
}
