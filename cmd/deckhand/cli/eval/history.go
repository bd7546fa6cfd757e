package eval

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
)

// historyOptions are the flags of eval history.
type historyOptions struct {
	agent string
	limit int
}

func historyCommand(e *env.Env) *cobra.Command {
	var o historyOptions
	cmd := &cobra.Command{
		Use: "history", Short: "Make the report of eval run from past tasks",
		Long: `Reports on the newest tasks that have ended, scripted ones included. Nobody
checked their workspaces: a task counts as completed when it succeeded.`,
		Example: "deckhand eval history --agent log-triage --limit 200",
		Args:    env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.limit < 1 {
				return env.Usage(cmd, "--limit is %d, give a positive number", o.limit)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			results, err := (&Runner{Client: client}).History(cmd.Context(), o.agent, o.limit)
			if err != nil {
				return err
			}
			return printReport(e, Run{}, results)
		},
	}
	cmd.Flags().StringVar(&o.agent, "agent", "", "only tasks of this agent")
	cmd.Flags().IntVar(&o.limit, "limit", 100, "the newest so many")
	return cmd
}
