package audit

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// listOptions are the flags of audit list.
type listOptions struct {
	limit   int
	since   string
	until   string
	request *deckhandv1.ListAuditEntriesRequest
}

func listCommand(e *env.Env) *cobra.Command {
	o := listOptions{request: &deckhandv1.ListAuditEntriesRequest{}}
	cmd := &cobra.Command{
		Use: "list", Short: "List audit entries, newest first",
		Example: `deckhand audit list --by alice
deckhand audit list --action hold.made -o wide
deckhand audit list --since 2026-01-01 --contains "rm -rf"`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.limit < 0 {
				return env.Usage(cmd, "--limit is %d, give 0 for all or a positive number", o.limit)
			}
			var err error
			if o.request.Since, err = env.Day(cmd, "--since", o.since); err != nil {
				return err
			}
			if o.request.Until, err = env.Day(cmd, "--until", o.until); err != nil {
				return err
			}
			return list(e, cmd, o.request, o.limit)
		},
	}
	cmd.Flags().StringVar(&o.request.ObjectId, "object", "", "only changes of this task, hold or other object, by its whole id")
	cmd.Flags().StringVar(&o.request.ActorId, "by", "", "only changes by this user")
	cmd.Flags().StringVar(&o.request.Action, "action", "", "only changes of this kind, for example task.paused")
	cmd.Flags().StringVar(&o.request.Severity, "severity", "", "only of this severity: low, medium, high or critical")
	cmd.Flags().StringVar(&o.request.Contains, "contains", "", "only entries with this text, in any case")
	cmd.Flags().StringVar(&o.since, "since", "", "from this day on, such as 2026-01-31, in UTC")
	cmd.Flags().StringVar(&o.until, "until", "", "before this day")
	cmd.Flags().IntVar(&o.limit, "limit", 20, "maximum number of items (0 = all)")
	cmd.Flags().StringVar(&o.request.PageToken, "page", "", "continue from this page token")
	return cmd
}
