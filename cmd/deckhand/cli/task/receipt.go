package task

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func receiptCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "receipt TASK", Short: "Write a signed receipt of a run",
		Long: `Write a line of JSON to standard output, signed by the hub: the persona and policy
that a task ran under, its image, nodes and egress, who answered what it asked,
and a digest of its events. The task must have ended. deckhand audit verify needs
no hub to tell whether it was changed.`,
		Example: `deckhand task receipt task_3q9 > receipt.json
deckhand audit verify receipt.json`,
		Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Audit.GetReceipt(cmd.Context(), &deckhandv1.GetReceiptRequest{TaskId: args[0]})
			if err != nil {
				return err
			}
			_, err = e.Out.Write(res.GetLine())
			return err
		},
	}
}
