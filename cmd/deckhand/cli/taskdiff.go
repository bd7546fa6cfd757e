package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) taskDiffCommand() *cobra.Command {
	req := &deckhandv1.DiffChangesRequest{}
	var steps, patch bool
	cmd := &cobra.Command{
		Use: "diff TASK [PATH]", Short: "Show what a task changed in its workspace",
		Long: `Shows which files a task changed, whatever tool did it, as unified diffs; or, with
--steps, which step changed which files. Secrets in the diffs are masked. With
--patch it prints a patch that git apply takes, with nothing masked.`,
		Example: `deckhand task diff task_3q9
deckhand task diff task_3q9 src --step step_7bc
deckhand task diff task_3q9 --steps
deckhand task diff task_3q9 --patch > changes.patch`,
		Args: takes("TASK", "[PATH]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.TaskId, req.Path = args[0], optional(args, 1)
			switch {
			case steps && patch:
				return usage(cmd, "--steps and --patch are two different outputs")
			case steps:
				return a.listChanges(cmd.Context(), args[0])
			case patch && (len(req.GetStepIds()) > 0):
				return usage(cmd, "--patch is of all steps, leave --step out")
			case patch:
				return a.export(cmd, &deckhandv1.ExportWorkspaceRequest{
					Workspace: &deckhandv1.ExportWorkspaceRequest_TaskId{TaskId: args[0]}, Path: req.GetPath(),
					Format: deckhandv1.ExportFormat_EXPORT_FORMAT_GIT_PATCH, ChangesOnly: true,
				})
			case !a.format.ForPeople():
				return usage(cmd, "a diff is text, which -o %s cannot show: use --steps", a.format)
			}
			return a.printDiff(cmd.Context(), req)
		},
	}
	cmd.Flags().StringSliceVar(&req.StepIds, "step", nil, "only what these steps changed")
	cmd.Flags().Int32Var(&req.ContextLines, "context", 3, "lines around each change")
	cmd.Flags().BoolVar(&steps, "steps", false, "list the steps with the files that each changed")
	cmd.Flags().BoolVar(&patch, "patch", false, "print a patch for git apply")
	return cmd
}

func (a *app) stepChangesNoun() output.Noun[*deckhandv1.StepChanges] {
	return output.Noun[*deckhandv1.StepChanges]{
		Name: (*deckhandv1.StepChanges).GetStepId,
		Columns: []output.Column[*deckhandv1.StepChanges]{
			{Header: "step", Value: (*deckhandv1.StepChanges).GetStepId},
			{Header: "no", Value: func(x *deckhandv1.StepChanges) string { return fmt.Sprint(x.GetNumber()) }},
			{Header: "tool", Value: (*deckhandv1.StepChanges).GetTool},
			{Header: "files", Value: func(x *deckhandv1.StepChanges) string { return fmt.Sprint(x.GetFiles()) }},
			{Header: "undone", Value: func(x *deckhandv1.StepChanges) string { return moment(x.GetUndoneAt()) }},
			{Header: "paths", Max: 80, Value: func(x *deckhandv1.StepChanges) string {
				var out []string
				for _, c := range x.GetChanges() {
					out = append(out, sign(c.GetKind())+c.GetPath())
				}
				return strings.Join(out, " ")
			}},
			{Header: "shared with", Wide: true, Value: func(x *deckhandv1.StepChanges) string { return strings.Join(x.GetSharedWith(), ",") }},
		},
	}
}

func sign(kind deckhandv1.ChangeKind) string {
	switch kind {
	case deckhandv1.ChangeKind_CHANGE_KIND_ADDED:
		return "+"
	case deckhandv1.ChangeKind_CHANGE_KIND_DELETED:
		return "-"
	}
	return "~"
}

func (a *app) listChanges(ctx context.Context, taskID string) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	var steps []*deckhandv1.StepChanges
	var last *deckhandv1.ListChangesResponse
	if err := sdk.Pages(func(token string) (string, error) {
		res, err := client.Workspaces.ListChanges(ctx, connect.NewRequest(&deckhandv1.ListChangesRequest{TaskId: taskID, PageToken: token}))
		if err != nil {
			return "", err
		}
		last, steps = res.Msg, append(steps, res.Msg.GetSteps()...)
		return last.GetNextPageToken(), nil
	}); err != nil {
		return err
	}
	if len(steps) == 0 {
		a.notef("No files changed.")
	} else if last.GetUndoUntil() != nil {
		a.notef("%s", undoTime(last.GetUndoLeft().AsDuration()))
	}
	return output.List(a.printer(), a.stepChangesNoun(), steps)
}

func undoTime(left time.Duration) string {
	if left <= 0 {
		return "the time to undo is over"
	}
	return fmt.Sprintf("can be undone for another %s", left.Round(time.Second))
}

func (a *app) printDiff(ctx context.Context, req *deckhandv1.DiffChangesRequest) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	stream, err := client.Workspaces.DiffChanges(ctx, connect.NewRequest(req))
	if err != nil {
		return err
	}
	defer stream.Close()
	files, added, deleted := 0, int32(0), int32(0)
	for stream.Receive() {
		one := stream.Msg()
		files, added, deleted = files+1, added+one.GetAddedLines(), deleted+one.GetDeletedLines()
		if text := one.GetUnified(); len(text) > 0 {
			shown := string(text)
			if output.IsTerminal(a.out) {
				shown = termsafe.Text(shown)
			}
			fmt.Fprint(a.out, shown)
			continue
		}
		fmt.Fprintf(a.out, "%s %s: %s\n", sign(one.GetChange().GetKind()), termsafe.Line(one.GetChange().GetPath()), termsafe.Line(one.GetSummary()))
	}
	if err := stream.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if files == 0 {
		a.notef("nothing was changed")
		return nil
	}
	a.notef("%d files, %d lines added, %d deleted", files, added, deleted)
	return nil
}

func (a *app) taskUndoCommand() *cobra.Command {
	req, how := &deckhandv1.UndoChangesRequest{}, &undoing{}
	cmd := &cobra.Command{
		Use: "undo TASK", Short: "Take back what a task changed in its workspace",
		Long: `Shows what would be given back: of the whole task, of its last steps, or of
named ones. With --yes it is done, unless later steps changed the same files,
which are reported then. Only files of the workspace come back: what a command
did elsewhere stays done.`,
		Example: `deckhand task undo task_3q9
deckhand task undo task_3q9 --last 2 --yes
deckhand task undo task_3q9 --step step_7bc --skip-conflicts --yes`,
		Args: takes("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.TaskId = args[0]
			if len(req.GetStepIds()) > 0 && req.GetLast() > 0 {
				return usage(cmd, "--step and --last exclude each other")
			}
			return a.undo(cmd, how, func(ctx context.Context, client *sdk.Client) (*deckhandv1.UndoChangesResponse, error) {
				req.OnConflict, req.Preview, req.ExpectState = how.onConflict, how.preview, how.expectState
				res, err := client.Workspaces.UndoChanges(ctx, connect.NewRequest(req))
				if err != nil {
					return nil, err
				}
				return res.Msg, nil
			})
		},
	}
	cmd.Flags().StringSliceVar(&req.StepIds, "step", nil, "only what these steps changed")
	cmd.Flags().Int32Var(&req.Last, "last", 0, "only the last so many steps that changed something")
	how.register(cmd)
	return cmd
}

func (a *app) nodeUndoCommand() *cobra.Command {
	req, how := &deckhandv1.UndoNodeExecRequest{}, &undoing{}
	cmd := &cobra.Command{
		Use: "undo EXEC", Short: "Take back what a person's command changed in a workspace",
		Long: `Shows what would be given back of what a command or terminal changed in the
workspace of its jail. With --yes it is done, unless others changed the same
files later, which are reported then. It can be done for as long after the
command's end as a task can be undone after its own.`,
		Example: `deckhand node undo nexec_3q9
deckhand node undo nexec_3q9 --skip-conflicts --yes`,
		Args: takes("EXEC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.ExecId = args[0]
			return a.undo(cmd, how, func(ctx context.Context, client *sdk.Client) (*deckhandv1.UndoChangesResponse, error) {
				req.OnConflict, req.Preview, req.ExpectState = how.onConflict, how.preview, how.expectState
				res, err := client.Workspaces.UndoNodeExec(ctx, connect.NewRequest(req))
				if err != nil {
					return nil, err
				}
				return res.Msg.GetUndo(), nil
			})
		},
	}
	how.register(cmd)
	return cmd
}

// undoing is how something is taken back.
type undoing struct {
	skip, overwrite, yes bool

	onConflict  deckhandv1.OnConflict
	preview     bool
	expectState int64
}

func (u *undoing) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&u.skip, "skip-conflicts", false, "leave files that others changed later as they are")
	cmd.Flags().BoolVar(&u.overwrite, "overwrite", false, "give back those files too: the later changes are lost")
	cmd.Flags().BoolVarP(&u.yes, "yes", "y", false, "do it")
}

// undo asks what taking something back would do, shows that, and has it done
// where that was said.
func (a *app) undo(cmd *cobra.Command, how *undoing, ask func(context.Context, *sdk.Client) (*deckhandv1.UndoChangesResponse, error)) error {
	switch {
	case how.skip && how.overwrite:
		return usage(cmd, "--skip-conflicts and --overwrite exclude each other")
	case how.skip:
		how.onConflict = deckhandv1.OnConflict_ON_CONFLICT_SKIP
	case how.overwrite:
		how.onConflict = deckhandv1.OnConflict_ON_CONFLICT_OVERWRITE
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	how.preview = true
	preview, err := ask(cmd.Context(), client)
	if err != nil {
		return err
	}
	shown := preview
	blocked := len(preview.GetConflicts()) > 0 && !how.skip && !how.overwrite
	if how.yes && !blocked {
		how.preview, how.expectState = false, preview.GetState()
		if shown, err = ask(cmd.Context(), client); err != nil {
			return err
		}
	}
	if !a.format.ForPeople() {
		if err := output.One(a.printer(), output.Noun[*deckhandv1.UndoChangesResponse]{
			Name: (*deckhandv1.UndoChangesResponse).GetUndoId,
		}, shown); err != nil {
			return err
		}
	} else {
		a.showUndo(shown)
	}
	switch {
	case blocked:
		return fault.New(fault.Aborted, "%d files were changed later: nothing was undone", len(preview.GetConflicts())).
			WithCode(fault.FileConflict).WithFix("undo what changed them as well, or add --skip-conflicts or --overwrite")
	case !how.yes:
		a.notef("nothing was done yet: add --yes to do it")
	case shown.GetUndoId() != "":
		a.notef("undone as %s", shown.GetUndoId())
	}
	return nil
}

func (a *app) showUndo(u *deckhandv1.UndoChangesResponse) {
	a.showChanges(u.GetChanges(), u.GetFiles())
	for _, c := range u.GetConflicts() {
		a.notef("conflict: %s", termsafe.Line(c.GetMessage()))
	}
	for _, why := range irreversible(u.GetIrreversible()) {
		a.notef("not undone: %s", why)
	}
	if len(u.GetSharedWith()) > 0 {
		a.notef("some of this was changed while others ran too, and may be theirs: %s", strings.Join(u.GetSharedWith(), ", "))
	}
	if u.GetRunning() > 0 {
		a.notef("%d commands run in the workspace now", u.GetRunning())
	}
	if u.GetUndoUntil() != nil {
		a.notef("%s", undoTime(u.GetUndoLeft().AsDuration()))
	}
}

// irreversible says what is not taken back, once for each tool.
func irreversible(steps []*deckhandv1.IrreversibleStep) (lines []string) {
	var tools []string
	of := map[string][]string{}
	why := map[string]string{}
	for _, s := range steps {
		if of[s.GetTool()] == nil {
			tools = append(tools, s.GetTool())
		}
		of[s.GetTool()], why[s.GetTool()] = append(of[s.GetTool()], fmt.Sprint(s.GetNumber())), s.GetWhy()
	}
	for _, tool := range tools {
		lines = append(lines, fmt.Sprintf("%s (%s, step %s)", why[tool], tool, strings.Join(of[tool], ", ")))
	}
	return lines
}

// export writes a workspace, or changes, as they come.
func (a *app) export(cmd *cobra.Command, req *deckhandv1.ExportWorkspaceRequest) error {
	if !a.format.ForPeople() {
		return usage(cmd, "output is bytes, which -o %s cannot show", a.format)
	}
	if output.IsTerminal(a.out) {
		return usage(cmd, "the output is for a file or a program: add > FILE")
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	stream, err := client.Workspaces.ExportWorkspace(cmd.Context(), connect.NewRequest(req))
	if err != nil {
		return err
	}
	return pour(a.out, stream)
}

// pour writes the data of a stream, and closes it.
func pour[T any, P interface {
	*T
	GetData() []byte
}](out io.Writer, stream *connect.ServerStreamForClient[T]) error {
	defer stream.Close()
	for stream.Receive() {
		if _, err := out.Write(P(stream.Msg()).GetData()); err != nil {
			return fmt.Errorf("write the export: %w", err)
		}
	}
	return stream.Err()
}
