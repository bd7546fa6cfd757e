package destination

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func noticeCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "notice NOTICE", Short: "Show a notice with what it says", Example: "deckhand destination notice ntc_3q9", Args: env.Args("NOTICE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Destinations.GetNotice(cmd.Context(), connect.NewRequest(&deckhandv1.GetNoticeRequest{NoticeId: args[0]}))
			if err != nil {
				return err
			}
			return output.One(e.Printer(), noticeNoun(e), res.Msg.GetNotice())
		},
	}
}
