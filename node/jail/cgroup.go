package jail

import (
	"bufio"
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

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const cgroupRoot = "/sys/fs/cgroup"

// Cgroup is where the kernel accounts for a jail. With version 1, or both
// versions side by side, it is a folder in each controller's hierarchy; with
// version 2 one folder in all.
type Cgroup struct {
	raw []byte // of /proc/<pid>/cgroup
}

// cgroupOfProcess returns the cgroup of a process.
func cgroupOfProcess(pid int32) (Cgroup, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return Cgroup{}, fmt.Errorf("find the jail's cgroup: %w", err)
	}
	return Cgroup{raw}, nil
}

// Dir returns the folder of a controller and its cgroup version; "" and 0 if
// this machine does not have the controller.
func (c Cgroup) Dir(controller string) (dir string, version int) {
	if at := cgroupOf(c.raw, controller); at != "" {
		dir = filepath.Join(cgroupRoot, controller, at)
		if isDir(dir) {
			return dir, 1
		}
	}
	if at := cgroupOf(c.raw, ""); at != "" && isUnified() {
		return filepath.Join(cgroupRoot, at), 2
	}
	return "", 0
}

// isUnified reports whether version 2 has the controllers.
func isUnified() bool {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return err == nil
}

// Cgroup returns where the kernel accounts for a running jail. A jail that does
// not run is refused. To ask is not to use the jail: it may be idle all the
// same, and frozen as well.
func (m *Manager) Cgroup(ctx context.Context, id string) (Cgroup, error) {
	if conn := m.connOf(m.entry(id)); conn.Alive() {
		cg, err := cgroupOfProcess(conn.pid)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return cg, err
		}
	}
	one, err := m.Get(ctx, id)
	if err != nil {
		return Cgroup{}, err
	}
	if one.GetState() == nodev1.JailState_JAIL_STATE_RUNNING {
		cg, err := cgroupOfProcess(one.GetPid())
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return cg, err
		}
	}
	return Cgroup{}, fault.New(fault.Precondition, "jail %s does not run", id).WithFix("call EnsureJail first").WithObject(id)
}

// OOMKills returns how many processes of a jail the kernel has killed for
// memory so far.
func (i *Init) OOMKills() (int64, error) {
	// An init stays in its cgroup, and every exec asks.
	if file := i.oomFile.Load(); file != nil {
		return readOOMKills(*file)
	}
	cg, err := cgroupOfProcess(i.pid)
	if err != nil {
		return 0, err
	}
	file, err := cg.oomFile()
	if err != nil {
		return 0, err
	}
	i.oomFile.Store(&file)
	return readOOMKills(file)
}

// OOMKills returns how many processes the kernel has killed for memory so far.
func (c Cgroup) OOMKills() (int64, error) {
	file, err := c.oomFile()
	if err != nil {
		return 0, err
	}
	return readOOMKills(file)
}

// oomFile returns the file that the kernel counts them in: memory.events with
// version 2, memory.oom_control with version 1.
func (c Cgroup) oomFile() (string, error) {
	switch dir, version := c.Dir("memory"); version {
	case 1:
		return filepath.Join(dir, "memory.oom_control"), nil
	case 2:
		return filepath.Join(dir, "memory.events"), nil
	}
	return "", errors.New("the kernel does not count the jail's memory events")
}

func readOOMKills(file string) (int64, error) {
	events, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("read the jail's memory events: %w", err)
	}
	for line := range strings.SplitSeq(string(events), "\n") {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strconv.ParseInt(count, 10, 64)
		}
	}
	return 0, errors.New("the kernel does not count the jail's memory events")
}

// cgroupOf returns the path of a controller in /proc/<pid>/cgroup; "" is the
// unified hierarchy.
func cgroupOf(raw []byte, controller string) string {
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			if name == controller {
				return parts[2]
			}
		}
	}
	return ""
}

// cgroups returns the folders of the containers in this node's namespace of
// containerd, and of any other containerd that has one of that name.
func (m *Manager) cgroups() (map[string][]string, error) {
	found := map[string][]string{}
	for _, root := range []string{cgroupRoot, filepath.Join(cgroupRoot, "*")} {
		dirs, err := filepath.Glob(filepath.Join(root, m.cfg.Namespace, "ctr_*"))
		if err != nil {
			return nil, fmt.Errorf("list the cgroups of jails: %w", err)
		}
		for _, dir := range dirs {
			found[filepath.Base(dir)] = append(found[filepath.Base(dir)], dir)
		}
	}
	return found, nil
}

// removeCgroup ends what is in a cgroup and those below it and removes them. One
// that is not empty yet stays.
func removeCgroup(ctx context.Context, dir string) error {
	// Those that freeze have all processes of the others.
	for version, file := range map[int]string{1: "freezer.state", 2: "cgroup.freeze"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			continue
		}
		if err := (freezerOf{dir: dir, version: version}).end(ctx); err != nil {
			return err
		}
	}
	var below []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			below = append(below, path)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(below) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return nil
}
