package cli

import (
	"fmt"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/internal/cli/output"
	"github.com/deckhand-sh/deckhand/internal/cli/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (a *app) agentFilesCommand() *cobra.Command {
	cmd := group("files", "See the files of an agent's workspace", "", `
deckhand agent files ls log-triage
deckhand agent files cat log-triage report.md
`)
	cmd.AddCommand(a.agentFilesListCommand(), a.agentFilesCatCommand())
	return cmd
}

func (a *app) agentFilesListCommand() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use: "ls AGENT [PATH]", Short: "List a folder of the workspace",
		Example: "deckhand agent files ls log-triage input --recursive",
		Args:    takes("AGENT", "[PATH]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Files.ListFiles(cmd.Context(), connect.NewRequest(&deckhandv1.ListFilesRequest{
				AgentId: args[0], Path: optional(args, 1), Recursive: recursive,
			}))
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

func (a *app) agentFilesCatCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cat AGENT PATH", Short: "Print a file of the workspace",
		Long: `Prints a file byte for byte. On a terminal, control characters and escape
sequences are made harmless.`,
		Example: "deckhand agent files cat log-triage report.md",
		Args:    takes("AGENT", "PATH"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
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
			for offset := int64(0); ; {
				res, err := client.Files.ReadFile(cmd.Context(), connect.NewRequest(&deckhandv1.ReadFileRequest{
					AgentId: args[0], Path: args[1], Offset: offset,
				}))
				if err != nil {
					return err
				}
				if _, err := out.Write(res.Msg.GetContent()); err != nil {
					return err
				}
				offset += int64(len(res.Msg.GetContent()))
				if len(res.Msg.GetContent()) == 0 || offset >= res.Msg.GetSize() {
					return nil
				}
			}
		},
	}
}

// optional answers an argument that may be absent.
func optional(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}
