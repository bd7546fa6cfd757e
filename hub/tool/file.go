package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	fileTimeout = time.Minute
	// readBytes is how many bytes one call reads: less than the loop shows of a result.
	readBytes   = 20 << 10
	readLines   = 2000
	listEntries = 500
	globEntries = 10_000
	scratchpad  = ".deckhand/scratchpad.md"
)

func fileTools() []*Tool {
	const (
		safe     = deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE
		moderate = deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE
		node     = deckhandv1.ToolPlace_TOOL_PLACE_NODE
	)
	return []*Tool{
		{
			Name: toolname.FileRead,
			Description: "Read a text file. Returns its lines with their numbers, and how many there are; the numbers are not part of the file. " +
				"For a long file, first find the place with file_search or file_outline, then read from there. " +
				`Example: {"path": "cmd/main.go", "offset": 120, "limit": 60}.`,
			Kind: KindFile, Expected: time.Second, Retryable: true,
			Category: safe, Place: node, Idempotent: true, ReadOnly: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
				"path":{"type":"string","minLength":1,"maxLength":4096,"description":"Path, relative to the workspace, or of a command's output as its result names it"},
				"offset":{"type":"integer","minimum":1,"description":"Number of the first line to read; 1 by default"},
				"limit":{"type":"integer","minimum":1,"maximum":10000,"description":"At most this many lines; 2000 by default"}}}`,
			touches: paths("path"),
			run:     runFileRead,
		},
		{
			Name: toolname.FileWrite,
			Description: "Create a file, or replace its whole content. Creates missing folders. To change a part of a file, use file_edit; " +
				"to add to its end, use file_append. With expect_digest, the file is written only if nobody else has changed it. " +
				`Example: {"path": "docs/notes.md", "content": "# Notes\n"}.`,
			Kind: KindFile, Expected: time.Second,
			Category: moderate, Place: node, Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{
				"path":{"type":"string","minLength":1,"maxLength":4096,"description":"Path, relative to the workspace"},
				"content":{"type":"string","maxLength":4000000,"description":"The complete new content"},
				"expect_digest":{"type":"string","maxLength":64,"description":"SHA-256, in hex, that the file must have now, as file_read showed it; \"absent\" if it must not exist"}}}`,
			touches: paths("path"),
			run:     runFileWrite, preview: previewFileWrite,
		},
		{
			Name: toolname.FileList,
			Description: "List the files and folders in a folder, with type, size and time of change. For a summary of a large tree, use tree_digest; " +
				`to find text, use file_search. Example: {"path": "src", "recursive": true}.`,
			Kind: KindFile, Expected: time.Second, Retryable: true,
			Category: safe, Place: node, Idempotent: true, ReadOnly: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"properties":{
				"path":{"type":"string","maxLength":4096,"description":"Folder, relative to the workspace; the workspace itself by default"},
				"recursive":{"type":"boolean","description":"Include all folders below it"},
				"all":{"type":"boolean","description":"Include .git and what .gitignore excludes"}}}`,
			run: runFileList,
		},
		{
			Name: toolname.Glob,
			Description: "Find files by their paths, with a pattern: * stands for any name, ** for any folders, {a,b} for either. The file that was changed last " +
				`comes first. To find text in files, use file_search. Example: {"pattern": "src/**/*_test.{ts,tsx}"}.`,
			Kind: KindSearch, Expected: time.Second, Retryable: true,
			Category: safe, Place: node, Idempotent: true, ReadOnly: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["pattern"],"properties":{
				"pattern":{"type":"string","minLength":1,"maxLength":4096,"description":"Pattern of paths below the folder"},
				"path":{"type":"string","maxLength":4096,"description":"Folder, relative to the workspace; the workspace itself by default"},
				"all":{"type":"boolean","description":"Include .git and what .gitignore excludes"}}}`,
			run: runGlob,
		},
		{
			Name: toolname.ManageScratchpad,
			Description: "Read your notes from earlier runs, or append a note for later ones. Read them when you start, and note what you finished " +
				`and learned before you end. With both, the note is appended first. Example: {"append": "Migrated users; orders are left."}.`,
			Kind: KindWork, Expected: time.Second,
			Category: safe, Place: node, Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"minProperties":1,"properties":{
				"append":{"type":"string","minLength":1,"maxLength":65536,"description":"The note to append"},
				"read":{"type":"boolean","description":"Return all notes"}}}`,
			run: runScratchpad,
		},
	}
}

func runFileRead(ctx context.Context, c Call) (Result, error) {
	first, most := max(number(c.Arguments, "offset"), 1), number(c.Arguments, "limit")
	if most == 0 {
		most = readLines
	}
	var res *nodev1.ReadFileResponse
	err := inJail(ctx, c, func() (err error) {
		res, err = c.Node.Files().ReadFile(ctx, &nodev1.ReadFileRequest{
			JailId: c.Jail.GetJailId(), Path: text(c.Arguments, "path"), FirstLine: first, MaxLines: most, Limit: readBytes,
		})
		return err
	})
	if err != nil {
		return failure(err)
	}
	path := text(c.Arguments, "path")
	size := fmt.Sprintf("%d bytes", res.GetSize())
	if res.GetTotalLines() > 0 {
		size = fmt.Sprintf("%d lines, %s", res.GetTotalLines(), size)
	}
	header := path + ": " + size
	if res.GetDigest() != "" {
		header += ", sha256 " + res.GetDigest()
	}
	content := string(res.GetContent())
	if !utf8.ValidString(content) {
		header += "; it is not text: invalid bytes are shown as \uFFFD"
		content = strings.ToValidUTF8(content, "\uFFFD")
	}
	numbered, shown := numberLines(content, first, readBytes)
	last := first + shown - 1
	switch {
	case res.GetSize() == 0:
		header += " (empty)"
	case shown == 0:
		header += fmt.Sprintf("; line %d is after its end", first)
	case first > 1 || last < res.GetTotalLines() || shown < res.GetLines() || res.GetTotalLines() == 0:
		header += fmt.Sprintf("; lines %d to %d follow", first, last)
		if res.GetTotalLines() == 0 || last < res.GetTotalLines() {
			header += fmt.Sprintf("; continue with offset %d", last+1)
		}
	}
	return Result{
		Observation: header + "\n" + numbered,
		Outcome:     map[string]any{"path": path, "size": res.GetSize(), "digest": res.GetDigest(), "first_line": first, "lines": shown, "total_lines": res.GetTotalLines()},
	}, nil
}

// maxLine is how many bytes of a line are shown.
const maxLine = 2000

// numberLines writes each line behind its number, as cat -n does, at most about most bytes of
// them, and returns how many lines it wrote.
func numberLines(content string, first, most int64) (string, int64) {
	var out strings.Builder
	shown := int64(0)
	for line := range strings.Lines(content) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > maxLine {
			kept := strings.ToValidUTF8(line[:maxLine], "")
			line = fmt.Sprintf("%s [%d more bytes of this line; read them with a command, such as cut -c]", kept, len(line)-len(kept))
		}
		if shown > 0 && int64(out.Len()+len(line)) > most {
			break
		}
		fmt.Fprintf(&out, "%6d\t%s\n", first+shown, line)
		shown++
	}
	return out.String(), shown
}

func runFileWrite(ctx context.Context, c Call) (Result, error) {
	var res *nodev1.WriteFileResponse
	err := inJail(ctx, c, func() (err error) {
		if err := refuseMarkers(ctx, c, text(c.Arguments, "path"), text(c.Arguments, "content")); err != nil {
			return err
		}
		res, err = c.Node.Files().WriteFile(ctx, &nodev1.WriteFileRequest{
			JailId: c.Jail.GetJailId(), Path: text(c.Arguments, "path"), Content: []byte(text(c.Arguments, "content")),
			ExpectDigest: text(c.Arguments, "expect_digest"), OperationId: c.StepID,
		})
		return err
	})
	if err != nil {
		return failure(err)
	}
	done := "created"
	if res.GetReplaced() {
		done = "replaced"
	}
	return Result{
		Observation: fmt.Sprintf("%s %s: %d bytes, sha256 %s", done, text(c.Arguments, "path"), res.GetSize(), res.GetDigest()),
		Outcome: map[string]any{
			"path": text(c.Arguments, "path"), "size": res.GetSize(), "digest": res.GetDigest(), "replaced": res.GetReplaced(),
		},
		Workspace: res.GetWorkspace(),
	}, nil
}

func runFileList(ctx context.Context, c Call) (Result, error) {
	var res *nodev1.ListFilesResponse
	err := inJail(ctx, c, func() (err error) {
		res, err = c.Node.Files().ListFiles(ctx, &nodev1.ListFilesRequest{
			JailId: c.Jail.GetJailId(), Path: text(c.Arguments, "path"), Recursive: flag(c.Arguments, "recursive"), Limit: listEntries,
			SkipIgnored: !flag(c.Arguments, "all"),
		})
		return err
	})
	if err != nil {
		return failure(err)
	}
	var b strings.Builder
	for _, f := range res.GetFiles() {
		fmt.Fprintf(&b, "%-7s %10d  %s  %s\n", f.GetType(), f.GetSize(), f.GetModifiedAt().AsTime().Format(time.RFC3339), f.GetPath())
	}
	if len(res.GetFiles()) == 0 {
		b.WriteString("(empty)\n")
	}
	b.WriteString(leftOut(res.GetIgnored()))
	if res.GetTruncated() {
		fmt.Fprintf(&b, "[only the first %d entries are shown; list a folder further down]\n", listEntries)
	}
	return Result{
		Observation: b.String(),
		Outcome:     map[string]any{"entries": len(res.GetFiles()), "truncated": res.GetTruncated()},
	}, nil
}

func runGlob(ctx context.Context, c Call) (Result, error) {
	var res *nodev1.ListFilesResponse
	err := inJail(ctx, c, func() (err error) {
		res, err = c.Node.Files().ListFiles(ctx, &nodev1.ListFilesRequest{
			JailId: c.Jail.GetJailId(), Path: text(c.Arguments, "path"), Pattern: text(c.Arguments, "pattern"), Limit: globEntries,
			SkipIgnored: !flag(c.Arguments, "all"),
		})
		return err
	})
	if err != nil {
		return failure(err)
	}
	found := slices.DeleteFunc(res.GetFiles(), func(f *nodev1.FileInfo) bool { return f.GetType() == "dir" })
	slices.SortStableFunc(found, func(a, b *nodev1.FileInfo) int {
		return b.GetModifiedAt().AsTime().Compare(a.GetModifiedAt().AsTime())
	})
	var b strings.Builder
	for _, f := range found[:min(len(found), listEntries)] {
		b.WriteString(f.GetPath() + "\n")
	}
	if len(found) == 0 {
		b.WriteString("(no file matches)\n" + leftOut(res.GetIgnored()))
	}
	switch {
	case res.GetTruncated():
		fmt.Fprintf(&b, "[not all folders were read: more than %d files match; use a narrower pattern or a folder further down]\n", len(found))
	case len(found) > listEntries:
		fmt.Fprintf(&b, "[%d of %d files are shown; use a narrower pattern]\n", listEntries, len(found))
	}
	return Result{Observation: b.String(), Outcome: map[string]any{"files": len(found), "truncated": res.GetTruncated()}}, nil
}

// leftOut says that ignored files were left out; "" for none.
func leftOut(ignored int32) string {
	if ignored == 0 {
		return ""
	}
	return fmt.Sprintf("[%d files and folders that Git ignores are left out; set all to see them]\n", ignored)
}

func runScratchpad(ctx context.Context, c Call) (Result, error) {
	result := Result{Observation: "noted", Outcome: map[string]any{"path": scratchpad}}
	if note := text(c.Arguments, "append"); note != "" {
		err := inJail(ctx, c, func() error {
			res, err := c.Node.Files().AppendFile(ctx, &nodev1.AppendFileRequest{
				JailId: c.Jail.GetJailId(), Path: scratchpad, OperationId: c.StepID,
				Content: []byte(strings.TrimRight(note, "\n") + "\n"),
			})
			result.Workspace = res.GetWorkspace()
			return err
		})
		if err != nil {
			return failure(err)
		}
	}
	if flag(c.Arguments, "read") {
		notes, err := ReadScratchpad(ctx, c)
		if err != nil {
			return failure(err)
		}
		result.Observation = notes
		if notes == "" {
			result.Observation = "(the scratchpad is empty)"
		}
	}
	return result, nil
}

// scratchpadBytes is how much of the scratchpad's end is shown.
const scratchpadBytes = 32 << 10

// ReadScratchpad returns the newest notes; "" if there are none.
func ReadScratchpad(ctx context.Context, c Call) (string, error) {
	var res *nodev1.ReadFileResponse
	read := func(offset int64) error {
		return inJail(ctx, c, func() (err error) {
			res, err = c.Node.Files().ReadFile(ctx, &nodev1.ReadFileRequest{
				JailId: c.Jail.GetJailId(), Path: scratchpad, Offset: offset, Limit: scratchpadBytes,
			})
			return err
		})
	}
	err := read(0)
	if err == nil && res.GetSize() > scratchpadBytes {
		err = read(res.GetSize() - scratchpadBytes)
	}
	if fault.Is(fault.FromGRPC(err), fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return strings.ToValidUTF8(string(res.GetContent()), "\uFFFD"), nil
}
