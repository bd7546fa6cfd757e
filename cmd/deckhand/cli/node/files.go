package node

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/file"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// filesOptions are the flags of node files.
type filesOptions struct {
	recursive bool
}

// filesCommand shows the workspaces of a node by their jails' ids, also
// those that belong to no agent or task any more.
func filesCommand(e *env.Env) *cobra.Command {
	cmd := env.Group("files", "Show the files of a jail's workspace", "", `
deckhand node files ls web-1 jail_3q9x
deckhand node files cat web-1 jail_3q9x report.md
`)
	var o filesOptions
	list := &cobra.Command{
		Use: "ls NODE JAIL [PATH]", Short: "List a folder of the workspace", Example: "deckhand node files ls web-1 jail_3q9x input --recursive",
		Args: env.Args("NODE", "JAIL", "[PATH]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return file.List(cmd.Context(), e, &deckhandv1.ListFilesRequest{
				Path: env.Optional(args, 2), Recursive: o.recursive,
				Workspace: &deckhandv1.ListFilesRequest_Jail{Jail: jailRef(args)},
			})
		},
	}
	list.Flags().BoolVarP(&o.recursive, "recursive", "r", false, "list the folders inside too")
	cat := &cobra.Command{
		Use: "cat NODE JAIL PATH", Short: "Print a file of the workspace", Example: "deckhand node files cat web-1 jail_3q9x report.md",
		Args: env.Args("NODE", "JAIL", "PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return file.Print(e, cmd, &deckhandv1.ReadFileRequest{
				Path: args[2], Workspace: &deckhandv1.ReadFileRequest_Jail{Jail: jailRef(args)},
			})
		},
	}
	cmd.AddCommand(list, cat)
	return cmd
}

func jailRef(args []string) *deckhandv1.JailRef {
	return &deckhandv1.JailRef{NodeId: args[0], JailId: strings.TrimSpace(args[1])}
}
