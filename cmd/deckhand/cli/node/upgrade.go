package node

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func upgradeCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.UpgradeNodesRequest{}
	cmd := &cobra.Command{
		Use: "upgrade", Short: "Upgrade deckhand-node on the nodes",
		Long: `Brings the release whose programs the hub has (its setting node-programs) to the nodes,
a tenth of them at a time. Commands in jails continue. Each node verifies the release's
signature by its own release key (/etc/deckhand/release.pub), tries the new program, and
returns to the old one if that has no session with the hub within a minute.

The rollout stops by itself when more nodes than --max-failures have failed. It takes
the place of one that runs: begin with --percent 10, and go on with more.`,
		Example: `deckhand node upgrade --percent 10
deckhand node upgrade --version 1.2.3 --label zone=eu --max-failures 2
deckhand node rollouts`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Nodes.UpgradeNodes(cmd.Context(), request)
			if err != nil {
				return err
			}
			e.Notef("follow it: deckhand node rollouts; stop it: deckhand node stop-rollout")
			return output.Brief(e.Printer(), rolloutNoun(e), res.GetRollout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&request.Version, "version", "", "the release, such as 1.2.3; the one that the hub has by default")
	flags.StringToStringVar(&request.Labels, "label", nil, "only nodes with this label: zone=eu; may be given more than once")
	flags.Int32Var(&request.Percent, "percent", 100, "how many percent of these nodes, 1 to 100, rounded up")
	flags.Int32Var(&request.MaxFailures, "max-failures", 0, "after how many failed nodes it still goes on")
	return cmd
}

func rolloutsCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "rollouts", Short: "List upgrades of nodes, the newest first", Example: "deckhand node rollouts -o wide",
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, rolloutNoun(e), "no rollouts yet; begin one: deckhand node upgrade --percent 10", client.Nodes.ListNodeRollouts, func(token string) *deckhandv1.ListNodeRolloutsRequest {
				return &deckhandv1.ListNodeRolloutsRequest{PageToken: token}
			}, (*deckhandv1.ListNodeRolloutsResponse).GetRollouts)
		},
	}
}

func stopRolloutCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.StopNodeRolloutRequest{}
	cmd := &cobra.Command{
		Use: "stop-rollout", Short: "Tell no more nodes to upgrade; those that were told continue", Example: `deckhand node stop-rollout --reason "wait for Monday"`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Nodes.StopNodeRollout(cmd.Context(), request)
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), rolloutNoun(e), res.GetRollout())
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", "why, for the record")
	return cmd
}

// problems says which nodes failed, and why.
func problems(r *deckhandv1.NodeRollout) string {
	parts := []string{}
	if why := r.GetReason(); why != "" {
		parts = append(parts, why)
	}
	for _, n := range r.GetNodes() {
		if n.GetProblem() != "" {
			parts = append(parts, n.GetName()+": "+n.GetProblem())
		}
	}
	return strings.Join(parts, "; ")
}

func rolloutNoun(e *env.Env) output.Noun[*deckhandv1.NodeRollout] {
	return output.Noun[*deckhandv1.NodeRollout]{
		Name: (*deckhandv1.NodeRollout).GetId,
		Columns: []output.Column[*deckhandv1.NodeRollout]{
			{Header: "version", Value: (*deckhandv1.NodeRollout).GetVersion},
			{Header: "state", Value: (*deckhandv1.NodeRollout).GetState},
			{Header: "percent", Value: func(r *deckhandv1.NodeRollout) string { return fmt.Sprint(r.GetPercent()) }},
			{Header: "installed", Value: func(r *deckhandv1.NodeRollout) string { return fmt.Sprint(r.GetInstalled()) }},
			{Header: "upgrading", Value: func(r *deckhandv1.NodeRollout) string { return fmt.Sprint(r.GetUpgrading()) }},
			{Header: "failed", Value: func(r *deckhandv1.NodeRollout) string { return fmt.Sprint(r.GetFailed()) }},
			{Header: "waiting", Value: func(r *deckhandv1.NodeRollout) string { return fmt.Sprint(r.GetWaiting()) }},
			{Header: "age", Value: func(r *deckhandv1.NodeRollout) string { return e.Age(r.GetCreatedAt()) }},
			{Header: "by", Value: (*deckhandv1.NodeRollout).GetCreatedBy},
			{Header: "problems", Value: problems, Max: 80},
			{Header: "labels", Value: func(r *deckhandv1.NodeRollout) string { return output.Labels(r.GetLabels()) }, Wide: true},
			{Header: "id", Value: (*deckhandv1.NodeRollout).GetId, Wide: true},
		},
	}
}
