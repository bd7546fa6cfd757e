package audit

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	var limit int
	request := &deckhandv1.ListAuditEntriesRequest{}
	cmd := &cobra.Command{
		Use: "list", Short: "List what was changed, newest first",
		Example: `deckhand audit list --by alice
deckhand audit list --action hold.made -o wide`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return env.Usage(cmd, "--limit is %d, give 0 for all or a positive number", limit)
			}
			return list(e, cmd, request, limit)
		},
	}
	cmd.Flags().StringVar(&request.ObjectId, "object", "", "only changes of this task, hold or other object, by its whole id")
	cmd.Flags().StringVar(&request.ActorId, "by", "", "only changes by this user")
	cmd.Flags().StringVar(&request.Action, "action", "", "only changes of this kind, for example task.paused")
	cmd.Flags().StringVar(&request.Severity, "severity", "", "only of this severity: low, medium or high")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of items (0 = all)")
	cmd.Flags().StringVar(&request.PageToken, "page", "", "continue from this page token")
	return cmd
}
