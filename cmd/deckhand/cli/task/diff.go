package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/change"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/file"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// diffOptions are the flags of task diff.
type diffOptions struct {
	req   *deckhandv1.DiffChangesRequest
	steps bool
	patch bool
	jobs  []string
}

func diffCommand(e *env.Env) *cobra.Command {
	o := diffOptions{req: &deckhandv1.DiffChangesRequest{}}
	cmd := &cobra.Command{
		Use: "diff TASK [PATH]", Short: "Show which files a task changed",
		Long: `Shows which files a task changed, whatever tool did it, as unified diffs; or, with
--steps, which step changed which files. Files of the workspace come first, then those
of machines, with absolute paths: only administrators see what these contain. Secrets in the diffs are masked. With
--patch it prints a patch that git apply takes, with nothing masked.`,
		Example: `deckhand task diff task_3q9
deckhand task diff task_3q9 /etc/nginx
deckhand task diff task_3q9 src --step step_7bc
deckhand task diff task_3q9 --steps
deckhand task diff task_3q9 --patch > changes.patch`,
		Args: env.Args("TASK", "[PATH]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.req.TaskId, o.req.Path, o.req.StepIds = args[0], env.Optional(args, 1), append(o.req.GetStepIds(), o.jobs...)
			switch {
			case o.steps && o.patch:
				return env.Usage(cmd, "--steps and --patch are two different outputs")
			case o.steps:
				return listChanges(cmd.Context(), e, args[0])
			case o.patch && (len(o.req.GetStepIds()) > 0):
				return env.Usage(cmd, "--patch is of all steps, leave --step and --job out")
			case o.patch:
				return file.Export(e, cmd, &deckhandv1.ExportWorkspaceRequest{
					Workspace: &deckhandv1.ExportWorkspaceRequest_TaskId{TaskId: args[0]}, Path: o.req.GetPath(),
					Format: deckhandv1.ExportFormat_EXPORT_FORMAT_GIT_PATCH, ChangesOnly: true,
				})
			case !e.Format.ForPeople():
				return env.Usage(cmd, "a diff is text, which -o %s cannot show: use --steps", e.Format)
			}
			return printDiff(cmd.Context(), e, o.req)
		},
	}
	cmd.Flags().StringSliceVar(&o.req.StepIds, "step", nil, "only what these steps changed")
	cmd.Flags().StringSliceVar(&o.jobs, "job", nil, "only what these jobs changed")
	cmd.Flags().Int32Var(&o.req.ContextLines, "context", 3, "lines around each change")
	cmd.Flags().BoolVar(&o.steps, "steps", false, "list the steps with the files that each changed")
	cmd.Flags().BoolVar(&o.patch, "patch", false, "print a patch of the workspace for git apply")
	return cmd
}

func stepChangesNoun() output.Noun[*deckhandv1.StepChanges] {
	return output.Noun[*deckhandv1.StepChanges]{
		Name: (*deckhandv1.StepChanges).GetStepId,
		Columns: []output.Column[*deckhandv1.StepChanges]{
			{Header: "step", Value: (*deckhandv1.StepChanges).GetStepId},
			{Header: "by job", Value: (*deckhandv1.StepChanges).GetJobId},
			{Header: "no", Value: func(x *deckhandv1.StepChanges) string { return fmt.Sprint(x.GetNumber()) }},
			{Header: "tool", Value: (*deckhandv1.StepChanges).GetTool},
			{Header: "machine", Value: (*deckhandv1.StepChanges).GetMachine},
			{Header: "files", Value: func(x *deckhandv1.StepChanges) string { return fmt.Sprint(x.GetFiles()) }},
			{Header: "undone", Value: func(x *deckhandv1.StepChanges) string { return output.Moment(x.GetUndoneAt()) }},
			{Header: "paths", Max: 80, Value: func(x *deckhandv1.StepChanges) string {
				var out []string
				for _, c := range x.GetChanges() {
					out = append(out, change.Sign(c.GetKind())+c.GetPath())
				}
				return strings.Join(out, " ")
			}},
			{Header: "shared with", Wide: true, Value: func(x *deckhandv1.StepChanges) string { return strings.Join(x.GetSharedWith(), ",") }},
		},
	}
}

func listChanges(ctx context.Context, e *env.Env, taskID string) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	var steps []*deckhandv1.StepChanges
	var last *deckhandv1.ListChangesResponse
	if err := sdk.Pages(func(token string) (string, error) {
		res, err := client.Workspaces.ListChanges(ctx, &deckhandv1.ListChangesRequest{TaskId: taskID, PageToken: token})
		if err != nil {
			return "", err
		}
		last, steps = res, append(steps, res.GetSteps()...)
		return last.GetNextPageToken(), nil
	}); err != nil {
		return err
	}
	if len(steps) == 0 {
		e.Notef("No files changed.")
	} else if last.GetUndoUntil() != nil {
		e.Notef("%s", change.UndoTime(last.GetUndoLeft().AsDuration()))
	}
	return output.List(e.Printer(), stepChangesNoun(), steps)
}

func printDiff(ctx context.Context, e *env.Env, req *deckhandv1.DiffChangesRequest) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	stream, err := client.Workspaces.DiffChanges(ctx, req)
	if err != nil {
		return err
	}
	defer stream.Close()
	files, added, deleted := 0, int32(0), int32(0)
	machine := ""
	for stream.Receive() {
		one := stream.Msg()
		if one.GetMachine() != machine {
			machine = one.GetMachine()
			e.Notef("On the machine %s, outside of jails:", termsafe.Line(machine))
		}
		files, added, deleted = files+1, added+one.GetAddedLines(), deleted+one.GetDeletedLines()
		if text := one.GetUnified(); len(text) > 0 {
			shown := string(text)
			if output.IsTerminal(e.Out) {
				shown = termsafe.Text(shown)
			}
			fmt.Fprint(e.Out, shown)
			continue
		}
		fmt.Fprintf(e.Out, "%s %s: %s\n", change.Sign(one.GetChange().GetKind()), termsafe.Line(one.GetChange().GetPath()), termsafe.Line(one.GetSummary()))
	}
	if err := stream.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if files == 0 {
		e.Notef("nothing was changed")
		return nil
	}
	e.Notef("%d files, %d lines added, %d deleted", files, added, deleted)
	return nil
}
