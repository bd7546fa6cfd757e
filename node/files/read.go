package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// ReadFile implements nodev1.FileServiceServer.
func (s *Service) ReadFile(_ context.Context, req *nodev1.ReadFileRequest) (*nodev1.ReadFileResponse, error) {
	if req.GetOffset() < 0 || req.GetLimit() < 0 {
		return nil, fault.New(fault.Invalid, "offset and limit cannot be negative").WithFix("use 0 or more")
	}
	w, name, err := s.open(req.GetJailId(), req.GetPath())
	if err != nil {
		return nil, err
	}
	defer w.close()
	f, info, err := w.openRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, explain(req.GetPath(), err)
	}
	defer f.Close()
	limit := req.GetLimit()
	if limit == 0 {
		limit = defaultRead
	}
	content := make([]byte, min(limit, maxRead, max(info.Size()-req.GetOffset(), 0)))
	n, err := f.ReadAt(content, req.GetOffset())
	if err != nil && !errors.Is(err, io.EOF) { // shorter now than it was
		return nil, explain(req.GetPath(), err)
	}
	digest, err := digestOf(f, info.Size())
	if err != nil {
		return nil, explain(req.GetPath(), err)
	}
	return &nodev1.ReadFileResponse{Content: content[:n], Size: info.Size(), Digest: digest}, nil
}

// openRegular opens a regular file and nothing else: opening a fifo would
// block, and opening a device may do something.
func (w *workspace) openRegular(name string, flag int) (*os.File, fs.FileInfo, error) {
	info, err := w.root.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if err := mustBeRegular(name, info); err != nil {
		return nil, nil, err
	}
	// It may have become something else since: then this does not block.
	f, err := w.root.OpenFile(name, flag|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat()
	if err == nil {
		err = mustBeRegular(name, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func mustBeRegular(name string, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return syscall.EISDIR
	}
	return fault.New(fault.Precondition, "%q is not a regular file but a %s", name, kind(info.Mode())).
		WithFix("name a regular file")
}

func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// digestOf returns the SHA-256 of a whole file in hex, or "" of one that is too
// large to read for it.
func digestOf(f io.ReaderAt, size int64) (string, error) {
	if size > maxDigest {
		return "", nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(f, 0, size)); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
