package inbox

import (
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/override"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func retryCommand(e *env.Env) *cobra.Command {
	var o override.Retry
	var reason string
	cmd := &cobra.Command{
		Use: "retry ID", Short: "Make a call with an unknown outcome once more, or have an escalated task go on",
		Long: `A call with an unknown outcome may then have taken effect twice. An escalated
task goes on with what the flags say in the place of what it had.`,
		Example: `deckhand inbox retry inbox_3q9 --reason "the file is not there"
deckhand inbox retry inbox_9xk --memory 8GiB`,
		Args: env.Args("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			retry := &deckhandv1.AnswerInboxItemRequest_Retry{}
			with, err := o.Message(cmd)
			if err != nil {
				return err
			}
			if !proto.Equal(with, &deckhandv1.TaskOverride{}) {
				retry.Override = with
			}
			return send(cmd.Context(), e, &deckhandv1.AnswerInboxItemRequest{
				ItemId: args[0], Reason: reason, Answer: &deckhandv1.AnswerInboxItemRequest_Retry_{Retry: retry},
			})
		},
	}
	o.Register(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; the agent sees it")
	return cmd
}
