package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
	"google.golang.org/protobuf/proto"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// hostUsage reads what the machine uses; the disk is that of a folder.
func hostUsage(ctx context.Context, dir string) (*nodev1.Usage, error) {
	out := &nodev1.Usage{}
	times, err := cpu.TimesWithContext(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("read the machine's CPU time: %w", err)
	}
	if len(times) > 0 {
		t := times[0]
		busy := t.User + t.System + t.Nice + t.Irq + t.Softirq + t.Steal
		out.CpuTotalUsec = proto.Int64(int64(busy * float64(time.Second/time.Microsecond)))
	}
	memory, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the machine's memory: %w", err)
	}
	out.MemoryBytes = proto.Int64(less(memory.Total, memory.Available))
	out.MemoryLimitBytes = limit(memory.Total)
	space, err := disk.UsageWithContext(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("read the disk of %s: %w", dir, err)
	}
	// Space that is available to users other than root.
	out.DiskBytes, out.DiskLimitBytes = proto.Int64(int64(space.Used)), proto.Int64(int64(space.Used+space.Free))
	if misc, err := load.MiscWithContext(ctx); err == nil && misc.ProcsTotal > 0 {
		out.Pids = proto.Int64(int64(misc.ProcsTotal))
	}
	if average, err := load.AvgWithContext(ctx); err == nil {
		out.Load, out.Cpus = proto.Float64(average.Load1), proto.Int32(int32(runtime.NumCPU())) //nolint:gosec // processors are few
	}
	for name, field := range map[string]**nodev1.Pressure{
		"cpu": &out.CpuPressure, "memory": &out.MemoryPressure, "io": &out.IoPressure,
	} {
		if *field, err = hostPressure(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// hostPressure reads what the kernel says of the pressure on a resource; nil
// where it does not keep it. (Documentation/accounting/psi.rst)
func hostPressure(resource string) (*nodev1.Pressure, error) {
	raw, err := os.ReadFile("/proc/pressure/" + resource)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the machine's pressure: %w", err)
	}
	return parsePressure(string(raw))
}

func parsePressure(text string) (*nodev1.Pressure, error) {
	out := &nodev1.Pressure{}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		var who string
		var ten, sixty float64
		if _, err := fmt.Sscanf(line, "%s avg10=%f avg60=%f", &who, &ten, &sixty); err != nil {
			return nil, fmt.Errorf("the machine's pressure reads %q: %w", line, err)
		}
		switch who {
		case "some":
			out.SomeAvg10, out.SomeAvg60 = ten, sixty
		case "full":
			out.FullAvg10, out.FullAvg60 = ten, sixty
		}
	}
	return out, nil
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
	if n == 0 || n >= unlimited {
		return nil
	}
	return proto.Int64(int64(n))
}
