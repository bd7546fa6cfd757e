package policy

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// applyOptions are the flags of policy apply.
type applyOptions struct {
	agent  string
	dryRun bool
}

func applyCommand(e *env.Env) *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use: "apply FILE", Short: "Validate a policy and activate it",
		Long: `A policy with an error changes nothing; every error is told with its line.
What was approved under another version and is not made yet is asked about again.`,
		Example: `deckhand policy apply policy.yaml
deckhand policy apply cleaner.yaml --agent cleaner --dry-run
deckhand policy apply - < policy.yaml`,
		Args: env.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readPolicy(e, args[0])
			if err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Policies.ApplyPolicy(cmd.Context(), &deckhandv1.ApplyPolicyRequest{
				AgentId: o.agent, Yaml: text, File: args[0], DryRun: o.dryRun,
			})
			if err != nil {
				return err
			}
			switch {
			case !res.GetChanged():
				e.Notef("unchanged: it is version %d", res.GetPolicy().GetVersion())
			case o.dryRun:
				e.Notef("Valid. Would become version %d.", res.GetPolicy().GetVersion())
			default:
				e.Notef("Version %d is active.", res.GetPolicy().GetVersion())
			}
			return output.Brief(e.Printer(), noun(), res.GetPolicy())
		},
	}
	cmd.Flags().StringVar(&o.agent, "agent", "", "the agent whose policy it is (default: the organisation's)")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "check only")
	return cmd
}
