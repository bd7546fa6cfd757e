// Package scan finds what changed in a workspace since the previous scan. It
// compares only sizes, times, inodes and owners, in parallel. It opens folders
// and nothing else, follows no symbolic link, and never leaves the workspace's
// file system.
//
// Changes that the kernel's timestamps cannot show are handled explicitly: an
// entry that changed within the last clock tick before the scan is marked racy,
// and the next scan examines it again.
package scan

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
)

// Config bounds a scan.
type Config struct {
	// MaxEntries is how many names a workspace may have; 0 for a million.
	MaxEntries int
	// Ignore says which names in the workspace's own folder are not looked at;
	// nil for none.
	Ignore func(name string) bool
}

// defaultMaxEntries is about what a workspace of 16 GiB can hold.
const defaultMaxEntries = 1_000_000

// maxPath is the longest path that is looked at: the kernel takes none beyond
// 4 096 bytes at once.
const maxPath = 3800

// ErrTooMany is a workspace with more names than may be.
var ErrTooMany = errors.New("too many files")

// Found is a path that is not as the tree has it, or may not be.
type Found struct {
	Path string
	// Old is the tree's entry; nil for none.
	Old *tree.Entry
	// New is what is there now, by its status alone: content and extended
	// attributes are not filled in. Nil for nothing there.
	New *tree.Entry
}

// Result is what a scan found.
type Result struct {
	// Found by path.
	Found []Found
	// Links are the paths of files with several names, by inode, each in order:
	// all of the workspace's, changed or not.
	Links map[uint64][]string
	// Entries that there are.
	Entries int
}

// epochs distinguishes one scan's marks in a tree from another's.
var epochs atomic.Uint64

// Scan compares what is below root with the tree. The tree is not changed
// except for the scan's own marks: one scan of a tree at a time.
func Scan(ctx context.Context, root int, t *tree.Tree, cfg Config) (*Result, error) {
	if cfg.MaxEntries == 0 {
		cfg.MaxEntries = defaultMaxEntries
	}
	s := &scanner{ctx: ctx, cfg: cfg, epoch: epochs.Add(1), links: map[uint64][]string{}}
	s.wake = sync.NewCond(&s.mu)
	s.began = Coarse()
	fd, err := unix.Openat(root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	top := &folder{fd: fd, path: tree.Root, node: t.Root}
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("look at the workspace: %w", err)
	}
	s.major, s.minor = st.Dev_major, st.Dev_minor
	w := &worker{s: s, buf: make([]byte, 64<<10)}
	w.entries++
	if e := s.entry(&st); !known(t.Root.Entry, e) {
		w.found = append(w.found, Found{Path: tree.Root, Old: t.Root.Entry, New: e})
	}
	s.run(w, top, workersFor(t.Len()))
	if s.err != nil {
		return nil, s.err
	}
	slices.SortFunc(s.found, func(a, b Found) int { return strings.Compare(a.Path, b.Path) })
	for _, paths := range s.links {
		slices.Sort(paths)
	}
	return &Result{Found: s.found, Links: s.links, Entries: s.entries}, nil
}

// workersFor returns how many goroutines a tree is worth.
func workersFor(entries int) int {
	return max(1, min(runtime.GOMAXPROCS(0), 8, 1+entries/500))
}

// folder is an open folder with its place in the tree; node is nil when the
// tree does not have it. Those below it are opened from it.
type folder struct {
	fd   int
	path string
	node *tree.Node
	// users are the folder's own reading and those below that are not open yet.
	users atomic.Int32
}

// job is a folder to read: named in its parent, which is open.
type job struct {
	parent *folder
	name   string
	node   *tree.Node
}

type scanner struct {
	ctx          context.Context
	cfg          Config
	epoch        uint64
	began        int64
	major, minor uint32

	mu      sync.Mutex
	wake    *sync.Cond
	jobs    []job // last in, first out: few folders are open at once
	working int
	found   []Found
	links   map[uint64][]string
	entries int
	err     error

	total atomic.Int64
}

// worker has what one goroutine found.
type worker struct {
	s       *scanner
	buf     []byte
	names   []string
	found   []Found
	links   map[uint64][]string
	entries int
}

func (s *scanner) run(first *worker, top *folder, workers int) {
	s.working = 1
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(func() { (&worker{s: s, buf: make([]byte, 64<<10)}).work() })
	}
	top.users.Store(1)
	err := first.read(top)
	s.mu.Lock()
	s.finish(err)
	s.mu.Unlock()
	first.work()
	wg.Wait()
}

// finish ends one job; the caller must hold s.mu.
func (s *scanner) finish(err error) {
	s.working--
	if err != nil && s.err == nil {
		s.err = err
	}
	if s.err != nil {
		for _, j := range s.jobs {
			j.parent.release()
		}
		s.jobs = nil
	}
	if s.working == 0 && len(s.jobs) == 0 || s.err != nil {
		s.wake.Broadcast()
	}
}

// work does jobs until none is left and no worker can create one.
func (w *worker) work() {
	s := w.s
	s.mu.Lock()
	for {
		for len(s.jobs) == 0 && s.working > 0 && s.err == nil {
			s.wake.Wait()
		}
		if len(s.jobs) == 0 || s.err != nil {
			break
		}
		j := s.jobs[len(s.jobs)-1]
		s.jobs = s.jobs[:len(s.jobs)-1]
		s.working++
		s.mu.Unlock()
		err := w.do(j)
		s.mu.Lock()
		s.finish(err)
	}
	s.found = append(s.found, w.found...)
	for ino, paths := range w.links {
		s.links[ino] = append(s.links[ino], paths...)
	}
	s.entries += w.entries
	s.mu.Unlock()
}

func (f *folder) release() {
	if f.users.Add(-1) == 0 {
		_ = unix.Close(f.fd)
	}
}

func (w *worker) do(j job) error {
	fd, err := unix.Openat(j.parent.fd, j.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	path := tree.Join(j.parent.path, j.name)
	j.parent.release()
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil // replaced meanwhile: those who did are asked about at their end
	}
	if err != nil {
		return fmt.Errorf("open the folder %q: %w", path, err)
	}
	f := &folder{fd: fd, path: path, node: j.node}
	f.users.Store(1)
	return w.read(f)
}

// read looks at everything in a folder, and lets go of it.
func (w *worker) read(f *folder) error {
	defer f.release()
	seen := 0
	for {
		if err := w.s.ctx.Err(); err != nil {
			return err
		}
		n, err := unix.ReadDirent(f.fd, w.buf)
		if err != nil {
			return fmt.Errorf("read the folder %q: %w", f.path, err)
		}
		if n == 0 {
			break
		}
		w.names = w.names[:0]
		_, _, w.names = unix.ParseDirent(w.buf[:n], -1, w.names)
		if w.s.total.Add(int64(len(w.names))) > int64(w.s.cfg.MaxEntries) {
			return fmt.Errorf("%w: more than %d", ErrTooMany, w.s.cfg.MaxEntries)
		}
		for _, name := range w.names {
			if f.path == tree.Root && w.s.cfg.Ignore != nil && w.s.cfg.Ignore(name) {
				continue
			}
			had, err := w.look(f, name)
			if err != nil {
				return err
			}
			if had {
				seen++
			}
		}
	}
	if f.node != nil && seen < len(f.node.Children) {
		for name, child := range f.node.Children {
			if child.Seen != w.s.epoch {
				w.gone(tree.Join(f.path, name), child)
			}
		}
	}
	return nil
}

// gone notes an entry of the tree that is not there any more, with all below.
func (w *worker) gone(path string, n *tree.Node) {
	w.found = append(w.found, Found{Path: path, Old: n.Entry})
	for name, child := range n.Children {
		w.gone(tree.Join(path, name), child)
	}
}

// look looks at one name of a folder, and says whether the tree has it.
func (w *worker) look(f *folder, name string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(f.fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
	if errors.Is(err, unix.ENOENT) {
		return false, nil // gone between the two looks
	}
	if err != nil {
		return false, fmt.Errorf("look at %q: %w", tree.Join(f.path, name), err)
	}
	var node *tree.Node
	if f.node != nil {
		node = f.node.Children[name]
	}
	w.entries++
	e := w.s.entry(&st)
	var old *tree.Entry
	if node != nil {
		node.Seen = w.s.epoch
		old = node.Entry
	}
	foreign := st.Dev_major != w.s.major || st.Dev_minor != w.s.minor
	tooDeep := e.Kind == tree.Dir && len(f.path)+1+len(name) > maxPath
	if tooDeep || foreign {
		e.Unkept = tree.TooDeep
	}
	if e.Kind == tree.File && e.Stat.Nlink > 1 {
		if w.links == nil {
			w.links = map[uint64][]string{}
		}
		w.links[e.Stat.Ino] = append(w.links[e.Stat.Ino], tree.Join(f.path, name))
	}
	if !known(old, e) {
		w.found = append(w.found, Found{Path: tree.Join(f.path, name), Old: old, New: e})
	}
	if e.Kind != tree.Dir {
		if node != nil {
			for below, child := range node.Children {
				w.gone(tree.Join(tree.Join(f.path, name), below), child)
			}
		}
		return node != nil, nil
	}
	if !tooDeep && !foreign {
		f.users.Add(1)
		w.s.mu.Lock()
		if w.s.err == nil {
			w.s.jobs = append(w.s.jobs, job{parent: f, name: name, node: node})
			w.s.wake.Signal()
		} else {
			f.users.Add(-1)
		}
		w.s.mu.Unlock()
	}
	return node != nil, nil
}

// entry returns the entry that a status describes.
func (s *scanner) entry(st *unix.Statx_t) *tree.Entry {
	return FromStat(st, s.began)
}

// FromStat returns an entry by its status alone, looked at no earlier than
// began, in nanoseconds of the coarse clock.
func FromStat(st *unix.Statx_t, began int64) *tree.Entry {
	e := &tree.Entry{
		Kind: kinds[st.Mode&unix.S_IFMT], Mode: uint32(st.Mode) & 0o7777, UID: st.Uid, GID: st.Gid,
		Stat: tree.Stat{Ino: st.Ino, CTime: nanos(st.Ctime), Nlink: st.Nlink},
	}
	e.Stat.Racy = e.Stat.CTime >= began
	switch e.Kind {
	case tree.File:
		e.Size, e.MTime = int64(st.Size), nanos(st.Mtime)
	case tree.Dir:
		// Its changes are those of what is in it.
		e.Stat.Nlink = 0
	case tree.Symlink:
		e.Mode = 0o777
	}
	return e
}

var kinds = map[uint16]tree.Kind{
	unix.S_IFREG: tree.File, unix.S_IFDIR: tree.Dir, unix.S_IFLNK: tree.Symlink,
	unix.S_IFIFO: tree.Fifo, unix.S_IFSOCK: tree.Socket, unix.S_IFCHR: tree.Device, unix.S_IFBLK: tree.Device,
}

func nanos(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// known reports whether the tree's entry is surely what is there now.
func known(old, now *tree.Entry) bool {
	if old == nil || old.Stat.Racy || old.Unkept == tree.NoRoom || old.Unkept == tree.Busy {
		return false
	}
	return old.Kind == now.Kind && old.Stat.CTime == now.Stat.CTime && old.Stat.Ino == now.Stat.Ino &&
		old.Mode == now.Mode && old.UID == now.UID && old.GID == now.GID && old.Size == now.Size && old.MTime == now.MTime &&
		old.Stat.Nlink == now.Stat.Nlink
}

// Coarse returns the coarse clock, which is what file times are taken from.
func Coarse() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
		return 0 // everything is racy then
	}
	return now.Nano()
}
