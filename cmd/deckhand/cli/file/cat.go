package file

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func catCommand(e *env.Env, owner, example string) *cobra.Command {
	return &cobra.Command{
		Use: "cat " + strings.ToUpper(owner) + " PATH", Short: "Print a file of the workspace",
		Long: `Prints a file byte for byte. On a terminal, control characters and escape
sequences are made harmless.`,
		Example: fmt.Sprintf("deckhand %s files cat %s report.md", owner, example),
		Args:    env.Args(strings.ToUpper(owner), "PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &deckhandv1.ReadFileRequest{Path: args[1]}
			if owner == "task" {
				req.Workspace = &deckhandv1.ReadFileRequest_TaskId{TaskId: args[0]}
			} else {
				req.Workspace = &deckhandv1.ReadFileRequest_AgentId{AgentId: args[0]}
			}
			return Print(e, cmd, req)
		},
	}
}

// Print prints a file of a workspace, made harmless on a terminal.
func Print(e *env.Env, cmd *cobra.Command, req *deckhandv1.ReadFileRequest) (err error) {
	if !e.Format.ForPeople() {
		return env.Usage(cmd, "output is bytes, which -o %s cannot show", e.Format)
	}
	client, err := e.Client()
	if err != nil {
		return err
	}
	out := e.Out
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
		res, err := client.Files.ReadFile(cmd.Context(), req)
		if err != nil {
			return err
		}
		if _, err := out.Write(res.GetContent()); err != nil {
			return err
		}
		req.Offset += int64(len(res.GetContent()))
		if len(res.GetContent()) == 0 || req.GetOffset() >= res.GetSize() {
			return nil
		}
	}
}
