// Package agent is the command "deckhand agent": it writes and applies persona files, and
// shows, pauses, messages, transfers and deletes agents.
package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/file"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Command returns the command "deckhand agent".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("agent", "Manage agents", `
An agent is one Markdown file, its persona: YAML front matter says what it may
use, the body tells it what to do.
`, `
deckhand agent apply -f personas/
deckhand agent list
deckhand agent show log-triage
`)
	cmd.AddCommand(applyCommand(e), listCommand(e), showCommand(e), graphCommand(e), messageCommand(e), pauseCommand(e), prepareCommand(e), resumeCommand(e),
		initCommand(e), disableCommand(e), enableCommand(e), deleteCommand(e), undeleteCommand(e), renameCommand(e), duplicateCommand(e), transferCommand(e),
		versionsCommand(e), diffCommand(e), restoreCommand(e), topCommand(e), file.Command(e, "agent", "log-triage"))
	return cmd
}

// versionNoun shows an agent together with one of its versions.
func versionNoun(e *env.Env) output.Noun[*deckhandv1.GetAgentResponse] {
	agent := noun(e)
	noun := output.Noun[*deckhandv1.GetAgentResponse]{
		Name: func(x *deckhandv1.GetAgentResponse) string { return agent.Name(x.GetAgent()) },
	}
	for _, c := range agent.Columns {
		noun.Columns = append(noun.Columns, output.Column[*deckhandv1.GetAgentResponse]{
			Header: c.Header, Value: func(x *deckhandv1.GetAgentResponse) string { return c.Value(x.GetAgent()) },
		})
	}
	version := func(header string, block bool, value func(*deckhandv1.AgentVersion) string) {
		noun.Columns = append(noun.Columns, output.Column[*deckhandv1.GetAgentResponse]{
			Header: header, Block: block, Value: func(x *deckhandv1.GetAgentResponse) string { return value(x.GetVersion()) },
		})
	}
	version("shown version", false, func(v *deckhandv1.AgentVersion) string { return fmt.Sprint(v.GetVersion()) })
	version("applied", false, func(v *deckhandv1.AgentVersion) string { return output.Moment(v.GetCreatedAt()) })
	version("by", false, (*deckhandv1.AgentVersion).GetCreatedBy)
	version("digest", false, (*deckhandv1.AgentVersion).GetDigest)
	version("persona", true, (*deckhandv1.AgentVersion).GetMarkdown)
	version("script", true, (*deckhandv1.AgentVersion).GetScript)
	return noun
}

// change calls change for each agent and prints the results.
func change(e *env.Env, cmd *cobra.Command, names []string, change func(ctx context.Context, client *sdk.Client, name string) (*deckhandv1.Agent, error)) error {
	agents, err := env.Each(cmd.Context(), e, names, change)
	if err != nil {
		return err
	}
	return output.List(e.Printer(), noun(e), agents)
}

func noun(e *env.Env) output.Noun[*deckhandv1.Agent] {
	return output.Noun[*deckhandv1.Agent]{
		Name: (*deckhandv1.Agent).GetName,
		Columns: []output.Column[*deckhandv1.Agent]{
			{Header: "name", Value: (*deckhandv1.Agent).GetName},
			{Header: "status", Value: func(x *deckhandv1.Agent) string { return output.EnumName(x.GetStatus()) }},
			{Header: "version", Value: func(x *deckhandv1.Agent) string { return fmt.Sprint(x.GetVersion()) }},
			{Header: "model", Value: func(x *deckhandv1.Agent) string { return output.ModelName(x.GetProvider(), x.GetModel()) }},
			{Header: "age", Value: func(x *deckhandv1.Agent) string { return e.Age(x.GetCreatedAt()) }},
			{Header: "owner", Value: func(x *deckhandv1.Agent) string { return strings.TrimPrefix(x.GetOwner(), "user:") }},
			{Header: "description", Value: (*deckhandv1.Agent).GetDescription, Max: 60},
			{Header: "visibility", Value: (*deckhandv1.Agent).GetVisibility, Wide: true},
			{Header: "id", Value: (*deckhandv1.Agent).GetId, Wide: true},
			{Header: "node", Value: (*deckhandv1.Agent).GetHomeNodeId, Wide: true},
			{Header: "updated", Value: func(x *deckhandv1.Agent) string { return output.Moment(x.GetUpdatedAt()) }, Wide: true},
			{Header: "reason", Value: (*deckhandv1.Agent).GetStatusReason, Wide: true},
			{Header: "since", Value: func(x *deckhandv1.Agent) string { return output.Moment(x.GetStatusSince()) }, Wide: true},
		},
	}
}
