package cli

import (
	"strings"

	"charm.land/lipgloss/v2"
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// killScopes are what the kill switch takes, as people write it.
var killScopes = []struct {
	name  string
	scope deckhandv1.KillScope
}{
	{"task", deckhandv1.KillScope_KILL_SCOPE_TASK},
	{"agent", deckhandv1.KillScope_KILL_SCOPE_AGENT},
	{"trigger", deckhandv1.KillScope_KILL_SCOPE_TRIGGER},
	{"node", deckhandv1.KillScope_KILL_SCOPE_NODE},
	{"lineage", deckhandv1.KillScope_KILL_SCOPE_LINEAGE},
	{"org", deckhandv1.KillScope_KILL_SCOPE_ORGANISATION},
}

// scopeName returns a scope as people write it.
func scopeName(scope deckhandv1.KillScope) string {
	for _, known := range killScopes {
		if known.scope == scope {
			return known.name
		}
	}
	return "unknown"
}

func killScope(cmd *cobra.Command, args []string) (deckhandv1.KillScope, error) {
	var names []string
	for _, known := range killScopes {
		names = append(names, known.name)
		if known.name != args[0] {
			continue
		}
		if known.name == "org" && len(args) > 1 {
			return 0, usage(cmd, "an organisation is killed without an ID: it is your own")
		}
		if known.name != "org" && len(args) < 2 {
			return 0, usage(cmd, "ID is missing: which %s", known.name)
		}
		return known.scope, nil
	}
	return 0, usage(cmd, "%q cannot be killed, give one of %s", args[0], strings.Join(names, ", "))
}

func (a *app) killCommand() *cobra.Command {
	var yes bool
	request := &deckhandv1.KillRequest{}
	cmd := &cobra.Command{
		Use: "kill task|agent|trigger|node|lineage|org [ID]", Short: "Kill a task, or everything belonging to an agent, trigger, node, lineage or organisation",
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
		Args: takes("SCOPE", "[ID]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if request.Scope, err = killScope(cmd, args); err != nil {
				return err
			}
			if request.GetScope() != deckhandv1.KillScope_KILL_SCOPE_TASK && !yes {
				return usage(cmd, "this ends every task of the %s for good and keeps new ones from starting, add --yes if that is meant", args[0])
			}
			request.ObjectId = optional(args, 1)
			return a.kill(cmd, request)
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", "why; everybody who waits is told")
	cmd.Flags().BoolVar(&yes, "yes", false, "kill more than one task")
	return cmd
}

func (a *app) kill(cmd *cobra.Command, request *deckhandv1.KillRequest) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	res, err := client.Control.Kill(cmd.Context(), connect.NewRequest(request))
	if err != nil {
		return err
	}
	tasks := res.Msg.GetTasks()
	if err := output.List(a.printer(), a.killedNoun(), tasks); err != nil {
		return err
	}
	if len(tasks) == 0 {
		a.notef("Nothing was running or queued.")
	}
	if held := res.Msg.GetHold(); held != nil {
		a.notef("nothing of it starts until you release it: deckhand hold release %s", termsafe.Line(held.GetId()))
	}
	open := 0
	for _, task := range tasks {
		if task.GetOutcome() != deckhandv1.KillOutcome_KILL_OUTCOME_CONFIRMED {
			open++
		}
	}
	if open > 0 {
		return failed(exitFailed, fault.New(fault.Aborted, "%d of %d are not confirmed yet", open, len(tasks)).
			WithFix("their nodes are told again by themselves; give the order again to see how they stand"))
	}
	return nil
}

func (a *app) killedNoun() output.Noun[*deckhandv1.KilledTask] {
	return output.Noun[*deckhandv1.KilledTask]{
		Name: (*deckhandv1.KilledTask).GetTaskId,
		Columns: []output.Column[*deckhandv1.KilledTask]{
			{Header: "task", Value: (*deckhandv1.KilledTask).GetTaskId},
			{Header: "node", Value: (*deckhandv1.KilledTask).GetNodeId},
			{Header: "outcome", Value: killOutcome, Style: func(x *deckhandv1.KilledTask) lipgloss.Style {
				if x.GetOutcome() == deckhandv1.KillOutcome_KILL_OUTCOME_CONFIRMED {
					return lipgloss.NewStyle().Foreground(lipgloss.Green)
				}
				return lipgloss.NewStyle().Foreground(lipgloss.Red)
			}},
			{Header: "detail", Value: (*deckhandv1.KilledTask).GetDetail, Max: 80},
		},
	}
}

func killOutcome(x *deckhandv1.KilledTask) string {
	switch x.GetOutcome() {
	case deckhandv1.KillOutcome_KILL_OUTCOME_CONFIRMED:
		return "confirmed"
	case deckhandv1.KillOutcome_KILL_OUTCOME_STOPS_BY:
		return "stops by " + moment(x.GetStopsBy())
	}
	return "pending"
}

func (a *app) holdCommand() *cobra.Command {
	cmd := group("hold", "See and release what the kill switch left standing", `
A hold keeps everything of an agent, trigger, node, lineage or organisation from
starting. The kill switch makes one; an administrator releases it.
`, `
deckhand hold list
deckhand hold release hold_3q9
`)
	cmd.AddCommand(a.holdListCommand(), a.holdReleaseCommand())
	return cmd
}

func (a *app) holdListCommand() *cobra.Command {
	request := &deckhandv1.ListHoldsRequest{}
	cmd := &cobra.Command{
		Use: "list", Short: "List what is held, and why", Example: "deckhand hold list --all",
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			holds, err := sdk.All(cmd.Context(), client.Control.ListHolds, func(token string) *deckhandv1.ListHoldsRequest {
				request.PageToken = token
				return request
			}, (*deckhandv1.ListHoldsResponse).GetHolds)
			if err != nil {
				return err
			}
			if len(holds) == 0 {
				a.notef("nothing is held")
			}
			return output.List(a.printer(), a.holdNoun(), holds)
		},
	}
	cmd.Flags().BoolVar(&request.Released, "all", false, "those that were released too")
	return cmd
}

func (a *app) holdReleaseCommand() *cobra.Command {
	request := &deckhandv1.ReleaseHoldRequest{}
	cmd := &cobra.Command{
		Use: "release HOLD", Short: "Let what was held start again",
		Long:    `Lets what was held start again. Tasks that were killed stay cancelled.`,
		Example: `deckhand hold release hold_3q9 --reason "persona is mended"`,
		Args:    takes("HOLD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			request.HoldId = args[0]
			res, err := client.Control.ReleaseHold(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.holdNoun(), res.Msg.GetHold())
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", "why, for the record")
	return cmd
}

func (a *app) holdNoun() output.Noun[*deckhandv1.Hold] {
	return output.Noun[*deckhandv1.Hold]{
		Name: (*deckhandv1.Hold).GetId,
		Columns: []output.Column[*deckhandv1.Hold]{
			{Header: "id", Value: (*deckhandv1.Hold).GetId},
			{Header: "scope", Value: func(x *deckhandv1.Hold) string { return scopeName(x.GetScope()) }},
			{Header: "of", Value: (*deckhandv1.Hold).GetObjectId},
			{Header: "by", Value: (*deckhandv1.Hold).GetHeldBy},
			{Header: "since", Value: func(x *deckhandv1.Hold) string { return moment(x.GetCreatedAt()) }},
			{Header: "until", Value: func(x *deckhandv1.Hold) string { return moment(x.GetReleasedAt()) }},
			{Header: "reason", Value: (*deckhandv1.Hold).GetReason, Max: 60},
			{Header: "released", Value: (*deckhandv1.Hold).GetReleasedBy, Wide: true},
		},
	}
}
