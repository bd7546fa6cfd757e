package cli

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// filesCommand makes the files command of agents or of tasks: owner is "agent"
// or "task".
func (a *app) filesCommand(owner, example string) *cobra.Command {
	cmd := group("files", "See the files of the workspace", "", fmt.Sprintf(`
deckhand %[1]s files ls %[2]s
deckhand %[1]s files cat %[2]s report.md
`, owner, example))
	cmd.AddCommand(a.filesListCommand(owner, example), a.filesCatCommand(owner, example), a.filesExportCommand(owner, example),
		a.filesPutCommand(owner, example), a.filesGetCommand(owner, example), a.filesWatchCommand(owner, example),
		a.filesSendCommand(owner, example))
	return cmd
}

func (a *app) filesListCommand(owner, example string) *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use: "ls " + strings.ToUpper(owner) + " [PATH]", Short: "List a folder of the workspace",
		Example: fmt.Sprintf("deckhand %s files ls %s input --recursive", owner, example),
		Args:    takes(strings.ToUpper(owner), "[PATH]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &deckhandv1.ListFilesRequest{Path: optional(args, 1), Recursive: recursive}
			if owner == "task" {
				req.Workspace = &deckhandv1.ListFilesRequest_TaskId{TaskId: args[0]}
			} else {
				req.Workspace = &deckhandv1.ListFilesRequest_AgentId{AgentId: args[0]}
			}
			return a.listFiles(cmd.Context(), req)
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "list the folders inside too")
	return cmd
}

func (a *app) fileNoun() output.Noun[*deckhandv1.FileInfo] {
	return output.Noun[*deckhandv1.FileInfo]{
		Name: (*deckhandv1.FileInfo).GetPath,
		Columns: []output.Column[*deckhandv1.FileInfo]{
			{Header: "path", Value: (*deckhandv1.FileInfo).GetPath},
			{Header: "type", Value: (*deckhandv1.FileInfo).GetType},
			{Header: "size", Value: func(x *deckhandv1.FileInfo) string { return fmt.Sprint(x.GetSize()) }},
			{Header: "mode", Value: func(x *deckhandv1.FileInfo) string { return fmt.Sprintf("%04o", x.GetMode()) }, Wide: true},
			{Header: "modified", Value: func(x *deckhandv1.FileInfo) string { return moment(x.GetModifiedAt()) }},
		},
	}
}

func (a *app) filesCatCommand(owner, example string) *cobra.Command {
	return &cobra.Command{
		Use: "cat " + strings.ToUpper(owner) + " PATH", Short: "Print a file of the workspace",
		Long: `Prints a file byte for byte. On a terminal, control characters and escape
sequences are made harmless.`,
		Example: fmt.Sprintf("deckhand %s files cat %s report.md", owner, example),
		Args:    takes(strings.ToUpper(owner), "PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &deckhandv1.ReadFileRequest{Path: args[1]}
			if owner == "task" {
				req.Workspace = &deckhandv1.ReadFileRequest_TaskId{TaskId: args[0]}
			} else {
				req.Workspace = &deckhandv1.ReadFileRequest_AgentId{AgentId: args[0]}
			}
			return a.printFile(cmd, req)
		},
	}
}

func (a *app) filesExportCommand(owner, example string) *cobra.Command {
	return &cobra.Command{
		Use: "export " + strings.ToUpper(owner) + " [PATH]", Short: "Write the workspace, or a part of it, as a tar",
		Long:    "Writes a tar of the workspace as it is now. Nothing in it is masked, and taking it is recorded.",
		Example: fmt.Sprintf("deckhand %s files export %s > workspace.tar", owner, example),
		Args:    takes(strings.ToUpper(owner), "[PATH]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &deckhandv1.ExportWorkspaceRequest{Format: deckhandv1.ExportFormat_EXPORT_FORMAT_TAR, Path: optional(args, 1)}
			if owner == "task" {
				req.Workspace = &deckhandv1.ExportWorkspaceRequest_TaskId{TaskId: args[0]}
			} else {
				req.Workspace = &deckhandv1.ExportWorkspaceRequest_AgentId{AgentId: args[0]}
			}
			return a.export(cmd, req)
		},
	}
}

// listFiles shows a folder of a workspace.
func (a *app) listFiles(ctx context.Context, req *deckhandv1.ListFilesRequest) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	res, err := client.Files.ListFiles(ctx, connect.NewRequest(req))
	if err != nil {
		return err
	}
	if len(res.Msg.GetFiles()) == 0 {
		a.notef("the folder is empty")
	}
	if res.Msg.GetTruncated() {
		a.notef("there is more than is shown: list a folder further down")
	}
	return output.List(a.printer(), a.fileNoun(), res.Msg.GetFiles())
}

// printFile prints a file of a workspace, made harmless on a terminal.
func (a *app) printFile(cmd *cobra.Command, req *deckhandv1.ReadFileRequest) (err error) {
	if !a.format.ForPeople() {
		return usage(cmd, "output is bytes, which -o %s cannot show", a.format)
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	out := a.out
	if output.IsTerminal(out) {
		safe := termsafe.Writer(out)
		defer func() {
			if cerr := safe.Close(); err == nil {
				err = cerr
			}
		}()
		out = safe
	}
	for {
		res, err := client.Files.ReadFile(cmd.Context(), connect.NewRequest(req))
		if err != nil {
			return err
		}
		if _, err := out.Write(res.Msg.GetContent()); err != nil {
			return err
		}
		req.Offset += int64(len(res.Msg.GetContent()))
		if len(res.Msg.GetContent()) == 0 || req.GetOffset() >= res.Msg.GetSize() {
			return nil
		}
	}
}

// optional returns an argument that may be absent.
func optional(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}
