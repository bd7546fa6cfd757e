// Package kill is the command "deckhand kill": it stops all work of a task,
// agent, trigger, node or organisation at once.
package kill

import (
	"charm.land/lipgloss/v2"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// options are the flags of kill.
type options struct {
	yes     bool
	request *deckhandv1.KillRequest
}

// Command returns the command "deckhand kill".
func Command(e *env.Env) *cobra.Command {
	o := options{request: &deckhandv1.KillRequest{}}
	cmd := &cobra.Command{
		Use: "kill task|agent|trigger|node|lineage|org [ID]", Short: "Kill a task, or all work of an agent, trigger, node, lineage or organisation",
		Long: `Cancels every task in the scope for good and kills all that runs of them. Unless
the scope is one task, a hold then keeps anything of it from starting until it
is released. One's own tasks are everybody's to kill, the rest an
administrator's; anything larger than a task needs --yes.

Each line says what is known: "confirmed" when the node has looked and nothing
is left, "stops by" a time for a node that is cut off, "pending" for one that
has not done it yet and is asked again. The exit code is 1 unless all is
confirmed.`,
		Example: `deckhand kill task task_3q9
deckhand kill agent log-triage --reason "deletes what it should read" --yes
deckhand kill org --yes`,
		Args: env.Args("SCOPE", "[ID]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.request.Scope, err = scopeOf(cmd, args); err != nil {
				return err
			}
			if o.request.GetScope() != deckhandv1.KillScope_KILL_SCOPE_TASK && !o.yes {
				return env.Usage(cmd, "this ends every task of the %s for good and keeps new ones from starting, add --yes if that is meant", args[0])
			}
			o.request.ObjectId = env.Optional(args, 1)
			return kill(e, cmd, o.request)
		},
	}
	cmd.Flags().StringVar(&o.request.Reason, "reason", "", "reason, which is shown to everybody who waits")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "kill more than one task")
	return cmd
}

func kill(e *env.Env, cmd *cobra.Command, request *deckhandv1.KillRequest) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	res, err := client.Control.Kill(cmd.Context(), request)
	if err != nil {
		return err
	}
	tasks := res.GetTasks()
	if err := output.List(e.Printer(), killedNoun(), tasks); err != nil {
		return err
	}
	if len(tasks) == 0 && len(res.GetSetups()) == 0 {
		e.Notef("Nothing was running or queued.")
	}
	for _, one := range res.GetSetups() {
		e.Notef("ended the setup of image %s on node %s", termsafe.Line(one.GetImage()), termsafe.Line(one.GetNodeId()))
	}
	if held := res.GetHold(); held != nil {
		e.Notef("nothing of it starts until you release it: deckhand hold release %s", termsafe.Line(held.GetId()))
	}
	open := 0
	for _, task := range tasks {
		if task.GetOutcome() != deckhandv1.KillOutcome_KILL_OUTCOME_CONFIRMED {
			open++
		}
	}
	if open > 0 {
		return env.Failed(env.ExitFailed, fault.New(fault.Aborted, "%d of %d are not confirmed yet", open, len(tasks)).
			WithFix("their nodes are told again by themselves; give the order again to see how they stand"))
	}
	return nil
}

func killedNoun() output.Noun[*deckhandv1.KilledTask] {
	return output.Noun[*deckhandv1.KilledTask]{
		Name: (*deckhandv1.KilledTask).GetTaskId,
		Columns: []output.Column[*deckhandv1.KilledTask]{
			{Header: "task", Value: (*deckhandv1.KilledTask).GetTaskId},
			{Header: "node", Value: (*deckhandv1.KilledTask).GetNodeId},
			{Header: "outcome", Value: outcome, Style: func(x *deckhandv1.KilledTask) lipgloss.Style {
				if x.GetOutcome() == deckhandv1.KillOutcome_KILL_OUTCOME_CONFIRMED {
					return lipgloss.NewStyle().Foreground(lipgloss.Green)
				}
				return lipgloss.NewStyle().Foreground(lipgloss.Red)
			}},
			{Header: "detail", Value: (*deckhandv1.KilledTask).GetDetail, Max: 80},
		},
	}
}

func outcome(x *deckhandv1.KilledTask) string {
	switch x.GetOutcome() {
	case deckhandv1.KillOutcome_KILL_OUTCOME_CONFIRMED:
		return "confirmed"
	case deckhandv1.KillOutcome_KILL_OUTCOME_STOPS_BY:
		return "stops by " + output.Moment(x.GetStopsBy())
	}
	return "pending"
}
