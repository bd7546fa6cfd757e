package inbox

import (
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func snoozeCommand(e *env.Env) *cobra.Command {
	var until string
	var after time.Duration
	var end bool
	cmd := &cobra.Command{
		Use: "snooze ID", Short: "Leave an item out of your lists for a while",
		Long: `The item is as open as before: others see it, it can be answered, and it expires when
it would. It comes back before it expires: a later time is refused.`,
		Example: `deckhand inbox snooze inbox_3q9 --for 2h
deckhand inbox snooze inbox_3q9 --until 2026-11-30T09:00:00+01:00
deckhand inbox snooze inbox_3q9 --end
# what you have snoozed
deckhand inbox list --snoozed`,
		Args: env.Args("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.SnoozeInboxItemRequest{ItemId: args[0]}
			switch {
			case end:
			case until != "":
				at, err := time.Parse(time.RFC3339, until)
				if err != nil {
					return env.Usage(cmd, "--until %q is no time such as 2006-01-02T15:04:05Z", until)
				}
				request.Until = timestamppb.New(at)
			case after > 0:
				request.Until = timestamppb.New(e.Now().Add(after))
			default:
				return env.Usage(cmd, "give --for or --until, or --end to put it back now")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Inbox.SnoozeInboxItem(cmd.Context(), request)
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(e), res.GetItem())
		},
	}
	cmd.Flags().DurationVar(&after, "for", 0, "how long, for example 2h")
	cmd.Flags().StringVar(&until, "until", "", "when it comes back, for example 2006-01-02T15:04:05Z")
	cmd.Flags().BoolVar(&end, "end", false, "put it back now")
	cmd.MarkFlagsMutuallyExclusive("for", "until", "end")
	return cmd
}
