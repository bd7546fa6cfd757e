package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// The defaults of Config.
const (
	DefaultJailShare  = 75
	DefaultOvercommit = 10
)

// pidShare is which part of the processes that the kernel can have one jail has
// a share of.
const pidShare = 8

// resource is something of the machine that jails have limits of.
type resource struct {
	// field is what the spec calls it, and noun what people do.
	field, noun string
	of          func(s *nodev1.JailSpec) int64
	// normal is what a jail has whose spec says nothing: a machine that is too
	// small for the share of one has room for it all the same.
	normal int64
	// total is what the machine has.
	total int64
	// kept is set if a jail uses the resource also while it does not run, and
	// shared if the kernel divides it fairly among any number of jails.
	kept, shared bool
}

// measure returns what this machine has for jails.
func measure(dataDir string) ([]resource, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, fmt.Errorf("read the machine's memory: %w", err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dataDir, &disk); err != nil {
		return nil, fmt.Errorf("read the size of the disk of %s: %w", dataDir, err)
	}
	pids, err := smallest("/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max")
	if err != nil {
		return nil, err
	}
	memory := int64(info.Totalram) * int64(info.Unit) //nolint:gosec // no machine has 2^63 bytes
	size := int64(disk.Blocks) * disk.Bsize           //nolint:gosec // as above
	return []resource{
		{field: "cpu_millis", noun: "thousandths of a CPU", of: (*nodev1.JailSpec).GetCpuMillis, normal: defaultCPUMillis, total: int64(runtime.NumCPU()) * 1000, shared: true},
		{field: "memory_bytes", noun: "bytes of memory", of: (*nodev1.JailSpec).GetMemoryBytes, normal: defaultMemory, total: memory},
		{field: "tmp_bytes", noun: "bytes in /tmp, which is memory,", of: (*nodev1.JailSpec).GetTmpBytes, normal: defaultTmp, total: memory},
		{field: "pids", noun: "processes", of: (*nodev1.JailSpec).GetPids, normal: defaultPids, total: pids / pidShare},
		{field: "workspace_bytes", noun: "bytes of disk", of: diskOf, normal: defaultWorkspace, total: size, kept: true},
	}, nil
}

// diskOf returns how much of the disk a jail may fill: its workspace, and as much again if
// its root is writable.
func diskOf(s *nodev1.JailSpec) int64 {
	if s.GetWritableRoot() {
		return 2 * s.GetWorkspaceBytes()
	}
	return s.GetWorkspaceBytes()
}

func smallest(files ...string) (int64, error) {
	least := int64(1 << 62)
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			return 0, fmt.Errorf("read a limit of the kernel: %w", err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read a limit of the kernel: %s: %w", name, err)
		}
		least = min(least, n)
	}
	return least, nil
}

// promise refuses a spec that exceeds what this node gives to one jail, or to
// all of them. Otherwise it reserves the resources until the returned function
// is called; by then the jail's record must include them. The function is never
// nil.
func (m *Manager) promise(spec *nodev1.JailSpec) (done func(), err error) {
	done = func() {}
	if spec.GetJailId() == HostID {
		return done, nil
	}
	m.ceilings.Lock()
	defer m.ceilings.Unlock()
	id := spec.GetJailId()
	var others []*nodev1.JailRecord
	dirs, err := os.ReadDir(filepath.Join(m.cfg.DataDir, "jails"))
	if err != nil {
		return done, fmt.Errorf("list the jails: %w", err)
	}
	for _, dir := range dirs {
		if dir.Name() == id || dir.Name() == HostID || m.promised[dir.Name()] != nil {
			continue
		}
		rec, err := readRecord(m.paths(dir.Name()).record)
		if err != nil {
			return done, err
		}
		if rec != nil {
			others = append(others, rec)
		}
	}
	for other, spec := range m.promised {
		if other != id {
			others = append(others, &nodev1.JailRecord{Spec: spec, BootId: m.bootID})
		}
	}
	for _, r := range m.resources {
		most := max(r.total*int64(m.cfg.JailShare)/100, r.normal)
		if asked := r.of(spec); asked > most {
			return done, fault.New(fault.Precondition, "%s is %d: this node gives a jail at most %d %s", r.field, asked, most, r.noun).
				WithFix("ask for less in the persona, or raise max-jail-share (%d %%) in the node's configuration", m.cfg.JailShare).WithObject(id)
		}
		if r.shared {
			continue
		}
		sum := r.of(spec)
		for _, rec := range others {
			if r.kept || !rec.GetStopped() && rec.GetBootId() == m.bootID {
				sum += r.of(rec.GetSpec())
			}
		}
		all := int64(float64(r.total) * m.cfg.Overcommit)
		if all = max(all, r.normal); sum > all {
			return done, fault.New(fault.Exhausted, "%s is %d: with those of the other jails these are %d, and this node gives all jails together at most %d %s", r.field, r.of(spec), sum, all, r.noun).
				WithFix("stop or remove jails, ask for less in the persona, or raise max-jails-overcommit (%g) in the node's configuration", m.cfg.Overcommit).WithObject(id)
		}
	}
	m.promised[id] = spec
	return func() {
		m.ceilings.Lock()
		defer m.ceilings.Unlock()
		delete(m.promised, id)
	}, nil
}
