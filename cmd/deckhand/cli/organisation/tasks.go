package organisation

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func tasksCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "tasks [own|shared]", Short: "Show or set who sees the tasks of your organisation",
		Long: `own, the default: a task is seen by its submitter, its assignee, the owners of
its agent and administrators. shared: also by whoever sees its agent. It holds at
once, for tasks that have ended as well. Setting it is for administrators.`,
		Example: "deckhand organisation tasks\ndeckhand organisation tasks shared", Args: cobra.MaximumNArgs(1), ValidArgs: []string{"own", "shared"},
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			shared := false
			switch {
			case len(args) == 0:
				res, err := client.Organisations.GetTaskSharing(cmd.Context(), &deckhandv1.GetTaskSharingRequest{})
				if err != nil {
					return err
				}
				shared = res.GetShared()
			case args[0] != "own" && args[0] != "shared":
				return env.Usage(cmd, "it is %q: use own or shared", args[0])
			default:
				shared = args[0] == "shared"
				if _, err := client.Organisations.SetTaskSharing(cmd.Context(), &deckhandv1.SetTaskSharingRequest{Shared: shared}); err != nil {
					return err
				}
			}
			if shared {
				e.Notef("shared: whoever sees an agent sees its tasks")
			} else {
				e.Notef("own: a task is seen by its submitter, its assignee, the owners of its agent and administrators")
			}
			return nil
		},
	}
}
