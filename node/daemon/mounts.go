package daemon

import (
	"fmt"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/mount"
)

// mountsDir is the folder in the data folder below which images are mounted while the daemon
// works on them.
const mountsDir = "mounts"

// clearMounts has images mounted in the data folder, and unmounts what a daemon that was
// killed has left there: it would keep the space of jails that are removed.
func clearMounts(c Config) error {
	if err := mount.SetTempMountLocation(filepath.Join(c.DataDir, mountsDir)); err != nil {
		return fmt.Errorf("make the folder for mounts: %w", err)
	}
	left, err := mount.CleanupTempMounts(0)
	if err != nil {
		return fmt.Errorf("unmount what an earlier daemon left: %w", err)
	}
	for _, one := range left {
		c.Log.Warn("cannot unmount what an earlier daemon left", "error", one)
	}
	return nil
}
