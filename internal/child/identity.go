package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Identity names a process forever: pids are used again, but not in the same
// boot with the same start time.
type Identity struct {
	BootID string
	PID    int
	// Start is the process's start in clock ticks since the boot (proc(5),
	// field 22 of stat). It survives exec.
	Start uint64
}

// Of returns the identity of a process that is known to be alive.
func Of(pid int) (Identity, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Identity{}, fmt.Errorf("read the boot id: %w", err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Identity{}, fmt.Errorf("read the process's start time: %w", err)
	}
	id, _, ok := parse(string(boot) + string(stat))
	if !ok {
		return Identity{}, fmt.Errorf("/proc/%d/stat does not have the format of proc(5)", pid)
	}
	return id, nil
}

// Read returns what a pid file says. A file that is absent, or was cut short by
// the machine's end, returns the zero Identity, which is never alive.
func Read(path string) (Identity, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, nil
	}
	if err != nil {
		return Identity{}, fmt.Errorf("read the pid file: %w", err)
	}
	id, _, ok := parse(string(text))
	if !ok {
		return Identity{}, nil
	}
	return id, nil
}

// Alive reports whether the process still runs. A zombie does not.
func (id Identity) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id.PID))
	if err != nil {
		return false
	}
	now, state, ok := parse(string(boot) + string(stat))
	return ok && now == id && state != "Z" && state != "X"
}

// Signal sends a signal if the process still runs.
func (id Identity) Signal(signal syscall.Signal) {
	if id.Alive() {
		_ = syscall.Kill(id.PID, signal)
	}
}

// parse reads the boot id's line and the process's stat line.
func parse(text string) (id Identity, state string, ok bool) {
	boot, stat, found := strings.Cut(text, "\n")
	// The second field is the command's name in brackets, which may hold both
	// spaces and brackets itself.
	first := strings.IndexByte(stat, '(')
	last := strings.LastIndexByte(stat, ')')
	if !found || boot == "" || first < 0 || last < first || !strings.HasSuffix(stat, "\n") {
		return Identity{}, "", false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(stat[:first]))
	fields := strings.Fields(stat[last+1:])
	if err != nil || len(fields) < 20 {
		return Identity{}, "", false
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return Identity{}, "", false
	}
	return Identity{BootID: boot, PID: pid, Start: start}, fields[0], true
}
