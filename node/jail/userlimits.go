package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// userLimits is the folder of the kernel's limits for user namespaces. What a
// namespace uses is also counted for its creator, which is root for all jails:
// without limits of its own, one jail could use up what systemd and all other
// jails need.
const userLimits = "/proc/sys/user"

const (
	// watchShare is which part of the machine's inotify and fanotify a jail has.
	watchShare = 8
	// leastWatches is what it has on any machine.
	leastWatches = 8
)

// limitUser writes the limits of a jail's user namespace, by the PID of its
// first process. Namespaces it makes none of at all, but for the one that init makes for
// the commands of a jail whose user is root.
func limitUser(ctx context.Context, pid int, root bool) error {
	names, err := os.ReadDir(userLimits)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a kernel without them
	}
	if err != nil {
		return fmt.Errorf("read the limits of user namespaces: %w", err)
	}
	var script []string
	for _, name := range names {
		limit := int64(0)
		if root && name.Name() == "max_user_namespaces" {
			limit = 1
		}
		if !strings.HasSuffix(name.Name(), "_namespaces") {
			have, err := smallest(filepath.Join(userLimits, name.Name()))
			if err != nil {
				return err
			}
			limit = max(have/watchShare, leastWatches)
		}
		script = append(script, fmt.Sprintf("echo %d > %s", limit, filepath.Join(userLimits, name.Name())))
	}
	// The kernel uses the namespace of the process that opens the file, and a
	// program with threads cannot enter one.
	cmd := exec.CommandContext(ctx, "nsenter", "--user", fmt.Sprintf("--target=%d", pid), "/bin/sh", "-ec", strings.Join(slices.Compact(script), "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("set the limits of the jail's user namespace: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
