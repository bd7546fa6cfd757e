// Package pressure decides whether a machine has room for new work. A Watch
// compares the machine's free resources with limits and describes each shortage
// in a sentence with the value and the limit. Nodes and workers send these
// sentences to their hub, which starts no new work there until the shortage
// ends.
//
// A shortage begins immediately and ends after a delay, so that a value that
// oscillates around its limit counts as one shortage. A value that cannot be
// read is not a shortage.
package pressure

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/spf13/pflag"
)

// Limit is where pressure begins; 0 for never.
type Limit float64

// UnmarshalText reads a number, with or without a percent sign, or "off".
func (l *Limit) UnmarshalText(text []byte) error {
	word := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(string(text)), "%"))
	if word == "off" {
		*l = 0
		return nil
	}
	number, err := strconv.ParseFloat(word, 64)
	if err != nil || number < 0 || math.IsNaN(number) || math.IsInf(number, 0) {
		return fmt.Errorf("%q is not a limit: write a number that is not negative, or off", text)
	}
	*l = Limit(number)
	return nil
}

// Limits are those of a machine. The zero value has none: the defaults are
// those of the flags.
type Limits struct {
	// MinMemory is how much of the memory must be available, in percent.
	MinMemory Limit `koanf:"pressure-min-memory"`
	// MinDisk is how much of the disk must be free, in percent.
	MinDisk Limit `koanf:"pressure-min-disk"`
	// MaxLoad is how high the load of the last minute may be, in times the cores.
	MaxLoad Limit `koanf:"pressure-max-load"`
}

// Flags registers the flags that fill Limits, with their defaults.
func Flags(flags *pflag.FlagSet) {
	flags.String("pressure-min-memory", "10", "start nothing new while less of the machine's memory is available, in percent; off for never")
	flags.String("pressure-min-disk", "5", "start nothing new while less of the disk is free, in percent; off for never")
	flags.String("pressure-max-load", "2", "start nothing new while the load of the last minute is higher, in times the cores; off for never")
}

// Figures are a machine's resources. A total of 0 means that it is not known.
type Figures struct {
	MemoryTotal, MemoryAvailable uint64 // bytes
	DiskTotal, DiskFree          uint64 // bytes, of what anybody but root may use
	Load                         float64
	Cores                        int
}

// Machine returns a function that reads this machine's figures; the disk is that
// of a folder.
func Machine(dir string) func(ctx context.Context) (Figures, error) {
	return func(ctx context.Context) (Figures, error) {
		memory, err := mem.VirtualMemoryWithContext(ctx)
		if err != nil {
			return Figures{}, fmt.Errorf("read the machine's memory: %w", err)
		}
		space, err := disk.UsageWithContext(ctx, dir)
		if err != nil {
			return Figures{}, fmt.Errorf("read the disk of %s: %w", dir, err)
		}
		average, err := load.AvgWithContext(ctx)
		if err != nil {
			return Figures{}, fmt.Errorf("read the machine's load: %w", err)
		}
		return Figures{
			MemoryTotal: memory.Total, MemoryAvailable: memory.Available,
			DiskTotal: space.Used + space.Free, DiskFree: space.Free,
			Load: average.Load1, Cores: runtime.NumCPU(),
		}, nil
	}
}

// shortage is one figure that is past its limit.
type shortage struct{ what, text string }

// short returns what is past its limit, always in the same order.
func (l Limits) short(f Figures) []shortage {
	var out []shortage
	least := func(what string, free, total uint64, limit Limit) {
		if limit <= 0 || total == 0 {
			return
		}
		if share := 100 * float64(free) / float64(total); share < float64(limit) {
			out = append(out, shortage{what, fmt.Sprintf("%s is %s %%, under the limit of %s %%", what, figure(share), figure(float64(limit)))})
		}
	}
	least("free memory", f.MemoryAvailable, f.MemoryTotal, l.MinMemory)
	least("free disk", f.DiskFree, f.DiskTotal, l.MinDisk)
	if most := float64(l.MaxLoad) * float64(f.Cores); l.MaxLoad > 0 && f.Cores > 0 && f.Load > most {
		out = append(out, shortage{"load", fmt.Sprintf("the load of the last minute is %s, over the limit of %s (%s for each of %d cores)",
			figure(f.Load), figure(most), figure(float64(l.MaxLoad)), f.Cores)})
	}
	return out
}

// figure writes a number with one decimal where it needs one. It rounds down, so
// that what is under a limit never reads as the limit.
func figure(x float64) string {
	return strconv.FormatFloat(math.Floor(x*10+1e-9)/10, 'f', -1, 64)
}

// Sentence says what is past its limit; empty when nothing is.
func (l Limits) Sentence(f Figures) string {
	sentence, _ := join(l.short(f))
	return sentence
}

func join(all []shortage) (sentence, kinds string) {
	texts, names := make([]string, len(all)), make([]string, len(all))
	for i, s := range all {
		texts[i], names[i] = s.text, s.what
	}
	return strings.Join(texts, "; "), strings.Join(names, ", ")
}
