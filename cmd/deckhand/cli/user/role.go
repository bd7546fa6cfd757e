package user

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func roleCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "role USER ROLE", Short: "Change a user's role", Long: RoleHelp, Example: "deckhand user role alice advanced", Args: env.Args("USER", "ROLE"),
		RunE: update(e, func(args []string) *deckhandv1.UpdateUserRequest {
			return &deckhandv1.UpdateUserRequest{UserId: args[0], Role: args[1]}
		}),
	}
}
