package destination

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func redriveCommand(e *env.Env) *cobra.Command {
	var all string
	cmd := &cobra.Command{
		Use: "redrive (NOTICE | --all DESTINATION)", Short: "Send again what was given up",
		Long: "Under the same ids, for another day.", Example: `deckhand destination redrive ntc_3q9
deckhand destination redrive --all chat`,
		Args: env.Args("[NOTICE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (all == "") {
				return env.Usage(cmd, "give a NOTICE, or --all DESTINATION")
			}
			request := &deckhandv1.RedriveNoticesRequest{Which: &deckhandv1.RedriveNoticesRequest_DestinationId{DestinationId: all}}
			if all == "" {
				request.Which = &deckhandv1.RedriveNoticesRequest_NoticeId{NoticeId: args[0]}
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Destinations.RedriveNotices(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			e.Notef("%d notices are sent again", res.Msg.GetRedriven())
			return nil
		},
	}
	cmd.Flags().StringVar(&all, "all", "", "all dead notices of this destination")
	return cmd
}
