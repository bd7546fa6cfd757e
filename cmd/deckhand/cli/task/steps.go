package task

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func stepNoun() output.Noun[*deckhandv1.Step] {
	return output.Noun[*deckhandv1.Step]{
		Name: (*deckhandv1.Step).GetId,
		Columns: []output.Column[*deckhandv1.Step]{
			{Header: "#", Value: func(x *deckhandv1.Step) string { return fmt.Sprint(x.GetNumber()) }},
			{Header: "id", Value: (*deckhandv1.Step).GetId},
			{Header: "tool", Value: (*deckhandv1.Step).GetTool},
			{Header: "state", Value: func(x *deckhandv1.Step) string { return output.EnumName(x.GetState()) },
				Style: func(x *deckhandv1.Step) lipgloss.Style { return output.StepStyle(x.GetState()) }},
			{Header: "took", Value: func(x *deckhandv1.Step) string { return output.Took(x.GetStartedAt(), x.GetFinishedAt()) }},
			{Header: "log", Value: func(x *deckhandv1.Step) string { return output.Size(x.GetLogBytes()) }},
			{Header: "arguments", Value: func(x *deckhandv1.Step) string { return output.Arguments(x.GetArguments()) }, Max: 60},
			{Header: "exit", Value: func(x *deckhandv1.Step) string { return output.Field(x.GetOutcome(), "exit_code") }, Wide: true},
			{Header: "refused", Value: refusedHosts, Wide: true},
			{Header: "error", Value: (*deckhandv1.Step).GetErrorCode, Wide: true},
			{Header: "decision", Value: (*deckhandv1.Step).GetDecisionReason, Wide: true},
			{Header: "rule", Value: func(x *deckhandv1.Step) string { return x.GetDecision().GetRule() }, Wide: true},
			{Header: "policy", Value: func(x *deckhandv1.Step) string { return x.GetDecision().GetVersion() }, Wide: true},
			{Header: "attempt", Value: func(x *deckhandv1.Step) string { return fmt.Sprint(x.GetAttempt()) }, Wide: true},
			{Header: "observation", Value: (*deckhandv1.Step).GetObservation, Wide: true},
		},
	}
}

// refusedHosts returns the hosts that a step's command wanted to reach and may
// not.
func refusedHosts(x *deckhandv1.Step) string {
	var hosts []string
	for _, value := range x.GetOutcome().GetFields()["egress"].GetStructValue().GetFields()["refused"].GetListValue().GetValues() {
		hosts = append(hosts, termsafe.Line(output.Field(value.GetStructValue(), "host")))
	}
	return strings.Join(hosts, " ")
}

func stepsCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "steps TASK", Short: "List a task's steps: its tool calls", Example: "deckhand task steps task_3q9",
		Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			steps, err := client.Steps(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if len(steps) == 0 {
				e.Notef("no steps yet; see what it is doing: deckhand task watch %s", args[0])
			}
			return output.List(e.Printer(), stepNoun(), steps)
		},
	}
}
