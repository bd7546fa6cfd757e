package telemetry

import (
	"fmt"
	"math"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/containerd/cgroups/v3/cgroup2/stats"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/node/jail"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const cgroupRoot = "/sys/fs/cgroup"

// jailUsage reads what a cgroup uses.
func jailUsage(cg jail.Cgroup) (*nodev1.Usage, error) {
	if _, version := cg.Dir("memory"); version == 2 {
		return usage2(cg)
	}
	return usage1(cg)
}

func usage1(cg jail.Cgroup) (*nodev1.Usage, error) {
	path := func(name cgroup1.Name) (string, error) {
		if at := cg.Path(string(name)); at != "" {
			return at, nil
		}
		return "", cgroup1.ErrControllerNotActive
	}
	hierarchy := func() ([]cgroup1.Subsystem, error) {
		return []cgroup1.Subsystem{
			cgroup1.NewMemory(cgroupRoot), cgroup1.NewCpuacct(cgroupRoot), cgroup1.NewPids(cgroupRoot),
		}, nil
	}
	loaded, err := cgroup1.Load(path, cgroup1.WithHierarchy(hierarchy))
	if err != nil {
		return nil, fmt.Errorf("open the jail's cgroup: %w", err)
	}
	m, err := loaded.Stat(cgroup1.IgnoreNotExist)
	if err != nil {
		return nil, fmt.Errorf("read the jail's cgroup: %w", err)
	}
	out := &nodev1.Usage{}
	if m.GetCPU().GetUsage() != nil {
		out.CpuTotalUsec = proto.Int64(int64(m.GetCPU().GetUsage().GetTotal() / uint64(time.Microsecond)))
	}
	if mem := m.GetMemory(); mem.GetUsage() != nil {
		// Memory that can be dropped at once does not count as used.
		out.MemoryBytes = proto.Int64(less(mem.GetUsage().GetUsage(), mem.GetTotalInactiveFile()))
		out.MemoryLimitBytes = limit(mem.GetUsage().GetLimit())
	}
	if m.GetMemoryOomControl() != nil {
		out.OomKills = proto.Int64(int64(m.GetMemoryOomControl().GetOomKill()))
	}
	if m.GetPids() != nil {
		out.Pids = proto.Int64(int64(m.GetPids().GetCurrent()))
		out.PidsLimit = limit(m.GetPids().GetLimit())
	}
	return out, nil
}

func usage2(cg jail.Cgroup) (*nodev1.Usage, error) {
	loaded, err := cgroup2.Load(cg.Path(""))
	if err != nil {
		return nil, fmt.Errorf("open the jail's cgroup: %w", err)
	}
	m, err := loaded.StatFiltered(cgroup2.StatPids | cgroup2.StatCPU | cgroup2.StatMemory | cgroup2.StatMemoryEvents | cgroup2.StatIO)
	if err != nil {
		return nil, fmt.Errorf("read the jail's cgroup: %w", err)
	}
	return &nodev1.Usage{
		CpuTotalUsec:     proto.Int64(int64(m.GetCPU().GetUsageUsec())),
		MemoryBytes:      proto.Int64(less(m.GetMemory().GetUsage(), m.GetMemory().GetInactiveFile())),
		MemoryLimitBytes: limit(m.GetMemory().GetUsageLimit()),
		Pids:             proto.Int64(int64(m.GetPids().GetCurrent())),
		PidsLimit:        limit(m.GetPids().GetLimit()),
		OomKills:         proto.Int64(int64(m.GetMemoryEvents().GetOomKill())),
		CpuPressure:      pressureOf(m.GetCPU().GetPSI()),
		MemoryPressure:   pressureOf(m.GetMemory().GetPSI()),
		IoPressure:       pressureOf(m.GetIo().GetPSI()),
	}, nil
}

func pressureOf(p *stats.PSIStats) *nodev1.Pressure {
	if p == nil {
		return nil
	}
	return &nodev1.Pressure{
		SomeAvg10: p.GetSome().GetAvg10(), SomeAvg60: p.GetSome().GetAvg60(),
		FullAvg10: p.GetFull().GetAvg10(), FullAvg60: p.GetFull().GetAvg60(),
	}
}

func less(all, part uint64) int64 {
	if part > all {
		return 0
	}
	return int64(all - part)
}

// limit returns nil for what the kernel writes for no limit: 0, or the largest
// number, rounded down to pages.
func limit(n uint64) *int64 {
	if n == 0 || n >= math.MaxInt64-1<<16 {
		return nil
	}
	return proto.Int64(int64(n))
}
