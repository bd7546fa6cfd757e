package trigger

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// rotateOptions are the flags of trigger rotate.
type rotateOptions struct {
	request    *deckhandv1.RotateTriggerSecretRequest
	secretFile string
}

func rotateCommand(e *env.Env) *cobra.Command {
	o := rotateOptions{request: &deckhandv1.RotateTriggerSecretRequest{}}
	cmd := &cobra.Command{
		Use: "rotate TRIGGER", Short: "Replace the secret of a webhook",
		Long:    "The previous secret stays valid for a day, or for as long as --keep says.",
		Example: "deckhand trigger rotate reviews --keep 1h", Args: env.Args("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.request.TriggerId = args[0]
			if o.request.Keep, err = env.Duration(cmd, "keep"); err != nil {
				return err
			}
			if o.request.Secret, err = env.ReadSecret(e, o.secretFile); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Triggers.RotateTriggerSecret(cmd.Context(), o.request)
			if err != nil {
				return err
			}
			NoteSecret(e, client.URL(), res.GetTrigger(), res.GetSecret())
			return output.Brief(e.Printer(), noun(), res.GetTrigger())
		},
	}
	cmd.Flags().Duration("keep", 0, "how long the secret before counts, such as 1h; 0s ends it at once")
	cmd.Flags().StringVar(&o.secretFile, "secret-file", "", "file that holds the secret which the sender has issued; - for standard input")
	return cmd
}
