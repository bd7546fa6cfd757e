package policy

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// rulesOptions are the flags of policy rules.
type rulesOptions struct {
	past bool
}

func rulesCommand(e *env.Env) *cobra.Command {
	var o rulesOptions
	cmd := &cobra.Command{
		Use: "rules", Short: "List rules that people made with \"always allow\"",
		Long:    `Such a rule comes with an approval: deckhand inbox approve ID --always exact.`,
		Example: "deckhand policy rules\ndeckhand policy rules --past",
		Args:    env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, allowRuleNoun(), "", client.Policies.ListAllowRules, func(token string) *deckhandv1.ListAllowRulesRequest {
				return &deckhandv1.ListAllowRulesRequest{Past: o.past, PageToken: token}
			}, (*deckhandv1.ListAllowRulesResponse).GetRules)
		},
	}
	cmd.Flags().BoolVar(&o.past, "past", false, "also expired and revoked rules")
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
			{Header: "until", Value: func(x *deckhandv1.AllowRule) string { return output.Moment(x.GetExpiresAt()) }},
			{Header: "revoked", Value: func(x *deckhandv1.AllowRule) string { return x.GetRevokedBy() }, Wide: true},
			{Header: "item", Value: (*deckhandv1.AllowRule).GetItemId, Wide: true},
		},
	}
}
