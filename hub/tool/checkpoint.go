package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/shortlist"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func checkpointTools() []*Tool {
	return []*Tool{
		{
			Name: toolname.Checkpoint,
			Description: "Name this point of your task, with the conversation and the workspace as they are at the end of this turn: for 7 days, people can have the task go on from there, and you can go back to its files with checkpoint_restore. " +
				"Use it before a risky change, and when a part of the work is done. To undo your own last changes you need none: edit the files, or use Git. " +
				`Example: {"name": "tests pass"}.`,
			Kind: KindWork, Expected: 2 * time.Second,
			Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE, Place: deckhandv1.ToolPlace_TOOL_PLACE_WORKER,
			Idempotent: true, Reversible: true, Timeout: workTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["name"],"properties":{
				"name":{"type":"string","minLength":1,"maxLength":100}}}`,
			run: func(_ context.Context, c Call) (Result, error) {
				name := text(c.Arguments, "name")
				return Result{Observation: fmt.Sprintf("the end of this turn is checkpoint %q", name), Outcome: map[string]any{"name": name}}, nil
			},
		},
		{
			Name: toolname.CheckpointRestore,
			Description: "Bring all files of the workspace back to what they were at a checkpoint: one that you named with checkpoint, or one that a rule made before a call, if you are told of such a rule. Use it when a larger change went wrong; " +
				"for a few files, edit them. Your conversation stays, so say what you learned. The browser goes back, too; what pages did on their servers stays. What commands did outside of the workspace stays, too. " +
				`Example: {"name": "tests pass"}.`,
			Kind: KindFile, Expected: 5 * time.Second,
			Category: deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE, Place: deckhandv1.ToolPlace_TOOL_PLACE_NODE,
			Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["name"],"properties":{
				"name":{"type":"string","minLength":1,"maxLength":100}}}`,
			run: runCheckpointRestore,
		},
	}
}

// Restored is what bringing a workspace back to a checkpoint has changed.
type Restored struct {
	Change *nodev1.WorkspaceChange
	// Running is how many commands ran in the jail meanwhile.
	Running int32
	// Browser reports that the browser goes back, too, with its next call.
	Browser bool
	// BrowserStays reports that it does not, because its session of that point was deleted.
	BrowserStays bool
}

// restoredPaths is how many of the files that were brought back are named.
const restoredPaths = 20

func runCheckpointRestore(ctx context.Context, c Call) (Result, error) {
	name := text(c.Arguments, "name")
	var restored Restored
	err := inJail(ctx, c, func() (err error) {
		restored, err = c.Restore(ctx, name)
		return err
	})
	if err != nil {
		return failure(err)
	}
	files := restored.Change.GetFiles()
	said := fmt.Sprintf("the workspace is as it was at checkpoint %q: nothing had changed", name)
	if files > 0 {
		var paths []string
		for _, change := range restored.Change.GetChanges()[:min(len(restored.Change.GetChanges()), restoredPaths)] {
			paths = append(paths, strings.ToValidUTF8(string(change.GetPath()), "\uFFFD"))
		}
		said = fmt.Sprintf("the workspace is as it was at checkpoint %q. Brought back, %d files and folders: %s", name, files, shortlist.Of(paths, restoredPaths, int(files)))
	}
	if restored.Running > 0 {
		said += fmt.Sprintf("\n%d commands ran meanwhile, and may change files again", restored.Running)
	}
	if restored.Browser {
		said += "\nthe browser goes back, too: with its next call it has the tabs, cookies and storages of that point, and loads the pages again. What pages did on their servers since cannot be undone"
	}
	if restored.BrowserStays {
		said += "\nthe browser stays as it is: its session of that point is not kept any more"
	}
	return Result{Observation: said, Outcome: map[string]any{"name": name, "files": files}, Workspace: restored.Change}, nil
}
