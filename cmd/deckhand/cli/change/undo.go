package change

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Undo holds the options of an undo.
type Undo struct{ skip, overwrite, yes bool }

// Request contains the fields that the requests of all undos have.
type Request struct {
	OnConflict  deckhandv1.OnConflict
	Preview     bool
	ExpectState int64
}

// Register adds the flags.
func (u *Undo) Register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&u.skip, "skip-conflicts", false, "leave files that others changed later as they are")
	cmd.Flags().BoolVar(&u.overwrite, "overwrite", false, "restore those files too: the later changes are lost")
	cmd.Flags().BoolVarP(&u.yes, "yes", "y", false, "do it")
}

// Run previews an undo and prints it; with --yes it then undoes, unless there
// are conflicts that no flag resolves. ask sends a request.
func Run(e *env.Env, cmd *cobra.Command, how *Undo, ask func(context.Context, *sdk.Client, Request) (*deckhandv1.UndoChangesResponse, error)) error {
	request := Request{Preview: true}
	switch {
	case how.skip && how.overwrite:
		return env.Usage(cmd, "--skip-conflicts and --overwrite exclude each other")
	case how.skip:
		request.OnConflict = deckhandv1.OnConflict_ON_CONFLICT_SKIP
	case how.overwrite:
		request.OnConflict = deckhandv1.OnConflict_ON_CONFLICT_OVERWRITE
	}
	client, err := e.Client()
	if err != nil {
		return err
	}
	preview, err := ask(cmd.Context(), client, request)
	if err != nil {
		return err
	}
	shown := preview
	blocked := len(preview.GetConflicts()) > 0 && !how.skip && !how.overwrite
	if how.yes && !blocked {
		request.Preview, request.ExpectState = false, preview.GetState()
		if shown, err = ask(cmd.Context(), client, request); err != nil {
			return err
		}
	}
	if !e.Format.ForPeople() {
		if err := output.One(e.Printer(), output.Noun[*deckhandv1.UndoChangesResponse]{
			Name: (*deckhandv1.UndoChangesResponse).GetUndoId,
		}, shown); err != nil {
			return err
		}
	} else {
		showUndo(e, shown)
	}
	switch {
	case blocked:
		return fault.New(fault.Aborted, "%d files were changed later: nothing was undone", len(preview.GetConflicts())).
			WithCode(fault.FileConflict).WithFix("undo what changed them as well, or add --skip-conflicts or --overwrite")
	case !how.yes:
		e.Notef("nothing was done yet: add --yes to do it")
	case shown.GetUndoId() != "":
		e.Notef("undone as %s", shown.GetUndoId())
	}
	return nil
}

func showUndo(e *env.Env, u *deckhandv1.UndoChangesResponse) {
	Show(e, u.GetChanges(), u.GetFiles())
	for _, c := range u.GetConflicts() {
		e.Notef("conflict: %s", termsafe.Line(c.GetMessage()))
	}
	for _, why := range irreversible(u.GetIrreversible()) {
		e.Notef("not undone: %s", why)
	}
	if len(u.GetSharedWith()) > 0 {
		e.Notef("some of this was changed while others ran too, and may be theirs: %s", strings.Join(u.GetSharedWith(), ", "))
	}
	if u.GetRunning() > 0 {
		e.Notef("%d commands run in the workspace now", u.GetRunning())
	}
	if u.GetUndoUntil() != nil {
		e.Notef("%s", UndoTime(u.GetUndoLeft().AsDuration()))
	}
}

// irreversible returns what cannot be undone, one line for each tool.
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
