package jail

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/egress"
	"github.com/deckhand-sh/deckhand/node/initd"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Defaults of a jail's spec.
const (
	defaultCPUMillis = 2000
	defaultMemory    = 4 << 30
	defaultPids      = 512
	defaultTmp       = 1 << 30
	defaultWorkspace = 10 << 30
)

// minimum keeps a jail from being too small for its own init.
const (
	minMemory    = 32 << 20
	minPids      = 32
	minWorkspace = 1 << 20
)

// fill returns a spec with its defaults, or says what is wrong with it.
func (m *Manager) fill(in *nodev1.JailSpec) (*nodev1.JailSpec, error) {
	s := proto.CloneOf(in)
	if !jailID.MatchString(s.GetJailId()) || len(s.GetJailId()) > 64 {
		return nil, fault.New(fault.Invalid, "jail_id %q is not an id", s.GetJailId()).
			WithFix("use up to 64 lower-case letters and digits, in words joined by - or _, a letter first")
	}
	if s.Runtime == "" {
		s.Runtime = runc
	}
	if err := m.lacks(s); err != nil {
		return nil, err
	}
	if err := checkRoot(s); err != nil {
		return nil, err
	}
	if s.GetRootUser() && classes[s.GetRuntime()].ownKernel {
		return nil, fault.New(fault.Precondition, "the runtime %s does not run commands as root", s.GetRuntime()).
			WithFix("use trust: trusted, or leave out jail.user: root").WithObject(s.GetJailId())
	}
	for _, limit := range []struct {
		name          string
		field         *int64
		normal, least int64
	}{
		{"cpu_millis", &s.CpuMillis, defaultCPUMillis, 10},
		{"memory_bytes", &s.MemoryBytes, defaultMemory, minMemory},
		{"pids", &s.Pids, defaultPids, minPids},
		{"tmp_bytes", &s.TmpBytes, defaultTmp, 4096},
		{"workspace_bytes", &s.WorkspaceBytes, defaultWorkspace, minWorkspace},
	} {
		if *limit.field == 0 {
			*limit.field = limit.normal
		}
		if *limit.field < limit.least {
			return nil, fault.New(fault.Invalid, "%s is %d, which is too little", limit.name, *limit.field).
				WithFix("use at least %d", limit.least)
		}
	}
	if err := egress.Check(s.GetEgress()); err != nil {
		return nil, fault.New(fault.Invalid, "egress: %v", err).WithObject(s.GetJailId())
	}
	for _, path := range s.GetReadOnlyPaths() {
		if err := m.mayShow(path); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// notOurs refuses to show the node's own data, or a folder that holds it.
func (m *Manager) notOurs(path string) error {
	if within(path, m.cfg.DataDir) || within(m.cfg.DataDir, path) {
		return fault.New(fault.Denied, "read_only_paths: %q contains the node's own data", path).WithCode(fault.SandboxViolation)
	}
	return nil
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// ociSpec writes down the jail for the runtime.
func (m *Manager) ociSpec(ctx context.Context, p paths, rec *nodev1.JailRecord, root []specs.Mount) (*oci.Spec, error) {
	s := rec.GetSpec()
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: m.cfg.UIDBase, Size: uidRange}}
	mounts := append([]specs.Mount{
		procMount(s),
		{Type: "tmpfs", Source: "tmpfs", Destination: "/dev", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Type: "devpts", Source: "devpts", Destination: "/dev/pts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Type: "tmpfs", Source: "shm", Destination: "/dev/shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
		{Type: "mqueue", Source: "mqueue", Destination: "/dev/mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Type: "sysfs", Source: "sysfs", Destination: "/sys", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Type: "tmpfs", Source: "tmpfs", Destination: "/tmp", Options: []string{"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", s.GetTmpBytes())}},
	}, root...)
	mounts = append(mounts,
		specs.Mount{Type: "bind", Source: p.workspace, Destination: "/workspace", Options: []string{"rbind", "rw", "nosuid", "nodev"}},
		specs.Mount{Type: "bind", Source: p.state, Destination: initd.StateDir, Options: []string{"rbind", "rw", "nosuid", "nodev", "noexec"}},
		specs.Mount{Type: "bind", Source: filepath.Join(p.state, initd.OutputsDir), Destination: nodelink.OutputsPath, Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}},
	)
	files, err := openFiles()
	if err != nil {
		return nil, err
	}
	rootfs := p.rootfs
	if s.GetRootfs() == nodelink.RootImage {
		rootfs = "rootfs" // in the container's bundle, where containerd mounts the snapshot
	}
	opts := []oci.SpecOpts{
		oci.WithRootFSPath(rootfs),
		oci.WithProcessArgs(initMount),
		oci.WithProcessCwd("/"),
		oci.WithEnv([]string{"PATH=/usr/bin:/bin"}),
		oci.WithHostname(s.GetJailId()),
		oci.WithUserNamespace(ids, ids),
		oci.WithNamespacedCgroup(),
		oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.CgroupNamespace}),
		oci.WithCapabilities([]string{"CAP_SETUID", "CAP_SETGID", "CAP_KILL"}),
		oci.WithNoNewPrivileges,
		oci.WithRlimit(&specs.POSIXRlimit{Type: "RLIMIT_NOFILE", Soft: files, Hard: files}),
		oci.WithRlimit(&specs.POSIXRlimit{Type: "RLIMIT_CORE"}),
		oci.WithMemoryLimit(uint64(s.GetMemoryBytes())),
		oci.WithPidsLimit(s.GetPids() + initd.OwnProcesses),
		oci.WithCPUCFS(s.GetCpuMillis()*cfsPeriod/1000, cfsPeriod),
		oci.WithDefaultUnixDevices,
		// Last: it depends on the capabilities.
		seccomp.WithDefaultProfile(),
	}
	if swapAccounted() {
		// The limit applies to memory and swap together, so that no swap is
		// used.
		opts = append(opts, oci.WithMemorySwap(s.GetMemoryBytes()))
	}
	if !s.GetWritableRoot() {
		opts = append(opts, oci.WithRootFSReadonly())
	}
	if s.GetRootUser() {
		opts = append(opts, withRootUser)
	}
	spec, err := oci.GenerateSpec(ctx, nil, &containers.Container{ID: rec.GetContainerId()}, opts...)
	if err != nil {
		return nil, fmt.Errorf("write the jail's spec: %w", err)
	}
	spec.Mounts = mounts
	if weighsIO() {
		// Half of what everything else on the machine has.
		spec.Linux.Resources.Unified = map[string]string{"io.weight": "50"}
	}
	if classes[s.GetRuntime()].ownKernel {
		forOwnKernel(spec, s)
	}
	return spec, nil
}

// weighsIO reports whether this machine's cgroups share its disks by weight.
func weighsIO() bool {
	at, err := filepath.Glob(filepath.Join(cgroupRoot, "*", "io.weight"))
	return err == nil && len(at) > 0 && isUnified()
}

// openFiles returns how many files a process of a jail may have open: 65 536,
// or what this machine's own limit leaves. It may not be raised again where
// even root cannot.
func openFiles() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	return min(65536, limit.Max), nil
}

// cfsPeriod is the kernel's scheduling period, in microseconds.
const cfsPeriod = 100_000

// swapAccounted reports whether this machine swaps and can hold a cgroup to it.
func swapAccounted() bool {
	raw, err := os.ReadFile("/proc/swaps")
	if err != nil || bytes.Count(bytes.TrimSpace(raw), []byte("\n")) == 0 {
		return false
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return true
	}
	_, err = os.Stat("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
	return err == nil
}
