package files

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// smallFile is the size up to which a file is kept in memory until it is
// complete, and then written together with others. If the upload breaks, it is
// sent again.
const smallFile = 32 << 10

// small is a whole file to be written.
type small struct {
	entry   *nodev1.UploadEntry
	name    string
	content []byte
}

// writers write small files side by side. The first error stops them.
type writers struct {
	u     *upload
	queue chan small
	done  sync.WaitGroup

	mu    sync.Mutex
	files int32 // guarded by mu
	err   error // guarded by mu
}

func newWriters(u *upload) *writers {
	w := &writers{u: u, queue: make(chan small, 64)}
	for range min(4, runtime.GOMAXPROCS(0)) {
		w.done.Go(func() {
			for one := range w.queue {
				if w.failed() != nil {
					continue
				}
				err := u.put(one)
				w.mu.Lock()
				if err == nil {
					w.files++
				} else if w.err == nil {
					w.err = explain(one.entry.GetPath(), err)
				}
				w.mu.Unlock()
			}
		})
	}
	return w
}

func (w *writers) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// stop waits for what is in progress and returns how many files were written.
func (w *writers) stop() (int32, error) {
	close(w.queue)
	w.done.Wait()
	return w.files, w.err
}

// put writes a whole small file.
func (u *upload) put(s small) error {
	e := s.entry
	sum := blake3.Sum256(s.content)
	if have := hex.EncodeToString(sum[:]); !strings.EqualFold(have, e.GetDigest()) {
		return wrongDigest(e, have)
	}
	temp := PartPrefix + ident.New("small")
	f, err := u.w.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(s.content)
	written, cerr := u.complete(f, e)
	err = errors.Join(err, cerr, f.Close())
	if err == nil {
		err = u.place(temp, s.name, e, written)
	}
	if err != nil {
		_ = u.w.root.Remove(temp)
	}
	return err
}

// complete gives a received file its owner, mode and time, and returns it.
func (u *upload) complete(f *os.File, e *nodev1.UploadEntry) (fs.FileInfo, error) {
	uid, gid := u.owner()
	err := errors.Join(f.Chown(uid, gid), f.Chmod(fs.FileMode(e.GetMode()).Perm()))
	if err == nil && e.GetModifiedAt() != nil {
		times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(e.GetModifiedAt().AsTime().UnixNano())}
		err = unix.UtimesNanoAt(int(f.Fd()), "", times, unix.AT_EMPTY_PATH)
	}
	if err != nil {
		return nil, err
	}
	return f.Stat()
}

func wrongDigest(e *nodev1.UploadEntry, have string) error {
	return fault.New(fault.Invalid, "%q has digest %s, not %s", e.GetPath(), have, e.GetDigest()).
		WithFix("the file changed while it was sent, or was damaged on the way: begin again")
}
