package audit

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	var limit int
	var since, until string
	request := &deckhandv1.ListAuditEntriesRequest{}
	cmd := &cobra.Command{
		Use: "list", Short: "List what was changed, newest first",
		Example: `deckhand audit list --by alice
deckhand audit list --action hold.made -o wide
deckhand audit list --since 2026-01-01 --contains "rm -rf"`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return env.Usage(cmd, "--limit is %d, give 0 for all or a positive number", limit)
			}
			var err error
			if request.Since, err = env.Day(cmd, "--since", since); err != nil {
				return err
			}
			if request.Until, err = env.Day(cmd, "--until", until); err != nil {
				return err
			}
			return list(e, cmd, request, limit)
		},
	}
	cmd.Flags().StringVar(&request.ObjectId, "object", "", "only changes of this task, hold or other object, by its whole id")
	cmd.Flags().StringVar(&request.ActorId, "by", "", "only changes by this user")
	cmd.Flags().StringVar(&request.Action, "action", "", "only changes of this kind, for example task.paused")
	cmd.Flags().StringVar(&request.Severity, "severity", "", "only of this severity: low, medium or high")
	cmd.Flags().StringVar(&request.Contains, "contains", "", "only entries with this text, in any case")
	cmd.Flags().StringVar(&since, "since", "", "from this day on, such as 2026-01-31, in UTC")
	cmd.Flags().StringVar(&until, "until", "", "before this day")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of items (0 = all)")
	cmd.Flags().StringVar(&request.PageToken, "page", "", "continue from this page token")
	return cmd
}
