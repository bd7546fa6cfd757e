package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// shim is a process of containerd between it and one container.
type shim struct {
	pid int
	// Its arguments.
	namespace, container, address string
}

// runningShims returns all shims that run on this machine, of any owner.
func runningShims() ([]shim, error) {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	var out []shim
	for _, path := range names {
		name, err := os.ReadFile(path)
		if err != nil || string(bytes.TrimSpace(name)) != "containerd-shim" { // the kernel keeps 15 characters
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		if one, ok := shimOf(pid); ok {
			out = append(out, one)
		}
	}
	return out, nil
}

// shimOf reads what a shim was started with; ok is false when it is gone.
func shimOf(pid int) (one shim, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return shim{}, false
	}
	args := strings.Split(string(raw), "\x00")
	value := func(flag string) string {
		if at := slices.Index(args, flag); at >= 0 && at+1 < len(args) {
			return args[at+1]
		}
		return ""
	}
	one = shim{pid: pid, namespace: value("-namespace"), container: value("-id"), address: value("-address")}
	return one, one.container != ""
}

// sweepRuntime ends and removes what the runtime left behind. If the process
// that makes a container dies in the middle, containerd may remove its own
// records while its shim, or the runtime below that, is still at work, and
// nothing else ever removes the remains. They are recognised by their name,
// which is that of a container that containerd does not have. What is not gone
// yet is handled by the next sweep.
func (m *Manager) sweepRuntime(ctx context.Context) error {
	running, err := runningShims()
	if err != nil {
		return err
	}
	groups, err := m.cgroups()
	if err != nil || len(groups) == 0 && len(running) == 0 {
		return err
	}
	// Asked for afterwards: a container is there before its shim and its cgroups
	// are, and those of a daemon that shares the namespace are listed with ours.
	all, err := m.containerd.ContainerService().List(m.namespaced(ctx))
	if err != nil {
		return m.unavailable(err)
	}
	known := map[string]bool{}
	for _, ctr := range all {
		known[ctr.ID] = true
	}
	for _, one := range running {
		if known[one.container] || one.namespace != m.cfg.Namespace || one.address != m.cfg.Containerd {
			// It is needed, or another containerd's; so are its cgroups.
			delete(groups, one.container)
			continue
		}
		if err := one.kill(); err != nil {
			return fmt.Errorf("end the shim of the container %s: %w", one.container, err)
		}
		m.cfg.Log.Info("ended the shim of a container that containerd does not have", "container_id", one.container)
	}
	for id, dirs := range groups {
		if known[id] {
			continue
		}
		for _, dir := range dirs {
			if err := removeCgroup(ctx, dir); err != nil {
				return fmt.Errorf("clear the cgroups of the container %s: %w", id, err)
			}
		}
		m.cfg.Log.Info("removed the cgroups that a container left", "container_id", id)
	}
	return nil
}

// kill ends the shim, if its pid is still its own.
func (s shim) kill() error {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now, ok := shimOf(s.pid); !ok || now != s {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
