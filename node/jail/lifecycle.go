package jail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Reaper stops the jails of a Manager that are idle, and removes the remains of
// those that were lost. It is a lifecycle.Service.
type Reaper struct {
	lifecycle.Runner

	m     *Manager
	every time.Duration
}

var _ lifecycle.Service = (*Reaper)(nil)

// keepEvery is how often a Reaper looks unless the idle time is so short that
// it must look more often.
const keepEvery = time.Minute

// NewReaper creates the Reaper of a Manager.
func NewReaper(m *Manager) *Reaper {
	every := keepEvery
	if m.cfg.IdleStop > 0 {
		every = max(min(every, m.cfg.IdleStop/4), time.Millisecond)
	}
	return &Reaper{m: m, every: every}
}

// Start begins to look after the jails.
func (r *Reaper) Start(ctx context.Context) error { return r.Run(ctx, r.loop) }

func (r *Reaper) loop(ctx context.Context) error {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := r.m.Tidy(ctx); err != nil && ctx.Err() == nil {
			r.m.cfg.Log.Warn("cannot tidy up the jails; tried again later", "error", err)
		}
	}
}

// Tidy stops every jail that has run nothing and was not asked for since the
// idle time began, and clears what is left of lost ones and of those whose
// making was cut short.
func (m *Manager) Tidy(ctx context.Context) error {
	jails, err := m.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, one := range jails {
		if err := m.endRest(ctx, one.GetJailId()); err != nil {
			errs = append(errs, err)
			continue
		}
		switch one.GetState() {
		case nodev1.JailState_JAIL_STATE_RUNNING:
			err = m.stopIdle(ctx, one.GetJailId())
		case nodev1.JailState_JAIL_STATE_LOST:
			err = m.clearLost(ctx, one.GetJailId())
		default:
			err = nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, m.sweepRuntime(ctx))...)
}

// endRest ends what an end that failed has left.
func (m *Manager) endRest(ctx context.Context, id string) error {
	e := m.entry(id)
	if !e.rest.Load() {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.rest.Load() {
		return nil // it was made again, or ended, meanwhile
	}
	if err := m.end(ctx, e, id); err != nil {
		return fmt.Errorf("clear the rest of jail %s: %w", id, err)
	}
	m.cfg.Log.Info("cleared the rest of a jail", "jail_id", id)
	return nil
}

// stopIdle stops a jail if its time has come.
func (m *Manager) stopIdle(ctx context.Context, id string) error {
	e := m.entry(id)
	if !m.isIdle(e) {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p := m.paths(id)
	rec, err := readRecord(p.record)
	if err != nil || rec == nil || rec.GetStopped() {
		return err
	}
	conn := m.connOf(e)
	if !conn.Alive() {
		return nil
	}
	e.freezer.mu.Lock()
	frozen := e.freezer.holders > 0
	e.freezer.mu.Unlock()
	if frozen || len(rec.GetFrozenBy()) > 0 {
		return nil // somebody is at work on it
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout+stopPatience)
	defer cancel()
	list, err := conn.List(ctx, &initv1.ListRequest{})
	if err != nil {
		return fmt.Errorf("list the commands of jail %s: %w", id, err)
	}
	if len(list.GetStatuses()) > 0 {
		m.touch(e)
		return nil
	}
	if !m.isIdle(e) {
		return nil // wanted meanwhile
	}
	rec.Stopped = true
	if err := m.writeRecord(p.record, rec); err != nil {
		return err
	}
	if err := m.end(ctx, e, id); err != nil {
		return fmt.Errorf("stop the idle jail %s: %w", id, err)
	}
	m.cfg.Log.Info("stopped an idle jail", "jail_id", id)
	return nil
}

// isIdle reports whether a jail was not asked for since the idle time began.
func (m *Manager) isIdle(e *entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cfg.IdleStop > 0 && m.cfg.Now().Sub(e.used) >= m.cfg.IdleStop
}

// clearLost takes away the container of a jail whose init died. The jail stays
// lost until it is asked for again.
func (m *Manager) clearLost(ctx context.Context, id string) error {
	e := m.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	pid, err := m.running(ctx, id)
	if err != nil || pid != 0 {
		return err
	}
	if err := m.end(ctx, e, id); err != nil {
		return fmt.Errorf("clear the rest of jail %s: %w", id, err)
	}
	return nil
}

// sweepHost ends what a host mode that is not to run left behind.
func (m *Manager) sweepHost(ctx context.Context) error {
	p := m.paths(HostID)
	rec, err := readRecord(p.record)
	if err != nil || rec == nil {
		return err
	}
	if rec.GetStopped() {
		return m.endHost(ctx, p)
	}
	_, err = m.hostRunning(ctx, p)
	return err
}

// sweepFolders removes the folders of jails without a record, whose making or
// removal was cut short, and records that were half written. No jail is made yet.
func (m *Manager) sweepFolders() error {
	dirs, err := os.ReadDir(filepath.Join(m.cfg.DataDir, "jails"))
	if err != nil {
		return fmt.Errorf("list the jails: %w", err)
	}
	for _, dir := range dirs {
		if !jailID.MatchString(dir.Name()) {
			continue
		}
		p := m.paths(dir.Name())
		if err := removeParts(p.record); err != nil {
			return fmt.Errorf("clear the rest of jail %s: %w", dir.Name(), err)
		}
		if rec, err := readRecord(p.record); err != nil || rec != nil {
			continue // damaged ones are said when they are asked for
		}
		if err := m.removeFolders(p); err != nil {
			return fmt.Errorf("clear the rest of jail %s: %w", dir.Name(), err)
		}
		m.cfg.Log.Info("removed a half-made jail", "jail_id", dir.Name())
	}
	return nil
}

// drainFile is below the data folder while the node is drained.
const drainFile = "drain"

// Drain describes whether a node refuses new jails. Existing jails continue and
// can be started again, so that work in them can be finished.
type Drain struct {
	Draining bool
	// Reason is for those who are refused.
	Reason string
}

// Drain reports whether the node is drained.
func (m *Manager) Drain() Drain {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drain
}

// SetDrain begins or ends a drain. It is on disk when SetDrain returns.
func (m *Manager) SetDrain(to Drain) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := filepath.Join(m.cfg.DataDir, drainFile)
	if !to.Draining {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("end the drain: %w", err)
		}
		m.drain = Drain{}
		return nil
	}
	raw, err := json.Marshal(to)
	if err != nil {
		return fmt.Errorf("begin the drain: %w", err)
	}
	if err := m.cfg.Reserve.WithReserve(func() error { return writeFile(path, raw, 0o600) }); err != nil {
		return fmt.Errorf("begin the drain: %w", err)
	}
	m.drain = to
	return nil
}

// readDrain finds a drain of the daemon before. A file that cannot be read
// drains as well: what was asked for is no longer known except for that.
func readDrain(dir string) (Drain, error) {
	raw, err := os.ReadFile(filepath.Join(dir, drainFile))
	if errors.Is(err, os.ErrNotExist) {
		return Drain{}, nil
	}
	if err != nil {
		return Drain{}, fmt.Errorf("read whether the node is drained: %w", err)
	}
	var d Drain
	_ = json.Unmarshal(raw, &d)
	d.Draining = true
	return d, nil
}

// accepting refuses a new jail while the node is drained. It never refuses host
// mode, because people may work on a drained node.
func (m *Manager) accepting(id string) error {
	d := m.Drain()
	if !d.Draining || id == HostID {
		return nil
	}
	reason := ""
	if d.Reason != "" {
		reason = ": " + d.Reason
	}
	return fault.New(fault.Unavailable, "the node is drained and takes no new jail%s", reason).
		WithCode(fault.NodeUnavailable).WithFix("use another node, or end the drain").WithObject(id)
}

// removeFolders removes all of a jail from the disk, the record last.
func (m *Manager) removeFolders(p paths) error {
	for _, v := range []volume{m.workspaceOf(p), layerOf(p)} {
		if err := v.remove(); err != nil {
			return err
		}
	}
	if err := hide(p); err != nil {
		return err
	}
	// Until the record is gone the jail is known, and can be removed again.
	for _, at := range []string{p.rootfs, p.state, p.dir} {
		if err := os.RemoveAll(at); err != nil {
			return err
		}
	}
	return nil
}

// unmount lets go of the volumes of a jail that does not run.
func (m *Manager) unmount(id string) error {
	p, _, err := m.known(id)
	if err != nil {
		return err
	}
	e := m.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(m.workspaceOf(p).unmount(0), layerOf(p).unmount(0))
}
