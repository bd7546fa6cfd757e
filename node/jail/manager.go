// Package jail manages the jails of a node: containerd containers whose PID 1
// is deckhand-init, in which agents' commands run.
//
// A jail is identified by its id. Its specification is stored on disk, its init
// (package initd) handles its commands, their output and their exit status, and
// its workspace outlives it. A Manager holds no state that it cannot find
// again: after the daemon was killed, it adopts every running jail.
//
//	<data>/jails/<id>/record          its specification, and whether it should run
//	<data>/jails/<id>/rootfs          the folders that its root is mounted on
//	<data>/jails/<id>/state           init's socket, and the execs' logs and statuses
//	<data>/jails/<id>/init.log        init's own log
//	<data>/jails/<id>/workspace.ext4  the workspace's file system, if it has one
//	<data>/jails/<id>/layer           what commands changed of a writable root
//	<data>/jails/<id>/layer.ext4      the layer's file system, if it has one
//	<data>/workspaces/<id>            the workspace
//	<data>/etc                        the /etc of all jails
//	<data>/init/<digest>              deckhand-init, each release that is in use
//
// When init or its shim dies, the kernel kills everything in the jail. The jail
// is then lost, and Ensure creates it again with the same workspace and logs.
// When containerd dies, jails keep running, and only creating and ending them
// waits for it. After a reboot every jail is stopped.
package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/client"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/image"
	"github.com/deckhand-sh/deckhand/node/jail/initbin"
	"github.com/deckhand-sh/deckhand/node/pack"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

var jailID = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

// Every call to containerd is bounded: one that was killed and started again
// may wait for what never comes.
const (
	dialTimeout  = 5 * time.Second
	startTimeout = 20 * time.Second
	// stopPatience is how long init may take to end every command.
	stopPatience = 10 * time.Second
	// callTimeout bounds a question to containerd.
	callTimeout = 10 * time.Second
	// makeTimeout and endTimeout bound all that is asked of it to make a jail and
	// to end one; the second has room for both signals and both deletions.
	makeTimeout = time.Minute
	endTimeout  = 2*stopPatience + 3*callTimeout
)

// Manager keeps a node's jails. Its methods may be called from anywhere; what
// is done to one jail is done one after another.
type Manager struct {
	cfg            Config
	containerd     *client.Client
	runtimes       []string
	hardWorkspaces bool
	images         *image.Store
	initPath       string
	skillPath      string // empty in a build that carries none
	packs          *pack.Store
	etc            string
	bootID         string

	mu      sync.Mutex
	entries map[string]*entry
	drain   Drain

	resources []resource
	ceilings  sync.Mutex
	// promised is what the jails get that are being made or changed, by their
	// ids; guarded by ceilings.
	promised map[string]*nodev1.JailSpec
}

// entry is what the manager has in memory of a jail.
type entry struct {
	id   string
	mu   sync.Mutex // held while the jail is made, stopped or removed
	conn *Init      // guarded by Manager.mu; nil when not connected
	used time.Time  // when it was last wanted; guarded by Manager.mu
	// holders are those who hold it frozen, and killing is while everything in it
	// is being killed; guarded by Manager.mu.
	holders []string
	killing bool
	// barring is held while the proxy is told whether the jail may send anything; never
	// with Manager.mu held.
	barring sync.Mutex

	freezer freezer
	// rest says that the jail's end failed: something of it may be left. It is
	// written under mu.
	rest atomic.Bool
}

// NewManager opens the data folder and containerd, and clears what a crash left
// half made. Jails that run continue.
func NewManager(ctx context.Context, cfg Config) (*Manager, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, entries: map[string]*entry{}, promised: map[string]*nodev1.JailSpec{}, runtimes: runtimes(),
		etc: filepath.Join(cfg.DataDir, "etc"),
	}
	if err := m.openData(); err != nil {
		return nil, err
	}
	m.containerd, err = client.New(cfg.Containerd,
		client.WithDefaultNamespace(cfg.Namespace), client.WithTimeout(dialTimeout))
	if err != nil {
		return nil, m.unavailable(err)
	}
	m.images = image.New(m.imageConfig(ctx))
	if err := m.sweep(ctx); err != nil {
		return nil, errors.Join(err, m.containerd.Close())
	}
	return m, nil
}

// openData makes the folders of the data folder.
func (m *Manager) openData() error {
	for _, dir := range []string{m.cfg.DataDir, filepath.Join(m.cfg.DataDir, "jails"), filepath.Join(m.cfg.DataDir, "workspaces")} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("jail: make the data folder: %w", err)
		}
		// Independently of the umask: searchable by all, and listable by root
		// only.
		if err := os.Chmod(dir, 0o711); err != nil {
			return fmt.Errorf("jail: make the data folder: %w", err)
		}
	}
	if err := searchable(m.cfg.DataDir); err != nil {
		return err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("jail: read the boot id: %w", err)
	}
	m.bootID = strings.TrimSpace(string(boot))
	if m.resources, err = measure(m.cfg.DataDir); err != nil {
		return fmt.Errorf("jail: %w", err)
	}
	if m.drain, err = readDrain(m.cfg.DataDir); err != nil {
		return fmt.Errorf("jail: %w", err)
	}
	if _, err := exec.LookPath("mkfs.ext4"); err == nil && !m.cfg.SoftWorkspaces {
		m.hardWorkspaces = true
	}
	if m.packs, err = pack.Open(m.cfg.DataDir); err != nil {
		return fmt.Errorf("jail: %w", err)
	}
	binaries := m.releases()
	if err := os.MkdirAll(binaries, 0o711); err != nil {
		return fmt.Errorf("jail: make the data folder: %w", err)
	}
	m.initPath, m.skillPath, err = initbin.Extract(binaries)
	if errors.Is(err, initbin.ErrAbsent) && m.cfg.InitPath != "" {
		err = nil
	}
	if err == nil && m.cfg.InitPath != "" {
		m.initPath, err = initbin.Install(binaries, m.cfg.InitPath)
	}
	if err != nil {
		return fmt.Errorf("jail: %w", err)
	}
	return buildEtc(m.etc)
}

// releases is where each deckhand-init that is in use has a folder.
func (m *Manager) releases() string { return filepath.Join(m.cfg.DataDir, "init") }

// Close lets go of the jails; they continue.
func (m *Manager) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, e := range m.entries {
		if e.conn.Alive() {
			errs = append(errs, e.conn.client.Close())
		}
	}
	return errors.Join(append(errs, m.containerd.Close())...)
}

// Runtimes returns the runtimes that this machine has jails of.
func (m *Manager) Runtimes() []string { return append([]string(nil), m.runtimes...) }

// HardWorkspaces reports whether the size limit of new workspaces is enforced.
func (m *Manager) HardWorkspaces() bool { return m.hardWorkspaces }

// agent returns the user and group, on the host, that commands run under, except as root.
func (m *Manager) agent() (uid, gid int) {
	id := int(m.cfg.UIDBase) + userID
	return id, id
}

// Owner returns the user and group, on the host, that own what a jail's commands write.
func (m *Manager) Owner(id string) (uid, gid int) {
	if _, ok := hostFolder(id); ok {
		return 0, 0
	}
	if conn := m.connOf(m.entry(id)); conn.Alive() { // most callers are about to write into a running jail
		return m.ownerOf(&nodev1.JailSpec{RootUser: conn.Root})
	}
	rec, err := readRecord(m.paths(id).record)
	if err != nil {
		return m.agent()
	}
	return m.ownerOf(rec.GetSpec())
}

func (m *Manager) ownerOf(spec *nodev1.JailSpec) (uid, gid int) {
	if spec.GetRootUser() {
		return int(m.cfg.UIDBase), int(m.cfg.UIDBase)
	}
	return m.agent()
}

func (m *Manager) entry(id string) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[id]
	if e == nil {
		e = &entry{id: id, used: m.cfg.Now()}
		m.entries[id] = e
	}
	return e
}

func (m *Manager) connOf(e *entry) *Init {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.conn
}

func (m *Manager) setConn(e *entry, conn *Init) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.conn = conn
}

// touch notes that a jail is wanted.
func (m *Manager) touch(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.used = m.cfg.Now()
}

// Ensure returns once the jail runs: it is made, woken, found, or made again
// when it was lost. A jail that runs with another spec is made again if nothing
// runs in it; else the call is refused. One that is to have more memory and is
// else the same gets it as it runs, and so does one whose egress is another.
func (m *Manager) Ensure(ctx context.Context, in *nodev1.JailSpec) (*nodev1.Jail, error) {
	if err := refuseHost(in); err != nil {
		return nil, err
	}
	spec, err := m.fill(in)
	if err != nil {
		return nil, err
	}
	return m.ensure(ctx, spec)
}

func (m *Manager) ensure(ctx context.Context, spec *nodev1.JailSpec) (*nodev1.Jail, error) {
	id := spec.GetJailId()
	e := m.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	m.touch(e)
	defer m.touch(e)
	p := m.paths(id)
	rec, err := readRecord(p.record)
	if err != nil {
		return nil, err
	}
	done := func() {}
	defer func() { done() }()
	if rec != nil && !rec.GetStopped() {
		conn, err := m.adopt(ctx, e, p, id)
		if err != nil {
			return nil, err
		}
		if conn != nil {
			if proto.Equal(rec.GetSpec(), spec) {
				return describe(id, rec, nodev1.JailState_JAIL_STATE_RUNNING, conn), nil
			}
			if by := rec.GetFrozenBy(); len(by) > 0 {
				return nil, held(id, by)
			}
			if done, err = m.promise(spec); err != nil {
				return nil, err
			}
			if changed, err := m.change(ctx, p, rec, spec, conn); err != nil {
				return nil, err
			} else if changed {
				return describe(id, rec, nodev1.JailState_JAIL_STATE_RUNNING, conn), nil
			}
			if err := idle(ctx, conn, id); err != nil {
				return nil, err
			}
		}
	}
	if rec == nil {
		if err := m.accepting(id); err != nil {
			return nil, err
		}
	}
	if err := m.cfg.Reserve.Accepting(); err != nil {
		return nil, err
	}
	done()
	if done, err = m.promise(spec); err != nil {
		return nil, err
	}
	if err := m.end(ctx, e, id); err != nil {
		return nil, err
	}
	rec, conn, err := m.make(ctx, e, p, spec)
	if err != nil {
		return nil, fmt.Errorf("make jail %s: %w", id, err)
	}
	return describe(id, rec, nodev1.JailState_JAIL_STATE_RUNNING, conn), nil
}

// idle refuses unless nothing runs in a jail.
func idle(ctx context.Context, conn *Init, id string) error {
	list, err := conn.List(ctx, &initv1.ListRequest{})
	if err != nil {
		return fmt.Errorf("list the commands of jail %s: %w", id, err)
	}
	if n := len(list.GetStatuses()); n > 0 {
		return fault.New(fault.Precondition, "jail %s runs with another spec, and %d commands run in it", id, n).
			WithFix("wait for them or stop the jail, then ask again").WithObject(id)
	}
	return nil
}

// Init returns the connection to a running jail's init. A jail that does not
// run is refused.
func (m *Manager) Init(ctx context.Context, id string) (*Init, error) {
	e := m.entry(id)
	m.touch(e)
	if conn := m.connOf(e); conn.Alive() {
		return conn, nil
	}
	p, rec, err := m.known(id)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	state := nodev1.JailState_JAIL_STATE_STOPPED
	if !rec.GetStopped() {
		conn, err := m.adopt(ctx, e, p, id)
		if err != nil || conn != nil {
			return conn, err
		}
		state = m.notRunning(rec)
	}
	word := map[nodev1.JailState]string{
		nodev1.JailState_JAIL_STATE_STOPPED: "stopped", nodev1.JailState_JAIL_STATE_LOST: "lost: its init died",
	}[state]
	return nil, fault.New(fault.Precondition, "jail %s is %s", id, word).
		WithFix("call EnsureJail first").WithObject(id)
}

// notRunning returns the state of a jail that was to run and does not.
func (m *Manager) notRunning(rec *nodev1.JailRecord) nodev1.JailState {
	if rec.GetStopped() || rec.GetBootId() != m.bootID {
		return nodev1.JailState_JAIL_STATE_STOPPED
	}
	return nodev1.JailState_JAIL_STATE_LOST
}

// Get returns one jail in its current state.
func (m *Manager) Get(ctx context.Context, id string) (*nodev1.Jail, error) {
	p, rec, err := m.known(id)
	if err != nil {
		return nil, err
	}
	e := m.entry(id)
	if conn := m.connOf(e); conn.Alive() && !rec.GetStopped() {
		return describe(id, rec, nodev1.JailState_JAIL_STATE_RUNNING, conn), nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !rec.GetStopped() {
		conn, err := m.adopt(ctx, e, p, id)
		if err != nil {
			return nil, err
		}
		if conn != nil {
			return describe(id, rec, nodev1.JailState_JAIL_STATE_RUNNING, conn), nil
		}
	}
	return describe(id, rec, m.notRunning(rec), nil), nil
}

// List returns every jail in the order of their ids.
func (m *Manager) List(ctx context.Context) ([]*nodev1.Jail, error) {
	dirs, err := os.ReadDir(filepath.Join(m.cfg.DataDir, "jails"))
	if err != nil {
		return nil, fmt.Errorf("list the jails: %w", err)
	}
	var out []*nodev1.Jail
	for _, dir := range dirs {
		one, err := m.Get(ctx, dir.Name())
		if fault.Is(err, fault.NotFound) {
			continue // removed meanwhile, or never finished
		}
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// Connected returns the ids of the jails whose init this Manager has on the
// line, in no order and without waiting for anything.
func (m *Manager) Connected() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for id, e := range m.entries {
		if e.conn.Alive() {
			out = append(out, id)
		}
	}
	return out
}

// Stop ends every process of a jail, each command's end recorded, and keeps
// its workspace and logs.
func (m *Manager) Stop(ctx context.Context, id string) (*nodev1.Jail, error) {
	p, _, err := m.known(id)
	if err != nil {
		return nil, err
	}
	e := m.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	rec, err := readRecord(p.record)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, notFound(id)
	}
	// On disk first: a daemon that dies now continues stopping, and what the
	// execs of this jail come to is no loss.
	rec.Stopped, rec.FrozenBy = true, nil
	if err := m.writeRecord(p.record, rec); err != nil {
		return nil, err
	}
	if err := m.end(ctx, e, id); err != nil {
		return nil, fmt.Errorf("stop jail %s: %w", id, err)
	}
	return describe(id, rec, nodev1.JailState_JAIL_STATE_STOPPED, nil), nil
}

// Remove stops a jail and deletes its workspace and logs. A jail that is not
// there is removed already.
func (m *Manager) Remove(ctx context.Context, id string) error {
	if _, err := m.Stop(ctx, id); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if !jailID.MatchString(id) {
		return nil
	}
	e := m.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := m.removeFolders(m.paths(id)); err != nil {
		return fmt.Errorf("remove jail %s: %w", id, err)
	}
	return nil
}

func describe(id string, rec *nodev1.JailRecord, state nodev1.JailState, conn *Init) *nodev1.Jail {
	out := &nodev1.Jail{
		JailId: id, State: state, Runtime: rec.GetSpec().GetRuntime(),
		WorkspaceLimitHard: rec.GetWorkspaceLimitHard(), StartedAt: rec.GetStartedAt(),
		HostMode: id == HostID, Platform: rec.GetImagePlatform(),
	}
	if out.Platform == "" {
		out.Platform = platform()
	}
	if conn != nil {
		out.Pid, out.FrozenBy = conn.pid, rec.GetFrozenBy()
	}
	return out
}

// make makes a jail that is not there. What fails half-way is cleared.
func (m *Manager) make(ctx context.Context, e *entry, p paths, spec *nodev1.JailSpec) (*nodev1.JailRecord, *Init, error) {
	host := spec.GetJailId() == HostID
	if err := m.layOut(p, spec); err != nil {
		return nil, nil, err
	}
	rec := &nodev1.JailRecord{Spec: spec, BootId: m.bootID, StartedAt: timestamppb.Now()}
	from, err := m.imageOf(ctx, rec)
	if err != nil {
		return nil, nil, err
	}
	workspace := func() error { return nil }
	if !host {
		rec.ContainerId, rec.WorkspaceLimitHard = ident.New("ctr"), m.hardWorkspaces
		workspace = m.beginWorkspace(ctx, p, rec)
	}
	if err := m.writeRecord(p.record, rec); err != nil {
		return nil, nil, errors.Join(err, workspace())
	}
	var conn *Init
	if host {
		conn, err = m.launchHost(ctx, p)
	} else {
		conn, err = m.launch(ctx, p, rec, from, workspace)
	}
	if err != nil {
		_ = workspace() // it has ended, and its error is err if it had one
		// The caller may have given up; what is half made goes all the same.
		ctx := context.WithoutCancel(ctx)
		rec.Stopped = true
		return nil, nil, errors.Join(err, m.end(ctx, e, spec.GetJailId()), m.writeRecord(p.record, rec))
	}
	m.openWay(ctx, rec, conn)
	conn.of(rec)
	m.setConn(e, conn)
	return rec, conn, nil
}

// imageOf returns the image of a record's jail, and writes into the record what commands get
// of it; the zero value for a jail of the machine's own system folders.
func (m *Manager) imageOf(ctx context.Context, rec *nodev1.JailRecord) (image.Image, error) {
	if rec.GetSpec().GetRootfs() != nodelink.RootImage {
		return image.Image{}, nil
	}
	one, err := m.images.Get(ctx, rec.GetSpec().GetImage(), rec.GetSpec().GetSetup())
	if err != nil {
		return one, err
	}
	rec.ImagePlatform, rec.ImageShell = one.Platform, one.Shell
	rec.ImageEnv, err = imageEnv(one, rec.GetSpec().GetEnv())
	return one, err
}

// layOut makes the jail's folders again, except for its state and workspace.
// Host mode has a state only, which is root's.
func (m *Manager) layOut(p paths, spec *nodev1.JailSpec) error {
	if err := os.RemoveAll(p.rootfs); err != nil {
		return fmt.Errorf("clear the jail's root: %w", err)
	}
	for _, dir := range []struct {
		path string
		mode os.FileMode
	}{{p.dir, 0o711}, {p.rootfs, 0o755}, {p.state, 0o700}} {
		if err := os.MkdirAll(dir.path, dir.mode); err != nil {
			return fmt.Errorf("make the jail's folders: %w", err)
		}
		if err := os.Chmod(dir.path, dir.mode); err != nil {
			return fmt.Errorf("make the jail's folders: %w", err)
		}
	}
	owner := m.initOwner(spec)
	if err := giveState(p, owner); err != nil {
		return err
	}
	return m.layOutOutputs(p, owner)
}
