package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// A jail is frozen as a whole, its init included: nothing in it runs, nothing
// is born and nothing dies until it is thawed. So a tree can be read from /proc
// on the host and be complete. Signals may be sent in the meantime. With
// version 2 of cgroups a SIGKILL takes effect at once; with version 1 it pends
// and takes effect at the thaw, before the process runs a single instruction of
// its own. Either way what was killed while frozen cannot have forked, and
// init, thawed with the rest, finds its stubs ended and reaps them.

// freezePatience bounds how long a freeze may take. A process that the kernel
// cannot interrupt, in the middle of a read from a broken disk for example,
// may outlast it.
const freezePatience = 2 * time.Second

// freezer counts those who hold one jail frozen. It is thawed with the last.
type freezer struct {
	mu      sync.Mutex
	holders int
}

// Freeze stops every process of a running jail, including its init, and returns
// when all are frozen. thaw must be called exactly once; it lets them continue
// unless the jail has another holder, and returns an error if they could not be
// thawed. A jail that is not frozen within 2 s, or before ctx ends, is thawed
// and an error is returned.
//
// While a jail is frozen its init does not respond: do not call it before thaw.
// Stopping a jail thaws it, and so does the next daemon when it finds it. To
// freeze a jail for longer than a moment, use Held.
func (m *Manager) Freeze(ctx context.Context, id string) (thaw func() error, err error) {
	if _, ok := hostFolder(id); ok {
		id = HostID // what changes it are commands on the machine
	}
	e := m.entry(id)
	// Before the lock: finding a jail again thaws it, for which it is taken.
	cg, err := m.Cgroup(ctx, id)
	if err != nil {
		return nil, err
	}
	return freezeEntry(ctx, e, id, cg)
}

func freezeEntry(ctx context.Context, e *entry, id string, cg Cgroup) (thaw func() error, err error) {
	f, err := cg.freezer()
	if err != nil {
		return nil, err
	}
	e.freezer.mu.Lock()
	defer e.freezer.mu.Unlock()
	if e.freezer.holders == 0 {
		if err := f.freeze(ctx); err != nil {
			return nil, fmt.Errorf("freeze jail %s: %w", id, errors.Join(err, f.thaw()))
		}
	}
	e.freezer.holders++
	var once sync.Once
	return func() (err error) {
		once.Do(func() {
			e.freezer.mu.Lock()
			defer e.freezer.mu.Unlock()
			if e.freezer.holders == 0 {
				return // the jail was stopped meanwhile
			}
			if e.freezer.holders--; e.freezer.holders > 0 {
				return
			}
			if err = f.thaw(); err != nil {
				err = fmt.Errorf("thaw jail %s: %w", id, err)
			}
		})
		return err
	}, nil
}

// Processes returns the host's ids of every process of a running jail,
// including its init. Unless the jail is frozen, the result may be outdated
// when it is returned.
//
// The host does not see the processes of a jail with a kernel of its own: it is
// refused.
func (m *Manager) Processes(ctx context.Context, id string) ([]int, error) {
	if _, rec, err := m.known(id); err != nil {
		return nil, err
	} else if classes[rec.GetSpec().GetRuntime()].ownKernel {
		return nil, unsupported(rec, "list single processes from the host")
	}
	cg, err := m.Cgroup(ctx, id)
	if err != nil {
		return nil, err
	}
	f, err := cg.freezer()
	if err != nil {
		return nil, err
	}
	return f.processes()
}

// freezerOf is a folder of the kernel's that a jail is frozen by.
type freezerOf struct {
	dir     string
	version int
}

func (c Cgroup) freezer() (freezerOf, error) {
	dir, version := c.Dir("freezer")
	f := freezerOf{dir, version}
	if dir == "" || f.isRoot() {
		return f, fault.New(fault.Precondition, "this machine's kernel cannot freeze a jail: it has no freezer in its cgroups")
	}
	return f, nil
}

// isRoot reports whether it is the root cgroup of the machine, which must never
// be frozen.
func (f freezerOf) isRoot() bool {
	return f.dir == cgroupRoot || f.dir == filepath.Join(cgroupRoot, "freezer")
}

// freeze returns when all processes are frozen.
func (f freezerOf) freeze(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, freezePatience)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		// Version 1 may need a second request: a fork that was in progress may
		// have prevented it from completing.
		if err := f.say(true); err != nil {
			return err
		}
		frozen, err := f.frozen()
		if err != nil || frozen {
			return err
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return fmt.Errorf("its processes do not stand still: %w", ctx.Err())
		case <-timer.C:
		}
	}
}

func (f freezerOf) thaw() error {
	err := f.say(false)
	if errors.Is(err, os.ErrNotExist) {
		return nil // gone, with all that was in it
	}
	return err
}

func (f freezerOf) say(freeze bool) error {
	file, text := "freezer.state", map[bool]string{true: "FROZEN", false: "THAWED"}[freeze]
	if f.version == 2 {
		file, text = "cgroup.freeze", map[bool]string{true: "1", false: "0"}[freeze]
	}
	if err := os.WriteFile(filepath.Join(f.dir, file), []byte(text), 0); err != nil {
		return fmt.Errorf("write the jail's freezer: %w", err)
	}
	return nil
}

func (f freezerOf) frozen() (bool, error) {
	file := map[int]string{1: "freezer.state", 2: "cgroup.events"}[f.version]
	raw, err := os.ReadFile(filepath.Join(f.dir, file))
	if err != nil {
		return false, fmt.Errorf("read the jail's freezer: %w", err)
	}
	if f.version == 1 {
		return string(bytes.TrimSpace(raw)) == "FROZEN", nil
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		if line == "frozen 1" {
			return true, nil
		}
	}
	return false, nil
}

// processes returns the members of the folder and of those below it: runc, or
// a command of the machine, may have made some.
func (f freezerOf) processes() ([]int, error) {
	var out []int
	err := filepath.WalkDir(f.dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || !d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, field := range bytes.Fields(raw) {
			pid, err := strconv.Atoi(string(field))
			if err != nil {
				return err
			}
			if pid != 0 { // 0 is of another PID namespace
				out = append(out, pid)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the jail's processes: %w", err)
	}
	return out, nil
}

// end kills every process of the folder until none is left.
func (f freezerOf) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		// Freeze, so that no process can be created at the same time. If
		// freezing fails, the next round finds those that were created.
		if err := f.freeze(ctx); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		left, err := f.processes()
		for _, pid := range left {
			if pid != os.Getpid() {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if terr := f.thaw(); err == nil {
			err = terr
		}
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes outlive SIGKILL: %w", len(left), ctx.Err())
		case <-tick.C:
		}
	}
}
