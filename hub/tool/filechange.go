package tool

import (
	"context"
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	pathSchema   = `{"type":"string","minLength":1,"maxLength":4096,"description":"Path below /workspace"}`
	expectSchema = `{"type":"string","maxLength":64,"description":"SHA-256 in hex that the file must have now, so that nobody else's change is lost"}`
)

// fileChangeTools change single files of the workspace, and find what is in
// them.
func fileChangeTools() []*Tool {
	const (
		safe      = deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE
		moderate  = deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE
		dangerous = deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS
		node      = deckhandv1.ToolPlace_TOOL_PLACE_NODE
	)
	return []*Tool{
		{
			Name:        toolname.FileAppend,
			Description: "Add to the end of a file of the workspace, making it and its folders when they are not there.",
			Category:    moderate, Place: node, Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{
				"path":` + pathSchema + `,
				"content":{"type":"string","minLength":1,"maxLength":4000000},
				"expect_digest":` + expectSchema + `}}`,
			run: runFileAppend,
		},
		{
			Name: toolname.FileEdit,
			Description: "Replace texts in a file of the workspace, all of them or none. Each old text must be in the file exactly once, " +
				"with all its spaces and line ends, or give all.",
			Category: moderate, Place: node, Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["path","edits"],"properties":{
				"path":` + pathSchema + `,
				"edits":{"type":"array","minItems":1,"maxItems":100,"items":{
					"type":"object","additionalProperties":false,"required":["old","new"],"properties":{
						"old":{"type":"string","minLength":1,"maxLength":1000000},
						"new":{"type":"string","maxLength":1000000},
						"all":{"type":"boolean","description":"Replace every place"}}}},
				"expect_digest":` + expectSchema + `}}`,
			run: runFileEdit,
		},
		{
			Name:        toolname.FileMove,
			Description: "Give a file or folder of the workspace another path, making the folders above it.",
			Category:    moderate, Place: node, Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["from","to"],"properties":{
				"from":` + pathSchema + `,
				"to":` + pathSchema + `,
				"overwrite":{"type":"boolean","description":"Replace a file that is there"},
				"expect_digest":` + expectSchema + `}}`,
			run: runFileMove,
		},
		{
			Name:        toolname.FileDelete,
			Description: "Delete a file, a link or a folder of the workspace.",
			Category:    dangerous, Place: node, Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
				"path":` + pathSchema + `,
				"recursive":{"type":"boolean","description":"A folder with all that is in it"},
				"expect_digest":` + expectSchema + `}}`,
			run: runFileDelete,
		},
		{
			Name:        toolname.FileSearch,
			Description: "Find lines in the files of the workspace. Binary files are left out.",
			Category:    safe, Place: node, Idempotent: true, ReadOnly: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["pattern"],"properties":{
				"pattern":{"type":"string","minLength":1,"maxLength":4096},
				"regexp":{"type":"boolean","description":"The pattern is an expression in RE2 syntax"},
				"ignore_case":{"type":"boolean"},
				"path":{"type":"string","maxLength":4096,"description":"Where to begin; the workspace by default"},
				"name":{"type":"string","maxLength":256,"description":"Only files whose name fits, for example *.go"},
				"max_matches":{"type":"integer","minimum":1,"maximum":1000}}}`,
			run: runFileSearch,
		},
	}
}

func runFileAppend(ctx context.Context, c Call) (Result, error) {
	var res *nodev1.AppendFileResponse
	err := inJail(ctx, c, func() (err error) {
		res, err = c.Node.Files().AppendFile(ctx, &nodev1.AppendFileRequest{
			JailId: c.Jail.GetJailId(), Path: text(c.Arguments, "path"), Content: []byte(text(c.Arguments, "content")),
			ExpectDigest: text(c.Arguments, "expect_digest"), OperationId: c.StepID,
		})
		return err
	})
	if err != nil {
		return failure(err)
	}
	return Result{
		Observation: fmt.Sprintf("appended to %s: now %d bytes, sha256 %s", text(c.Arguments, "path"), res.GetSize(), res.GetDigest()),
		Outcome:     map[string]any{"path": text(c.Arguments, "path"), "size": res.GetSize(), "digest": res.GetDigest()},
		Workspace:   res.GetWorkspace(),
	}, nil
}

func runFileEdit(ctx context.Context, c Call) (Result, error) {
	req := &nodev1.EditFileRequest{
		JailId: c.Jail.GetJailId(), Path: text(c.Arguments, "path"), ExpectDigest: text(c.Arguments, "expect_digest"), OperationId: c.StepID,
	}
	edits, _ := c.Arguments["edits"].([]any)
	for _, one := range edits {
		e, _ := one.(map[string]any)
		req.Edits = append(req.Edits, &nodev1.Edit{Old: []byte(text(e, "old")), New: []byte(text(e, "new")), All: flag(e, "all")})
	}
	var res *nodev1.EditFileResponse
	err := inJail(ctx, c, func() (err error) {
		res, err = c.Node.Files().EditFile(ctx, req)
		return err
	})
	if err != nil {
		return failure(err)
	}
	return Result{
		Observation: fmt.Sprintf("edited %s in %d places: now %d bytes, sha256 %s", req.GetPath(), res.GetReplacements(), res.GetSize(), res.GetDigest()),
		Outcome: map[string]any{
			"path": req.GetPath(), "size": res.GetSize(), "digest": res.GetDigest(), "replacements": res.GetReplacements(),
		},
		Workspace: res.GetWorkspace(),
	}, nil
}

func runFileMove(ctx context.Context, c Call) (Result, error) {
	from, to := text(c.Arguments, "from"), text(c.Arguments, "to")
	var res *nodev1.MoveFileResponse
	err := inJail(ctx, c, func() (err error) {
		res, err = c.Node.Files().MoveFile(ctx, &nodev1.MoveFileRequest{
			JailId: c.Jail.GetJailId(), From: from, To: to, Overwrite: flag(c.Arguments, "overwrite"),
			ExpectDigest: text(c.Arguments, "expect_digest"), OperationId: c.StepID,
		})
		return err
	})
	if err != nil {
		return failure(err)
	}
	return Result{
		Observation: fmt.Sprintf("moved %s to %s", from, to), Outcome: map[string]any{"from": from, "to": to}, Workspace: res.GetWorkspace(),
	}, nil
}

func runFileDelete(ctx context.Context, c Call) (Result, error) {
	path := text(c.Arguments, "path")
	var res *nodev1.DeleteFileResponse
	err := inJail(ctx, c, func() (err error) {
		res, err = c.Node.Files().DeleteFile(ctx, &nodev1.DeleteFileRequest{
			JailId: c.Jail.GetJailId(), Path: path, Recursive: flag(c.Arguments, "recursive"),
			ExpectDigest: text(c.Arguments, "expect_digest"), OperationId: c.StepID,
		})
		return err
	})
	if err != nil {
		return failure(err)
	}
	return Result{Observation: "deleted " + path, Outcome: map[string]any{"path": path}, Workspace: res.GetWorkspace()}, nil
}

func runFileSearch(ctx context.Context, c Call) (Result, error) {
	var res *nodev1.SearchFilesResponse
	err := inJail(ctx, c, func() (err error) {
		res, err = c.Node.Files().SearchFiles(ctx, &nodev1.SearchFilesRequest{
			JailId: c.Jail.GetJailId(), Path: text(c.Arguments, "path"), Pattern: text(c.Arguments, "pattern"),
			Regexp: flag(c.Arguments, "regexp"), IgnoreCase: flag(c.Arguments, "ignore_case"), Name: text(c.Arguments, "name"),
			MaxMatches: int32(number(c.Arguments, "max_matches")), Caller: c.Jail.GetJailId(),
		})
		return err
	})
	if err != nil {
		return failure(err)
	}
	var b strings.Builder
	for _, m := range res.GetMatches() {
		fmt.Fprintf(&b, "%s:%d: %s\n", m.GetPath(), m.GetLine(), strings.ToValidUTF8(string(m.GetText()), "\uFFFD"))
	}
	if len(res.GetMatches()) == 0 {
		fmt.Fprintf(&b, "(no line of %d files matches)\n", res.GetFiles())
	}
	if res.GetTruncated() {
		b.WriteString("[there is more, or not everything was searched: narrow it by path or name]\n")
	}
	return Result{
		Observation: b.String(),
		Outcome:     map[string]any{"matches": len(res.GetMatches()), "files": res.GetFiles(), "truncated": res.GetTruncated()},
	}, nil
}
