package user

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func disableCommand(e *env.Env, disabled bool) *cobra.Command {
	cmd := &cobra.Command{
		Use: "enable USER", Short: "Enable a user", Long: "Their tokens work again; sessions have ended for good.",
		Example: "deckhand user enable alice", Args: env.Args("USER"),
		RunE: update(e, func(args []string) *deckhandv1.UpdateUserRequest {
			return &deckhandv1.UpdateUserRequest{UserId: args[0], Disabled: &disabled}
		}),
	}
	if disabled {
		cmd.Use, cmd.Short, cmd.Example = "disable USER", "Let somebody in no more", "deckhand user disable alice"
		cmd.Long = "Ends their sessions, and within two seconds their tokens. Tasks that run go on;\nwhat their triggers would start is refused."
	}
	return cmd
}
