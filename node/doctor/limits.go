package doctor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/node/diskforecast"
)

// soonFull is from when on a disk that fills up is reported.
const soonFull = 14 * 24 * time.Hour

func diskForecast(_ context.Context, c Config) Finding {
	f, known := diskforecast.Of(diskforecast.Read(c.DiskHistory))
	switch {
	case !known:
		return ok("not known yet: it takes half a day of samples")
	case f.Full == 0:
		return ok("it is not going to be full within a year")
	}
	says := fmt.Sprintf("%s more are used each day: it is full in %d days", bytesize.Format(f.PerDay), int(f.Full.Hours()/24))
	if f.Full < soonFull {
		return warn(says, "make room, or lower --keep-log-bytes and --keep-changes-bytes of deckhand-node")
	}
	return ok(says)
}

const (
	// leastWatches and leastInstances are what watching the files of a few dozen
	// workspaces takes.
	leastWatches   = 65_536
	leastInstances = 128
	// leastPIDs leaves room for a few dozen jails of 512 processes.
	leastPIDs = 32_768
)

func inotify(_ context.Context, c Config) Finding {
	watches, err1 := strconv.Atoi(c.text("/proc/sys/fs/inotify/max_user_watches"))
	instances, err2 := strconv.Atoi(c.text("/proc/sys/fs/inotify/max_user_instances"))
	says := fmt.Sprintf("%d watches, %d instances", watches, instances)
	switch {
	case err1 != nil || err2 != nil:
		return warn("this kernel has no inotify", "use a kernel with CONFIG_INOTIFY_USER: without it changes of files are not shown live")
	case watches < leastWatches:
		return warn(says, fmt.Sprintf("sysctl fs.inotify.max_user_watches=%d", leastWatches*8))
	case instances < leastInstances:
		return warn(says, fmt.Sprintf("sysctl fs.inotify.max_user_instances=%d", leastInstances*8))
	}
	return ok(says)
}

func processLimit(_ context.Context, c Config) Finding {
	most, err := strconv.Atoi(c.text("/proc/sys/kernel/pid_max"))
	if err != nil {
		return warn("kernel.pid_max cannot be read", "check that /proc is mounted")
	}
	if most < leastPIDs {
		return warn(fmt.Sprintf("at most %d processes", most), fmt.Sprintf("sysctl kernel.pid_max=%d", leastPIDs*4))
	}
	return ok(fmt.Sprintf("at most %d processes", most))
}
