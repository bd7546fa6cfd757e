package jail

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// OOMKills answers how many processes of a jail the kernel has killed for
// memory so far.
func (i *Init) OOMKills() (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", i.pid))
	if err != nil {
		return 0, fmt.Errorf("find the jail's cgroup: %w", err)
	}
	// Version 2 counts in memory.events, version 1 in memory.oom_control.
	for _, file := range []string{
		filepath.Join(cgroupRoot, "memory", cgroupOf(raw, "memory"), "memory.oom_control"),
		filepath.Join(cgroupRoot, cgroupOf(raw, ""), "memory.events"),
	} {
		events, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read the jail's memory events: %w", err)
		}
		for _, line := range strings.Split(string(events), "\n") {
			if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
				return strconv.ParseInt(count, 10, 64)
			}
		}
	}
	return 0, errors.New("the kernel does not count the jail's memory events")
}

// cgroupOf answers the path of a controller in /proc/<pid>/cgroup; "" is the
// unified hierarchy.
func cgroupOf(raw []byte, controller string) string {
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, name := range strings.Split(parts[1], ",") {
			if name == controller {
				return parts[2]
			}
		}
	}
	return ""
}
