package files

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// ReadFile implements nodev1.FileServiceServer.
func (s *Service) ReadFile(_ context.Context, req *nodev1.ReadFileRequest) (*nodev1.ReadFileResponse, error) {
	if req.GetOffset() < 0 || req.GetLimit() < 0 {
		return nil, fault.New(fault.Invalid, "offset and limit cannot be negative").WithFix("use 0 or more")
	}
	w, name, err := s.openToRead(req.GetJailId(), req.GetPath())
	if err != nil {
		return nil, err
	}
	defer w.close()
	f, info, err := w.openRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, explainIn(w, req.GetPath(), err)
	}
	defer f.Close()
	limit := req.GetLimit()
	if limit == 0 {
		limit = defaultRead
	}
	if req.GetFirstLine() > 0 {
		out, err := readLines(f, info.Size(), req.GetFirstLine(), req.GetMaxLines(), min(limit, maxRead))
		return out, explainIn(w, req.GetPath(), err)
	}
	content := make([]byte, min(limit, maxRead, max(info.Size()-req.GetOffset(), 0)))
	n, err := f.ReadAt(content, req.GetOffset())
	if err != nil && !errors.Is(err, io.EOF) { // shorter now than it was
		return nil, explainIn(w, req.GetPath(), err)
	}
	digest, err := digestOf(f, info.Size())
	if err != nil {
		return nil, explainIn(w, req.GetPath(), err)
	}
	return &nodev1.ReadFileResponse{Content: content[:n], Size: info.Size(), Digest: digest}, nil
}

// readLines reads whole lines of a file from one on, at most as many as fit into limit
// bytes. If the first one alone does not fit, it is cut between two characters.
func readLines(f io.ReaderAt, size, first, most, limit int64) (*nodev1.ReadFileResponse, error) {
	counted := size <= maxDigest
	hash := sha256.New()
	var source io.Reader = io.NewSectionReader(f, 0, size)
	if counted {
		source = io.TeeReader(source, hash)
	}
	in := bufio.NewReaderSize(source, 64<<10)
	out := &nodev1.ReadFileResponse{Size: size}
	full := false
	for n := int64(1); ; n++ {
		wanted := n >= first && !full && (most == 0 || out.GetLines() < most)
		if !wanted && n >= first && !counted {
			return out, nil
		}
		room := int64(0)
		if wanted {
			room = limit - int64(len(out.GetContent()))
		}
		line, length, err := nextLine(in, room)
		if err != nil {
			return nil, err
		}
		if length == 0 {
			break
		}
		out.TotalLines = n
		switch {
		case !wanted:
		case length <= room:
			out.Content, out.Lines = append(out.Content, line...), out.GetLines()+1
		case out.GetLines() == 0:
			out.Content, out.Lines, out.Cut, full = wholeRunes(line), 1, true, true
		default:
			full = true
		}
	}
	if !counted {
		out.TotalLines = 0
		return out, nil
	}
	out.Digest = hex.EncodeToString(hash.Sum(nil))
	return out, nil
}

// nextLine reads a line with its end, and returns at most keep bytes of it and its length;
// 0 at the end of the file.
func nextLine(in *bufio.Reader, keep int64) (line []byte, length int64, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		if room := keep - int64(len(line)); room > 0 {
			line = append(line, piece[:min(int64(len(piece)), room)]...)
		}
		length += int64(len(piece))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil, errors.Is(err, io.EOF):
			return line, length, nil
		default:
			return nil, 0, err
		}
	}
}

// wholeRunes cuts off the beginning of a character at the end of a text.
func wholeRunes(text []byte) []byte {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
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

// begin returns the first bytes of a regular file.
func (w *workspace) begin(name string, limit int64) ([]byte, error) {
	f, _, err := w.openRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
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
