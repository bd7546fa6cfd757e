package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/deckhand-sh/deckhand/internal/fault"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// A jail is kept frozen by holders, for as long as each of them needs, for
// example while a person decides. Unlike a short freeze, this leaves init
// running, which continues to respond, and stops its clock. The commands are in
// a separate folder below the jail's in the freezer, and only that one is
// frozen. They remain in it when they are thawed; the next freeze adds new
// ones.
//
// The holders are in the jail's record before anything is frozen, and removed
// from it before anything continues. The next daemon applies what the record
// says.

// heldDir is below a jail's folder in the freezer.
const heldDir = "held"

func (f freezerOf) held() freezerOf {
	return freezerOf{filepath.Join(f.dir, heldDir), f.version}
}

// FreezeFor freezes a jail's commands until holder, and every other holder, has
// thawed it. A jail that does not run is returned unchanged.
func (m *Manager) FreezeFor(ctx context.Context, id, holder string) (*nodev1.Jail, error) {
	return m.changeHolders(ctx, id, func(holders []string) []string {
		if at, found := slices.BinarySearch(holders, holder); !found {
			return slices.Insert(slices.Clone(holders), at, holder)
		}
		return holders
	})
}

// ThawFor removes a holder. A jail that does not exist has none.
func (m *Manager) ThawFor(ctx context.Context, id, holder string) (*nodev1.Jail, error) {
	one, err := m.changeHolders(ctx, id, func(holders []string) []string {
		return slices.DeleteFunc(slices.Clone(holders), func(have string) bool { return have == holder })
	})
	if fault.Is(err, fault.NotFound) {
		return &nodev1.Jail{JailId: id, State: nodev1.JailState_JAIL_STATE_STOPPED}, nil
	}
	return one, err
}

func (m *Manager) changeHolders(ctx context.Context, id string, change func([]string) []string) (*nodev1.Jail, error) {
	e, rec, conn, unlock, err := m.lockRunning(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if conn == nil {
		return describe(id, rec, m.notRunning(rec), nil), nil
	}
	was := rec.GetFrozenBy()
	if rec.FrozenBy = change(was); slices.Equal(was, rec.GetFrozenBy()) {
		return describe(id, rec, nodev1.JailState_JAIL_STATE_RUNNING, conn), nil
	}
	if err := m.writeRecord(m.paths(id).record, rec); err != nil {
		return nil, err
	}
	if len(was) > 0 && len(rec.GetFrozenBy()) > 0 {
		m.setHolders(e, rec.GetFrozenBy())
	} else if err := m.applyFreeze(ctx, e, conn, id, rec.GetFrozenBy()); err != nil {
		// As it was, also for a caller who gave up.
		rec.FrozenBy = was
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
		defer cancel()
		return nil, errors.Join(err, m.applyFreeze(undo, e, conn, id, was), m.writeRecord(m.paths(id).record, rec))
	}
	return describe(id, rec, nodev1.JailState_JAIL_STATE_RUNNING, conn), nil
}

// lockRunning returns a jail under its lock, with its init if it runs.
func (m *Manager) lockRunning(ctx context.Context, id string) (_ *entry, _ *nodev1.JailRecord, _ *Init, unlock func(), err error) {
	if _, _, err := m.known(id); err != nil {
		return nil, nil, nil, nil, err
	}
	e := m.entry(id)
	e.mu.Lock()
	p := m.paths(id)
	rec, err := readRecord(p.record)
	if err == nil && rec == nil {
		err = notFound(id)
	}
	var conn *Init
	if err == nil && !rec.GetStopped() {
		conn, err = m.adopt(ctx, e, p, id)
	}
	if err != nil {
		e.mu.Unlock()
		return nil, nil, nil, nil, err
	}
	return e, rec, conn, e.mu.Unlock, nil
}

// applyFreeze freezes a running jail if it has holders, and thaws it if it has
// none.
func (m *Manager) applyFreeze(ctx context.Context, e *entry, conn *Init, id string, holders []string) error {
	if conn.OwnKernel {
		// Closed to what is new before it stands still, and open again after.
		if len(holders) > 0 {
			m.setHolders(e, holders)
		}
		if err := tellHold(ctx, conn, len(holders) > 0); err != nil {
			return err
		}
		m.setHolders(e, holders)
		return nil
	}
	cg, err := cgroupOfProcess(conn.pid)
	if err != nil {
		return err
	}
	f, err := cg.freezer()
	if err != nil {
		if len(holders) == 0 {
			return nil
		}
		return err
	}
	if len(holders) == 0 {
		if err := f.held().thaw(); err != nil {
			return fmt.Errorf("thaw jail %s: %w", id, err)
		}
		if err := tellHold(ctx, conn, false); err != nil {
			return err
		}
		m.setHolders(e, nil)
		return nil
	}
	m.setHolders(e, holders)
	if err := tellHold(ctx, conn, true); err != nil {
		return err
	}
	thaw, err := freezeEntry(ctx, e, id, cg)
	if err != nil {
		return err
	}
	err = f.gather(int(conn.pid))
	return errors.Join(err, thaw())
}

// tellHold asks an init to stop or start its clock. The clock of an init older
// than protocol 3 is not stopped.
func tellHold(ctx context.Context, conn *Init, held bool) error {
	_, err := conn.Hold(ctx, &initv1.HoldRequest{Held: held})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return fmt.Errorf("tell the jail's init that the jail is frozen: %w", err)
	}
	return nil
}

// gather moves everything but init into the folder for frozen processes and
// freezes that. The whole jail is frozen while it does so.
func (f freezerOf) gather(init int) error {
	held := f.held()
	if err := os.Mkdir(held.dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the cgroup for frozen processes: %w", err)
	}
	if err := held.say(true); err != nil {
		return err
	}
	in, err := held.processes()
	if err != nil {
		return err
	}
	all, err := f.processes()
	if err != nil {
		return err
	}
	for _, pid := range all {
		if pid == init || slices.Contains(in, pid) {
			continue
		}
		if err := held.take(pid); err != nil {
			return err
		}
	}
	return nil
}

// take moves a process to the folder; one that is gone needs none.
func (f freezerOf) take(pid int) error {
	err := os.WriteFile(filepath.Join(f.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("move process %d to the cgroup %s: %w", pid, f.dir, err)
	}
	return nil
}

// LetGo moves processes that were killed in a frozen jail out of the freezer,
// so that they can end, and leaves the rest frozen. If the jail has no holders
// it does nothing.
func (m *Manager) LetGo(id string, tree []Process) error {
	e := m.entry(id)
	conn := m.connOf(e)
	if len(m.holders(e)) == 0 || !conn.Alive() || conn.OwnKernel {
		return nil
	}
	cg, err := cgroupOfProcess(conn.pid)
	if err != nil {
		return err
	}
	f, err := cg.freezer()
	if err != nil {
		return err
	}
	for _, p := range tree {
		if err := f.take(p.PID); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manager) setHolders(e *entry, holders []string) {
	m.mu.Lock()
	e.holders = holders
	m.mu.Unlock()
	m.barWay(e)
}

func (m *Manager) holders(e *entry) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.holders
}

// InitToStart returns the connection to a running jail's init for a new
// command. It refuses a jail that is frozen or being killed.
func (m *Manager) InitToStart(ctx context.Context, id string) (*Init, error) {
	if err := m.allowsHost(id); err != nil {
		return nil, err // also where host mode's init still runs from before
	}
	conn, err := m.Init(ctx, id)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[id]
	switch {
	case e.killing:
		return nil, fault.New(fault.Unavailable, "everything in jail %s is being killed", id).WithFix("try again once that is done").WithObject(id)
	case len(e.holders) > 0:
		return nil, held(id, e.holders)
	}
	return conn, nil
}

func held(id string, by []string) error {
	return fault.New(fault.Precondition, "jail %s is frozen by %s", id, strings.Join(by, ", ")).
		WithFix("try again once it is thawed").WithObject(id)
}

// thawMoment ends short freezes whose callers are gone. A jail with holders
// remains frozen.
func (m *Manager) thawMoment(e *entry, pid int32) (freezerOf, error) {
	cg, err := cgroupOfProcess(pid)
	if errors.Is(err, os.ErrNotExist) {
		return freezerOf{}, nil
	}
	if err != nil {
		return freezerOf{}, err
	}
	f, err := cg.freezer()
	if err != nil {
		return freezerOf{}, nil //nolint:nilerr // what cannot be frozen is not
	}
	e.freezer.mu.Lock()
	defer e.freezer.mu.Unlock()
	e.freezer.holders = 0
	return f, f.thaw()
}

// thawForGood thaws a jail whatever its holders: it is about to be stopped.
func (m *Manager) thawForGood(e *entry, pid int32) error {
	f, err := m.thawMoment(e, pid)
	if err != nil || f.dir == "" {
		return err
	}
	m.setHolders(e, nil)
	return f.held().thaw()
}
