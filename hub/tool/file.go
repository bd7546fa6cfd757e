package tool

import (
	"context"
	"fmt"
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
	readBytes   = 64 << 10
	maxRead     = 256 << 10
	listEntries = 500
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
			Name:        toolname.FileRead,
			Description: "Read a file of the workspace, or a range of it in bytes.",
			Category:    safe, Place: node, Idempotent: true, ReadOnly: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
				"path":{"type":"string","minLength":1,"maxLength":4096,"description":"Path below /workspace"},
				"offset":{"type":"integer","minimum":0,"description":"First byte to read"},
				"limit":{"type":"integer","minimum":1,"maximum":262144,"description":"At most this many bytes; 65536 by default"}}}`,
			run: runFileRead,
		},
		{
			Name: toolname.FileWrite,
			Description: "Write a whole file of the workspace, making its folders. With expect_digest the write happens only if the file " +
				"still has that SHA-256, so that nobody else's change is lost.",
			Category: moderate, Place: node, Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{
				"path":{"type":"string","minLength":1,"maxLength":4096,"description":"Path below /workspace"},
				"content":{"type":"string","maxLength":4000000,"description":"The whole new content"},
				"expect_digest":{"type":"string","maxLength":64,"description":"SHA-256 in hex that the file must have now; \"absent\" if it must not exist"}}}`,
			run: runFileWrite, preview: previewFileWrite,
		},
		{
			Name:        toolname.FileList,
			Description: "List a folder of the workspace.",
			Category:    safe, Place: node, Idempotent: true, ReadOnly: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"properties":{
				"path":{"type":"string","maxLength":4096,"description":"Folder below /workspace; the workspace itself by default"},
				"recursive":{"type":"boolean","description":"List the folders inside too"}}}`,
			run: runFileList,
		},
		{
			Name: toolname.ManageScratchpad,
			Description: "Your notes to yourself, kept in the workspace between wake-ups. Append a note, read them all, or both " +
				"(the note is appended first).",
			Category: safe, Place: node, Idempotent: true, Reversible: true, Timeout: fileTimeout,
			schema: `{"type":"object","additionalProperties":false,"minProperties":1,"properties":{
				"append":{"type":"string","minLength":1,"maxLength":65536,"description":"A note to add at the end"},
				"read":{"type":"boolean","description":"Answer all notes"}}}`,
			run: runScratchpad,
		},
	}
}

func runFileRead(ctx context.Context, c Call) (Result, error) {
	limit := int64(readBytes)
	if n := number(c.Arguments, "limit"); n > 0 {
		limit = min(n, maxRead)
	}
	var res *nodev1.ReadFileResponse
	err := inJail(ctx, c, func() (err error) {
		res, err = c.Node.Files().ReadFile(ctx, &nodev1.ReadFileRequest{
			JailId: c.Jail.GetJailId(), Path: text(c.Arguments, "path"), Offset: number(c.Arguments, "offset"), Limit: limit,
		})
		return err
	})
	if err != nil {
		return failure(err)
	}
	from := number(c.Arguments, "offset")
	to := from + int64(len(res.GetContent()))
	header := fmt.Sprintf("%s: %d bytes, sha256 %s", text(c.Arguments, "path"), res.GetSize(), res.GetDigest())
	if to < res.GetSize() || from > 0 {
		header += fmt.Sprintf("; bytes %d to %d follow", from, to)
	}
	content := string(res.GetContent())
	if !utf8.ValidString(content) {
		header += "; it is not text: invalid bytes are shown as \uFFFD"
		content = strings.ToValidUTF8(content, "\uFFFD")
	}
	return Result{
		Observation: header + "\n" + content,
		Outcome:     map[string]any{"path": text(c.Arguments, "path"), "size": res.GetSize(), "digest": res.GetDigest(), "bytes": len(res.GetContent())},
	}, nil
}

func runFileWrite(ctx context.Context, c Call) (Result, error) {
	var res *nodev1.WriteFileResponse
	err := inJail(ctx, c, func() (err error) {
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
	if res.GetTruncated() {
		fmt.Fprintf(&b, "[only the first %d entries are shown; list a folder further down]\n", listEntries)
	}
	return Result{
		Observation: b.String(),
		Outcome:     map[string]any{"entries": len(res.GetFiles()), "truncated": res.GetTruncated()},
	}, nil
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
