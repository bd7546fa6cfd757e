package agent

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func topCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "top NAME", Short: "Show what the jails of an agent use",
		Long: `Shows what the jail of an agent uses, and those of its tasks, by the newest sample
that their nodes have kept. With -o json it prints the samples of the last hour.`,
		Example: "deckhand agent top log-triage", Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			request := &deckhandv1.GetAgentTelemetryRequest{AgentId: args[0]}
			if e.Format.ForPeople() {
				request.MaxSamples = 1
			}
			res, err := client.Telemetry.GetAgentTelemetry(cmd.Context(), request)
			if err != nil {
				return err
			}
			if len(res.GetJails()) == 0 {
				e.Notef("it has no jail yet: its first task makes one")
			}
			return output.List(e.Printer(), jailNoun(e), res.GetJails())
		},
	}
}

func jailNoun(e *env.Env) output.Noun[*deckhandv1.JailTelemetry] {
	type jail = deckhandv1.JailTelemetry
	last := func(x *jail) *deckhandv1.JailSample {
		if n := len(x.GetSamples()); n > 0 {
			return x.GetSamples()[n-1]
		}
		return nil
	}
	size := func(of func(*deckhandv1.NodeUsage) int64) func(*jail) string {
		return func(x *jail) string {
			if last(x) == nil {
				return ""
			}
			return output.Size(of(last(x).GetUsage()))
		}
	}
	return output.Noun[*jail]{
		Name: (*jail).GetJailId,
		Columns: []output.Column[*jail]{
			{Header: "jail", Value: (*jail).GetJailId},
			{Header: "node", Value: func(x *jail) string { return cmp.Or(x.GetNodeName(), x.GetNodeId()) }},
			{Header: "task", Value: (*jail).GetTaskId},
			{Header: "age", Value: func(x *jail) string { return e.Age(last(x).GetTime()) }},
			{Header: "cpu", Value: func(x *jail) string {
				if last(x) == nil {
					return ""
				}
				return fmt.Sprintf("%.1f%%", float64(last(x).GetUsage().GetCpuMillis())/10) //nolint:mnd // thousandths to percent
			}},
			{Header: "memory", Value: size((*deckhandv1.NodeUsage).GetMemoryBytes)},
			{Header: "disk", Value: size((*deckhandv1.NodeUsage).GetDiskBytes)},
			{Header: "problem", Value: (*jail).GetProblem, Max: 60},
		},
	}
}
