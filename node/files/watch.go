package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// gather is how long changes are gathered before they are sent.
	gather = 100 * time.Millisecond
	// maxTold is how many paths one message has.
	maxTold = 1000
	// readAtOnce is how many names of a folder are in memory at once.
	readAtOnce = 1024
)

// WatchFiles implements nodev1.FileServiceServer.
func (s *Service) WatchFiles(req *nodev1.WatchFilesRequest, out grpc.ServerStreamingServer[nodev1.WatchFilesResponse]) error {
	w, name, err := s.open(req.GetJailId(), req.GetPath())
	if err != nil {
		return fault.ToGRPC(err)
	}
	defer w.close()
	info, err := w.root.Stat(name)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return fault.ToGRPC(explain(req.GetPath(), err))
	}
	if err := s.watching.begin(req.GetJailId()); err != nil {
		return fault.ToGRPC(err)
	}
	o := &watch{
		w: w, folders: map[string]*os.File{}, names: map[string]string{}, changed: map[string]bool{},
		room: func(have int) bool { return s.watching.folder(req.GetJailId(), have) },
	}
	defer func() { s.watching.end(req.GetJailId(), o.counted) }()
	notify, err := fsnotify.NewBufferedWatcher(4096)
	if err != nil {
		return fault.ToGRPC(fault.New(fault.Exhausted, "the node can watch no more folders").
			WithFix("end other watches, or raise fs.inotify.max_user_instances").WithCause(err))
	}
	defer notify.Close()
	o.notify = notify
	defer o.close()
	o.add(name)
	// The first response confirms that changes are watched from here on.
	if err := out.Send(&nodev1.WatchFilesResponse{Overflow: o.overflow}); err != nil {
		return err
	}
	return o.run(out)
}

type watch struct {
	w      *workspace
	notify *fsnotify.Watcher
	// folders are open under the names by which they are watched, and names are
	// what they are called in the workspace.
	folders  map[string]*os.File
	names    map[string]string
	changed  map[string]bool
	overflow bool
	// room asks for one more folder, and counted is how many it was given.
	room    func(have int) bool
	counted int
}

// add watches a folder and all below it. Folders are opened beneath the root
// and watched by their descriptors, so that no link leads the watch elsewhere.
func (o *watch) add(dir string) {
	f, err := o.w.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return // gone again, or no folder
	}
	if !o.room(o.counted) {
		_ = f.Close()
		o.overflow = true
		return
	}
	o.counted++
	at := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if err := o.notify.Add(at); err != nil {
		_ = f.Close()
		o.overflow = true
		return
	}
	o.folders[at], o.names[at] = f, dir
	for {
		entries, err := f.ReadDir(readAtOnce)
		for _, e := range entries {
			if e.IsDir() {
				o.add(path.Join(dir, e.Name()))
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			o.overflow = true
			return
		}
	}
}

func (o *watch) close() {
	for _, f := range o.folders {
		_ = f.Close()
	}
}

func (o *watch) run(out grpc.ServerStreamingServer[nodev1.WatchFilesResponse]) error {
	var timer <-chan time.Time
	for {
		select {
		case <-out.Context().Done():
			return nil
		case e, ok := <-o.notify.Events:
			if !ok {
				return nil
			}
			o.note(e)
		case err, ok := <-o.notify.Errors:
			if !ok {
				return nil
			}
			_ = err // most of all the kernel's queue that ran over
			o.overflow = true
		case <-timer:
			timer = nil
			if err := out.Send(o.told()); err != nil {
				return err
			}
		}
		if timer == nil && (len(o.changed) > 0 || o.overflow) {
			timer = time.After(gather)
		}
	}
}

func (o *watch) note(e fsnotify.Event) {
	dir, known := o.names[filepath.Dir(e.Name)]
	base := filepath.Base(e.Name)
	// Temporary files of this node are not reported.
	if !known || strings.HasPrefix(base, ".deckhand_") || strings.HasPrefix(base, PartPrefix) || strings.HasPrefix(base, ".deckhand-undo-") {
		return
	}
	name := path.Join(dir, base)
	if e.Has(fsnotify.Create) {
		if info, err := o.w.root.Lstat(name); err == nil && info.IsDir() {
			o.add(name)
		}
	}
	if len(o.changed) >= maxTold {
		o.overflow = true
		return
	}
	o.changed[name] = true
}

// told returns the gathered changes, each path in its current state.
func (o *watch) told() *nodev1.WatchFilesResponse {
	out := &nodev1.WatchFilesResponse{Overflow: o.overflow}
	for _, name := range slices.Sorted(maps.Keys(o.changed)) {
		what := "changed"
		if _, err := o.w.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			what = "gone"
		}
		shown, _ := printable(name)
		out.Events = append(out.Events, &nodev1.FileEvent{Path: shown, What: what})
	}
	clear(o.changed)
	o.overflow = false
	return out
}
