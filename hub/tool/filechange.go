package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	pathSchema   = `{"type":"string","minLength":1,"maxLength":4096,"description":"Path, relative to the workspace"}`
	expectSchema = `{"type":"string","maxLength":64,"description":"SHA-256, in hex, that the file must have now: the call is refused if somebody else has changed it"}`
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
			Name: toolname.FileAppend,
			Description: "Add text to the end of a file. Creates the file and its folders if they are missing. Use it to write a long file in parts. " +
				`Example: {"path": "report.md", "content": "\n## Results\n"}.`,
			Kind: KindFile, Expected: time.Second,
			Category: moderate, Place: node, Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{
				"path":` + pathSchema + `,
				"content":{"type":"string","minLength":1,"maxLength":4000000},
				"expect_digest":` + expectSchema + `}}`,
			touches: paths("path"),
			run:     runFileAppend,
		},
		{
			Name: toolname.FileEdit,
			Description: "Replace a text in a file. old_string must be in the file exactly as it is there, with its indentation and line ends, " +
				"and without the line numbers that file_read shows. It must occur once, or set replace_all. Read the file first. " +
				"Returns the changed lines. To replace most of a file, use file_write. " +
				`Example: {"path": "config.yaml", "old_string": "retries: 3", "new_string": "retries: 5"}.`,
			Kind: KindFile, Expected: time.Second,
			Category: moderate, Place: node, Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["path","old_string","new_string"],"properties":{
				"path":` + pathSchema + `,
				"old_string":{"type":"string","minLength":1,"maxLength":1000000,"description":"The text to replace"},
				"new_string":{"type":"string","maxLength":1000000,"description":"The text to put there; empty to delete it"},
				"replace_all":{"type":"boolean","description":"Replace every occurrence"},
				"expect_digest":` + expectSchema + `}}`,
			touches: paths("path"),
			run:     runFileEdit,
		},
		{
			Name: toolname.FileMove,
			Description: "Move or rename a file or folder. Creates missing folders above the new path. Refused if a file is there, unless overwrite is set. " +
				`Example: {"from": "a.txt", "to": "old/a.txt"}.`,
			Kind: KindFile, Expected: time.Second,
			Category: moderate, Place: node, Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["from","to"],"properties":{
				"from":` + pathSchema + `,
				"to":` + pathSchema + `,
				"overwrite":{"type":"boolean","description":"Replace an existing file"},
				"expect_digest":` + expectSchema + `}}`,
			touches: paths("from", "to"),
			run:     runFileMove,
		},
		{
			Name: toolname.FileDelete,
			Description: "Delete a file, a symbolic link or a folder. A folder that is not empty needs recursive. " +
				`Example: {"path": "build", "recursive": true}.`,
			Kind: KindFile, Expected: time.Second,
			Category: dangerous, Place: node, Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
				"path":` + pathSchema + `,
				"recursive":{"type":"boolean","description":"Delete a folder with everything in it"},
				"expect_digest":` + expectSchema + `}}`,
			touches: paths("path"),
			run:     runFileDelete,
		},
		{
			Name: toolname.FileSearch,
			Description: "Find the lines that contain a text or match a regular expression. Returns path:line: text. Skips binary files. " +
				"Use it for exact names and strings; if you do not know the words, use semantic_grep. " +
				`Example: {"pattern": "func New", "path": "internal", "name": "*.go"}.`,
			Kind: KindSearch, Expected: 2 * time.Second, Retryable: true,
			Category: safe, Place: node, Idempotent: true, ReadOnly: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["pattern"],"properties":{
				"pattern":{"type":"string","minLength":1,"maxLength":4096},
				"regexp":{"type":"boolean","description":"The pattern is a regular expression (RE2)"},
				"ignore_case":{"type":"boolean"},
				"path":{"type":"string","maxLength":4096,"description":"Folder to search; the workspace by default"},
				"name":{"type":"string","maxLength":256,"description":"Only files whose name matches, such as *.go"},
				"max_matches":{"type":"integer","minimum":1,"maximum":1000,"description":"100 by default"},
				"all":{"type":"boolean","description":"Include .git and what .gitignore excludes"}}}`,
			run: runFileSearch,
		},
	}
}

func runFileAppend(ctx context.Context, c Call) (Result, error) {
	var res *nodev1.AppendFileResponse
	err := inJail(ctx, c, func() (err error) {
		if err := refuseMarkers(ctx, c, text(c.Arguments, "path"), text(c.Arguments, "content")); err != nil {
			return err
		}
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
		Edit: &nodev1.Edit{
			Old: []byte(text(c.Arguments, "old_string")), New: []byte(text(c.Arguments, "new_string")), All: flag(c.Arguments, "replace_all"),
		},
	}
	var res *nodev1.EditFileResponse
	err := inJail(ctx, c, func() (err error) {
		if err := refuseMarkers(ctx, c, req.GetPath(), text(c.Arguments, "old_string"), text(c.Arguments, "new_string")); err != nil {
			return err
		}
		res, err = c.Node.Files().EditFile(ctx, req)
		return err
	})
	if err != nil {
		return failure(err)
	}
	where, lines := fmt.Sprintf("%d places", res.GetReplacements()), " (lines "
	if res.GetReplacements() == 1 {
		where, lines = "1 place", " (line "
	}
	if len(res.GetLines()) > 0 {
		where += lines + strings.ReplaceAll(strings.Trim(fmt.Sprint(res.GetLines()), "[]"), " ", ", ") + ")"
	}
	done := fmt.Sprintf("edited %s in %s: now %d bytes, sha256 %s", req.GetPath(), where, res.GetSize(), res.GetDigest())
	if len(res.GetExcerpt()) > 0 {
		numbered, _ := numberLines(strings.ToValidUTF8(string(res.GetExcerpt()), "\uFFFD"), res.GetExcerptLine(), readBytes)
		done += "\n" + numbered
	}
	return Result{
		Observation: done,
		Outcome: map[string]any{
			"path": req.GetPath(), "size": res.GetSize(), "digest": res.GetDigest(), "replacements": res.GetReplacements(), "lines": res.GetLines(),
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
			MaxMatches: int32(number(c.Arguments, "max_matches")), Caller: c.Jail.GetJailId(), SkipIgnored: !flag(c.Arguments, "all"),
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
		b.WriteString(leftOut(res.GetIgnored()))
	}
	if res.GetTruncated() {
		b.WriteString("[there is more, or not everything was searched: narrow it by path or name]\n")
	}
	return Result{
		Observation: b.String(),
		Outcome:     map[string]any{"matches": len(res.GetMatches()), "files": res.GetFiles(), "truncated": res.GetTruncated()},
	}, nil
}
