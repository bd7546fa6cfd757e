package pack

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Limits of what is in an archive.
const (
	maxUnpacked = 4 << 30
	maxEntries  = 100_000
	maxWindow   = 128 << 20 // of zstd
)

// unpack writes the files of an archive (tar, alone or in gzip or zstd) into a new folder, which
// nobody but root can write to, and returns their number and size. It refuses an archive with
// names or links that lead out of the folder, and one with anything but files, folders and links.
func unpack(ctx context.Context, archive io.Reader, to string) (files int, size int64, err error) {
	in, end, err := decompress(reader{ctx, archive, nil})
	if err != nil {
		return 0, 0, err
	}
	defer end()
	if err := makeFolder(to); err != nil {
		return 0, 0, fmt.Errorf("make the folder of the pack: %w", err)
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = root.Close() }()
	entries := 0
	for t := tar.NewReader(in); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return files, size, refused("it cannot be read as tar").WithCause(err)
		}
		if entries++; entries > maxEntries {
			return files, size, refused("it has more than %d files", maxEntries)
		}
		name := path.Clean(h.Name)
		if name == "." && h.Typeflag == tar.TypeDir {
			continue
		}
		if !filepath.IsLocal(h.Name) || name == "." {
			return files, size, refused("%.100q leads out of its folder", h.Name)
		}
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return files, size, refused("%.100q cannot be made", name).WithCause(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeReg:
			if size += h.Size; h.Size < 0 || size > maxUnpacked {
				return files, size, refused("its files have more than %d GiB", maxUnpacked>>30)
			}
			files++
			err = write(root, name, t, h)
		case tar.TypeSymlink:
			if !within(name, h.Linkname) {
				return files, size, refused("the link %.100q leads out of its folder", name)
			}
			err = root.Symlink(h.Linkname, name)
		case tar.TypeLink:
			if !filepath.IsLocal(h.Linkname) {
				return files, size, refused("the link %.100q leads out of its folder", name)
			}
			err = root.Link(path.Clean(h.Linkname), name)
		case tar.TypeXGlobalHeader:
		default:
			return files, size, refused("%.100q is neither a file nor a folder nor a link", name)
		}
		if err != nil {
			return files, size, refused("%.100q cannot be written", name).WithCause(err)
		}
	}
	if files == 0 {
		return 0, 0, refused("it has no file")
	}
	return files, size, finish(root)
}

// finish refuses links that lead out of the folder, by way of others too; has everybody read all
// folders, whatever the umask is; and has the disk keep everything.
func finish(root *os.Root) error {
	err := fs.WalkDir(root.FS(), ".", func(name string, is fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case is.IsDir():
			return root.Chmod(name, 0o755)
		case is.Type() == fs.ModeSymlink:
			if _, err := root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return refused("the link %.100q leads out of its folder, or nowhere", name).WithCause(err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close()) //nolint:gosec // a file descriptor
}

// within reports whether the target of a link stays in the folder of an archive: it goes up first,
// if at all, and not as far as out of it.
func within(name, target string) bool {
	down := false
	for part := range strings.SplitSeq(target, "/") {
		if part == ".." && down {
			return false
		}
		down = down || part != ".." && part != "." && part != ""
	}
	return !path.IsAbs(target) && filepath.IsLocal(path.Join(path.Dir(name), target))
}

func refused(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "the archive is refused, and nothing was installed: "+format, args...)
}

// write writes a file that everybody may read, and run if its owner may, without set-user-id.
func write(root *os.Root, name string, from io.Reader, h *tar.Header) error {
	mode := os.FileMode(0o644)
	if h.Mode&0o100 != 0 {
		mode = 0o755
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// decompress returns the tar of an archive by what it begins with.
func decompress(archive io.Reader) (in io.Reader, end func(), err error) {
	from := bufio.NewReaderSize(archive, 1<<20)
	begin, _ := from.Peek(4) // a shorter one is no archive
	switch {
	case bytes.HasPrefix(begin, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(from)
		if err != nil {
			return nil, nil, refused("it cannot be read as gzip").WithCause(err)
		}
		return z, func() { _ = z.Close() }, nil
	case bytes.Equal(begin, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(from, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, refused("it cannot be read as zstd").WithCause(err)
		}
		return z, z.Close, nil
	}
	return from, func() {}, nil
}
