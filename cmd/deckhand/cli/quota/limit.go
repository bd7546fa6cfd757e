package quota

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// limitOptions are the flags of quota limit.
type limitOptions struct {
	user                                string
	each                                bool
	runs, iterations, tokens, toolCalls int64
}

func limitCommand(e *env.Env) *cobra.Command {
	var o limitOptions
	cmd := &cobra.Command{
		Use: "limit", Short: "Set what the organisation, each user or one user may use in a billing period",
		Long: `Sets quotas of the organisation, or with --each-user of every user, or with --user of
one user in place of that. Each flag changes one quota, and those that are not given stay; 0
ends a quota.

What a run may use is reserved when it begins, at most as much as is left; when the run has
used it, its task waits in the queue for more. Tokens that were read from the cache count at
their share of the price.`,
		Example: `deckhand quota limit --runs 1000 --tokens 50000000
deckhand quota limit --each-user --runs 100
deckhand quota limit --user bob --runs 500 --tool-calls 20000
deckhand quota limit --user bob --tool-calls 0`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			quota := &deckhandv1.Quota{UserName: o.user}
			if o.each {
				quota.UserName = "*"
			}
			given := false
			for flag, to := range map[string]struct {
				value *int64
				set   **int64
			}{
				"runs": {&o.runs, &quota.Runs}, "iterations": {&o.iterations, &quota.Iterations}, "tokens": {&o.tokens, &quota.Tokens},
				"tool-calls": {&o.toolCalls, &quota.ToolCalls},
			} {
				if !cmd.Flags().Changed(flag) {
					continue
				}
				if *to.value < 0 {
					return env.Usage(cmd, "--%s is %d, give a number above 0, or 0 for no quota", flag, *to.value)
				}
				*to.set, given = to.value, true
			}
			if !given {
				return env.Usage(cmd, "nothing is given that is to change: use --runs, --iterations, --tokens or --tool-calls")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Plans.SetQuota, &deckhandv1.SetQuotaRequest{Quota: quota}, (*deckhandv1.SetQuotaResponse).GetPlan)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.user, "user", "", "of this user; the organisation's by default")
	flags.BoolVar(&o.each, "each-user", false, "of each user that has none of their own")
	cmd.MarkFlagsMutuallyExclusive("user", "each-user")
	flags.Int64Var(&o.runs, "runs", 0, "tasks that start")
	flags.Int64Var(&o.iterations, "iterations", 0, "iterations of all runs")
	flags.Int64Var(&o.tokens, "tokens", 0, "tokens of all model calls")
	flags.Int64Var(&o.toolCalls, "tool-calls", 0, "calls of tools")
	for _, name := range []string{"runs", "iterations", "tokens", "tool-calls"} {
		flags.Lookup(name).DefValue = ""
	}
	return cmd
}
