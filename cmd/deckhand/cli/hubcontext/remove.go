package hubcontext

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

func removeCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a context, with its token", Example: "deckhand context remove staging",
		Args: env.Args("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := env.LoadContexts()
			if err != nil {
				return err
			}
			if _, exists := all.Contexts[args[0]]; !exists {
				return env.Failed(env.ExitNotFound, fault.New(fault.NotFound, "there is no context %q", args[0]).WithFix("see `deckhand context list`"))
			}
			delete(all.Contexts, args[0])
			if all.Current == args[0] {
				all.Current = ""
			}
			if err := all.Save(); err != nil {
				return err
			}
			if all.Current == "" {
				e.Notef("no context is current now; choose one with `deckhand context use NAME`")
			}
			return nil
		},
	}
}
