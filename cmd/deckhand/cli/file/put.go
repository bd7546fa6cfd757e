package file

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func putCommand(e *env.Env, owner, example string) *cobra.Command {
	return &cobra.Command{
		Use: "put " + strings.ToUpper(owner) + " LOCAL [PATH]", Short: "Copy a file or folder into the workspace",
		Long: `Copies a file, or what is in a folder, into a folder of the workspace. What is
there already is not sent again, and a copy that broke goes on where it was.`,
		Example: fmt.Sprintf("deckhand %s files put %s ./config etc", owner, example),
		Args:    env.Args(strings.ToUpper(owner), "LOCAL", "[PATH]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return put(cmd.Context(), e, owner, args[0], args[1], env.Optional(args, 2))
		},
	}
}

func put(ctx context.Context, e *env.Env, owner, ref, from, into string) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	all, err := collect(ctx, from)
	if err != nil {
		return fault.New(fault.Invalid, "%s cannot be read: %v", from, err).WithFix("name a file or folder that is there")
	}
	skipped := 0
	for begin := 0; begin < len(all); begin += compareAtOnce {
		part := all[begin:min(len(all), begin+compareAtOnce)]
		req := &deckhandv1.CompareFilesRequest{Path: into, Workspace: &deckhandv1.CompareFilesRequest_AgentId{AgentId: ref}}
		if owner == "task" {
			req.Workspace = &deckhandv1.CompareFilesRequest_TaskId{TaskId: ref}
		}
		for _, one := range part {
			req.Entries = append(req.Entries, one.entry)
		}
		res, err := client.Files.CompareFiles(ctx, req)
		if err != nil {
			return err
		}
		for i, from := range res.GetSendFrom() {
			part[i].entry.Offset = from
			if from < 0 {
				skipped++
			}
		}
	}
	res, err := upload(ctx, client, owner, ref, into, all)
	if err != nil {
		return err
	}
	e.Notef("%d files, %d bytes copied; %d were there already", res.GetFiles(), res.GetBytes(), skipped)
	return nil
}
