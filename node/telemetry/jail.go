package telemetry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/node/jail"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// The files of a cgroup are read here and not by containerd's package, which brings
// programs for the kernel and a client of D-Bus into the daemon.
// https://docs.kernel.org/admin-guide/cgroup-v2.html has those of version 2, and
// https://docs.kernel.org/admin-guide/cgroup-v1/ those of version 1.

// jailUsage reads what a cgroup uses. What the kernel does not account for is absent.
func jailUsage(cg jail.Cgroup) (out *nodev1.Usage, err error) {
	controller := func(name string) string {
		dir, _ := cg.Dir(name)
		return dir
	}
	if dir, version := cg.Dir("memory"); version == 2 {
		out, err = usage2(dir)
	} else {
		out, err = usage1(controller("memory"), controller("cpuacct"), controller("pids"))
	}
	if err == nil && out.MemoryBytes == nil && out.Pids == nil && out.CpuTotalUsec == nil {
		err = errors.New("the kernel does not account for the jail, or it has just ended")
	}
	return out, err
}

// usage1 reads the folders of three controllers; "" for one that does not account for it.
func usage1(memory, cpuacct, pids string) (*nodev1.Usage, error) {
	out := &nodev1.Usage{}
	var r reader
	if total, ok := r.number(cpuacct, "cpuacct.usage"); ok { // in nanoseconds
		out.CpuTotalUsec = proto.Int64(total / int64(time.Microsecond))
	}
	if used, ok := r.number(memory, "memory.usage_in_bytes"); ok {
		// Memory that can be dropped at once does not count as used.
		out.MemoryBytes = proto.Int64(max(0, used-r.table(memory, "memory.stat")["total_inactive_file"]))
		out.MemoryLimitBytes = r.limit(memory, "memory.limit_in_bytes")
		out.OomKills = entry(r.table(memory, "memory.oom_control"), "oom_kill")
	}
	if running, ok := r.number(pids, "pids.current"); ok {
		out.Pids, out.PidsLimit = proto.Int64(running), r.limit(pids, "pids.max")
	}
	return out, r.err
}

// usage2 reads the folder of a cgroup.
func usage2(dir string) (*nodev1.Usage, error) {
	out := &nodev1.Usage{}
	var r reader
	out.CpuTotalUsec = entry(r.table(dir, "cpu.stat"), "usage_usec")
	if used, ok := r.number(dir, "memory.current"); ok {
		out.MemoryBytes = proto.Int64(max(0, used-r.table(dir, "memory.stat")["inactive_file"]))
		out.MemoryLimitBytes = r.limit(dir, "memory.max")
		out.OomKills = entry(r.table(dir, "memory.events"), "oom_kill")
	}
	if running, ok := r.number(dir, "pids.current"); ok {
		out.Pids, out.PidsLimit = proto.Int64(running), r.limit(dir, "pids.max")
	}
	out.CpuPressure, out.MemoryPressure, out.IoPressure = r.pressure(dir, "cpu.pressure"), r.pressure(dir, "memory.pressure"), r.pressure(dir, "io.pressure")
	return out, r.err
}

// reader reads the files of a cgroup and keeps the first error. A missing file is no error: the
// kernel lacks it, or the cgroup has just ended.
type reader struct{ err error }

// text returns a file's text; "" if there is none.
func (r *reader) text(dir, name string) string {
	if dir == "" {
		return ""
	}
	raw, err := os.ReadFile(filepath.Join(dir, name))
	// A kernel without pressure has the files, and refuses to read them.
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errors.ErrUnsupported) && r.err == nil {
		r.err = fmt.Errorf("read the jail's cgroup: %w", err)
	}
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// number returns the number that a file consists of, as large as an int64 can be.
func (r *reader) number(dir, name string) (int64, bool) {
	return r.parse(name, r.text(dir, name))
}

func (r *reader) parse(name, text string) (int64, bool) {
	if text == "" {
		return 0, false
	}
	n, err := parseNumber(text)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("read the jail's cgroup: %s: %w", name, err)
	}
	return n, err == nil
}

// limit returns the limit in a file; nil for none, which the kernel writes as "max", as 0
// or as the largest number, rounded down to pages.
func (r *reader) limit(dir, name string) *int64 {
	text := r.text(dir, name)
	if text == "max" {
		return nil
	}
	n, ok := r.parse(name, text)
	if !ok {
		return nil
	}
	return limit(uint64(n))
}

// table returns a file's lines of a name and a number.
func (r *reader) table(dir, name string) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(r.text(dir, name)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := parseNumber(value); err == nil {
			out[key] = n
		}
	}
	return out
}

func (r *reader) pressure(dir, name string) *nodev1.Pressure {
	text := r.text(dir, name)
	if text == "" {
		return nil
	}
	p, err := parsePressure(text)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("read the jail's cgroup: %s: %w", name, err)
	}
	return p
}

// unlimited is the least number that the kernel writes for no limit.
const unlimited = 1<<63 - 1 - 1<<16

// parseNumber reads a number that may be larger than an int64, as no limit is.
func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	return int64(min(n, 1<<63-1)), err
}

// entry returns a number of a table; nil if it is not there.
func entry(table map[string]int64, key string) *int64 {
	if n, ok := table[key]; ok {
		return proto.Int64(n)
	}
	return nil
}
