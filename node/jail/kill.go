package jail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/deckhand-sh/deckhand/internal/fault"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// killPause is the pause between two looks at what a kill has left.
const killPause = 2 * time.Millisecond

// Kill kills everything in a jail but its init, and returns the execs that ran
// and how many processes are left: none, unless the kernel keeps some. The end
// of each is on disk then. A jail that does not run has nothing to kill.
func (m *Manager) Kill(ctx context.Context, id, by string) (execs []string, left int, err error) {
	e, rec, conn, unlock, err := m.lockRunning(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer unlock()
	if conn == nil {
		return nil, 0, nil
	}
	m.setKilling(e, true)
	defer m.setKilling(e, false)
	if conn.OwnKernel {
		killCtx, cancel := context.WithTimeout(ctx, stopPatience)
		defer cancel()
		execs, left, err = killInside(killCtx, conn, by)
		m.cfg.Log.Info("killed everything in a jail", "jail_id", id, "by", by, "execs", len(execs), "left", left, "error", err)
		if err != nil || left > 0 {
			// Its kernel may be what does not go on. The host can end that, with all in it.
			rec.Stopped, rec.FrozenBy = true, nil
			if err := m.writeRecord(m.paths(id).record, rec); err != nil {
				return execs, left, err
			}
			if err := m.end(context.WithoutCancel(ctx), e, id); err != nil {
				return execs, left, fmt.Errorf("end jail %s, whose commands could not be killed: %w", id, err)
			}
			left = 0
		}
		return execs, left, nil
	}
	cg, err := cgroupOfProcess(conn.pid)
	if err != nil {
		return nil, 0, err
	}
	k := killing{e: e, conn: conn, id: id, by: by, cg: cg, held: len(rec.GetFrozenBy()) > 0}
	killCtx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	execs, left, err = k.run(killCtx)
	m.cfg.Log.Info("killed everything in a jail", "jail_id", id, "by", by, "execs", len(execs), "left", left, "error", err)
	if k.held && conn.Alive() {
		err = errors.Join(err, m.applyFreeze(ctx, e, conn, id, rec.GetFrozenBy()))
	}
	return execs, left, err
}

// killInside has init kill every command with its whole process tree, until no command is
// left. The jail starts no commands while it is being killed.
func killInside(ctx context.Context, conn *Init, by string) (execs []string, left int, err error) {
	for {
		list, err := conn.List(ctx, &initv1.ListRequest{})
		if err != nil || len(list.GetStatuses()) == 0 {
			return execs, 0, err
		}
		left = 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, st := range list.GetStatuses() {
			if !slices.Contains(execs, st.GetExecId()) {
				execs = append(execs, st.GetExecId())
			}
			wg.Go(func() {
				res, err := conn.Kill(ctx, &initv1.KillRequest{ExecId: st.GetExecId(), By: by})
				mu.Lock()
				defer mu.Unlock()
				if err == nil && !res.GetStatus().GetEnded() {
					left += int(res.GetStatus().GetMembersLeft())
				}
			})
		}
		if wg.Wait(); left > 0 || ctx.Err() != nil {
			return execs, left, ctx.Err()
		}
	}
}

func (m *Manager) setKilling(e *entry, to bool) {
	m.mu.Lock()
	e.killing = to
	m.mu.Unlock()
	m.barWay(e)
}

// killing is one kill of all that is in a jail.
type killing struct {
	e      *entry
	conn   *Init
	id, by string
	cg     Cgroup
	held   bool

	spared map[int]bool // by init's children that may be stubs just born
}

// run goes round by round until nothing is left.
func (k *killing) run(ctx context.Context) (execs []string, left int, err error) {
	f, err := k.cg.freezer()
	if err != nil {
		return nil, 0, err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		list, err := k.note(ctx)
		if err != nil {
			return execs, left, k.orGone(err)
		}
		for _, st := range list {
			if !slices.Contains(execs, st.GetExecId()) {
				execs = append(execs, st.GetExecId())
			}
		}
		if err := k.round(ctx, f, list); err != nil {
			return execs, left, k.orGone(err)
		}
		for _, st := range list {
			wait := &initv1.WaitRequest{ExecId: st.GetExecId(), TimeoutMs: max(1, time.Until(deadline(ctx)).Milliseconds())}
			if _, err := k.conn.Wait(ctx, wait); err != nil && ctx.Err() == nil && status.Code(err) != codes.NotFound {
				return execs, left, k.orGone(err)
			}
		}
		all, err := f.processes()
		if err != nil {
			return execs, left, err
		}
		left = len(slices.DeleteFunc(readProcesses(all), func(p Process) bool { return p.PID == int(k.conn.pid) }))
		if left == 0 {
			return execs, 0, nil
		}
		timer.Reset(killPause)
		select {
		case <-ctx.Done():
			return execs, left, nil
		case <-timer.C:
		}
	}
}

func deadline(ctx context.Context) time.Time {
	at, _ := ctx.Deadline()
	return at
}

// orGone returns no error when the jail has ended in the meantime, with all in
// it.
func (k *killing) orGone(err error) error {
	if !k.conn.Alive() {
		return nil
	}
	return fmt.Errorf("kill everything in jail %s: %w", k.id, err)
}

// note has init note on whose behalf its commands are killed, and returns those.
func (k *killing) note(ctx context.Context) ([]*initv1.Status, error) {
	list, err := k.conn.List(ctx, &initv1.ListRequest{})
	if err != nil {
		return nil, err
	}
	var out []*initv1.Status
	for _, st := range list.GetStatuses() {
		noted, err := k.conn.Kill(ctx, &initv1.KillRequest{ExecId: st.GetExecId(), By: k.by, NoteOnly: true})
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, noted.GetStatus())
	}
	return out, nil
}

// round kills the processes that exist while the jail is frozen. The stubs of
// noted commands remain, to detect the end of their trees. A child of init that
// is not yet known to be a stub may become one, and is left for the next round.
func (k *killing) round(ctx context.Context, f freezerOf, list []*initv1.Status) error {
	thaw, err := freezeEntry(ctx, k.e, k.id, k.cg)
	if err != nil {
		return err
	}
	pids, err := f.processes()
	all := readProcesses(pids)
	spare := map[int]bool{int(k.conn.pid): true}
	spared := map[int]bool{}
	for _, p := range all {
		switch {
		case slices.ContainsFunc(list, func(st *initv1.Status) bool { return int(st.GetStubPid()) == p.Inside }):
			spare[p.PID] = true
		case p.Parent == int(k.conn.pid) && !k.held && !k.spared[p.PID]:
			spare[p.PID], spared[p.PID] = true, true
			for _, below := range descendants(all, p.PID) {
				spare[below.PID] = true
			}
		}
	}
	k.spared = spared
	for _, p := range all {
		if !spare[p.PID] {
			_ = unix.Kill(p.PID, unix.SIGKILL)
		}
	}
	if k.held {
		// All that is left in it are stubs.
		err = errors.Join(err, f.held().thaw())
	}
	return errors.Join(err, thaw())
}
