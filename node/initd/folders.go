package initd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/node/execlog"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// New files are slow to come by: on a big, busy file system the kernel spends
// longer on finding a free inode than on a fork. So folders are made before
// they are needed, and starting a command renames one.

// spares is how many folders are kept ready.
const spares = 8

// errStarted is answered for an id whose folder is there.
var errStarted = errors.New("its folder is there already")

// folders makes the folders of execs.
type folders struct {
	execs   string
	spare   string
	outputs string
	made    int // of spare
	ready   chan folder
}

// folder is one exec's, its log open.
type folder struct {
	dir string
	log *execlog.Writer
}

// newFolders clears what an earlier init had ready.
func newFolders(stateDir string) (*folders, error) {
	f := &folders{
		execs: filepath.Join(stateDir, ExecsDir), spare: filepath.Join(stateDir, SpareDir),
		outputs: filepath.Join(stateDir, OutputsDir),
		ready:   make(chan folder, spares),
	}
	if err := os.RemoveAll(f.spare); err != nil {
		return nil, fmt.Errorf("clear the spare folders: %w", err)
	}
	for _, dir := range []string{f.execs, f.spare} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the state folder: %w", err)
		}
	}
	return f, nil
}

// add makes one more ready. It is called by one goroutine, while there is room.
func (f *folders) add() error {
	one, err := f.make(strconv.Itoa(f.made))
	if err != nil {
		return err
	}
	f.made++
	f.ready <- one
	return nil
}

func (f *folders) make(name string) (folder, error) {
	dir := filepath.Join(f.spare, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return folder{}, fmt.Errorf("make an exec's folder: %w", err)
	}
	log, err := execlog.Create(dir)
	if err != nil {
		return folder{}, errors.Join(err, os.RemoveAll(dir))
	}
	if err := keepRoom(filepath.Join(dir, exitTemp)); err != nil {
		_ = log.Close()
		return folder{}, errors.Join(fmt.Errorf("make an exec's folder: %w", err), os.RemoveAll(dir))
	}
	return folder{dir, log}, nil
}

// take returns an exec's folder, which is there from then on. It is errStarted
// when it was there before.
func (f *folders) take(id string) (folder, error) {
	var one folder
	select {
	case one = <-f.ready:
	default:
		var err error
		if one, err = f.make("for-" + id); err != nil {
			return folder{}, err
		}
	}
	to := filepath.Join(f.execs, id)
	if err := os.Rename(one.dir, to); err != nil {
		_ = one.log.Close()
		err = errors.Join(err, os.RemoveAll(one.dir))
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTDIR) {
			return folder{}, errStarted
		}
		return folder{}, fmt.Errorf("make an exec's folder: %w", err)
	}
	one.dir = to
	if strings.HasPrefix(id, agentsExec) {
		f.show(id, to)
	}
	return one, nil
}

// agentsExec begins the names of agents' commands; people's have others.
const agentsExec = "step_"

// show lets the jail's commands read a log. It is a convenience: without it the log can be
// read through the daemon all the same.
func (f *folders) show(id, dir string) {
	data := filepath.Join(dir, execlog.DataFile)
	if os.Chmod(data, 0o644) == nil { //nolint:gosec // for the user that commands run as
		_ = os.Link(data, filepath.Join(f.outputs, id))
	}
}

const exitTemp = ExitFile + ".new"

// exitRoom is how much of the disk is kept for the end of each exec, so that it
// can be written when the disk is full.
const exitRoom = 4096

func keepRoom(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, exitRoom)
	if !errIsFull(err) {
		err = nil // a file system that promises no room
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// fillRoom writes a file over the room that was kept for it.
func fillRoom(path string, raw []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(raw, 0)
	if terr := f.Truncate(int64(len(raw))); err == nil {
		err = terr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// writeExit puts the end of an exec in its folder, in one piece.
func writeExit(dir string, s *initv1.Status) error {
	raw, err := proto.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	temp := filepath.Join(dir, exitTemp)
	if err := fillRoom(temp, raw); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	if err := os.Rename(temp, filepath.Join(dir, ExitFile)); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}
