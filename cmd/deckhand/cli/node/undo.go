package node

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/change"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func undoCommand(e *env.Env) *cobra.Command {
	req, how := &deckhandv1.UndoNodeExecRequest{}, &change.Undo{}
	cmd := &cobra.Command{
		Use: "undo EXEC", Short: "Undo the changes that a person's command made in a workspace",
		Long: `Shows what would be restored of what a command or terminal changed in the
workspace of its jail. With --yes it is done, unless others changed the same
files later, which are reported then. It can be done for as long after the
command's end as a task can be undone after its own.`,
		Example: `deckhand node undo nexec_3q9
deckhand node undo nexec_3q9 --skip-conflicts --yes`,
		Args: env.Args("EXEC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.ExecId = args[0]
			return change.Run(e, cmd, how, func(ctx context.Context, client *sdk.Client, r change.Request) (*deckhandv1.UndoChangesResponse, error) {
				req.OnConflict, req.Preview, req.ExpectState = r.OnConflict, r.Preview, r.ExpectState
				res, err := client.Workspaces.UndoNodeExec(ctx, req)
				if err != nil {
					return nil, err
				}
				return res.GetUndo(), nil
			})
		},
	}
	how.Register(cmd)
	return cmd
}
