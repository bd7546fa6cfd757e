package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"

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
	after, n, refused := replaceAll(before, req.GetEdits(), req.GetPath())
	plan := edited{Before: digest, After: digestText(after)}
	if refused != nil {
		plan.After = ""
	}
	return once(ctx, s, req.GetOperationId(), req, plan, out, func(begun *edited) error {
		if begun != nil && begun.After != "" && digest == begun.After {
			// It happened before the daemon died.
			out.Size, out.Digest, out.Replacements = int64(len(before)), digest, int32(len(req.GetEdits()))
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
		out.Size, out.Digest, out.Replacements = int64(len(after)), plan.After, int32(n)
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

// replaceAll makes edits one after another, and returns how many places they
// changed.
func replaceAll(content []byte, edits []*nodev1.Edit, path string) ([]byte, int, error) {
	total := 0
	for i, e := range edits {
		n := bytes.Count(content, e.GetOld())
		switch {
		case len(e.GetOld()) == 0:
			return nil, 0, fault.New(fault.Invalid, "edit %d has no old text", i+1).WithFix("give the text to replace")
		case n == 0:
			return nil, 0, fault.New(fault.Precondition, "the old text of edit %d is not in %q", i+1, path).
				WithCode(fault.FileConflict).WithFix("read the file again: the text must be there exactly, with all its spaces")
		case n > 1 && !e.GetAll():
			return nil, 0, fault.New(fault.Precondition, "the old text of edit %d is %d times in %q", i+1, n, path).
				WithFix("include more of the surrounding text, or replace all")
		}
		content = bytes.ReplaceAll(content, e.GetOld(), e.GetNew())
		total += n
		if len(content) > maxEdit {
			return nil, 0, tooLarge("the file", len(content), maxEdit)
		}
	}
	return content, total, nil
}
