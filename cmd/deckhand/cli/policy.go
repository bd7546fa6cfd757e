package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// maxPolicy is how large a policy may be; the hub takes no more.
const maxPolicy = 1 << 20

func (a *app) policyCommand() *cobra.Command {
	cmd := group("policy", "Manage policies (allow, ask, deny)", `
A policy is a YAML file of rules, of the organisation or of one agent. Each change
is a new version; a step says which rule of which version decided it.
`, `
deckhand policy show
deckhand policy test 'git push --force'
deckhand policy replay policy.yaml
deckhand policy apply policy.yaml
deckhand policy corpus
deckhand policy rules
`)
	cmd.AddCommand(a.policyShowCommand(), a.policyApplyCommand(), a.policyTestCommand(), a.policyReplayCommand(), a.policyCorpusCommand(), a.policyRulesCommand(), a.policyRevokeCommand())
	return cmd
}

func (a *app) policyShowCommand() *cobra.Command {
	var agent string
	var version int32
	cmd := &cobra.Command{
		Use: "show", Short: "Print a policy",
		Example: `deckhand policy show > policy.yaml
deckhand policy show --agent cleaner --version 2`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Policies.GetPolicy(cmd.Context(), connect.NewRequest(&deckhandv1.GetPolicyRequest{AgentId: agent, Version: version}))
			if err != nil {
				return err
			}
			p := res.Msg.GetPolicy()
			switch {
			case p.GetVersion() == 0 && p.GetYaml() == "":
				a.notef("the agent has no policy of its own: that of the organisation holds")
				return nil
			case p.GetVersion() == 0:
				a.notef("the default policy, until another is applied")
			default:
				a.notef("version %d, by %s at %s", p.GetVersion(), termsafe.Line(p.GetCreatedBy()), moment(p.GetCreatedAt()))
			}
			_, err = fmt.Fprintln(a.out, strings.TrimRight(termsafe.Text(p.GetYaml()), "\n"))
			return err
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the agent whose policy it is; the organisation's otherwise")
	cmd.Flags().Int32Var(&version, "version", 0, "an older version")
	return cmd
}

func policyNoun() output.Noun[*deckhandv1.Policy] {
	return output.Noun[*deckhandv1.Policy]{
		Name: func(x *deckhandv1.Policy) string { return fmt.Sprint(x.GetVersion()) },
		Columns: []output.Column[*deckhandv1.Policy]{
			{Header: "version", Value: func(x *deckhandv1.Policy) string { return fmt.Sprint(x.GetVersion()) }},
			{Header: "agent", Value: (*deckhandv1.Policy).GetAgentId},
			{Header: "by", Value: (*deckhandv1.Policy).GetCreatedBy},
			{Header: "at", Value: func(x *deckhandv1.Policy) string { return moment(x.GetCreatedAt()) }},
		},
	}
}

// readPolicy returns a policy's text from a file, or from standard input.
func (a *app) readPolicy(file string) (string, error) {
	if file == "-" {
		data, err := readAll(a.in, maxPolicy)
		return string(data), err
	}
	data, err := readBounded(file, maxPolicy)
	return string(data), err
}

func (a *app) policyApplyCommand() *cobra.Command {
	var agent string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "apply FILE", Short: "Validate a policy and activate it",
		Long: `A policy with an error changes nothing; every error is told with its line.
What was approved under another version and is not made yet is asked about again.`,
		Example: `deckhand policy apply policy.yaml
deckhand policy apply cleaner.yaml --agent cleaner --dry-run
deckhand policy apply - < policy.yaml`,
		Args: takes("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.readPolicy(args[0])
			if err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Policies.ApplyPolicy(cmd.Context(), connect.NewRequest(&deckhandv1.ApplyPolicyRequest{
				AgentId: agent, Yaml: text, File: args[0], DryRun: dryRun,
			}))
			if err != nil {
				return err
			}
			switch {
			case !res.Msg.GetChanged():
				a.notef("unchanged: it is version %d", res.Msg.GetPolicy().GetVersion())
			case dryRun:
				a.notef("Valid. Would become version %d.", res.Msg.GetPolicy().GetVersion())
			default:
				a.notef("Version %d is active.", res.Msg.GetPolicy().GetVersion())
			}
			return output.Brief(a.printer(), policyNoun(), res.Msg.GetPolicy())
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the agent whose policy it is; the organisation's otherwise")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check only")
	return cmd
}

func (a *app) policyTestCommand() *cobra.Command {
	var agent, tool, arguments, file, at string
	var labels map[string]string
	cmd := &cobra.Command{
		Use: "test [COMMAND]", Short: "See what a call would get, and why",
		Example: `deckhand policy test 'git -C x push --force'
deckhand policy test --agent cleaner --tool file_delete --arguments '{"path":"old"}'
deckhand policy test 'make deploy' --file new.yaml --label env=prod --at 2026-06-06T23:00:00Z`,
		Args: takes("[COMMAND]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.TestPolicyRequest{AgentId: agent, Tool: tool, Labels: labels}
			switch {
			case len(args) == 1 && arguments == "":
				encoded, err := json.Marshal(map[string]string{"command": args[0]})
				if err != nil {
					return err
				}
				request.ArgumentsJson = string(encoded)
			case arguments != "" && len(args) == 0:
				var err error
				if request.ArgumentsJson, err = a.readArguments(cmd, arguments); err != nil {
					return err
				}
			default:
				return usage(cmd, "give a shell command, or --tool with --arguments")
			}
			if at != "" {
				when, err := time.Parse(time.RFC3339, at)
				if err != nil {
					return usage(cmd, "--at %q is no time: write it as 2026-06-06T23:00:00Z", at)
				}
				request.At = timestamppb.New(when)
			}
			if file != "" {
				var err error
				if request.Yaml, err = a.readPolicy(file); err != nil {
					return err
				}
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Policies.TestPolicy(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.One(a.printer(), decisionNoun(res.Msg.GetCommands()), res.Msg.GetDecision())
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the agent that makes the call")
	cmd.Flags().StringVar(&tool, "tool", "", "the tool; shell_exec otherwise")
	cmd.Flags().StringVar(&arguments, "arguments", "", "the call's arguments as a JSON object, or @FILE")
	cmd.Flags().StringVar(&file, "file", "", "a policy to try in the place of the organisation's")
	cmd.Flags().StringVar(&at, "at", "", "when, such as 2026-06-06T23:00:00Z; now otherwise")
	cmd.Flags().StringToStringVar(&labels, "label", nil, "labels of the node, such as env=prod")
	return cmd
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

func (a *app) policyReplayCommand() *cobra.Command {
	var agent string
	var steps int32
	cmd := &cobra.Command{
		Use: "replay FILE", Short: "See what a policy would have decided on the newest steps",
		Example: `deckhand policy replay policy.yaml
deckhand policy replay cleaner.yaml --agent cleaner --steps 1000`,
		Args: takes("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.readPolicy(args[0])
			if err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Policies.ReplayPolicy(cmd.Context(), connect.NewRequest(&deckhandv1.ReplayPolicyRequest{
				AgentId: agent, Yaml: text, Steps: steps, File: args[0],
			}))
			if err != nil {
				return err
			}
			a.notef("%d of %d steps would be decided differently.", len(res.Msg.GetChanged()), res.Msg.GetSteps())
			if n := res.Msg.GetUnreadable(); n > 0 {
				a.notef("%d more could not be read", n)
			}
			return output.List(a.printer(), replayedNoun(), res.Msg.GetChanged())
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "only steps of this agent; the file takes the place of its own policy")
	cmd.Flags().Int32Var(&steps, "steps", 200, "how many of the newest steps, at most 2000")
	return cmd
}

func replayedNoun() output.Noun[*deckhandv1.ReplayedStep] {
	return output.Noun[*deckhandv1.ReplayedStep]{
		Name: (*deckhandv1.ReplayedStep).GetStepId,
		Columns: []output.Column[*deckhandv1.ReplayedStep]{
			{Header: "step", Value: (*deckhandv1.ReplayedStep).GetStepId},
			{Header: "agent", Value: (*deckhandv1.ReplayedStep).GetAgentName},
			{Header: "tool", Value: (*deckhandv1.ReplayedStep).GetTool},
			{Header: "was", Value: func(x *deckhandv1.ReplayedStep) string { return effectOf(x.GetWas()) }},
			{Header: "would be", Value: func(x *deckhandv1.ReplayedStep) string { return effectOf(x.GetWouldBe()) }},
			{Header: "rule", Value: func(x *deckhandv1.ReplayedStep) string { return x.GetWouldBe().GetRule() }},
			{Header: "what", Value: func(x *deckhandv1.ReplayedStep) string { return literal.Line(x.GetPreview()) }, Max: 60},
			{Header: "task", Value: (*deckhandv1.ReplayedStep).GetTaskId, Wide: true},
			{Header: "why", Value: func(x *deckhandv1.ReplayedStep) string { return x.GetWouldBe().GetWhy() }, Wide: true},
		},
	}
}

func (a *app) policyRulesCommand() *cobra.Command {
	var past bool
	cmd := &cobra.Command{
		Use: "rules", Short: "List what people said is always allowed",
		Long:    `Such a rule comes with an approval: deckhand inbox approve ID --always exact.`,
		Example: "deckhand policy rules\ndeckhand policy rules --past",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			rules, err := sdk.All(cmd.Context(), client.Policies.ListAllowRules, func(token string) *deckhandv1.ListAllowRulesRequest {
				return &deckhandv1.ListAllowRulesRequest{Past: past, PageToken: token}
			}, (*deckhandv1.ListAllowRulesResponse).GetRules)
			if err != nil {
				return err
			}
			return output.List(a.printer(), allowRuleNoun(), rules)
		},
	}
	cmd.Flags().BoolVar(&past, "past", false, "those too that hold no more")
	return cmd
}

func allowRuleNoun() output.Noun[*deckhandv1.AllowRule] {
	return output.Noun[*deckhandv1.AllowRule]{
		Name: (*deckhandv1.AllowRule).GetId,
		Columns: []output.Column[*deckhandv1.AllowRule]{
			{Header: "id", Value: (*deckhandv1.AllowRule).GetId},
			{Header: "agent", Value: func(x *deckhandv1.AllowRule) string {
				if x.GetAgentId() == "" {
					return "every agent"
				}
				return x.GetAgentName()
			}},
			{Header: "tool", Value: (*deckhandv1.AllowRule).GetTool},
			{Header: "allows", Value: (*deckhandv1.AllowRule).GetDescription, Max: 60},
			{Header: "by", Value: (*deckhandv1.AllowRule).GetCreatedBy},
			{Header: "until", Value: func(x *deckhandv1.AllowRule) string { return moment(x.GetExpiresAt()) }},
			{Header: "revoked", Value: func(x *deckhandv1.AllowRule) string { return x.GetRevokedBy() }, Wide: true},
			{Header: "item", Value: (*deckhandv1.AllowRule).GetItemId, Wide: true},
		},
	}
}

func (a *app) policyRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke RULE", Short: "Take back what was always allowed",
		Example: "deckhand policy revoke rule_3q9",
		Args:    takes("RULE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Policies.RevokeAllowRule(cmd.Context(), connect.NewRequest(&deckhandv1.RevokeAllowRuleRequest{RuleId: args[0]}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), allowRuleNoun(), res.Msg.GetRule())
		},
	}
}
