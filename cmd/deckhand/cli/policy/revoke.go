package policy

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func revokeCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "revoke RULE", Short: "Revoke an \"always allow\" rule",
		Example: "deckhand policy revoke rule_3q9",
		Args:    env.Args("RULE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, allowRuleNoun(), client.Policies.RevokeAllowRule, &deckhandv1.RevokeAllowRuleRequest{RuleId: args[0]}, (*deckhandv1.RevokeAllowRuleResponse).GetRule)
		},
	}
}
