package cli

import (
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// nodeWork says what keeps tasks off a node: "" for nothing.
func nodeWork(n *deckhandv1.Node) string {
	var parts []string
	if l := n.GetLock(); l != nil {
		parts = append(parts, "locked by "+l.GetBy()+": "+l.GetReason())
	}
	if d := n.GetDrain(); d != nil {
		text := "drained by " + d.GetBy()
		if d.GetReason() != "" {
			text += ": " + d.GetReason()
		}
		parts = append(parts, text)
	}
	if why := n.GetPressure(); why != "" {
		parts = append(parts, "under pressure: "+why)
	}
	return strings.Join(parts, "; ")
}

// goOn tells of the tasks that a drain or a lock does not end.
func (a *app) goOn(active int32) {
	switch {
	case active == 1:
		a.notef("one task is under way there and goes on; see: deckhand task list --state running")
	case active > 1:
		a.notef("%d tasks are under way there and go on; see: deckhand task list --state running", active)
	}
}

func (a *app) nodeDrainCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Let no new task start on a node",
		Long: `Lets no new task start on a node until it is undrained. Tasks under way go on;
those that wait say why.`,
		Example: `deckhand node drain web-1 --reason "disk is replaced on Friday"`,
		Args:    takes("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Nodes.DrainNode(cmd.Context(), connect.NewRequest(&deckhandv1.DrainNodeRequest{NodeId: args[0], Reason: reason}))
			if err != nil {
				return err
			}
			a.goOn(res.Msg.GetActiveTasks())
			return output.Brief(a.printer(), a.nodeNoun(), res.Msg.GetNode())
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "shown to everybody who waits")
	return cmd
}

func (a *app) nodeUndrainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "undrain NODE", Short: "Let tasks start on a node again", Example: "deckhand node undrain web-1",
		Args: takes("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Nodes.UndrainNode(cmd.Context(), connect.NewRequest(&deckhandv1.UndrainNodeRequest{NodeId: args[0]}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.nodeNoun(), res.Msg.GetNode())
		},
	}
}

func (a *app) nodeLocksCommand() *cobra.Command {
	request := &deckhandv1.ListNodeLocksRequest{}
	cmd := &cobra.Command{
		Use: "locks [NODE]", Short: "List who holds which machine, and why", Example: "deckhand node locks --all",
		Args: takes("[NODE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			request.NodeId = optional(args, 0)
			locks, err := sdk.All(cmd.Context(), client.Nodes.ListNodeLocks, func(token string) *deckhandv1.ListNodeLocksRequest {
				request.PageToken = token
				return request
			}, (*deckhandv1.ListNodeLocksResponse).GetLocks)
			if err != nil {
				return err
			}
			if len(locks) == 0 {
				a.notef("no lock is held")
			}
			return output.List(a.printer(), a.lockNoun(), locks)
		},
	}
	cmd.Flags().BoolVar(&request.Released, "all", false, "those of the past too")
	return cmd
}

func (a *app) lockNoun() output.Noun[*deckhandv1.NodeLock] {
	return output.Noun[*deckhandv1.NodeLock]{
		Name: (*deckhandv1.NodeLock).GetNodeName,
		Columns: []output.Column[*deckhandv1.NodeLock]{
			{Header: "node", Value: (*deckhandv1.NodeLock).GetNodeName},
			{Header: "by", Value: (*deckhandv1.NodeLock).GetBy},
			{Header: "since", Value: func(x *deckhandv1.NodeLock) string { return moment(x.GetTakenAt()) }},
			{Header: "until", Value: func(x *deckhandv1.NodeLock) string { return moment(x.GetReleasedAt()) }},
			{Header: "reason", Value: (*deckhandv1.NodeLock).GetReason, Max: 60},
			{Header: "command", Value: (*deckhandv1.NodeLock).GetExecId, Wide: true},
			{Header: "released", Value: (*deckhandv1.NodeLock).GetReleasedBy, Wide: true},
			{Header: "id", Value: (*deckhandv1.NodeLock).GetId, Wide: true},
		},
	}
}

func (a *app) nodeLockCommand() *cobra.Command {
	request := &deckhandv1.LockNodeRequest{}
	cmd := &cobra.Command{
		Use: "lock NODE", Short: "Lock a machine for manual work",
		Long: `Takes a node for work on the machine itself, until you unlock it: no task starts
there meanwhile, and nobody else runs commands on the machine. Tasks under way
go on. A command with --host takes the lock for itself when it is free.`,
		Example: `deckhand node lock web-1 --reason "kernel update"`,
		Args:    takes("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if request.GetReason() == "" {
				return usage(cmd, "--reason is missing: those who wait are told it")
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			request.NodeId = args[0]
			res, err := client.Nodes.LockNode(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			a.goOn(res.Msg.GetActiveTasks())
			return output.Brief(a.printer(), a.lockNoun(), res.Msg.GetLock())
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", "why; everybody who waits is told")
	return cmd
}

func (a *app) nodeUnlockCommand() *cobra.Command {
	request := &deckhandv1.UnlockNodeRequest{}
	cmd := &cobra.Command{
		Use: "unlock NODE", Short: "Unlock a machine", Example: "deckhand node unlock web-1",
		Args: takes("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			request.NodeId = args[0]
			res, err := client.Nodes.UnlockNode(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			a.notef("node %s is free", termsafe.Line(res.Msg.GetNode().GetName()))
			return output.Brief(a.printer(), a.nodeNoun(), res.Msg.GetNode())
		},
	}
	cmd.Flags().BoolVar(&request.Force, "force", false, "also when somebody else holds it, or a command runs under it")
	return cmd
}
