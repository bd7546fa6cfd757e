package node

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func locksCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.ListNodeLocksRequest{}
	cmd := &cobra.Command{
		Use: "locks [NODE]", Short: "List locked nodes, who locked them and why", Example: "deckhand node locks --all",
		Args: env.Args("[NODE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			request.NodeId = env.Optional(args, 0)
			return env.List(cmd, e, lockNoun(), "no lock is held", client.Nodes.ListNodeLocks, func(token string) *deckhandv1.ListNodeLocksRequest {
				request.PageToken = token
				return request
			}, (*deckhandv1.ListNodeLocksResponse).GetLocks)
		},
	}
	cmd.Flags().BoolVar(&request.Released, "all", false, "those of the past too")
	return cmd
}

// lockEnd is when a lock was released, or ends at the latest.
func lockEnd(x *deckhandv1.NodeLock) string {
	if x.GetReleasedAt() != nil {
		return output.Moment(x.GetReleasedAt())
	}
	return output.Moment(x.GetExpiresAt())
}

func lockNoun() output.Noun[*deckhandv1.NodeLock] {
	return output.Noun[*deckhandv1.NodeLock]{
		Name: (*deckhandv1.NodeLock).GetNodeName,
		Columns: []output.Column[*deckhandv1.NodeLock]{
			{Header: "node", Value: (*deckhandv1.NodeLock).GetNodeName},
			{Header: "by", Value: (*deckhandv1.NodeLock).GetBy},
			{Header: "since", Value: func(x *deckhandv1.NodeLock) string { return output.Moment(x.GetTakenAt()) }},
			{Header: "until", Value: lockEnd},
			{Header: "reason", Value: (*deckhandv1.NodeLock).GetReason, Max: 60},
			{Header: "command", Value: (*deckhandv1.NodeLock).GetExecId, Wide: true},
			{Header: "task", Value: (*deckhandv1.NodeLock).GetTaskId, Wide: true},
			{Header: "released", Value: (*deckhandv1.NodeLock).GetReleasedBy, Wide: true},
			{Header: "id", Value: (*deckhandv1.NodeLock).GetId, Wide: true},
		},
	}
}
