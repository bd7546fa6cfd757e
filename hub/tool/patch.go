package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/patch"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func patchTool() *Tool {
	return &Tool{
		Name: toolname.ApplyPatch,
		Description: "Change several places or files at once, with a patch; all of it is applied, or nothing. For one place, file_edit is simpler. " +
			"A patch begins with *** Begin Patch and ends with *** End Patch. Between them: *** Add File: PATH, then the lines of the file, each behind +; " +
			"*** Delete File: PATH; *** Update File: PATH, maybe *** Move to: PATH, then hunks. A hunk begins with @@, maybe followed by a line that it comes after, " +
			"such as @@ func main() {. Its lines are 3 lines before and after the change, each behind a space, removed lines behind - and new lines behind +. " +
			"There are no line numbers. " +
			`Example: {"input": "*** Begin Patch\n*** Update File: main.go\n@@ func main() {\n \tsetup()\n-\trun()\n+\trun(ctx)\n }\n*** End Patch"}.`,
		Kind: KindFile, Expected: time.Second,
		Category: deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE, Place: deckhandv1.ToolPlace_TOOL_PLACE_NODE,
		Idempotent: true, Reversible: true, Timeout: fileTimeout,
		schema: `{"type":"object","additionalProperties":false,"required":["input"],"properties":{
			"input":{"type":"string","minLength":1,"maxLength":4000000,"description":"The whole patch"}}}`,
		touches: patched,
		run:     runPatch, preview: func(arguments map[string]any) string { return text(arguments, "input") },
	}
}

// patched returns the files that a patch changes.
func patched(arguments map[string]any) (out []string) {
	files, err := patch.Parse(text(arguments, "input"))
	if err != nil {
		return nil // the call fails
	}
	for _, f := range files {
		if out = append(out, f.Path); f.To != "" {
			out = append(out, f.To)
		}
	}
	return out
}

func runPatch(ctx context.Context, c Call) (Result, error) {
	files, err := patch.Parse(text(c.Arguments, "input"))
	if err != nil {
		return failure(err)
	}
	var res *nodev1.PatchFilesResponse
	err = inJail(ctx, c, func() (err error) {
		for _, f := range files {
			texts := []string{f.Content}
			for _, h := range f.Hunks {
				was, is := h.Texts()
				texts = append(texts, was, is)
			}
			if err := refuseMarkers(ctx, c, f.Path, texts...); err != nil {
				return err
			}
		}
		res, err = c.Node.Files().PatchFiles(ctx, &nodev1.PatchFilesRequest{
			JailId: c.Jail.GetJailId(), Patch: text(c.Arguments, "input"), OperationId: c.StepID,
		})
		return err
	})
	if err != nil {
		return failure(err)
	}
	var said strings.Builder
	changed := map[string]any{}
	for _, f := range res.GetFiles() {
		done, path := map[string]string{string(patch.Add): "added", string(patch.Update): "updated", string(patch.Delete): "deleted"}[f.GetChange()], f.GetPath()
		if f.GetTo() != "" {
			done, path = "moved "+path+" to", f.GetTo()
		}
		fmt.Fprintf(&said, "%s %s", done, path)
		if f.GetDigest() != "" {
			fmt.Fprintf(&said, ": now %d bytes, sha256 %s", f.GetSize(), f.GetDigest())
		}
		said.WriteByte('\n')
		changed[path] = f.GetChange()
	}
	return Result{
		Observation: strings.TrimSuffix(said.String(), "\n"), Outcome: map[string]any{"files": changed}, Workspace: res.GetWorkspace(),
	}, nil
}
