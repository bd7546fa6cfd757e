package policy

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// testOptions are the flags of policy test.
type testOptions struct {
	agent     string
	tool      string
	arguments string
	file      string
	at        string
	labels    map[string]string
}

func testCommand(e *env.Env) *cobra.Command {
	var o testOptions
	cmd := &cobra.Command{
		Use: "test [COMMAND]", Short: "Test the decision about a call, and show the reason",
		Example: `deckhand policy test 'git -C x push --force'
deckhand policy test --agent cleaner --tool file_delete --arguments '{"path":"old"}'
deckhand policy test 'make deploy' --file new.yaml --label env=prod --at 2026-06-06T23:00:00Z`,
		Args: env.Args("[COMMAND]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.TestPolicyRequest{AgentId: o.agent, Tool: o.tool, Labels: o.labels}
			switch {
			case len(args) == 1 && o.arguments == "":
				encoded, err := json.Marshal(map[string]string{"command": args[0]})
				if err != nil {
					return err
				}
				request.ArgumentsJson = string(encoded)
			case o.arguments != "" && len(args) == 0:
				var err error
				if request.ArgumentsJson, err = env.ReadArguments(e, cmd, o.arguments); err != nil {
					return err
				}
			default:
				return env.Usage(cmd, "give a shell command, or --tool with --arguments")
			}
			if o.at != "" {
				when, err := time.Parse(time.RFC3339, o.at)
				if err != nil {
					return env.Usage(cmd, "--at %q is no time: write it as 2026-06-06T23:00:00Z", o.at)
				}
				request.At = timestamppb.New(when)
			}
			if o.file != "" {
				var err error
				if request.Yaml, err = readPolicy(e, o.file); err != nil {
					return err
				}
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Policies.TestPolicy(cmd.Context(), request)
			if err != nil {
				return err
			}
			if !e.Format.ForPeople() {
				return output.One(e.Printer(), decisionNoun(res.GetCommands()), res.GetDecision())
			}
			e.Notef("%s", meaning(res))
			return output.One(e.Printer(), decisionNoun(res.GetCommands()), res.GetDecision())
		},
	}
	cmd.Flags().StringVar(&o.agent, "agent", "", "the agent that makes the call")
	cmd.Flags().StringVar(&o.tool, "tool", "", "the tool (default: shell_exec)")
	cmd.Flags().StringVar(&o.arguments, "arguments", "", "the call's arguments as a JSON object, or @FILE")
	cmd.Flags().StringVar(&o.file, "file", "", "a policy to try instead of the organisation's")
	cmd.Flags().StringVar(&o.at, "at", "", "the time of the call, such as 2026-06-06T23:00:00Z (default: now)")
	cmd.Flags().StringToStringVar(&o.labels, "label", nil, "labels of the node, such as env=prod")
	return cmd
}

// meaning says in one line what a call would get: by which rule, and from which
// agent.
func meaning(res *deckhandv1.TestPolicyResponse) string {
	words := map[string]string{"allow": "allowed", "ask": "asks", "deny": "denied", "missing": "has no such tool"}
	rule := "no rule"
	if d := res.GetDecision(); d.GetRule() != "" {
		rule = "rule " + termsafe.Line(d.GetRule())
	} else if d.GetEffect() != "" {
		rule = "no rule, by default " + words[d.GetEffect()]
	}
	parts := []string{rule}
	for _, a := range res.GetAgents() {
		parts = append(parts, termsafe.Line(a.GetAgentName())+": "+words[a.GetEffect()])
	}
	return strings.Join(parts, " · ")
}

// effectOf is a decision's effect in words.
func effectOf(d *deckhandv1.Decision) string {
	if d.GetEffect() == "" {
		return "as the persona says"
	}
	return d.GetEffect()
}

func decisionNoun(commands []string) output.Noun[*deckhandv1.Decision] {
	return output.Noun[*deckhandv1.Decision]{
		Name: effectOf,
		Columns: []output.Column[*deckhandv1.Decision]{
			{Header: "effect", Value: effectOf},
			{Header: "rule", Value: (*deckhandv1.Decision).GetRule},
			{Header: "version", Value: (*deckhandv1.Decision).GetVersion},
			{Header: "why", Value: (*deckhandv1.Decision).GetWhy},
			{Header: "command", Value: (*deckhandv1.Decision).GetCommand},
			{Header: "dangers", Value: func(x *deckhandv1.Decision) string { return strings.Join(x.GetDangers(), ", ") }},
			{Header: "would run", Value: func(*deckhandv1.Decision) string { return strings.Join(commands, "; ") }},
		},
	}
}
