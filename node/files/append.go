package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// plan is what the ledger keeps of an append before it happens: where in the
// file the content will be. The content itself is in the request, which the
// ledger holds to its digest.
type plan struct {
	Offset int64 `json:"offset"`
}

// AppendFile implements nodev1.FileServiceServer.
func (s *Service) AppendFile(ctx context.Context, req *nodev1.AppendFileRequest) (*nodev1.AppendFileResponse, error) {
	if len(req.GetContent()) > maxAppend {
		return nil, tooLarge("content", len(req.GetContent()), maxAppend)
	}
	w, name, err := s.open(req.GetJailId(), req.GetPath())
	if err != nil {
		return nil, err
	}
	defer w.close()
	var out *nodev1.AppendFileResponse
	changed, err := s.change(ctx, req.GetJailId(), req.GetOperationId(), func() (err error) {
		out, err = s.appendOnce(ctx, w, name, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Workspace = changed
	return out, nil
}

// appendOnce adds to a file's end, once for an operation id.
func (s *Service) appendOnce(ctx context.Context, w *workspace, name string, req *nodev1.AppendFileRequest) (*nodev1.AppendFileResponse, error) {
	if req.GetOperationId() == "" {
		if err := w.expectedOf(name, req); err != nil {
			return nil, err
		}
		return w.append(name, req, nil)
	}
	_, info, err := w.writable(name)
	if err != nil {
		return nil, explain(req.GetPath(), err)
	}
	var planned plan
	if info != nil {
		planned.Offset = info.Size()
	}
	planText, err := json.Marshal(planned)
	if err != nil {
		return nil, fmt.Errorf("plan an append: %w", err)
	}
	rec, existed, err := s.cfg.Ledger.Operation(ctx, req.GetOperationId(), digestOfAppend(name, req), planText, subjectOf(req))
	if err != nil {
		return nil, err
	}
	if rec.GetDone() {
		out := &nodev1.AppendFileResponse{}
		if err := proto.Unmarshal(rec.GetResult(), out); err != nil {
			return nil, fmt.Errorf("read the answer of operation %s: %w", req.GetOperationId(), err)
		}
		return out, nil
	}
	var begun *plan
	if existed {
		begun = &plan{}
		if err := json.Unmarshal(rec.GetPlan(), begun); err != nil {
			return nil, fmt.Errorf("read the plan of operation %s: %w", req.GetOperationId(), err)
		}
	} else if err := w.expectedOf(name, req); err != nil {
		return nil, err
	}
	out, err := w.append(name, req, begun)
	if err != nil {
		return nil, err
	}
	result, err := proto.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("keep the answer of operation %s: %w", req.GetOperationId(), err)
	}
	if err := s.cfg.Ledger.Complete(ctx, req.GetOperationId(), result); err != nil {
		return nil, err
	}
	return out, nil
}

// expectedOf refuses unless the file is as the request expects it.
func (w *workspace) expectedOf(name string, req *nodev1.AppendFileRequest) error {
	_, info, err := w.writable(name)
	if err != nil {
		return explain(req.GetPath(), err)
	}
	return explain(req.GetPath(), w.expected(name, req.GetPath(), req.GetExpectDigest(), info != nil))
}

// append adds the content to the end of the file or, if an earlier call began
// to, the part of it that is still missing.
func (w *workspace) append(name string, req *nodev1.AppendFileRequest, begun *plan) (*nodev1.AppendFileResponse, error) {
	f, size, err := w.openForAppend(name, req.GetPath())
	if err != nil {
		return nil, explain(req.GetPath(), err)
	}
	defer f.Close()
	content := req.GetContent()
	if begun != nil {
		rest, known, err := missing(f, size, *begun, content)
		if err != nil {
			return nil, explain(req.GetPath(), err)
		}
		if !known {
			return nil, fault.New(fault.Aborted, "it is unknown whether the content was added to %q: the node stopped in between and the file has changed since", req.GetPath()).
				WithCode(fault.OutcomeUnknown).WithFix("look at the file's end")
		}
		content = rest
	}
	if _, err := f.Write(content); err != nil {
		return nil, explain(req.GetPath(), err)
	}
	// On disk before the ledger says that it happened.
	if err := f.Sync(); err != nil {
		return nil, explain(req.GetPath(), err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, explain(req.GetPath(), err)
	}
	digest, err := digestOf(f, info.Size())
	if err != nil {
		return nil, explain(req.GetPath(), err)
	}
	return &nodev1.AppendFileResponse{Size: info.Size(), Digest: digest}, nil
}

func (w *workspace) openForAppend(name, asked string) (*os.File, int64, error) {
	name, info, err := w.writable(name)
	if err == nil {
		err = w.unshared(name, asked)
	}
	if err != nil {
		return nil, 0, err
	}
	if info == nil {
		if err := w.create(name); err != nil {
			return nil, 0, err
		}
	}
	f, info, err := w.openRegular(name, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return nil, 0, err
	}
	// This applies to every file, because an earlier call may have been killed
	// after it created the file.
	if err := f.Chown(w.uid, w.gid); err != nil {
		_ = f.Close()
		return nil, 0, fmt.Errorf("change the owner of the file: %w", err)
	}
	return f, info.Size(), nil
}

// create makes an empty file unless something is there by now.
func (w *workspace) create(name string) error {
	dir, _ := path.Split(name)
	if err := w.makeDirs(dir); err != nil {
		return err
	}
	f, err := w.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, newFile)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// missing returns what is left to add of content that an interrupted call
// planned to add at an offset: all, the rest, or nothing. It is not known when
// the file is no longer what that call left.
func missing(f io.ReaderAt, size int64, begun plan, content []byte) (rest []byte, known bool, err error) {
	if size < begun.Offset {
		return nil, false, nil
	}
	there := make([]byte, min(size-begun.Offset, int64(len(content))))
	if _, err := f.ReadAt(there, begun.Offset); err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if !bytes.HasPrefix(content, there) {
		return nil, false, nil
	}
	return content[len(there):], true, nil
}

// digestOfAppend returns a digest that identifies a request.
func digestOfAppend(name string, req *nodev1.AppendFileRequest) []byte {
	hash := sha256.New()
	parts := [][]byte{[]byte(req.GetJailId()), []byte(name), req.GetContent()}
	if req.GetExpectDigest() != "" {
		parts = append(parts, []byte(req.GetExpectDigest()))
	}
	for _, part := range parts {
		fmt.Fprintf(hash, "%d:", len(part))
		hash.Write(part)
	}
	return hash.Sum(nil)
}
