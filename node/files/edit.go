package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// maxEdit is the largest file that is edited.
const maxEdit = maxWrite

// edited is what an edit is going to make true.
type edited struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// EditFile implements nodev1.FileServiceServer.
func (s *Service) EditFile(ctx context.Context, req *nodev1.EditFileRequest) (*nodev1.EditFileResponse, error) {
	w, name, err := s.open(req.GetJailId(), req.GetPath())
	if err != nil {
		return nil, err
	}
	defer w.close()
	out := &nodev1.EditFileResponse{}
	changed, err := s.change(ctx, req.GetJailId(), req.GetOperationId(), func() error {
		return s.edit(ctx, w, name, req, out)
	})
	out.Workspace = changed
	return out, explain(req.GetPath(), err)
}

func (s *Service) edit(ctx context.Context, w *workspace, name string, req *nodev1.EditFileRequest, out *nodev1.EditFileResponse) error {
	name, info, err := w.writable(name)
	if err == nil {
		err = w.unshared(name, req.GetPath())
	}
	if err != nil {
		return err
	}
	if info == nil {
		return fs.ErrNotExist
	}
	if info.Size() > maxEdit {
		return tooLarge("the file", int(info.Size()), maxEdit)
	}
	before, err := w.readAll(name)
	if err != nil {
		return err
	}
	digest := digestText(before)
	after, places, refused := replace(before, req.GetEdit(), req.GetPath())
	plan := edited{Before: digest, After: digestText(after)}
	if refused != nil {
		plan.After = ""
	}
	return once(ctx, s, req.GetOperationId(), req, plan, out, func(begun *edited) error {
		if begun != nil && begun.After != "" && digest == begun.After {
			// It happened before the daemon died.
			out.Size, out.Digest, out.Replacements = int64(len(before)), digest, 1
			return nil
		}
		if want := req.GetExpectDigest(); want != "" {
			if err := w.mustHave(name, req.GetPath(), true, want); err != nil {
				return err
			}
		}
		if refused != nil {
			return refused
		}
		if err := w.replace(name, info.Mode().Perm(), after); err != nil {
			return err
		}
		out.Size, out.Digest, out.Replacements = int64(len(after)), plan.After, int32(len(places))
		describe(after, places, len(req.GetEdit().GetNew()), out)
		return nil
	})
}

func digestText(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func (w *workspace) readAll(name string) ([]byte, error) {
	f, _, err := w.openRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxEdit+1))
	if err == nil && len(content) > maxEdit {
		err = tooLarge("the file", len(content), maxEdit)
	}
	return content, err
}

// replace makes an edit, and returns where the new text is.
func replace(content []byte, e *nodev1.Edit, path string) (after []byte, places []int, err error) {
	if len(e.GetOld()) == 0 {
		return nil, nil, fault.New(fault.Invalid, "the old text is empty").WithFix("give the text to replace")
	}
	found := indexAll(content, e.GetOld())
	switch {
	case len(found) == 0:
		return nil, nil, fault.New(fault.Precondition, "the old text is not in %q%s", path, candidates(content, e.GetOld())).
			WithCode(fault.FileConflict).WithFix("read those lines again: the text must be in the file exactly, with all its spaces and line ends")
	case len(found) > 1 && !e.GetAll():
		return nil, nil, fault.New(fault.Precondition, "the old text is %d times in %q, on lines %s", len(found), path, lineNumbers(content, found)).
			WithFix("include more of the surrounding text, or replace all")
	}
	after = bytes.ReplaceAll(content, e.GetOld(), e.GetNew())
	if len(after) > maxEdit {
		return nil, nil, tooLarge("the file", len(after), maxEdit)
	}
	for i, at := range found {
		found[i] = at + i*(len(e.GetNew())-len(e.GetOld()))
	}
	return after, found, nil
}

// indexAll returns where a text is, without overlaps.
func indexAll(content, text []byte) (found []int) {
	for at := 0; ; {
		i := bytes.Index(content[at:], text)
		if i < 0 {
			return found
		}
		found = append(found, at+i)
		at += i + len(text)
	}
}

// lineOf returns the number of the line that a place is on, counted from 1.
func lineOf(content []byte, at int) int64 { return int64(bytes.Count(content[:at], []byte("\n"))) + 1 }

// maxListed is how many places a message lists.
const maxListed = 20

func lineNumbers(content []byte, places []int) string {
	var out []string
	for _, at := range places[:min(len(places), maxListed)] {
		out = append(out, strconv.FormatInt(lineOf(content, at), 10))
	}
	if len(places) > maxListed {
		out = append(out, "…")
	}
	return strings.Join(out, ", ")
}

const (
	// maxPlaces is how many places an answer lists, and maxExcerpt how many bytes of the
	// first it shows, with contextLines lines before and after.
	maxPlaces    = 100
	maxExcerpt   = 4 << 10
	contextLines = 3
)

// describe sets in a response which lines an edit changed. size is the length of the new
// text.
func describe(after []byte, places []int, size int, out *nodev1.EditFileResponse) {
	line, from := int64(1), 0
	for _, at := range places[:min(len(places), maxPlaces)] {
		line += int64(bytes.Count(after[from:at], []byte("\n")))
		from = at
		out.Lines = append(out.Lines, line)
	}
	begin, end := places[0], min(places[0]+size, len(after))
	for range contextLines + 1 {
		if begin = bytes.LastIndexByte(after[:max(begin, 0)], '\n'); begin < 0 {
			break
		}
	}
	begin++
	for range contextLines + 1 {
		i := bytes.IndexByte(after[end:], '\n')
		if i < 0 {
			end = len(after)
			break
		}
		end += i + 1
	}
	out.ExcerptLine = lineOf(after, begin)
	out.Excerpt = after[begin:end]
	if len(out.GetExcerpt()) > maxExcerpt {
		out.Excerpt = wholeRunes(out.GetExcerpt()[:maxExcerpt])
	}
}
