package jail

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/initd"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Host mode is an entry among the jails that is not a jail: the same init, with
// the same ledger and logs, as a plain root process on the machine. It runs in
// a systemd scope or, without systemd, in a cgroup that the manager creates, so
// that its whole process tree is known and outlives the daemon. The name alone
// is not enough to create it: only EnsureHost creates it, never Ensure.

const (
	// HostID is the id of the entry that is the machine itself.
	HostID = nodelink.HostJail
)

// hostControllers are the version 1 controllers in which host mode has its own
// cgroup, for freezing and accounting.
var hostControllers = []string{"freezer", "memory", "pids", "cpuacct"}

// EnsureHost returns once host mode's init is running, either newly started or
// found again. The caller must have verified that the user may access the whole
// machine.
func (m *Manager) EnsureHost(ctx context.Context, in *nodev1.JailSpec) (*nodev1.Jail, error) {
	if in.GetJailId() != HostID || in.GetRootfs() != nodelink.RootMachine {
		return nil, fault.New(fault.Invalid, "host mode is jail_id %q with rootfs %q; they are %q and %q", HostID, nodelink.RootMachine, in.GetJailId(), in.GetRootfs()).
			WithFix("leave host_mode unset for a jail")
	}
	if err := m.allowsHost(HostID); err != nil {
		return nil, err
	}
	return m.ensure(ctx, &nodev1.JailSpec{JailId: HostID, Rootfs: nodelink.RootMachine})
}

// allowsHost refuses the machine itself where this node's configuration does.
func (m *Manager) allowsHost(id string) error {
	if id != HostID || !m.cfg.NoHostMode {
		return nil
	}
	return fault.New(fault.Denied, "this node does not run commands outside of jails").
		WithFix("start deckhand-node without --no-host-mode, or work in a jail").WithObject(HostID)
}

// refuseHost refuses what asks for the machine without saying so, or uses its
// name for a jail.
func refuseHost(in *nodev1.JailSpec) error {
	if in.GetRootfs() == nodelink.RootMachine {
		return fault.New(fault.Denied, "rootfs %q is the machine itself, and host_mode is not set", nodelink.RootMachine).
			WithFix("ask for host mode, which takes an administrator with the node lock").WithObject(in.GetJailId())
	}
	if in.GetJailId() == HostID {
		return fault.New(fault.Invalid, "jail_id %q is kept for the machine itself", HostID).WithFix("use another")
	}
	return nil
}

// hostName names the cgroup, or scope, of this node's host mode.
func (m *Manager) hostName() string {
	sum := sha256.Sum256([]byte(m.cfg.DataDir))
	return "deckhand-host-" + hex.EncodeToString(sum[:6])
}

// launchHost starts the init of host mode in a cgroup of its own.
func (m *Manager) launchHost(ctx context.Context, p paths) (*Init, error) {
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of host mode's init: %w", err)
	}
	defer log.Close()
	argv := []string{m.initPath, initd.HostLaunch, p.state}
	systemd := UnderSystemd()
	if systemd {
		// A name of its own each time: a scope that is just ending keeps its name.
		scope := m.hostName() + "-" + strings.ReplaceAll(ident.New("s"), "_", "-") + ".scope"
		argv = append([]string{"systemd-run", "--scope", "--quiet", "--collect", "--unit=" + scope,
			"--description=Deckhand: commands on the machine itself", "--property=Delegate=yes", "--"}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir, cmd.Stderr = "/", log
	var said bytes.Buffer
	cmd.Stdout = &said
	placed, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start host mode: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start host mode: %w", err)
	}
	err = m.placeHost(cmd.Process.Pid, systemd)
	if cerr := placed.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, errors.Join(err, cmd.Wait())
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("start host mode: %w%s", err, lastWords(p.log))
	}
	pid, err := strconv.ParseInt(strings.TrimSpace(said.String()), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("start host mode: its init did not say its process: %w", err)
	}
	conn, err := m.meetHost(ctx, p, int32(pid))
	if err != nil {
		// No other process knows of it.
		return nil, errors.Join(err, endProcess(context.WithoutCancel(ctx), int32(pid)))
	}
	return conn, nil
}

// meetHost reaches an init that was just started, and writes down where the
// kernel accounts for it: once it is dead there is no other way to know.
func (m *Manager) meetHost(ctx context.Context, p paths, pid int32) (*Init, error) {
	cg, err := cgroupOfProcess(pid)
	if err != nil {
		return nil, err
	}
	f, err := cg.freezer()
	if err != nil {
		return nil, err
	}
	if own := filepath.Base(f.dir); !strings.HasPrefix(own, m.hostName()) {
		return nil, fmt.Errorf("host mode is in the cgroup %s, which is not its own", f.dir)
	}
	if err := os.WriteFile(p.cgroup, cg.raw, 0o600); err != nil {
		return nil, fmt.Errorf("write down the cgroup of host mode: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := await(ctx, sockets{state: p.state}, pid)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, lastWords(p.log))
	}
	return conn, nil
}

// UnderSystemd reports whether systemd runs this machine (sd_booted(3)).
func UnderSystemd() bool {
	if !isDir("/run/systemd/system") {
		return false
	}
	_, err := exec.LookPath("systemd-run")
	return err == nil
}

// placeHost puts a process in the cgroups of host mode that systemd does not
// make: all, or with version 1 the freezer, which systemd leaves alone.
func (m *Manager) placeHost(pid int, systemd bool) error {
	var dirs []string
	switch {
	case isUnified() && systemd:
		return nil
	case isUnified():
		dirs = []string{filepath.Join(cgroupRoot, m.hostName())}
	default:
		for _, controller := range hostControllers {
			if systemd && controller != "freezer" {
				continue
			}
			if isDir(filepath.Join(cgroupRoot, controller)) {
				dirs = append(dirs, filepath.Join(cgroupRoot, controller, m.hostName()))
			}
		}
	}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make the cgroup of host mode: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("put host mode in its cgroup: %w", err)
		}
	}
	return nil
}

// hostRunning returns the PID of host mode's init; 0 when it does not run, and
// then nothing that it started runs any more.
func (m *Manager) hostRunning(ctx context.Context, p paths) (int32, error) {
	pid, err := listenerOf(ctx, p)
	if err != nil || pid != 0 {
		return pid, err
	}
	return 0, m.endHostRest(ctx, p)
}

// listenerOf returns the pid of the process that listens on the socket of host
// mode; 0 for none.
func listenerOf(ctx context.Context, p paths) (int32, error) {
	conn, err := sockets{state: p.state}.dial(ctx)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reach the init of host mode: %w", err)
	}
	defer conn.Close()
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("reach the init of host mode: a %T", conn)
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("reach the init of host mode: %w", err)
	}
	var peer *unix.Ucred
	var perr error
	if err := raw.Control(func(fd uintptr) {
		peer, perr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || perr != nil {
		return 0, fmt.Errorf("find the init of host mode: %w", errors.Join(err, perr))
	}
	return peer.Pid, nil
}

// endHost has the init of host mode end every command in good order, and ends
// what is left.
func (m *Manager) endHost(ctx context.Context, p paths) error {
	pid, err := listenerOf(ctx, p)
	if err != nil {
		return err
	}
	if pid != 0 {
		if err := m.thawForGood(m.entry(HostID), pid); err != nil {
			return fmt.Errorf("thaw host mode: %w", err)
		}
		if err := unix.Kill(int(pid), unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("end the init of host mode: %w", err)
		}
		if err := awaitEnd(ctx, pid); err != nil {
			m.cfg.Log.Warn("host mode's init does not end its commands; they are killed", "error", err)
		}
	}
	return m.endHostRest(ctx, p)
}

// awaitEnd returns when a process has ended, or patience has.
func awaitEnd(ctx context.Context, pid int32) error {
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ended(pid) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// endHostRest kills whatever is in the cgroup that host mode had last, and
// removes it.
func (m *Manager) endHostRest(ctx context.Context, p paths) error {
	raw, err := os.ReadFile(p.cgroup)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read where host mode was: %w", err)
	}
	f, err := Cgroup{raw}.freezer()
	if err != nil {
		// Of another boot, and not there any more.
		return os.Remove(p.cgroup)
	}
	if own := filepath.Base(f.dir); !strings.HasPrefix(own, m.hostName()) {
		return fmt.Errorf("%s names the cgroup %s, which is not ours to end", p.cgroup, f.dir)
	}
	if err := f.end(ctx); err != nil {
		return fmt.Errorf("end the remaining processes of host mode: %w", err)
	}
	dirs := []string{f.dir}
	for _, controller := range hostControllers {
		dirs = append(dirs, filepath.Join(cgroupRoot, controller, m.hostName()))
	}
	for _, dir := range dirs {
		// systemd may have been faster; one that is not empty yet stays, and is
		// used again.
		_ = os.Remove(dir)
	}
	if err := os.Remove(p.cgroup); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forget where host mode was: %w", err)
	}
	return nil
}

// endProcess ends an init that was never reachable and has started nothing.
func endProcess(ctx context.Context, pid int32) error {
	if err := unix.Kill(int(pid), unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return awaitEnd(ctx, pid)
}
