package agent

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func graphCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "graph", Short: "Show which agents may give work to which, and which have",
		Long: `Lists who may delegate or hand work over to whom, by their newest personas, and
what was given so: how many tasks, how many of them have not ended, and for how
many of them a run waits now.`,
		Example: "deckhand agent graph -o wide",
		Args:    env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Agents.GetAgentGraph(cmd.Context(), &deckhandv1.GetAgentGraphRequest{})
			if err != nil {
				return err
			}
			if len(res.GetEdges()) == 0 {
				e.Notef("no agent may give work to another; name some in a persona's agents.delegate or agents.handoff")
			}
			return output.List(e.Printer(), edgeNoun(), res.GetEdges())
		},
	}
}

func edgeNoun() output.Noun[*deckhandv1.AgentEdge] {
	count := func(of func(*deckhandv1.AgentEdge) int64) func(*deckhandv1.AgentEdge) string {
		return func(x *deckhandv1.AgentEdge) string { return fmt.Sprint(of(x)) }
	}
	return output.Noun[*deckhandv1.AgentEdge]{
		Name: func(x *deckhandv1.AgentEdge) string { return x.GetFrom() + "/" + x.GetTo() + "/" + x.GetKind() },
		Columns: []output.Column[*deckhandv1.AgentEdge]{
			{Header: "from", Value: (*deckhandv1.AgentEdge).GetFrom},
			{Header: "to", Value: (*deckhandv1.AgentEdge).GetTo},
			{Header: "kind", Value: (*deckhandv1.AgentEdge).GetKind},
			{Header: "permitted", Value: func(x *deckhandv1.AgentEdge) string { return fmt.Sprint(x.GetPermitted()) }},
			{Header: "tasks", Value: count((*deckhandv1.AgentEdge).GetTasks)},
			{Header: "live", Value: count((*deckhandv1.AgentEdge).GetLive)},
			{Header: "waiting", Value: count((*deckhandv1.AgentEdge).GetWaiting)},
			{Header: "cost", Value: func(x *deckhandv1.AgentEdge) string {
				return output.Cost(&deckhandv1.Usage{CostMicros: x.GetCostMicros()})
			}},
			{Header: "tokens", Value: count((*deckhandv1.AgentEdge).GetTokens), Wide: true},
			{Header: "last", Value: func(x *deckhandv1.AgentEdge) string { return output.Moment(x.GetLastAt()) }, Wide: true},
		},
	}
}
