// Package input opens the files that a skill reads. They are files of a jail
// and may be hostile: only regular files are opened, the amount read is
// bounded, what is left out is reported, and symbolic links to folders are
// never followed.
package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/gzip"
)

// ErrTooMuch ends the reading of more than a call may read.
var ErrTooMuch = errors.New("more text than one call reads")

// Limits bound what one call reads.
type Limits struct {
	// Bytes is how much text, unzipped, all files together.
	Bytes int64
	// Files is how many files.
	Files int
}

// File is an open text.
type File struct {
	Path string
	// Size is the file's when it was opened; what grows after is not read.
	Size int64
	// Modified is when it was written last.
	Modified time.Time
	// Zipped reports that the file is compressed; offsets then refer to the
	// decompressed text.
	Zipped bool

	file *os.File
	r    io.Reader
}

// Open opens a regular file for reading, unzipping one that is gzip. Reading it
// ends with ctx, and after left bytes of text with ErrTooMuch.
func Open(ctx context.Context, path string, left int64) (*File, error) {
	// Not to wait for the other end of a pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, Say(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	out := &File{Path: path, Size: info.Size(), Modified: info.ModTime(), file: f}
	out.r = io.LimitReader(f, info.Size())
	var magic [2]byte
	if n, _ := f.ReadAt(magic[:], 0); n == 2 && magic == [2]byte{0x1f, 0x8b} {
		unzip, err := gzip.NewReader(out.r)
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("%s: unzip: %w", path, err)
		}
		out.r, out.Zipped = unzip, true
	}
	out.r = &bounded{ctx: ctx, r: out.r, left: left}
	return out, nil
}

func (f *File) Read(p []byte) (int, error) { return f.r.Read(p) }

// Grown returns how much the file has grown since it was opened.
func (f *File) Grown() int64 {
	info, err := f.file.Stat()
	if err != nil {
		return 0
	}
	return info.Size() - f.Size
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// bounded reads until its context ends, and at most a given number of bytes.
type bounded struct {
	ctx  context.Context //nolint:containedctx // of the call that reads
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.left <= 0 {
		// At the very end it is not too much.
		if n, err := b.r.Read(make([]byte, 1)); n == 0 && err != nil {
			return 0, err
		}
		return 0, ErrTooMuch
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Say returns an error of the file system without the words that a model has
// no use for.
func Say(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Errorf("%s: %w", at.Path, at.Err)
	}
	return err
}

// rotated is what is added to a log's name when another is begun.
var rotated = regexp.MustCompile(`^[.-](\d{1,3}|\d{4}-?\d{2}-?\d{2}([T._-]?\d{2,6})?|old)(\.gz)?$`)

// Logs returns the files of a log, the oldest first: path itself and those it
// was rotated into, all files directly in a folder, or what a pattern names.
func Logs(path string, limit int) (files []string, more int, err error) {
	names, err := candidates(path)
	if err != nil {
		return nil, 0, err
	}
	type found struct {
		path  string
		at    time.Time
		order int
	}
	var all []found
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		all = append(all, found{name, info.ModTime().Truncate(time.Second), generation(name)})
	}
	if len(all) == 0 {
		return nil, 0, fmt.Errorf("%s: no log file is there", path)
	}
	slices.SortFunc(all, func(a, b found) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		if c := b.order - a.order; c != 0 {
			return c
		}
		return strings.Compare(a.path, b.path)
	})
	more = max(0, len(all)-limit)
	for _, f := range all[more:] {
		files = append(files, f.path)
	}
	return files, more, nil
}

// generation is the number that a log was rotated into; 0 for the newest.
func generation(path string) int {
	parts := strings.Split(strings.TrimSuffix(path, ".gz"), ".")
	n, err := strconv.Atoi(parts[len(parts)-1])
	if err != nil {
		return 0
	}
	return n
}

func candidates(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, Say(err)
		}
		var out []string
		for _, e := range entries {
			if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
				out = append(out, filepath.Join(path, e.Name()))
			}
		}
		return out, nil
	case err == nil:
		out := []string{path}
		entries, _ := os.ReadDir(filepath.Dir(path))
		for _, e := range entries {
			if rest, ok := strings.CutPrefix(e.Name(), filepath.Base(path)); ok && e.Type().IsRegular() && rotated.MatchString(rest) {
				out = append(out, filepath.Join(filepath.Dir(path), e.Name()))
			}
		}
		return out, nil
	case strings.ContainsAny(path, "*?["):
		out, gerr := filepath.Glob(path)
		if gerr != nil {
			return nil, fmt.Errorf("pattern %q: %w", path, gerr)
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("nothing matches %s", path)
		}
		return out, nil
	}
	return nil, Say(err)
}
