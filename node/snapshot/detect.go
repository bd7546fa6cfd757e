package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/snapshot/blob"
	"github.com/deckhand-sh/deckhand/node/snapshot/history"
	"github.com/deckhand-sh/deckhand/node/snapshot/nofollow"
	"github.com/deckhand-sh/deckhand/node/snapshot/restore"
	"github.com/deckhand-sh/deckhand/node/snapshot/scan"
	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
)

// state is what is known of a workspace.
type state struct {
	file  os.FileInfo // of the record
	name  string      // of the record
	tree  *tree.Tree
	seq   int64 // of the newest state, which tree is
	bytes int64 // that contents take
	// unkept are the files without content.
	unkept map[string]tree.Unkept
	// live are the ids of what may be changing the workspace now, and window of
	// what may have since it was looked at last; true for those whose changes are
	// recorded.
	live, window map[string]bool
	// jobs are the jobs that run now, and jobWindow those that ran since it was looked
	// at last. They are the authors of what changed while no recorded command ran.
	jobs, jobWindow map[string]bool
	// recovered: no undo of an earlier daemon is left.
	recovered bool
	// clean: nothing can have changed since. It is never set for a folder of the machine,
	// which others than commands of the node change.
	clean bool
}

func (st *state) reset() {
	*st = state{
		live: map[string]bool{}, window: map[string]bool{}, jobs: map[string]bool{}, jobWindow: map[string]bool{},
		unkept: map[string]tree.Unkept{},
	}
}

// running returns how many commands and jobs may be changing the workspace.
func (st *state) running() int { return len(st.live) + len(st.jobs) }

// authors returns the ids of what may have changed the workspace since it was
// looked at last.
func (st *state) authors() []string {
	by := maps.Clone(st.window)
	if !slices.Contains(slices.Collect(maps.Values(st.window)), true) {
		maps.Copy(by, st.jobWindow)
	}
	return slices.Sorted(maps.Keys(by))
}

// load reads the record.
func (sp *space) load() (err error) {
	st := &sp.state
	if st.file, err = os.Stat(sp.history.Path()); err != nil {
		return fmt.Errorf("open the record of a workspace: %w", err)
	}
	if st.name, err = sp.history.Name(); err != nil {
		return err
	}
	if st.tree, st.seq, st.bytes, err = sp.history.Load(); err != nil {
		return err
	}
	st.clean, st.recovered = false, false
	clear(st.unkept)
	st.tree.Walk(func(path string, e *tree.Entry) bool {
		if e.Unkept != tree.Kept {
			st.unkept[path] = e.Unkept
		}
		return true
	})
	return nil
}

func (sp *space) jobBegan(id string) {
	sp.state.jobs[id], sp.state.jobWindow[id] = true, true
	sp.state.clean = false
}

func (sp *space) began(id string, recorded bool) {
	sp.state.live[id], sp.state.window[id] = recorded, recorded
	sp.state.clean = false
}

// ready ensures that the workspace's record is that of now, with every content
// that can be kept.
func (sp *space) ready(ctx context.Context) error {
	if err := sp.room(ctx); err != nil {
		return err
	}
	if !sp.state.clean || sp.lacksRoom() {
		if _, err := sp.look(ctx, true); err != nil {
			return err
		}
	}
	return nil
}

func (sp *space) lacksRoom() bool {
	for _, why := range sp.state.unkept {
		if why == tree.NoRoom {
			return true
		}
	}
	return false
}

// room returns an error if the store has no room, after it has deleted old
// changes.
func (sp *space) room(ctx context.Context) error {
	err := sp.roomFor(0)
	if errors.Is(err, blob.ErrNoRoom) {
		if cerr := sp.collect(ctx, true); cerr != nil {
			return cerr
		}
		err = sp.roomFor(0)
	}
	return refused(sp, err)
}

func (sp *space) roomFor(bytes int64) error {
	if sp.state.bytes+bytes > sp.s.cfg.MaxBytes {
		return fmt.Errorf("%w: its share of %d MiB is used up", blob.ErrNoRoom, sp.s.cfg.MaxBytes>>20)
	}
	if sp.s.cfg.Reserve < 0 {
		return nil
	}
	return sp.blobs.Room(bytes)
}

// refused returns the error for a caller whose command is refused.
func refused(sp *space, err error) error {
	if !errors.Is(err, blob.ErrNoRoom) {
		return err
	}
	return fault.New(fault.Exhausted, "the node has no room to store the contents of the workspace, so changes could not be undone: nothing was run").
		WithFix("make room on the file system of %s, or delete large files of the workspace through the files API", sp.dir).
		WithObject(sp.jailID).WithCause(err)
}

// lookup is one look at the workspace: what was found and what becomes of it.
type lookup struct {
	sp      *space
	w       *nofollow.Dir
	began   int64
	refuse  bool // rather than record a file whose content finds no room
	mu      sync.Mutex
	kept    []string // contents that are new
	grew    int64
	byInode map[uint64]*tree.Entry
}

// changesFrozen is the maximum number of bytes to read while the jail is
// frozen.
const changesFrozen = 64 << 20

// look records the workspace as it is, and reports whether anything changed.
func (sp *space) look(ctx context.Context, refuse bool) (changed bool, err error) {
	l := &lookup{sp: sp, refuse: refuse, byInode: map[uint64]*tree.Entry{}}
	return l.run(ctx, history.Next{}, nil)
}

// run looks and commits. With undo the changes are that undo's.
func (l *lookup) run(ctx context.Context, next history.Next, undo *tree.Delta) (changed bool, err error) {
	sp := l.sp
	dir, err := sp.s.cfg.Jails.Workspace(sp.jailID)
	if err != nil {
		return false, err
	}
	if l.w, err = nofollow.Open(dir); err != nil {
		return false, err
	}
	defer l.w.Close()
	thaw := sp.freeze(ctx)
	defer func() { thaw() }()
	uid, _ := sp.s.cfg.Jails.Owner(sp.jailID)
	l.began = scan.Coarse()
	res, err := scan.Scan(ctx, l.w.Fd(), sp.state.tree, scan.Config{
		MaxEntries: sp.s.cfg.MaxEntries,
		Ignore:     func(name string) bool { return !sp.host && restore.Ours(l.w, name, uint32(uid)) },
	})
	if errors.Is(err, scan.ErrTooMany) {
		return false, fault.New(fault.Exhausted, "the workspace has %v to record it: nothing was run", err).
			WithFix("delete what is not needed through the files API").WithObject(sp.jailID)
	}
	if err != nil {
		return false, fmt.Errorf("look at the workspace of %s: %w", sp.jailID, err)
	}
	total := size(res.Found)
	if total > changesFrozen {
		thaw()
		thaw = func() {}
	}
	entries, err := l.complete(ctx, res, total)
	if err != nil {
		return false, err
	}
	thaw()
	thaw = func() {}
	return l.commit(res, entries, next, undo)
}

// freeze freezes the jail if anything runs in it. If that is not possible,
// files that change while they are read are detected.
func (sp *space) freeze(ctx context.Context) (thaw func()) {
	if sp.state.running() == 0 {
		return func() {}
	}
	let, err := sp.s.cfg.Jails.Freeze(ctx, sp.jailID)
	if err != nil {
		sp.s.cfg.Log.Debug("a jail cannot be frozen to be looked at", "jail_id", sp.jailID, "error", err)
		return func() {}
	}
	return func() {
		if err := let(); err != nil {
			sp.s.cfg.Log.Error("thaw a jail", "jail_id", sp.jailID, "error", err)
		}
	}
}

// size returns how many bytes the files found have.
func size(found []scan.Found) (total int64) {
	for _, f := range found {
		if f.New != nil && f.New.Kind == tree.File {
			total += f.New.Size
		}
	}
	return total
}

// complete fills in contents, attributes and links of what was found.
func (l *lookup) complete(ctx context.Context, res *scan.Result, total int64) ([]*tree.Entry, error) {
	out := make([]*tree.Entry, len(res.Found))
	if len(out) == 0 {
		return nil, nil
	}
	next := make(chan int)
	workers := 1
	if len(res.Found) > 4 || total > 1<<20 {
		workers = min(8, max(2, runtime.GOMAXPROCS(0)))
	}
	var wg sync.WaitGroup
	var failed error
	for range workers {
		wg.Go(func() {
			for i := range next {
				e, err := l.entry(res.Found[i])
				l.mu.Lock()
				if err != nil && failed == nil {
					failed = err
				}
				out[i] = e
				l.mu.Unlock()
			}
		})
	}
	for i := range res.Found {
		l.mu.Lock()
		stop := failed != nil || ctx.Err() != nil
		l.mu.Unlock()
		if stop {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return out, failed
}

// entry returns what is at a path that was found; nil when nothing is.
func (l *lookup) entry(f scan.Found) (*tree.Entry, error) {
	if f.New == nil {
		return nil, nil
	}
	var e *tree.Entry
	var err error
	switch f.New.Kind {
	case tree.File:
		e, err = l.file(f)
	case tree.Dir:
		e, err = l.folder(f)
	case tree.Symlink:
		e = f.New
		if e.Content, err = l.w.Readlink(f.Path); errors.Is(err, unix.EINVAL) {
			return nil, nil // no link any more
		}
		if err == nil && l.sp.host {
			e.Xattrs, err = l.linkAttributes(f.Path)
		}
	default:
		e = f.New
	}
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP),
		errors.Is(err, unix.ENXIO):
		// It was replaced by another kind of file. The process that did so is
		// still running, or its change is found by the next snapshot.
		return nil, nil
	case errors.Is(err, unix.EIO), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.ETXTBSY):
		e = f.New
		e.Unkept = tree.Unreadable
		return e, nil
	case err != nil:
		return nil, fmt.Errorf("keep %q: %w", f.Path, err)
	}
	return e, nil
}

func (l *lookup) folder(f scan.Found) (*tree.Entry, error) {
	if f.New.Unkept != tree.Kept {
		return f.New, nil
	}
	dir, err := l.w.OpenFile(f.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f.New.Xattrs, err = restore.Xattrs(restore.Attributes(dir), l.sp.host)
	return f.New, err
}

// linkAttributes returns the attributes of a symbolic link, which only the machine's have.
func (l *lookup) linkAttributes(path string) (map[string]string, error) {
	f, err := l.w.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return restore.Xattrs(restore.LinkAttributes(f), true)
}

// patience is how often a file that changes while it is read is read.
const patience = 3

func (l *lookup) file(f scan.Found) (*tree.Entry, error) {
	if f.New.Stat.Nlink > 1 {
		l.mu.Lock()
		known := l.byInode[f.New.Stat.Ino]
		l.mu.Unlock()
		if known != nil {
			e := *known
			return &e, nil
		}
	}
	file, err := l.w.OpenFile(f.Path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOATIME, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var e *tree.Entry
	for range patience {
		var stable bool
		if e, stable, err = l.read(file, f.Old); err != nil || stable {
			break
		}
	}
	if err == nil && f.New.Stat.Nlink > 1 {
		l.mu.Lock()
		l.byInode[f.New.Stat.Ino] = e
		l.mu.Unlock()
		again := *e
		e = &again
	}
	return e, err
}

// read keeps an open file's content; stable is false when it changed in the
// meantime.
func (l *lookup) read(file *os.File, old *tree.Entry) (e *tree.Entry, stable bool, err error) {
	fd := int(file.Fd())
	before, err := status(fd)
	if err != nil {
		return nil, false, err
	}
	e = scan.FromStat(&before, l.began)
	if e.Kind != tree.File {
		return nil, false, unix.ENXIO // replaced meanwhile
	}
	if e.Xattrs, err = restore.Xattrs(restore.Attributes(file), l.sp.host); err != nil {
		return nil, false, err
	}
	if int64(before.Blocks)*512 > l.sp.s.cfg.MaxFile {
		e.Unkept = tree.TooLarge
		return e, true, nil
	}
	id, grew, err := l.keep(file, int64(before.Blocks)*512, old)
	switch {
	case errors.Is(err, blob.ErrChanged):
		e.Unkept = tree.Busy
		return e, false, nil
	case errors.Is(err, blob.ErrNoRoom) && !l.refuse:
		e.Unkept = tree.NoRoom
		return e, true, nil
	case err != nil:
		return nil, false, refused(l.sp, err)
	}
	e.Content = id
	l.mu.Lock()
	if grew > 0 {
		l.kept = append(l.kept, id)
	}
	l.grew += grew
	l.mu.Unlock()
	after, err := status(fd)
	if err != nil {
		return nil, false, err
	}
	if after.Ctime != before.Ctime || after.Mtime != before.Mtime || after.Size != before.Size {
		e.Content, e.Unkept = "", tree.Busy
		return e, false, nil
	}
	return e, true, nil
}

// smallKeep is up to which size room is not asked for file by file: the
// reserve is larger by far.
const smallKeep = 1 << 20

func (l *lookup) keep(file *os.File, bytes int64, old *tree.Entry) (string, int64, error) {
	if bytes > smallKeep {
		// Often only a mode or a time changed, or it is racy: nothing is copied.
		if old != nil && old.Kind == tree.File && old.Content != "" {
			if same, err := l.sp.blobs.Is(file, old.Content); same || err != nil {
				return old.Content, 0, err
			}
		}
		l.mu.Lock()
		grew := l.grew
		l.mu.Unlock()
		if err := l.sp.roomFor(grew + bytes); err != nil {
			return "", 0, err
		}
	}
	return l.sp.blobs.Keep(file)
}

func status(fd int) (st unix.Statx_t, err error) {
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st)
	return st, err
}

// commit brings what was found to the record and to memory.
func (l *lookup) commit(res *scan.Result, entries []*tree.Entry, next history.Next, undo *tree.Delta) (bool, error) {
	sp, st := l.sp, &l.sp.state
	now := make(map[string]*tree.Entry, len(entries))
	for i, f := range res.Found {
		now[f.Path] = entries[i]
	}
	l.link(res, now)
	var changes []tree.Change
	var calmed []history.Refreshed
	for path, e := range now {
		old := st.tree.Get(path)
		switch {
		case !tree.Same(old, e):
			changes = append(changes, tree.Change{Path: path, Before: old, After: e})
		case e != nil && old.Stat.Racy && e.Stat == (tree.Stat{Ino: old.Stat.Ino, CTime: old.Stat.CTime, Nlink: old.Stat.Nlink}):
			calmed = append(calmed, history.Refreshed{Path: path, Entry: e})
		case e != nil && (e.Stat != old.Stat || e.MTime != old.MTime || e.Unkept != old.Unkept):
			next.Refreshed = append(next.Refreshed, history.Refreshed{Path: path, Entry: e})
		}
	}
	tree.SortChanges(changes)
	changes = withFolders(st.tree, changes)
	next.Bytes = st.bytes + l.grew
	if len(changes) > 0 || undo != nil {
		d := &tree.Delta{
			Seq: st.seq + 1, By: st.authors(), Time: sp.s.cfg.Now().UnixNano(), Changes: changes,
		}
		if undo != nil {
			d.By, d.Undoes = undo.By, undo.Undoes
		}
		next.Delta = d
	}
	if len(l.kept) > 0 {
		if err := sp.blobs.Sync(l.kept); err != nil {
			return false, err
		}
	}
	sp.s.cfg.At("look: before the record")
	// Entries that are racy no longer are not worth a write by themselves: they
	// would be looked at once more.
	if next.Delta != nil || len(next.Refreshed) > 0 || next.EndIntent {
		if err := sp.history.Commit(next); err != nil {
			return false, err
		}
	}
	next.Refreshed = append(next.Refreshed, calmed...)
	if err := sp.adopt(next); err != nil {
		return false, err
	}
	st.window, st.jobWindow = maps.Clone(st.live), maps.Clone(st.jobs)
	st.clean = st.running() == 0 && !sp.host
	return len(changes) > 0, nil
}

// adopt brings memory to what was recorded.
func (sp *space) adopt(next history.Next) error {
	st := &sp.state
	st.bytes = next.Bytes
	note := func(path string, e *tree.Entry) {
		if e != nil && e.Unkept != tree.Kept {
			st.unkept[path] = e.Unkept
		} else {
			delete(st.unkept, path)
		}
	}
	for _, r := range next.Refreshed {
		st.tree.Set(r.Path, r.Entry)
		note(r.Path, r.Entry)
	}
	if next.Delta == nil {
		return nil
	}
	st.seq = next.Delta.Seq
	for _, c := range next.Delta.Changes {
		note(c.Path, c.After)
	}
	if err := st.tree.Apply(next.Delta.Changes); err != nil {
		sp.close() // the record is right: it is read again
		return err
	}
	return nil
}

// link says of each file with several names in the workspace which is its
// first. A file whose other names changed is one that changed.
func (l *lookup) link(res *scan.Result, now map[string]*tree.Entry) {
	set := func(path, first string) {
		e, found := now[path]
		if !found {
			e = l.sp.state.tree.Get(path)
		}
		if e == nil || e.Kind != tree.File || e.Link == first {
			return
		}
		other := *e
		other.Link = first
		now[path] = &other
	}
	for _, paths := range res.Links {
		set(paths[0], "")
		for _, path := range paths[1:] {
			set(path, paths[0])
		}
	}
}

// withFolders leaves out what has no folder: it came and went while nothing
// stood still. The next look finds what there is.
func withFolders(t *tree.Tree, changes []tree.Change) []tree.Change {
	made := map[string]bool{}
	for _, c := range changes {
		if c.Path == tree.Root && c.After != nil {
			made[tree.Root] = true // the first look finds it with all that is in it
		}
	}
	return slices.DeleteFunc(changes, func(c tree.Change) bool {
		if c.After == nil || c.Path == tree.Root {
			return false
		}
		dir, _ := tree.Split(c.Path)
		above := t.Get(dir)
		ok := made[dir] || above != nil && above.Kind == tree.Dir
		if ok && c.After.Kind == tree.Dir {
			made[c.Path] = true
		}
		return !ok
	})
}
