package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/containerd"
	"github.com/deckhand-sh/deckhand/node/jail/initbin"
)

// at returns a path of the machine's own.
func (c Config) at(path string) string { return filepath.Join(c.Root, path) }

// text reads a small file; "" when it cannot be read.
func (c Config) text(path string) string {
	raw, err := os.ReadFile(c.at(path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

func (c Config) exists(path string) bool {
	_, err := os.Stat(c.at(path))
	return err == nil
}

func root(_ context.Context, c Config) Finding {
	uid := os.Geteuid()
	if c.UID != nil {
		uid = *c.UID
	}
	if uid != 0 {
		return fails(fmt.Sprintf("this is user %d", uid), "run it as root: a node makes jails")
	}
	return ok("this is root")
}

// needKernel has what jails need: openat2 is of 5.6, close_range of 5.9.
const needMajor, needMinor = 5, 6

func kernel(_ context.Context, c Config) Finding {
	release := c.text("/proc/sys/kernel/osrelease")
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return warn(fmt.Sprintf("its release %q cannot be read", release), fmt.Sprintf("make sure that it is Linux %d.%d or newer", needMajor, needMinor))
	}
	if major < needMajor || major == needMajor && minor < needMinor {
		return fails("Linux "+release, fmt.Sprintf("install Linux %d.%d or newer", needMajor, needMinor))
	}
	return ok("Linux " + release)
}

func seccomp(_ context.Context, c Config) Finding {
	if c.text("/proc/sys/kernel/seccomp/actions_avail") == "" {
		return fails("this kernel has no seccomp filters", "use a kernel with CONFIG_SECCOMP_FILTER")
	}
	return ok("the kernel filters system calls")
}

func cgroups(_ context.Context, c Config) Finding {
	need := []string{"cpu", "memory", "pids"}
	if c.exists("/sys/fs/cgroup/cgroup.controllers") {
		have := strings.Fields(c.text("/sys/fs/cgroup/cgroup.controllers"))
		if lacks := without(need, have); len(lacks) > 0 {
			return fails("version 2, without "+strings.Join(lacks, ", "), "enable them: see cgroup.disable on the kernel's command line, and the parent's cgroup.subtree_control")
		}
		return ok("version 2")
	}
	entries, err := os.ReadDir(c.at("/sys/fs/cgroup"))
	if err != nil || len(entries) == 0 {
		return fails("nothing is mounted at /sys/fs/cgroup", "mount -t cgroup2 none /sys/fs/cgroup, or have systemd do it")
	}
	var have []string
	for _, e := range entries {
		have = append(have, strings.Split(e.Name(), ",")...)
	}
	if lacks := without(append(need, "freezer", "cpuacct"), have); len(lacks) > 0 {
		return fails("version 1, without "+strings.Join(lacks, ", "), "mount them below /sys/fs/cgroup, or boot with systemd.unified_cgroup_hierarchy=1")
	}
	return ok("version 1")
}

func without(need, have []string) []string {
	return slices.DeleteFunc(slices.Clone(need), func(one string) bool { return slices.Contains(have, one) })
}

func pressure(_ context.Context, c Config) Finding {
	if c.text("/proc/pressure/memory") == "" {
		return warn("the kernel does not tell the pressure on it", "boot with psi=1 to see it in the telemetry")
	}
	return ok("the kernel tells the pressure on it")
}

func userNamespaces(_ context.Context, c Config) Finding {
	most, err := strconv.Atoi(c.text("/proc/sys/user/max_user_namespaces"))
	switch {
	case err != nil:
		return fails("this kernel has none", "use a kernel with CONFIG_USER_NS")
	case most == 0:
		return fails("they are switched off", "sysctl user.max_user_namespaces=15000")
	}
	if _, found := c.program("nsenter"); !found {
		return fails("nsenter, which limits what they use up, is not in PATH", "apt-get install util-linux")
	}
	return ok(fmt.Sprintf("up to %d", most))
}

func userIDs(_ context.Context, c Config) Finding {
	first, last := uint64(c.UIDBase), uint64(c.UIDBase)+65535
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		for line := range strings.SplitSeq(c.text(file), "\n") {
			parts := strings.Split(line, ":")
			if len(parts) != 3 {
				continue
			}
			from, err1 := strconv.ParseUint(parts[1], 10, 32)
			count, err2 := strconv.ParseUint(parts[2], 10, 32)
			if err1 == nil && err2 == nil && from <= last && from+count > first {
				return warn(fmt.Sprintf("%s gives some of %d to %d to %s", file, first, last, parts[0]), "choose others with --uid-base")
			}
		}
	}
	return ok(fmt.Sprintf("%d to %d are for jails", first, last))
}

func containerdServes(ctx context.Context, c Config) Finding {
	version, err := containerd.Version(ctx, c.Containerd)
	if errors.Is(err, fs.ErrNotExist) {
		return fails("there is no socket at "+c.Containerd, "apt-get install containerd, systemctl start containerd, or name its socket with --containerd")
	}
	if err != nil {
		return fails(err.Error(), "see: systemctl status containerd")
	}
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor); err == nil && (major < 1 || major == 1 && minor < 6) {
		return fails("its version is "+version, "install containerd 1.6 or newer")
	}
	return ok("version " + version)
}

func runtime(_ context.Context, c Config) Finding {
	var lacks []string
	for _, program := range []string{"runc", "containerd-shim-runc-v2"} {
		if _, found := c.program(program); !found {
			lacks = append(lacks, program)
		}
	}
	if len(lacks) > 0 {
		return fails(strings.Join(lacks, " and ")+" is not in PATH", "apt-get install runc containerd")
	}
	at, _ := c.program("runc")
	return ok(at)
}

// program finds a program where the machine looks for them.
func (c Config) program(name string) (string, bool) {
	if c.Path == "" {
		at, err := exec.LookPath(name)
		return at, err == nil
	}
	for _, dir := range filepath.SplitList(c.Path) {
		at := filepath.Join(dir, name)
		if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return at, true
		}
	}
	return "", false
}

func initBinary(_ context.Context, c Config) Finding {
	if c.InitPath != "" {
		info, err := os.Stat(c.InitPath)
		if err != nil || !info.Mode().IsRegular() {
			return fails(fmt.Sprintf("--init-path %s is no program", c.InitPath), "leave --init-path out")
		}
		return ok(c.InitPath)
	}
	if !initbin.Present() {
		return fails(initbin.ErrAbsent.Error(), "install a release, or build with make build")
	}
	return ok("inside this program")
}

func dataFolder(_ context.Context, c Config) Finding {
	dir := c.DataDir
	for !exists(dir) && dir != "/" {
		dir = filepath.Dir(dir) // it will be made
	}
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err != nil:
			return fails(err.Error(), "choose another with --data-dir")
		case !info.IsDir():
			return fails(at+" is no folder", "choose another with --data-dir")
		case info.Mode().Perm()&0o001 == 0:
			return fails(at+" is not searchable by everyone, so that jails cannot reach their root", "chmod o+x "+at+", or choose another with --data-dir")
		}
		if at == "/" || at == "." {
			break
		}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err == nil {
		if st.Flags&unix.ST_NOEXEC != 0 {
			return fails(dir+" is on a file system mounted noexec", "mount -o remount,exec it, or choose another with --data-dir")
		}
		if st.Flags&unix.ST_RDONLY != 0 {
			return fails(dir+" is on a read-only file system", "choose another with --data-dir")
		}
	}
	return ok(c.DataDir)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func workspaces(_ context.Context, c Config) Finding {
	soft := "workspaces are plain folders, whose size is not held"
	if _, found := c.program("mkfs.ext4"); !found {
		return warn(soft+": mkfs.ext4 is missing", "apt-get install e2fsprogs")
	}
	if !c.exists("/dev/loop-control") {
		return warn(soft+": there are no loop devices", "modprobe loop")
	}
	if !strings.Contains(c.text("/proc/filesystems"), "ext4") && !c.exists("/lib/modules") {
		return warn(soft+": the kernel has no ext4", "modprobe ext4")
	}
	return ok("held to their size")
}

const (
	fewBytes  = 1 << 30
	someBytes = 10 << 30
)

func diskSpace(_ context.Context, c Config) Finding {
	dir := c.DataDir
	for !exists(dir) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fails(err.Error(), "choose another with --data-dir")
	}
	return spaceLeft(int64(st.Bavail)*st.Bsize, int64(st.Ffree), dir)
}

func spaceLeft(free, inodes int64, dir string) Finding {
	says := fmt.Sprintf("%.1f GiB are free at %s", float64(free)/(1<<30), dir)
	fix := "make room, or move the data folder with --data-dir"
	switch {
	case free < fewBytes:
		return fails(says, fix)
	case free < someBytes:
		return warn(says+", and one workspace alone may have 10", fix)
	case inodes > 0 && inodes < 10_000:
		return warn(fmt.Sprintf("%d inodes are free at %s", inodes, dir), fix)
	}
	return ok(says)
}

func systemd(_ context.Context, c Config) Finding {
	if !c.exists("/run/systemd/system") {
		return warn("it does not run this machine", "have something else start deckhand-node and start it again when it ends")
	}
	if !c.exists("/etc/systemd/system/deckhand-node.service") {
		return warn("deckhand-node is not installed as a service", "deckhand-node install")
	}
	return ok("deckhand-node is installed as a service")
}
