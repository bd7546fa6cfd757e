// Package blob stores the contents of files, each once and named by its
// SHA-256, below a folder of the node. Where the file system supports it, a
// copy shares its blocks with the original until one of them changes.
//
//	objects/ab/cdef…    a content; its name ends in ".s" if it has holes
//	incoming/…          contents that are being stored
//
// A content is complete and on disk before its name appears. Contents that were
// incomplete when the daemon died are removed when the next daemon opens the
// store.
package blob

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Store is the contents below one folder.
type Store struct {
	dir     string
	reserve int64

	mu   sync.Mutex
	made map[string]bool // folders of objects that are there
}

// sparseSuffix marks what has holes: its name is over size and data, so that a
// file of a terabyte with nothing in it is neither read nor stored.
const sparseSuffix = ".s"

// wholeBytes is up to which size a content is read into memory, and written
// only if it is new.
const wholeBytes = 1 << 20

// ErrNoRoom is a disk, or its share for contents, that is full.
var ErrNoRoom = errors.New("no room in the node's store")

// ErrChanged is a file that changed while it was read.
var ErrChanged = errors.New("the file changed while it was read")

// Open opens the store, and creates it if it does not exist. It always leaves
// reserve bytes of the disk free.
func Open(dir string, reserve int64) (*Store, error) {
	s := &Store{dir: dir, reserve: reserve, made: map[string]bool{}}
	if err := os.RemoveAll(s.path("incoming")); err != nil {
		return nil, fmt.Errorf("clear the contents that were being taken in: %w", err)
	}
	for _, name := range []string{"objects", "incoming"} {
		if err := os.MkdirAll(s.path(name), 0o700); err != nil {
			return nil, fmt.Errorf("make the store of contents: %w", err)
		}
	}
	return s, nil
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

func (s *Store) object(id string) string { return s.path("objects", id[:2], id[2:]) }

// valid reports whether a text can be the name of a content.
func valid(id string) bool {
	raw, err := hex.DecodeString(strings.TrimSuffix(id, sparseSuffix))
	return err == nil && len(raw) == sha256.Size
}

// Has reports whether a content is there.
func (s *Store) Has(id string) bool {
	if !valid(id) {
		return false
	}
	_, err := os.Lstat(s.object(id))
	return err == nil
}

// OpenContent opens a content to be read.
func (s *Store) OpenContent(id string) (*os.File, error) {
	if !valid(id) {
		return nil, fmt.Errorf("%q names no content", id)
	}
	f, err := os.Open(s.object(id))
	if err != nil {
		return nil, fmt.Errorf("open a content: %w", err)
	}
	return f, nil
}

// Room refuses unless so many bytes can be taken in.
func (s *Store) Room(bytes int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return fmt.Errorf("look at the disk of the store: %w", err)
	}
	if free := int64(st.Bavail) * st.Bsize; free-bytes < s.reserve {
		return fmt.Errorf("%w: %d MiB are free, %d MiB are kept free, %d MiB are wanted", ErrNoRoom, free>>20, s.reserve>>20, bytes>>20)
	}
	return nil
}

// Keep takes in the content of an open file, and returns its name and how many
// bytes the store grew by. It is in the page cache only until Sync, or the
// caller's own.
func (s *Store) Keep(f *os.File) (id string, grew int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", 0, fmt.Errorf("look at a file: %w", err)
	}
	if hasHoles(f, &st) {
		return s.keepSparse(f, st.Size)
	}
	if st.Size <= wholeBytes {
		return s.keepSmall(f, st.Size)
	}
	return s.keepLarge(f, st.Size)
}

func hasHoles(f *os.File, st *unix.Stat_t) bool {
	if st.Size < 64<<10 || st.Blocks*512 >= st.Size {
		return false
	}
	hole, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_HOLE)
	return err == nil && hole < st.Size
}

// Is reports whether an open file has the content of that name, which is in the
// store: nothing is written.
func (s *Store) Is(f *os.File, id string) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false, fmt.Errorf("look at a file: %w", err)
	}
	sparse := strings.HasSuffix(id, sparseSuffix)
	if !s.Has(id) || hasHoles(f, &st) != sparse {
		return false, nil
	}
	hasher := sha256.New()
	var err error
	if sparse {
		err = hashSparse(hasher, f, st.Size, func(extent) io.Writer { return io.Discard })
	} else {
		_, err = io.Copy(hasher, io.NewSectionReader(f, 0, st.Size))
	}
	if err != nil {
		return false, fmt.Errorf("read a file: %w", err)
	}
	return hex.EncodeToString(hasher.Sum(nil)) == strings.TrimSuffix(id, sparseSuffix), nil
}

// hashSparse names a content with holes, and writes each run of its data.
func hashSparse(hasher hash.Hash, f *os.File, size int64, to func(extent) io.Writer) error {
	runs, err := extents(f, size)
	if err != nil {
		return err
	}
	_, _ = hasher.Write([]byte("deckhand content with holes\n"))
	number(hasher, size)
	for _, run := range runs {
		number(hasher, run.from)
		number(hasher, run.to)
		n, err := io.Copy(io.MultiWriter(to(run), hasher), io.NewSectionReader(f, run.from, run.to-run.from))
		if err := complete(n, run.to-run.from, err); err != nil {
			return err
		}
	}
	return nil
}

// keepSmall reads the file once, and writes it only if it is new.
func (s *Store) keepSmall(f *os.File, size int64) (string, int64, error) {
	content := make([]byte, size+1)
	n, err := f.ReadAt(content, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", 0, fmt.Errorf("read a file: %w", err)
	}
	if int64(n) != size {
		return "", 0, ErrChanged
	}
	sum := sha256.Sum256(content[:n])
	id := hex.EncodeToString(sum[:])
	if s.Has(id) {
		return id, 0, nil
	}
	grew, err := s.take(id, func(to *os.File) error {
		_, err := to.Write(content[:n])
		return err
	})
	return id, grew, err
}

// keepLarge copies first and reads the copy, which nothing changes. If blocks
// can be shared, the copy costs nothing.
func (s *Store) keepLarge(f *os.File, size int64) (id string, grew int64, err error) {
	hasher := sha256.New()
	var temp string
	temp, err = s.incoming(func(to *os.File) error {
		if err := unix.IoctlFileClone(int(to.Fd()), int(f.Fd())); err == nil {
			n, err := io.Copy(hasher, io.NewSectionReader(to, 0, size))
			return complete(n, size, err)
		}
		n, err := io.Copy(io.MultiWriter(to, hasher), io.NewSectionReader(f, 0, size))
		return complete(n, size, err)
	})
	if err != nil {
		return "", 0, err
	}
	id = hex.EncodeToString(hasher.Sum(nil))
	grew, err = s.name(temp, id)
	return id, grew, err
}

func complete(n, size int64, err error) error {
	if err == nil && n != size {
		return ErrChanged
	}
	return err
}

// extent is a run of data in a file with holes.
type extent struct{ from, to int64 }

// extents returns where a file has data.
func extents(f *os.File, size int64) ([]extent, error) {
	var out []extent
	for at := int64(0); at < size; {
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("find the data of a file with holes: %w", err)
		}
		to, err := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			return nil, fmt.Errorf("find the data of a file with holes: %w", err)
		}
		if from >= size {
			break
		}
		out = append(out, extent{from, min(to, size)})
		at = to
	}
	return out, nil
}

func (s *Store) keepSparse(f *os.File, size int64) (id string, grew int64, err error) {
	hasher := sha256.New()
	temp, err := s.incoming(func(to *os.File) error {
		if err := to.Truncate(size); err != nil {
			return err
		}
		return hashSparse(hasher, f, size, func(run extent) io.Writer { return io.NewOffsetWriter(to, run.from) })
	})
	if err != nil {
		return "", 0, err
	}
	id = hex.EncodeToString(hasher.Sum(nil)) + sparseSuffix
	grew, err = s.name(temp, id)
	return id, grew, err
}

func number(h hash.Hash, n int64) {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], uint64(n))
	_, _ = h.Write(raw[:])
}

// incoming writes a content under a name of its own.
func (s *Store) incoming(write func(to *os.File) error) (path string, err error) {
	path = s.path("incoming", ident.New("content"))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", noRoom("take in a content", err)
	}
	err = write(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(path)
		return "", noRoom("take in a content", err)
	}
	return path, nil
}

func (s *Store) take(id string, write func(to *os.File) error) (int64, error) {
	temp, err := s.incoming(write)
	if err != nil {
		return 0, err
	}
	return s.name(temp, id)
}

// name gives a content its name; one that is there already stays.
func (s *Store) name(temp, id string) (grew int64, err error) {
	if s.Has(id) {
		return 0, os.Remove(temp)
	}
	if err := s.makeDir(id[:2]); err != nil {
		return 0, noRoom("take in a content", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(temp, &st); err != nil {
		return 0, fmt.Errorf("take in a content: %w", err)
	}
	if err := os.Rename(temp, s.object(id)); err != nil {
		_ = os.Remove(temp)
		return 0, noRoom("take in a content", err)
	}
	return st.Blocks * 512, nil
}

func (s *Store) makeDir(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[name] {
		return nil
	}
	if err := os.Mkdir(s.path("objects", name), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	s.made[name] = true
	return nil
}

// syncEach is up to how many contents are synced one by one.
const syncEach = 16

// Sync brings contents to disk: what refers to them may be written afterwards.
func (s *Store) Sync(ids []string) error {
	if len(ids) > syncEach {
		f, err := os.Open(s.dir)
		if err != nil {
			return fmt.Errorf("bring contents to disk: %w", err)
		}
		defer f.Close()
		if err := unix.Syncfs(int(f.Fd())); err != nil {
			return noRoom("bring contents to disk", err)
		}
		return nil
	}
	for _, id := range ids {
		f, err := s.OpenContent(id)
		if err != nil {
			return err
		}
		err = unix.Fdatasync(int(f.Fd()))
		_ = f.Close()
		if err != nil {
			return noRoom("bring a content to disk", err)
		}
	}
	return nil
}

// noRoom wraps an error of the disk, and knows a full one.
func noRoom(doing string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %s: %w", ErrNoRoom, doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Restore writes a content to a new file.
func (s *Store) Restore(id string, to *os.File) error {
	from, err := s.OpenContent(id)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd())); err == nil {
		return nil
	}
	if !strings.HasSuffix(id, sparseSuffix) {
		if _, err := io.Copy(to, from); err != nil {
			return fmt.Errorf("restore a content: %w", err)
		}
		return nil
	}
	info, err := from.Stat()
	if err != nil {
		return fmt.Errorf("restore a content: %w", err)
	}
	runs, err := extents(from, info.Size())
	if err != nil {
		return err
	}
	if err := to.Truncate(info.Size()); err != nil {
		return fmt.Errorf("restore a content: %w", err)
	}
	for _, run := range runs {
		if _, err := io.Copy(io.NewOffsetWriter(to, run.from), io.NewSectionReader(from, run.from, run.to-run.from)); err != nil {
			return fmt.Errorf("restore a content: %w", err)
		}
	}
	return nil
}

// Sweep deletes every content that live does not name, and returns how many
// bytes are kept.
func (s *Store) Sweep(live func(id string) bool) (kept int64, err error) {
	err = filepath.WalkDir(s.path("objects"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		id := filepath.Base(filepath.Dir(path)) + d.Name()
		if !live(id) {
			return os.Remove(path) //nolint:gosec // the store is root's own, and nobody else may enter it
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		kept += st.Blocks * 512
		return nil
	})
	if err != nil {
		return kept, fmt.Errorf("delete old contents: %w", err)
	}
	return kept, nil
}
