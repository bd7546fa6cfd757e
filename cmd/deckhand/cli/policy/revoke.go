package policy

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func revokeCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "revoke RULE", Short: "Take back what was always allowed",
		Example: "deckhand policy revoke rule_3q9",
		Args:    env.Args("RULE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Policies.RevokeAllowRule(cmd.Context(), connect.NewRequest(&deckhandv1.RevokeAllowRuleRequest{RuleId: args[0]}))
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), allowRuleNoun(), res.Msg.GetRule())
		},
	}
}
