package file

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func exportCommand(e *env.Env, owner, example string) *cobra.Command {
	return &cobra.Command{
		Use: "export " + strings.ToUpper(owner) + " [PATH]", Short: "Export the workspace, or a part of it, as a tar archive",
		Long:    "Writes a tar of the workspace as it is now. Nothing in it is masked, and taking it is recorded.",
		Example: fmt.Sprintf("deckhand %s files export %s > workspace.tar", owner, example),
		Args:    env.Args(strings.ToUpper(owner), "[PATH]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &deckhandv1.ExportWorkspaceRequest{Format: deckhandv1.ExportFormat_EXPORT_FORMAT_TAR, Path: env.Optional(args, 1)}
			if owner == "task" {
				req.Workspace = &deckhandv1.ExportWorkspaceRequest_TaskId{TaskId: args[0]}
			} else {
				req.Workspace = &deckhandv1.ExportWorkspaceRequest_AgentId{AgentId: args[0]}
			}
			return Export(e, cmd, req)
		},
	}
}

// Export writes a workspace, or changes, as they come.
func Export(e *env.Env, cmd *cobra.Command, req *deckhandv1.ExportWorkspaceRequest) error {
	if !e.Format.ForPeople() {
		return env.Usage(cmd, "output is bytes, which -o %s cannot show", e.Format)
	}
	if output.IsTerminal(e.Out) {
		return env.Usage(cmd, "the output is for a file or a program: add > FILE")
	}
	client, err := e.Client()
	if err != nil {
		return err
	}
	stream, err := client.Workspaces.ExportWorkspace(cmd.Context(), req)
	if err != nil {
		return err
	}
	return env.Copy(e.Out, stream)
}
