// Package snapshot records the states of jails' workspaces, so that every
// change by a command, a tool or a person is known and can be undone.
//
// The node takes snapshots itself: before a command, if the workspace may have
// changed since the last snapshot, and after it. Package scan finds the
// changes, package blob stores each content once, and package history records
// them in one file per jail, in which every write is atomic:
//
//	<data>/jails/<id>/snapshots/record.db   the newest state, and the changes
//	<data>/jails/<id>/snapshots/objects     contents
//
// If the daemon dies during a scan, the record is unchanged and the next scan
// finds the same changes. If it dies during an undo, the next daemon finishes
// that undo before it does anything else with the workspace. If other commands
// are running in the jail, the jail is frozen during a scan or an undo.
//
// A file whose content cannot be stored (it is too large, or the disk is full)
// is recorded and cannot be restored. A command that is to be recorded is
// refused, before it runs, as long as there is no room for the contents that
// exist already.
package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/snapshot/blob"
	"github.com/deckhand-sh/deckhand/node/snapshot/history"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Jails returns the paths of workspaces, and freezes jails.
type Jails interface {
	// Workspace returns the folder on the host that is the jail's /workspace.
	Workspace(jailID string) (dir string, err error)
	// Owner returns the user and group, on the host, of what a jail writes.
	Owner(jailID string) (uid, gid int)
	// Freeze stops every process of a jail until thaw is called.
	Freeze(ctx context.Context, jailID string) (thaw func() error, err error)
}

// Config is what a Service works with.
type Config struct {
	Jails Jails
	// Dir has a folder for each jail, named by its id, in which the record of
	// its workspace is kept and with which it goes.
	Dir string
	// MaxFile is the most bytes that a file whose content is kept may take on
	// the disk; 0 for 1 GiB.
	MaxFile int64
	// MaxBytes is how much the contents of one workspace may take; 0 for 20 GiB.
	// The oldest changes go when there is more.
	MaxBytes int64
	// MaxEntries is how many names a workspace may have; 0 for a million.
	MaxEntries int
	// Reserve is how much of the disk is left free; 0 for 256 MiB, negative for
	// none.
	Reserve int64
	// KeepFor is how long changes can be undone; 0 for 7 days.
	KeepFor time.Duration
	// CollectEvery is the pause between two collections; 0 for an hour.
	CollectEvery time.Duration
	// Now is the clock from which ages are computed; nil means time.Now.
	Now func() time.Time
	Log hclog.Logger
	// At is called at the named moments of an undo and of a look, for tests that
	// end the process there; nil for nothing.
	At func(moment string)
}

const (
	defaultMaxFile  = 1 << 30
	defaultMaxBytes = 20 << 30
	defaultReserve  = 256 << 20
	defaultKeepFor  = 7 * 24 * time.Hour
	// forgetAfter is how long an unused workspace is kept in memory.
	forgetAfter = 2 * time.Minute
	// hostJail is the machine itself, which has no workspace.
	hostJail = nodelink.HostJail
)

// Service implements nodev1.SnapshotServiceServer, and is notified of
// everything that runs in jails. It is a lifecycle.Service.
type Service struct {
	lifecycle.Runner
	nodev1.UnimplementedSnapshotServiceServer

	cfg Config

	mu     sync.Mutex
	spaces map[string]*space
}

// New creates a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Jails == nil || cfg.Dir == "" {
		return nil, errors.New("snapshot: Jails and Dir must be set")
	}
	if cfg.MaxFile == 0 {
		cfg.MaxFile = defaultMaxFile
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if cfg.Reserve == 0 {
		cfg.Reserve = defaultReserve
	}
	if cfg.KeepFor == 0 {
		cfg.KeepFor = defaultKeepFor
	}
	if cfg.CollectEvery == 0 {
		cfg.CollectEvery = time.Hour
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if cfg.At == nil {
		cfg.At = func(string) {}
	}
	return &Service{cfg: cfg, spaces: map[string]*space{}}, nil
}

// Start finishes every undo that an earlier daemon had begun, and starts the
// collection of old changes. An undo that cannot be finished now is logged, and
// retried by the next call for that workspace.
func (s *Service) Start(ctx context.Context) error {
	ids, err := known(s)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.with(ctx, id, func(*space) error { return nil }); err != nil {
			s.cfg.Log.Error("open the record of a workspace", "jail_id", id, "error", err)
		}
	}
	return s.Run(ctx, s.loop)
}

func (s *Service) recorded(jailID string) bool {
	_, err := os.Stat(s.recordPath(jailID))
	return err == nil
}

func (s *Service) storeDir(jailID string) string {
	if strings.HasPrefix(jailID, nodelink.HostFolder) {
		sum := sha256.Sum256([]byte(jailID))
		return filepath.Join(s.cfg.Dir, hostJail, foldersDir, hex.EncodeToString(sum[:]))
	}
	return filepath.Join(s.cfg.Dir, jailID, "snapshots")
}

const (
	// foldersDir has the records of folders of the machine.
	foldersDir = "folders"
	// folderName is the file in each that has its id.
	folderName = "folder"
)

// known returns the ids of all workspaces and folders with a record.
func known(s *Service) ([]string, error) {
	dirs, err := os.ReadDir(s.cfg.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("find the workspaces' records: %w", err)
	}
	var out []string
	for _, dir := range dirs {
		if s.recorded(dir.Name()) {
			out = append(out, dir.Name())
		}
	}
	folders, err := os.ReadDir(filepath.Join(s.cfg.Dir, hostJail, foldersDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("find the records of folders: %w", err)
	}
	for _, dir := range folders {
		id, err := os.ReadFile(filepath.Join(s.cfg.Dir, hostJail, foldersDir, dir.Name(), folderName))
		if err == nil && s.recorded(string(id)) {
			out = append(out, string(id))
		}
	}
	return out, nil
}

func (s *Service) recordPath(jailID string) string {
	return filepath.Join(s.storeDir(jailID), "record.db")
}

func (s *Service) loop(ctx context.Context) error {
	collect := time.NewTicker(s.cfg.CollectEvery)
	defer collect.Stop()
	forget := time.NewTicker(forgetAfter / 2)
	defer forget.Stop()
	for {
		select {
		case <-ctx.Done():
			s.closeAll()
			return nil
		case <-collect.C:
			s.Collect(ctx)
		case <-forget.C:
			s.forgetIdle()
		}
	}
}

// space is one workspace, as it is known in memory. A caller must hold its
// lock.
type space struct {
	s       *Service
	jailID  string
	host    bool          // a folder of the machine
	lock    chan struct{} // holds one while somebody is at work here
	dir     string        // of the record
	history *history.History
	blobs   *blob.Store
	state   state
	used    time.Time // guarded by Service.mu
	// readers are streams that read contents without the lock: none is deleted
	// in the meantime.
	readers atomic.Int32
	// gone: the jail was removed under it, and it must not be used.
	gone bool
}

// with calls fn for a jail's workspace, alone, with its record open and every
// undo finished.
func (s *Service) with(ctx context.Context, jailID string, fn func(*space) error) error {
	for {
		sp := s.space(jailID)
		select {
		case sp.lock <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if sp.gone {
			<-sp.lock
			continue
		}
		err := sp.open(ctx)
		if err == nil {
			err = fn(sp)
		}
		s.mu.Lock()
		sp.used = s.cfg.Now()
		s.mu.Unlock()
		<-sp.lock
		return err
	}
}

func (s *Service) space(jailID string) *space {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spaces[jailID]
	if sp == nil {
		sp = &space{s: s, jailID: jailID, host: strings.HasPrefix(jailID, nodelink.HostFolder), lock: make(chan struct{}, 1), dir: s.storeDir(jailID), used: s.cfg.Now()}
		sp.state.reset()
		s.spaces[jailID] = sp
	}
	return sp
}

// open opens the record unless it is open. When the jail was removed and made
// again in the meantime, the record is a new one.
func (sp *space) open(ctx context.Context) error {
	if sp.history != nil {
		have, err := os.Stat(sp.history.Path())
		if err == nil && os.SameFile(have, sp.state.file) {
			return sp.recover(ctx)
		}
		sp.close()
		sp.state.reset()
	}
	// Asked first, so that nothing is made for a jail that is not there.
	if _, err := sp.s.cfg.Jails.Workspace(sp.jailID); err != nil {
		return err
	}
	if err := os.MkdirAll(sp.dir, 0o700); err != nil {
		return fmt.Errorf("make the store of a workspace: %w", err)
	}
	if sp.host {
		if err := os.WriteFile(filepath.Join(sp.dir, folderName), []byte(sp.jailID), 0o600); err != nil {
			return fmt.Errorf("write down whose record it is: %w", err)
		}
	}
	blobs, err := blob.Open(sp.dir, max(0, sp.s.cfg.Reserve))
	if err != nil {
		return err
	}
	h, err := history.Open(sp.s.recordPath(sp.jailID))
	if err != nil {
		return err
	}
	sp.history, sp.blobs = h, blobs
	if err := sp.load(); err != nil {
		sp.close()
		return err
	}
	return sp.recover(ctx)
}

func (sp *space) close() {
	if sp.history == nil {
		return
	}
	if err := sp.history.Close(); err != nil {
		sp.s.cfg.Log.Error("close the record of a workspace", "jail_id", sp.jailID, "error", err)
	}
	sp.history = nil
}

// forgetIdle drops workspaces from memory that were not used lately and in
// which nothing runs.
func (s *Service) forgetIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, sp := range s.spaces {
		if s.cfg.Now().Sub(sp.used) < forgetAfter {
			continue
		}
		select {
		case sp.lock <- struct{}{}:
		default:
			continue
		}
		if sp.state.running() == 0 {
			sp.close()
			sp.gone = true
			delete(s.spaces, id)
		}
		<-sp.lock
	}
}

func (s *Service) closeAll() {
	s.mu.Lock()
	all := s.spaces
	s.spaces = map[string]*space{}
	s.mu.Unlock()
	for _, sp := range all {
		sp.lock <- struct{}{}
		sp.close()
		sp.gone = true
		<-sp.lock
	}
}

// noWorkspace reports whether a jail has no workspace that is recorded.
func noWorkspace(jailID string) bool { return jailID == hostJail }

// Begin must be called before a command, or an operation on files, may change a
// jail's workspace; id names it. If keep is set, the current workspace is
// recorded; an error means that the command must not begin. End must follow.
func (s *Service) Begin(ctx context.Context, jailID, id string, keep bool) error {
	if noWorkspace(jailID) {
		return nil
	}
	return s.with(ctx, jailID, func(sp *space) error {
		if keep {
			if err := sp.ready(ctx); err != nil {
				return err
			}
		}
		sp.began(id, keep)
		return nil
	})
}

// Resume is called for a command that began under an earlier daemon and has not
// ended.
func (s *Service) Resume(ctx context.Context, jailID, id string) error {
	if noWorkspace(jailID) {
		return nil
	}
	return s.with(ctx, jailID, func(sp *space) error {
		sp.began(id, true)
		return nil
	})
}

// Detach is called when a command becomes a job: it goes on, but is not waited for.
// It returns what the command changed until then; nil without keep, for one that
// was a job from its start. From then on jobID is the author of what changes while
// no other command runs; what changes while one does counts as that command's.
func (s *Service) Detach(ctx context.Context, jailID, id, jobID string, keep bool) *nodev1.WorkspaceChange {
	if noWorkspace(jailID) {
		return nil
	}
	var out *nodev1.WorkspaceChange
	err := s.with(ctx, jailID, func(sp *space) error {
		sp.jobBegan(jobID)
		defer func() {
			delete(sp.state.live, id)
			delete(sp.state.window, id)
		}()
		if !keep {
			return nil
		}
		var err error
		out, err = sp.changeNow(ctx, id)
		return err
	})
	return s.changeOr(err, jailID, id, keep, out)
}

// ResumeJob is called for a job that began under an earlier daemon and has not
// ended.
func (s *Service) ResumeJob(ctx context.Context, jailID, jobID string) error {
	if noWorkspace(jailID) {
		return nil
	}
	return s.with(ctx, jailID, func(sp *space) error {
		sp.jobBegan(jobID)
		return nil
	})
}

// EndJob is End for a job.
func (s *Service) EndJob(ctx context.Context, jailID, jobID string, keep bool) *nodev1.WorkspaceChange {
	if noWorkspace(jailID) {
		return nil
	}
	var out *nodev1.WorkspaceChange
	err := s.with(ctx, jailID, func(sp *space) error {
		delete(sp.state.jobs, jobID)
		if !keep {
			return nil
		}
		sp.state.jobWindow[jobID] = true // also when an earlier daemon began it
		if _, err := sp.look(ctx, false); err != nil {
			return err
		}
		var err error
		out, err = sp.changeOf(jobID)
		return err
	})
	return s.changeOr(err, jailID, jobID, keep, out)
}

// End must be called when the command of a Begin has ended, and returns what
// changed. Without keep no snapshot is taken: the next snapshot finds the
// changes, and lists the commands that may have made them.
func (s *Service) End(ctx context.Context, jailID, id string, keep bool) *nodev1.WorkspaceChange {
	if noWorkspace(jailID) {
		return nil
	}
	var out *nodev1.WorkspaceChange
	err := s.with(ctx, jailID, func(sp *space) error {
		delete(sp.state.live, id)
		if !keep {
			return nil
		}
		var err error
		out, err = sp.changeNow(ctx, id)
		return err
	})
	return s.changeOr(err, jailID, id, keep, out)
}

// changeNow looks at the workspace and returns what a command has changed.
func (sp *space) changeNow(ctx context.Context, id string) (*nodev1.WorkspaceChange, error) {
	sp.state.window[id] = true // also when an earlier daemon began it
	if _, err := sp.look(ctx, false); err != nil {
		return nil, err
	}
	return sp.changeOf(id)
}

// changeOr returns a change, or what is said in its place if the workspace could
// not be looked at.
func (s *Service) changeOr(err error, jailID, id string, keep bool, out *nodev1.WorkspaceChange) *nodev1.WorkspaceChange {
	switch {
	case err == nil || !keep:
		return out
	case fault.Is(err, fault.NotFound):
		return nil // the jail is gone, and its workspace with it
	}
	s.cfg.Log.Error("record a workspace after a change", "jail_id", jailID, "id", id, "error", err)
	text := "the node could not look at the workspace"
	if e := fault.As(err); e != nil {
		text = e.Message
	}
	return &nodev1.WorkspaceChange{Error: text}
}
