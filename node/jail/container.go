package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sync/errgroup"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/image"
	"github.com/deckhand-sh/deckhand/node/jail/initbin"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// labelData names, on each container, the data folder of the node that it
// belongs to, since several nodes may share one containerd, and labelJail the
// jail.
const (
	labelData = "sh.deckhand.data"
	labelJail = "sh.deckhand.jail"
)

// launch creates a record's container, from an image if the record says so, and its task
// once workspace has returned. It returns when init responds.
func (m *Manager) launch(ctx context.Context, p paths, rec *nodev1.JailRecord, from image.Image, workspace func() error) (*Init, error) {
	s := rec.GetSpec()
	shown, done, err := m.show(p, s, slices.Concat(m.cfg.RootPaths, s.GetReadOnlyPaths()))
	defer done()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(m.namespaced(ctx), makeTimeout)
	defer cancel()
	root, opts, err := m.root(p, s, from, shown)
	if err != nil {
		return nil, err
	}
	trust, err := m.trust(ctx, p, s, from)
	if err != nil {
		return nil, err
	}
	root = append(root, trust...)
	var start []client.NewTaskOpts
	if s.GetWritableRoot() {
		mounts, err := m.writableRoot(ctx, p, s, from)
		if err != nil {
			return nil, err
		}
		start = append(start, client.WithRootFS(mounts))
	}
	spec, err := m.ociSpec(ctx, p, rec, root)
	if err != nil {
		return nil, err
	}
	withRuntime, err := m.withRuntime(ctx, s.GetRuntime())
	if err != nil {
		return nil, err
	}
	ctr, err := m.containerd.NewContainer(ctx, rec.GetContainerId(), append(opts,
		client.WithContainerLabels(map[string]string{labelData: m.cfg.DataDir, labelJail: s.GetJailId()}),
		withRuntime,
		client.WithSpec(spec))...)
	if err != nil {
		return nil, fmt.Errorf("make the container: %w", err)
	}
	if err := workspace(); err != nil {
		return nil, err
	}
	task, err := ctr.NewTask(ctx, cio.LogFile(p.log), start...)
	if err != nil {
		return nil, fmt.Errorf("make the task: %w", err)
	}
	return m.startTask(ctx, p, rec, task)
}

// startTask starts a jail's init, limits its user namespace meanwhile, and returns when
// init responds. No command runs before.
func (m *Manager) startTask(ctx context.Context, p paths, rec *nodev1.JailRecord, task client.Task) (*Init, error) {
	var limits errgroup.Group
	pid := int(task.Pid()) // read before Start sets it again
	limits.Go(func() error { return m.limitJail(ctx, rec, pid) })
	conn, err := m.startInit(ctx, p, rec, task)
	limited := limits.Wait()
	if err != nil {
		return nil, err
	}
	if limited != nil {
		return nil, errors.Join(limited, conn.client.Close())
	}
	return conn, nil
}

// startInit starts a jail's init and returns when it responds.
func (m *Manager) startInit(ctx context.Context, p paths, rec *nodev1.JailRecord, task client.Task) (*Init, error) {
	if err := task.Start(ctx); err != nil {
		return nil, fmt.Errorf("start the task: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := await(ctx, m.transport(p, rec), int32(task.Pid()))
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, lastWords(p.log))
	}
	return conn, nil
}

// limitJail limits the user namespace of a jail, if it has one.
func (m *Manager) limitJail(ctx context.Context, rec *nodev1.JailRecord, pid int) error {
	if classes[rec.GetSpec().GetRuntime()].ownKernel || rec.GetSpec().GetJailId() == HostID {
		return nil
	}
	return limitUser(ctx, pid, rec.GetSpec().GetRootUser())
}

// root creates a jail's root and returns its mounts, and the options with which its
// container gets the root.
func (m *Manager) root(p paths, spec *nodev1.JailSpec, from image.Image, shown []specs.Mount) ([]specs.Mount, []client.NewContainerOpts, error) {
	if spec.GetRootfs() == nodelink.RootImage {
		use := m.images.WithRoot
		if spec.GetWritableRoot() {
			use = m.images.WithImage
		}
		return m.imageMounts(spec, shown), []client.NewContainerOpts{use(from)}, nil
	}
	mounts, err := hostRoot(p.rootfs, m.etc, m.programs(), shown)
	return mounts, nil, err
}

// lastWords returns what init itself said at the end of its log.
func lastWords(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil || len(raw) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return "; it said: " + lines[len(lines)-1]
}

// adopt returns the connection to a jail's init, found again if need be; nil
// when the jail does not run.
func (m *Manager) adopt(ctx context.Context, e *entry, p paths, id string) (*Init, error) {
	if conn := m.connOf(e); conn.Alive() {
		return conn, nil
	}
	pid, err := m.running(ctx, id)
	if err != nil || pid == 0 {
		return nil, err
	}
	// A daemon that died may have left it frozen for a moment.
	if _, err := m.thawMoment(e, pid); err != nil {
		return nil, fmt.Errorf("thaw jail %s: %w", id, err)
	}
	rec, err := readRecord(p.record)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout(rec))
	defer cancel()
	conn, err := await(ctx, m.transport(p, rec), pid)
	if errors.Is(err, errInitGone) {
		if id == HostID {
			return nil, m.endHostRest(ctx, p)
		}
		return nil, nil // containerd has not noticed yet
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the init of jail %s runs but does not answer", id).
			WithFix("stop the jail: nothing in it can be reached").WithObject(id).WithCause(err)
	}
	// A daemon that died while it made the jail may not have come to it.
	err = m.limitJail(ctx, rec, int(pid))
	if err == nil {
		err = m.applyFreeze(ctx, e, conn, id, rec.GetFrozenBy())
	}
	if err != nil {
		return nil, errors.Join(err, conn.client.Close())
	}
	m.openWay(ctx, rec, conn)
	conn.of(rec)
	m.setConn(e, conn)
	return conn, nil
}

// namespaced returns a context in this node's namespace of containerd.
func (m *Manager) namespaced(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, m.cfg.Namespace)
}

// running returns the PID of a jail's init; 0 when the jail does not run.
func (m *Manager) running(ctx context.Context, id string) (int32, error) {
	if id == HostID {
		return m.hostRunning(ctx, m.paths(id))
	}
	ctx, cancel := context.WithTimeout(m.namespaced(ctx), callTimeout)
	defer cancel()
	ctr, err := m.container(ctx, id)
	if err != nil || ctr == nil {
		return 0, err
	}
	return m.runningTask(ctx, ctr)
}

// container returns a jail's container; nil when it has none.
func (m *Manager) container(ctx context.Context, id string) (client.Container, error) {
	rec, err := readRecord(m.paths(id).record)
	if err != nil || rec.GetContainerId() == "" {
		return nil, err
	}
	ctr, err := m.containerd.LoadContainer(ctx, rec.GetContainerId())
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, m.unavailable(err)
	}
	return ctr, nil
}

// runningTask returns the PID of a container's init; 0 when it does not run.
func (m *Manager) runningTask(ctx context.Context, ctr client.Container) (int32, error) {
	task, err := ctr.Task(ctx, nil)
	if errdefs.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, m.unavailable(err)
	}
	status, err := task.Status(ctx)
	if errdefs.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, m.unavailable(err)
	}
	if status.Status == client.Stopped || status.Status == client.Created || status.Status == client.Unknown {
		return 0, nil
	}
	return int32(task.Pid()), nil
}

// unavailable says that it is containerd that is missing, when it is.
func (m *Manager) unavailable(err error) error {
	if !errdefs.IsUnavailable(err) && !isDeadline(err) {
		return fmt.Errorf("ask containerd: %w", err)
	}
	return fault.New(fault.Unavailable, "containerd does not answer at %s", m.cfg.Containerd).
		WithFix("start it, or name its socket with --containerd; jails keep running without it").WithCause(err)
}

// isDeadline reports whether a call took longer than it may, whichever side saw it
// first.
func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errdefs.IsDeadlineExceeded(err)
}

// end takes a jail's task and container away, whatever is left of them. What
// could not be taken away, because containerd died for example, Tidy takes. The
// entry is locked.
func (m *Manager) end(ctx context.Context, e *entry, id string) error {
	err := m.endAll(ctx, e, id)
	e.rest.Store(err != nil)
	return err
}

func (m *Manager) endAll(ctx context.Context, e *entry, id string) error {
	ctx, cancel := context.WithTimeout(m.namespaced(ctx), endTimeout)
	defer cancel()
	if m.cfg.Egress != nil {
		m.cfg.Egress.Leave(id)
	}
	if conn := m.connOf(e); conn != nil {
		if err := m.thawForGood(e, conn.pid); err != nil {
			return fmt.Errorf("thaw jail %s: %w", id, err)
		}
		m.setConn(e, nil)
		defer conn.client.Close()
	}
	if id == HostID {
		return m.endHost(ctx, m.paths(id))
	}
	ctr, err := m.container(ctx, id)
	if err != nil || ctr == nil {
		return err
	}
	return m.endContainer(ctx, id, ctr)
}

func (m *Manager) endContainer(ctx context.Context, id string, ctr client.Container) error {
	task, err := ctr.Task(ctx, nil)
	switch {
	case errdefs.IsNotFound(err):
	case err != nil:
		return m.unavailable(err)
	default:
		// Thaw it for all holders, because a frozen jail cannot end.
		if err := m.thawForGood(m.entry(id), int32(task.Pid())); err != nil {
			return fmt.Errorf("thaw jail %s: %w", id, err)
		}
		if err := m.endTask(ctx, task); err != nil {
			return err
		}
	}
	if err := ctr.Delete(ctx, client.WithSnapshotCleanup); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete the container: %w", err)
	}
	return nil
}

// endTask asks init to end every command in order, and kills init if it does
// not respond.
func (m *Manager) endTask(ctx context.Context, task client.Task) error {
	status, err := task.Status(ctx)
	if err != nil && !errdefs.IsNotFound(err) {
		return m.unavailable(err)
	}
	if err == nil && (status.Status == client.Running || status.Status == client.Paused) {
		exited, err := task.Wait(ctx)
		if err != nil {
			return fmt.Errorf("watch the task: %w", err)
		}
		if err := m.terminate(ctx, task, exited); err != nil {
			return err
		}
	}
	return m.deleteTask(ctx, task)
}

// deleteTask deletes a task, and what it still runs. A containerd that was
// killed while it made the task may have lost the end of its process, and then
// waits for that end forever: such a task is deleted without waiting.
func (m *Manager) deleteTask(ctx context.Context, task client.Task) error {
	patient, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := task.Delete(patient, client.WithProcessKill)
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	if ctx.Err() == nil && patient.Err() != nil {
		m.cfg.Log.Warn("containerd does not see a task end; deleting it without waiting", "container_id", task.ID(), "error", err)
		_, err = m.containerd.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: task.ID()})
		if err = errgrpc.ToNative(err); err == nil || errdefs.IsNotFound(err) {
			return nil
		}
	}
	return fmt.Errorf("delete the task: %w", err)
}

// sweep clears the containers of this node that no jail needs: those whose
// task has ended, or whose jail was stopped or never finished.
func (m *Manager) sweep(ctx context.Context) error {
	ctx = m.namespaced(ctx)
	all, err := m.containerd.Containers(ctx, fmt.Sprintf("labels.%q==%q", labelData, m.cfg.DataDir))
	if err != nil {
		return m.unavailable(err)
	}
	var inits []int32
	var programs []string
	for _, ctr := range all {
		labels, err := ctr.Labels(ctx)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return m.unavailable(err)
		}
		id := labels[labelJail]
		rec, err := readRecord(m.paths(id).record)
		if err != nil {
			return err
		}
		pid, err := m.runningTask(ctx, ctr)
		if err != nil {
			return err
		}
		if pid != 0 && rec.GetContainerId() == ctr.ID() && !rec.GetStopped() {
			inits = append(inits, pid)
			program, err := m.initOf(ctx, ctr)
			if err != nil {
				return err
			}
			programs = append(programs, program)
			continue
		}
		if err := m.endContainer(ctx, id, ctr); err != nil {
			return fmt.Errorf("clear the rest of jail %s: %w", id, err)
		}
		m.cfg.Log.Info("cleared the rest of a jail", "jail_id", id)
	}
	if err := m.sweepRuntime(ctx); err != nil {
		return err
	}
	if err := m.sweepHost(ctx); err != nil {
		return err
	}
	host, err := listenerOf(ctx, m.paths(HostID))
	if err != nil {
		return err
	}
	if err := m.sweepReleases(append(inits, host), programs); err != nil {
		return err
	}
	return m.sweepFolders()
}

// sweepReleases removes every deckhand-init except this daemon's own and those
// that are running, which are recognised by their file because a jail has them
// under another name, or by the path that a jail with a kernel of its own was
// made with. A deckhand-skill remains in the jails that have it mounted.
func (m *Manager) sweepReleases(inits []int32, programs []string) error {
	var used []os.FileInfo
	for _, pid := range inits {
		if info, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid)); err == nil {
			used = append(used, info)
		}
	}
	releases, err := os.ReadDir(m.releases())
	if err != nil {
		return fmt.Errorf("list the releases of deckhand-init: %w", err)
	}
	for _, release := range releases {
		dir := filepath.Join(m.releases(), release.Name())
		if dir == filepath.Dir(m.initPath) || dir == filepath.Dir(m.skillPath) {
			continue
		}
		have, err := os.Stat(filepath.Join(dir, initbin.Init))
		if slices.Contains(programs, filepath.Join(dir, initbin.Init)) {
			continue
		}
		if err == nil && slices.ContainsFunc(used, func(info os.FileInfo) bool { return os.SameFile(info, have) }) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove an old deckhand-init: %w", err)
		}
		m.cfg.Log.Info("removed programs that no jail is made with any more", "release", release.Name())
	}
	return nil
}
