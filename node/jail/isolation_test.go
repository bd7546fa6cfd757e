package jail_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// scene is a node with an attacker's jail, a victim's, and a secret that lies
// wherever an attacker may look for it: in the victim's workspace, log,
// environment and memory, on the host for everyone to read, in the host's
// keyring, and behind sockets of the host.
type scene struct {
	t                *testing.T
	cfg              jail.Config
	m                *jail.Manager
	attacker, victim string
	secret           string
	victimExec       string
	guarded          []string // files that must stay as they are
	victimPids       []int
	vars             *strings.Replacer
}

func newScene(t *testing.T, asRoot bool) *scene {
	t.Helper()
	s := &scene{t: t, secret: ident.New("secret")}
	if asRoot {
		var r *imagetest.Registry
		s.m, s.cfg, r = withRegistry(t, func(c *jail.Config) { c.ShowPaths = []string{"/usr"} })
		s.attacker = ensure(t, s.m, from(t, s.m, r, machineImage(t)), ofRoot, func(spec *nodev1.JailSpec) { spec.ReadOnlyPaths = []string{"/usr"} })
	} else {
		s.cfg = jailtest.Config(t)
		s.m = jailtest.Manager(t, s.cfg)
		s.attacker = ensure(t, s.m)
	}
	s.victim = ensure(t, s.m)

	workspace, err := s.m.Workspace(s.victim)
	require.NoError(t, err)
	sh(t, s.m, s.victim, "echo "+s.secret+" > /workspace/theirs; chmod 666 /workspace/theirs; echo "+s.secret+" > /tmp/theirs")
	s.victimExec = begin(t, s.m, s.victim, "export THEIRS="+s.secret+"; echo $THEIRS; exec sleep 86399")
	until(t, s.m, s.victim, s.victimExec, s.secret)
	host := filepath.Join(s.cfg.DataDir, "open-secret")
	require.NoError(t, os.WriteFile(host, []byte(s.secret), 0o666))
	require.NoError(t, os.Chmod(host, 0o666))
	mine := begin(t, s.m, s.attacker, "echo before")
	s.guarded = []string{
		host, filepath.Join(workspace, "theirs"),
		execDir(s.cfg, s.victim, s.victimExec) + "/data", execDir(s.cfg, s.victim, s.victimExec) + "/index",
		execDir(s.cfg, s.attacker, mine) + "/data", execDir(s.cfg, s.attacker, mine) + "/exit",
		filepath.Join(s.cfg.DataDir, "jails", s.attacker, "record"),
		filepath.Join(s.cfg.DataDir, "etc", "passwd"), s.cfg.InitPath,
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/etc/passwd", "/etc/shadow",
	}
	end := execDir(s.cfg, s.attacker, mine) + "/exit"
	eventually(t, func() bool { _, err := os.Stat(end); return err == nil }, "an end of the attacker's first command")
	s.guarded = slices.DeleteFunc(s.guarded, func(path string) bool {
		_, err := os.Stat(path)
		return err != nil // this machine has none
	})
	require.Contains(t, s.guarded, end)
	s.victimPids = s.commandsOf(s.victim)

	// Sockets of the host that hand the secret to whoever connects.
	tcp := s.handOut("tcp", "127.0.0.1:0")
	abstract := "@" + ident.New("sock")
	s.handOut("unix", abstract)
	named := filepath.Join(s.cfg.DataDir, "s")
	s.handOut("unix", named)
	require.NoError(t, os.Chmod(named, 0o777))
	// The keyring is the process's, which has no other user of it.
	if _, err := unix.AddKey("user", s.secret[:16], []byte(s.secret), unix.KEY_SPEC_USER_KEYRING); err != nil {
		t.Log("the host has no keyring:", err)
	}
	s.vars = strings.NewReplacer(
		"@DATA@", s.cfg.DataDir, "@VICTIM@", s.victim, "@ATTACKER@", s.attacker, "@MINE@", mine, "@VICTIMEXEC@", s.victimExec,
		"@CONTAINERD@", s.cfg.Containerd, "@PORT@", tcp[strings.LastIndex(tcp, ":")+1:], "@ABSTRACT@", abstract[1:],
		"@KEY@", s.secret[:16], "@WORKSPACE@", workspace,
	)
	return s
}

// handOut serves the secret on a socket and returns its address.
func (s *scene) handOut(network, address string) string {
	s.t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, s.secret)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// commandsOf returns a jail's init and the processes that have a program of
// their own: the stubs that wait for commands come and go.
func (s *scene) commandsOf(id string) (out []int) {
	s.t.Helper()
	one, err := s.m.Get(s.t.Context(), id)
	require.NoError(s.t, err)
	pids, err := s.m.Processes(s.t.Context(), id)
	require.NoError(s.t, err)
	line := func(pid int) string {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return string(raw)
	}
	for _, pid := range pids {
		if pid == int(one.GetPid()) || line(pid) != line(int(one.GetPid())) {
			out = append(out, pid)
		}
	}
	return out
}

// print is what the guarded files are, down to the time of their last change.
func (s *scene) print() string {
	s.t.Helper()
	var out strings.Builder
	for _, path := range s.guarded {
		raw, err := os.ReadFile(path)
		require.NoError(s.t, err)
		var st unix.Stat_t
		require.NoError(s.t, unix.Stat(path, &st))
		changed := st.Ctim.Nano()
		if strings.HasPrefix(path, "/proc/") {
			changed = 0 // is made when it is looked at
		}
		fmt.Fprintf(&out, "%s %x %o %d:%d %d %d\n", path, sha256.Sum256(raw), st.Mode, st.Uid, st.Gid, st.Nlink, changed)
	}
	return out.String()
}

// prelude is for attacks by system call: each tries one, by number, and says
// OPEN for what the kernel let through.
const prelude = `
import ctypes, os, socket, sys, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    ctypes.set_errno(0)
    r = libc.syscall(*args)
    print('OPEN' if r >= 0 else 'refused', name, r, ctypes.get_errno(), flush=True)
    return r
def attempt(name, fn):
    try:
        r = fn()
        print('OPEN', name, r, flush=True)
    except OSError as e:
        print('refused', name, e, flush=True)
stub = os.getppid()
def is_stub():
    try: return os.stat('/proc/%d' % stub).st_uid == 0 and os.getuid() != 0
    except FileNotFoundError: return True # hidden from root
while not is_stub():
    stub = int(open('/proc/%d/stat' % stub).read().rsplit(')', 1)[1].split()[1])
print('the stub is', stub)
assert stub != 1
`

// The escape corpus: for each case no byte is read or changed, which
// the host verifies.
func TestNoByteIsReadOrChangedThroughTheWalls(t *testing.T) {
	t.Parallel()
	attack(t, newScene(t, false), nil)
}

// The same with a writable root and as root, which may become any user of its namespace.
func TestRootReadsAndChangesNothingThroughTheWalls(t *testing.T) {
	t.Parallel()
	attack(t, newScene(t, true), []string{"OPEN setuid", "OPEN setgid", "OPEN setgroups", "OPEN chown", "OPEN su", "OPEN setpriv"})
}

// attack runs the escape corpus. open begins the lines of what the attacker may do.
func attack(t *testing.T, s *scene, open []string) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the system calls are named by their numbers on amd64")
	}
	before := s.print()
	for name, tc := range map[string]struct {
		script string // sh
		python string // after the prelude
	}{
		"another jail's workspace, by its name on the host": {script: `
			cat @WORKSPACE@/theirs @DATA@/workspaces/@VICTIM@/theirs @DATA@/jails/@VICTIM@/workspace.ext4
			echo changed > @WORKSPACE@/theirs
			find / -xdev -path /usr -prune -o -name theirs -exec cat {} + -exec sh -c 'echo changed > {}' \;`},
		"another jail's workspace, by way of processes": {script: `
			cat /proc/[0-9]*/root/workspace/theirs /proc/[0-9]*/cwd/theirs /proc/[0-9]*/root/tmp/theirs
			cat /workspace/../theirs /workspace/../../workspaces/@VICTIM@/theirs /tmp/theirs /var/tmp/theirs`},
		"another jail's processes": {script: `
			cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\0' '\n' | grep -a THEIRS=
			for p in $(seq 2 400); do kill -9 $p; done 2>/dev/null; pkill -9 sleep; ls /dev/shm /dev/mqueue`},
		"everything that can be killed": {script: `kill -9 -1`},
		"the host's secrets": {script: `
			cat /etc/shadow /etc/gshadow /etc/ssh/* /etc/ssl/private/* /root/.* /home/*/.* /var/lib/* /run/secrets/* /boot/* @DATA@/open-secret @DATA@/ledger.db
			echo changed >> @DATA@/open-secret; ls /run /run/deckhand /var | grep -a secret`},
		"init's root, folder and files": {python: `
for base in ['/proc/1', '/proc/%d' % stub, '/proc/self/task/1', '/proc/1/task/1']:
    for leaf in ['root/run/deckhand/execs', 'root/etc/passwd', 'cwd', 'fd', 'fdinfo', 'map_files', 'ns/mnt', 'exe']:
        attempt(base + '/' + leaf, lambda: os.listdir(base + '/' + leaf) if leaf[0] in 'fm' or 'execs' in leaf else os.readlink(base + '/' + leaf) if leaf == 'exe' else os.open(base + '/' + leaf, os.O_RDONLY))
    for leaf in ['mem', 'environ', 'maps', 'auxv', 'stack', 'syscall', 'io', 'personality']:
        attempt(base + '/' + leaf, lambda: open(base + '/' + leaf, 'rb').read(1))
    for fd in range(64):
        attempt(base + '/fd/%d' % fd, lambda: os.open(base + '/fd/%d' % fd, os.O_RDWR))
    attempt(base + '/mem for writing', lambda: os.open(base + '/mem', os.O_RDWR))
    attempt(base + '/oom_score_adj', lambda: os.write(os.open(base + '/oom_score_adj', os.O_WRONLY), b'1000'))
    attempt(base + '/uid_map', lambda: os.write(os.open(base + '/uid_map', os.O_WRONLY), b'0 0 1'))
`},
		"the sockets of init, daemon, containerd and host": {python: `
def connect(family, address):
    s = socket.socket(family); s.settimeout(2); s.connect(address); return s.recv(100)
for path in ['/run/deckhand/init.sock', '/run/deckhand/egress.sock', '/proc/1/root/run/deckhand/init.sock', '@DATA@/jails/@VICTIM@/state/init.sock', '@DATA@/s', '@CONTAINERD@', '@CONTAINERD@.ttrpc', '/run/containerd/containerd.sock', '/run/dbus/system_bus_socket', '/run/systemd/private', '/var/run/docker.sock', '\0@ABSTRACT@', '\0/containerd-shim/@ATTACKER@.sock']:
    attempt(path, lambda: connect(socket.AF_UNIX, path))
attempt('tcp', lambda: connect(socket.AF_INET, ('127.0.0.1', @PORT@)))
attempt('metadata', lambda: connect(socket.AF_INET, ('169.254.169.254', 80)))
attempt('ipv6', lambda: connect(socket.AF_INET6, ('2606:4700:4700::1111', 80)))
names = [l.split()[-1] for l in open('/proc/net/unix') if '@' in l]
print('abstract sockets', names)
for n in names: attempt(n, lambda: connect(socket.AF_UNIX, '\0' + n[1:]))
`},
		"init's logs and exit states": {script: `
			for f in /run/deckhand /run/deckhand/execs /run/deckhand/execs/* /run/deckhand/execs/*/data; do cat $f; echo changed > $f; truncate -s 0 $f; rm -rf $f; mv $f /tmp/x; chmod 777 $f; ln $f /workspace/log; done
			for d in /run/deckhand/execs/@MINE@ /run/deckhand/execs/step_forged; do mkdir -p $d; printf '\\010\\001' > $d/exit; truncate -s 0 $d/data $d/exit $d/index; mv $d $d.x; done
			cat /run/deckhand/execs/@VICTIMEXEC@/data; ls -la /run/deckhand; cd /run/deckhand && pwd && cat execs/*/data
			touch /run/x /run/deckhand.new; mv /run/deckhand /run/other; rmdir /run/deckhand`},
		"a mount": {python: `
for name, args in {
    'tmpfs': (165, b'none', b'/tmp', b'tmpfs', 0, 0), 'bind': (165, b'/', b'/tmp', 0, 4096, 0), 'remount': (165, 0, b'/', 0, 32 | 4096, 0),
    'proc': (165, b'proc', b'/tmp', b'proc', 0, 0), 'umount /proc': (166, b'/proc', 2), 'umount /run/deckhand': (166, b'/run/deckhand', 2),
    'propagation': (165, 0, b'/', 0, 1 << 20 | 16384, 0), 'pivot_root': (155, b'/workspace', b'/workspace'), 'chroot': (161, b'/workspace'),
    'fsopen': (430, b'tmpfs', 0), 'open_tree clone': (428, -100, b'/', 1), 'move_mount': (429, -100, b'/usr', -100, b'/tmp', 0),
    'mount_setattr': (442, -100, b'/', 0, ctypes.create_string_buffer(32), 32), 'fspick': (433, -100, b'/', 0),
}.items(): call(name, *args)
`},
		"namespaces, a user's and then a mount": {python: `
for name, flag in {'user': 0x10000000, 'mount': 0x20000, 'user and mount': 0x10020000, 'pid': 0x20000000, 'net': 0x40000000, 'ipc': 0x8000000, 'uts': 0x4000000, 'cgroup': 0x2000000}.items():
    call('unshare ' + name, 272, flag)
    pid = libc.syscall(56, flag | 17, 0, 0, 0, 0)
    if pid == 0:
        r = libc.mount(b'none', b'/tmp', b'tmpfs', 0, 0)
        print('OPEN clone', name, 'mount', r, flush=True); os._exit(0)
    if pid > 0: os.waitpid(pid, 0)
    args = struct.pack('QQQQQQQQQQQ', flag, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    pid = libc.syscall(435, args, len(args))
    if pid == 0: print('OPEN clone3', name, flush=True); os._exit(0)
    if pid > 0: os.waitpid(pid, 0)
for ns in ['mnt', 'pid', 'net', 'user', 'ipc', 'uts', 'cgroup', 'time']:
    try: fd = os.open('/proc/self/ns/' + ns, os.O_RDONLY)
    except OSError: continue
    call('setns ' + ns, 308, fd, 0)
`},
		"tracing init and its stub": {python: `
buf = ctypes.create_string_buffer(64)
iov = struct.pack('QQ', ctypes.addressof(buf), 64)
for who, pid in {'init': 1, 'stub': stub}.items():
    call('attach ' + who, 101, 16, pid, 0, 0)
    call('seize ' + who, 101, 0x4206, pid, 0, 0)
    for base in (0x400000, 0xc000000000):
        call('vm_readv ' + who, 310, pid, iov, 1, struct.pack('QQ', base, 64), 1, 0)
        call('vm_writev ' + who, 311, pid, iov, 1, struct.pack('QQ', base, 64), 1, 0)
    fd = libc.syscall(434, pid, 0)
    if fd >= 0:
        for n in range(32): call('getfd %s %d' % (who, n), 438, fd, n, 0)
        call('pidfd kill ' + who, 424, fd, 9, 0, 0)
        call('madvise ' + who, 440, fd, iov, 1, 21, 0)
    call('kcmp ' + who, 312, os.getpid(), pid, 2, 0, 0)
    call('prlimit ' + who, 302, pid, 7, struct.pack('QQ', 1, 1), 0)
    call('setpriority ' + who, 141, 0, pid, 19)
    for sig in (1, 2, 3, 9, 10, 15, 17, 19, 20): call('kill ' + who, 62, pid, sig)
`},
		"links out of the workspace": {script: `
			cd /workspace; ln -s @DATA@/open-secret a; ln -s @WORKSPACE@ b; ln -s / c; ln -s /proc/1/root d; ln -s ../../../../../../../../.. e
			cat a b/theirs c@DATA@/open-secret d@DATA@/open-secret e@DATA@/open-secret e/etc/shadow
			echo changed > a; echo changed > b/theirs; echo changed > e@DATA@/open-secret
			for f in /etc/passwd /.deckhand-init /usr/bin/env /run/deckhand/init.sock /proc/1/exe; do ln $f hard && echo OPEN hard link $f && rm -f hard; done
			mv /workspace /elsewhere; rm -rf /workspace; rmdir /workspace; ln -sfn @DATA@ /workspace; rm -f a b c d e`},
		"device nodes": {python: `
for path, mode, dev in [('disk', 0o60666, (8, 0)), ('loop', 0o60666, (7, 0)), ('mem', 0o20666, (1, 1)), ('kmsg', 0o20666, (1, 11)), ('null', 0o20666, (1, 3))]:
    for d in ('/workspace/', '/tmp/', '/dev/', '/dev/shm/'):
        attempt('mknod ' + d + path, lambda: os.mknod(d + path, mode, os.makedev(*dev)))
for path in ['/dev/sda', '/dev/vda', '/dev/nvme0n1', '/dev/loop0', '/dev/loop-control', '/dev/mem', '/dev/kmem', '/dev/port', '/dev/kmsg', '/dev/fuse', '/dev/kvm', '/dev/net/tun', '/dev/mapper/control', '/dev/vhost-net', '/dev/uinput', '/proc/kcore', '/proc/kmsg']:
    attempt(path, lambda: os.open(path, os.O_RDONLY))
    attempt(path, lambda: os.open(path, os.O_RDWR))
`},
		"cgroups and their release agent": {script: `
			for d in $(find /sys/fs/cgroup -type d 2>/dev/null) /sys/fs/cgroup; do
				for f in release_agent notify_on_release cgroup.procs tasks devices.allow freezer.state cgroup.freeze memory.limit_in_bytes memory.max pids.max cgroup.kill cgroup.subtree_control; do
					(echo 1 > $d/$f) 2>/dev/null && echo OPEN $d/$f
				done
				mkdir $d/x 2>/dev/null && echo OPEN mkdir $d/x
			done; true`},
		"the kernel's settings": {script: `
			for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/kernel/hostname /proc/sys/kernel/hotplug /proc/sys/kernel/ns_last_pid /proc/sys/vm/drop_caches /proc/sys/net/ipv4/ip_forward /proc/sys/fs/binfmt_misc/register /proc/sysrq-trigger /proc/irq/default_smp_affinity /sys/kernel/uevent_helper /sys/power/state /sys/kernel/mm/transparent_hugepage/enabled /sys/module/*/parameters/* /proc/sys/kernel/yama/ptrace_scope /sys/kernel/debug/x /sys/kernel/security/x /sys/firmware/efi/efivars/x /proc/acpi/x /proc/scsi/scsi /proc/bus/pci/x; do
				(echo '|/workspace/x' > $f) 2>/dev/null && echo OPEN $f
			done; true`},
		"keyrings": {python: `
call('add_key', 248, b'user', b'mine', b'x', 1, -4)
call('request_key', 249, b'user', b'@KEY@', 0, -4)
for ring in (-1, -2, -3, -4, -5, -6):
    call('search', 250, 10, ring, b'user', b'@KEY@', 0)
    buf = ctypes.create_string_buffer(4096)
    if call('read', 250, 11, ring, buf, 4096) >= 0: print(buf.raw)
call('join session', 250, 1, b'_uid.0')
for f in ('/proc/keys', '/proc/key-users'):
    try: print(open(f).read())
    except OSError as e: print(e)
`},
		"raw sockets and other families": {python: `
for name, family, kind, proto in [('icmp', 2, 3, 1), ('tcp', 2, 3, 6), ('packet', 17, 3, 768), ('packet dgram', 17, 2, 768), ('icmp6', 10, 3, 58), ('vsock', 40, 1, 0), ('bluetooth', 31, 3, 1), ('can', 29, 3, 1), ('xdp', 44, 3, 0)]:
    attempt(name, lambda: socket.socket(family, kind, proto))
nl = socket.socket(16, 3, 0)
nl.bind((0, 0))
nl.settimeout(2)
nl.send(struct.pack('IHHII', 36, 16, 0x605, 1, 0) + struct.pack('BBHiII', 0, 0, 0, 0, 0, 0) + struct.pack('HHI', 8, 29, 0))
print('netlink', struct.unpack('i', nl.recv(100)[16:20]))
`},
		"modules, and what else only the kernel's master may": {python: `
buf = ctypes.create_string_buffer(256)
fd = os.open('/usr/bin/env', os.O_RDONLY)
for name, args in {
    'init_module': (175, buf, 256, b''), 'finit_module': (313, fd, b'', 0), 'delete_module': (176, b'loop', 0), 'kexec_load': (246, 0, 0, 0, 0), 'kexec_file_load': (320, fd, fd, 0, b'', 0),
    'bpf': (321, 0, buf, 72), 'bpf prog': (321, 5, buf, 72), 'perf_event_open': (298, buf, 0, -1, -1, 0), 'userfaultfd': (323, 0), 'open_by_handle_at': (304, fd, buf, 0), 'name_to_handle_at': (303, -100, b'/', buf, buf, 0x400),
    'iopl': (172, 3), 'ioperm': (173, 0, 1, 1), 'swapon': (167, b'/workspace', 0), 'reboot': (169, 0xfee1dead, 672274793, 0, 0), 'sethostname': (170, b'x', 1), 'settimeofday': (164, struct.pack('qq', 0, 0), 0), 'clock_settime': (227, 0, struct.pack('qq', 0, 0)), 'adjtimex': (159, struct.pack('I', 1) + bytes(204)),
    'acct': (163, b'/workspace/x'), 'quotactl': (179, 0x800002 << 8, b'/dev/loop0', 0, 0), 'syslog': (103, 3, buf, 256), 'lookup_dcookie': (212, 0, buf, 256), 'io_uring_setup': (425, 1, buf), 'fanotify_init': (300, 0, 0),
    'setuid': (105, 0), 'setgid': (106, 0), 'setgroups': (116, 1, struct.pack('I', 0)), 'capset': (126, struct.pack('Ii', 0x20080522, 0), struct.pack('IIIIII', 1 << 21, 1 << 21, 0, 0, 0, 0)), 'nice': (141, 0, 0, -20), 'mlockall': (151, 1) , 'vhangup': (153,), 'prctl no_new_privs off': (157, 38, 0, 0, 0, 0), 'seccomp off': (157, 22, 0, 0, 0, 0),
}.items():
    if name in ('mlockall',): continue
    call(name, *args)
`},
		"setuid programs of one's own": {script: `
			cd /workspace; cp /usr/bin/id . ; chmod 6755 id; ./id | grep -a euid && echo OPEN setuid; chown 0:0 id && echo OPEN chown; rm -f id
			su root -c id 2>/dev/null | grep -a uid=0 && echo OPEN su; newgrp root 2>/dev/null </dev/null; setpriv --reuid 0 id 2>/dev/null | grep uid=0 && echo OPEN setpriv; true`},
	} {
		t.Run(name, func(t *testing.T) {
			script := s.vars.Replace(tc.script)
			if tc.python != "" {
				script = "cat > /tmp/attack.py <<'EOF'\n" + prelude + s.vars.Replace(tc.python) + "\nEOF\npython3 /tmp/attack.py"
			}
			_, text := sh(t, s.m, s.attacker, "("+script+") 2>&1")
			require.NotContains(t, text, s.secret, "it was read")
			for line := range strings.SplitSeq(text, "\n") {
				allowed := slices.ContainsFunc(open, func(begin string) bool { return strings.HasPrefix(line, begin) })
				require.False(t, strings.HasPrefix(line, "OPEN") && !allowed, "the kernel let it through: %s", line)
			}
			require.NotContains(t, text, "Traceback", "the attack itself is broken")
			require.Equal(t, before, s.print(), "it was changed")
			require.ElementsMatch(t, s.victimPids, s.commandsOf(s.victim), "the neighbour's processes go on")
			status, text := sh(t, s.m, s.victim, "cat /workspace/theirs /tmp/theirs")
			require.Zero(t, status.GetExitCode())
			require.Equal(t, s.secret+"\n"+s.secret+"\n", text)
			status, _ = sh(t, s.m, s.attacker, "exit 0")
			require.Zero(t, status.GetExitCode(), "its own init serves on")
		})
	}
}

// A fork storm is one jail's own business: the host, and the neighbour,
// continue.
func TestAForkStormLeavesTheHostUsable(t *testing.T) {
	t.Parallel()
	m := jailtest.Manager(t, jailtest.Config(t))
	stormy := ensure(t, m, func(spec *nodev1.JailSpec) { spec.Pids, spec.CpuMillis = 200, 500 })
	calm := ensure(t, m)
	storm := begin(t, m, stormy, `echo storm; exec python3 -c '
import os
while True:
    try: os.fork()
    except OSError: pass'`)
	until(t, m, stormy, storm, "storm")
	eventually(t, func() bool {
		pids, err := m.Processes(t.Context(), stormy)
		return err == nil && len(pids) >= 190
	}, "a storm at its limit")
	for range 20 {
		begun := time.Now()
		require.NoError(t, exec.Command("true").Run())
		status, _ := sh(t, m, calm, "exit 5")
		require.EqualValues(t, 5, status.GetExitCode())
		require.Less(t, time.Since(begun), waittest.Limit(30*time.Second), "nobody is starved")
	}
	pids, err := m.Processes(t.Context(), stormy)
	require.NoError(t, err)
	require.LessOrEqual(t, len(pids), 240, "its limit, and its init's threads")
	begun := time.Now()
	_, err = m.Stop(t.Context(), stormy)
	require.NoError(t, err)
	require.Less(t, time.Since(begun), waittest.Limit(15*time.Second))
	requireGone(t, pids)
}

// What one jail fills is its own, to the byte.
func TestAJailFillsItsOwnDiskOnly(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	if !m.HardWorkspaces() {
		t.Skip("workspaces have no hard limit here: mkfs.ext4 is missing")
	}
	full, other := ensure(t, m), ensure(t, m)
	for name, tc := range map[string]struct {
		script string
		least  int64 // of what must have been written before it was full
	}{
		"the workspace":          {"head -c 1G /dev/zero > /workspace/fill; stat -c %s /workspace/fill; rm /workspace/fill", 32 << 20},
		"a sparse file's blocks": {"truncate -s 1G /workspace/fill; fallocate -l 1G /workspace/fill; dd if=/dev/zero of=/workspace/fill bs=1M conv=notrunc status=none; du -B1 /workspace/fill | cut -f1; rm /workspace/fill", 32 << 20},
		"/tmp":                   {"head -c 1G /dev/zero > /tmp/fill; stat -c %s /tmp/fill; rm /tmp/fill", 60 << 20},
		"/dev/shm":               {"head -c 1G /dev/zero > /dev/shm/fill; stat -c %s /dev/shm/fill; rm /dev/shm/fill", 60 << 20},
		"the workspace's inodes": {`python3 -c '
import os
n = 0
try:
    while n < 1000000: os.mknod("/workspace/d%d" % n); n += 1
except OSError as e: pass
for i in range(n): os.unlink("/workspace/d%d" % i)
print(n)'`, 1000},
		"the root and its folders": {"for d in / /usr /etc /run /dev /sys /proc /var /run/deckhand; do (echo x > $d/fill) 2>/dev/null && echo 1G; done; echo 0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, text := sh(t, m, full, "("+tc.script+") 2>&1 | tail -1")
			var size int64
			_, err := fmt.Sscan(text, &size)
			require.NoError(t, err, text)
			require.GreaterOrEqual(t, size, tc.least)
			require.Less(t, size, int64(70<<20))
			require.NotContains(t, text, "G")
			status, _ := sh(t, m, other, "head -c 1M /dev/zero > /workspace/room && head -c 1M /dev/zero > /tmp/room && rm /workspace/room /tmp/room")
			require.Zero(t, status.GetExitCode(), "the neighbour has its room")
		})
	}
	info, err := os.Stat(filepath.Join(cfg.DataDir, "jails", full, "workspace.ext4"))
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(64<<20))
}
