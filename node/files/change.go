package files

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Changes is notified of changes to workspaces; node/snapshot implements it.
type Changes interface {
	Begin(ctx context.Context, jailID, id string, keep bool) error
	End(ctx context.Context, jailID, id string, keep bool) *nodev1.WorkspaceChange
}

// change runs fn, which changes a workspace, exclusively and with a snapshot
// before and after it. Without an id no snapshot is taken: the next snapshot
// finds the changes.
func (s *Service) change(ctx context.Context, jailID, id string, fn func() error) (*nodev1.WorkspaceChange, error) {
	lock := s.lock(jailID)
	lock.Lock()
	defer lock.Unlock()
	if s.cfg.Changes == nil {
		return nil, fn()
	}
	keep := id != ""
	if !keep {
		id = ident.New("files")
	}
	if err := s.cfg.Changes.Begin(ctx, jailID, id, keep); err != nil {
		return nil, err
	}
	err := fn()
	// The caller may have gone; the changes are recorded anyway.
	changed := s.cfg.Changes.End(context.WithoutCancel(ctx), jailID, id, keep)
	return changed, err
}

// once runs do at most once per operation id and returns its response. do's
// plan is in the ledger before do takes effect. begun is the plan of an earlier
// call whose outcome is not known, or nil.
func once[T any](ctx context.Context, s *Service, id string, request proto.Message, plan any, out proto.Message, do func(begun *T) error) error {
	if id == "" {
		return do(nil)
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return fmt.Errorf("digest operation %s: %w", id, err)
	}
	digest := sha256.Sum256(raw)
	planText, err := json.Marshal(plan)
	if err != nil {
		return fmt.Errorf("plan operation %s: %w", id, err)
	}
	rec, existed, err := s.cfg.Ledger.Operation(ctx, id, digest[:], planText, subjectOf(request))
	if err != nil {
		return err
	}
	if rec.GetDone() {
		if err := proto.Unmarshal(rec.GetResult(), out); err != nil {
			return fmt.Errorf("read the answer of operation %s: %w", id, err)
		}
		return nil
	}
	var begun *T
	if existed {
		begun = new(T)
		if err := json.Unmarshal(rec.GetPlan(), begun); err != nil {
			return fmt.Errorf("read the plan of operation %s: %w", id, err)
		}
	}
	if err := do(begun); err != nil {
		return err
	}
	result, err := proto.Marshal(out)
	if err != nil {
		return fmt.Errorf("keep the answer of operation %s: %w", id, err)
	}
	return s.cfg.Ledger.Complete(ctx, id, result)
}

// subjectOf returns what a request is about, for the ledger's readers.
func subjectOf(request proto.Message) (of ledger.Subject) {
	if r, ok := request.(interface{ GetJailId() string }); ok {
		of.JailID = r.GetJailId()
	}
	of.What = operationNames[request.ProtoReflect().Descriptor().Name()]
	switch r := request.(type) {
	case interface{ GetPath() string }:
		of.What += " " + textcut.Bytes(r.GetPath(), maxShownPath, "…")
	case *nodev1.MoveFileRequest:
		of.What += " " + textcut.Bytes(r.GetFrom(), maxShownPath, "…") + " to " + textcut.Bytes(r.GetTo(), maxShownPath, "…")
	}
	return of
}

// maxShownPath is how many bytes of a path the ledger keeps for people.
const maxShownPath = 1024

// operationNames are the verbs of the operations that the ledger records.
var operationNames = map[protoreflect.Name]string{
	"AppendFileRequest": "append", "EditFileRequest": "edit", "PatchFilesRequest": "apply a patch",
	"MoveFileRequest": "move", "DeleteFileRequest": "delete",
}

// moved is what is known of a move or a deletion before it happens.
type moved struct {
	// There says that what is moved, or deleted, was there.
	There bool `json:"there"`
}

// MoveFile implements nodev1.FileServiceServer.
func (s *Service) MoveFile(ctx context.Context, req *nodev1.MoveFileRequest) (*nodev1.MoveFileResponse, error) {
	w, from, err := s.open(req.GetJailId(), req.GetFrom())
	if err != nil {
		return nil, err
	}
	defer w.close()
	to, err := clean(req.GetTo())
	if err != nil {
		return nil, err
	}
	if from == "." || to == "." {
		return nil, fault.New(fault.Invalid, "the workspace itself cannot be moved").WithFix("name a file in it")
	}
	out := &nodev1.MoveFileResponse{}
	changed, err := s.change(ctx, req.GetJailId(), req.GetOperationId(), func() error {
		_, ferr := w.root.Lstat(from)
		return once(ctx, s, req.GetOperationId(), req, moved{There: ferr == nil}, out, func(begun *moved) error {
			if begun != nil && begun.There && errors.Is(ferr, fs.ErrNotExist) {
				if _, err := w.root.Lstat(to); err == nil {
					return nil // it happened before the daemon died
				}
			}
			return w.move(from, to, req)
		})
	})
	out.Workspace = changed
	return out, explain(req.GetFrom(), err)
}

func (w *workspace) move(from, to string, req *nodev1.MoveFileRequest) error {
	info, err := w.root.Lstat(from)
	if err != nil {
		return err
	}
	if err := errors.Join(w.unshared(from, req.GetFrom()), w.unshared(to, req.GetTo())); err != nil {
		return err
	}
	if err := w.expected(from, req.GetFrom(), req.GetExpectDigest(), info.Mode().IsRegular()); err != nil {
		return err
	}
	have, err := w.root.Lstat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return explain(req.GetTo(), err)
	case have.IsDir():
		return fault.New(fault.Exists, "%q is a folder that is there already", req.GetTo()).WithFix("name the path that the file is to have in it")
	case !req.GetOverwrite():
		return fault.New(fault.Exists, "%q is there already", req.GetTo()).WithFix("choose another path, or overwrite it")
	}
	dir, _ := path.Split(to)
	if err := w.makeDirs(dir); err != nil {
		return explain(req.GetTo(), err)
	}
	return w.root.Rename(from, to)
}

// expected refuses unless a file has the digest that is expected of it, if any.
func (w *workspace) expected(name, asked, want string, exists bool) error {
	if want == "" {
		return nil
	}
	return w.mustHave(name, asked, exists, want)
}

// DeleteFile implements nodev1.FileServiceServer. A symbolic link is deleted
// itself.
func (s *Service) DeleteFile(ctx context.Context, req *nodev1.DeleteFileRequest) (*nodev1.DeleteFileResponse, error) {
	w, name, err := s.open(req.GetJailId(), req.GetPath())
	if err != nil {
		return nil, err
	}
	defer w.close()
	if name == "." {
		return nil, fault.New(fault.Invalid, "the workspace itself cannot be deleted").WithFix("name the files in it that are to be deleted")
	}
	out := &nodev1.DeleteFileResponse{}
	changed, err := s.change(ctx, req.GetJailId(), req.GetOperationId(), func() error {
		info, lerr := w.root.Lstat(name)
		return once(ctx, s, req.GetOperationId(), req, moved{There: lerr == nil}, out, func(begun *moved) error {
			if lerr != nil {
				if begun != nil && begun.There && errors.Is(lerr, fs.ErrNotExist) {
					return nil // it happened before the daemon died
				}
				return lerr
			}
			if err := w.unshared(name, req.GetPath()); err != nil {
				return err
			}
			if err := w.expected(name, req.GetPath(), req.GetExpectDigest(), info.Mode().IsRegular()); err != nil {
				return err
			}
			if req.GetRecursive() {
				return w.root.RemoveAll(name)
			}
			return w.root.Remove(name)
		})
	})
	out.Workspace = changed
	return out, explain(req.GetPath(), err)
}
