package agent

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func versionsCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "versions NAME", Short: "List the versions of an agent's persona, the newest first",
		Example: "deckhand agent versions log-triage", Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, versionRow(e), "", client.Agents.ListAgentVersions, func(token string) *deckhandv1.ListAgentVersionsRequest {
				return &deckhandv1.ListAgentVersionsRequest{AgentId: args[0], PageToken: token}
			}, (*deckhandv1.ListAgentVersionsResponse).GetVersions)
		},
	}
}

func versionRow(e *env.Env) output.Noun[*deckhandv1.AgentVersionSummary] {
	number := func(x *deckhandv1.AgentVersionSummary) string { return fmt.Sprint(x.GetVersion()) }
	return output.Noun[*deckhandv1.AgentVersionSummary]{
		Name: number,
		Columns: []output.Column[*deckhandv1.AgentVersionSummary]{
			{Header: "version", Value: number},
			{Header: "by", Value: (*deckhandv1.AgentVersionSummary).GetCreatedBy},
			{Header: "age", Value: func(x *deckhandv1.AgentVersionSummary) string { return e.Age(x.GetCreatedAt()) }},
			{Header: "change", Value: (*deckhandv1.AgentVersionSummary).GetChange, Max: 80},
			{Header: "model", Value: func(x *deckhandv1.AgentVersionSummary) string { return output.ModelName(x.GetProvider(), x.GetModel()) }, Wide: true},
			{Header: "applied", Value: func(x *deckhandv1.AgentVersionSummary) string { return output.Moment(x.GetCreatedAt()) }, Wide: true},
		},
	}
}
