package exec_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// What a command tries against its walls, and what must hold after.
func TestACommandStaysInItsJail(t *testing.T) {
	jailtest.Differs(t, jail.DifferKernel)
	oneCommand(t)
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	other := n.ensure()
	n.sh(other, "echo secret > /workspace/theirs")
	otherWorkspace, err := n.jails.Workspace(other)
	require.NoError(t, err)
	workspace, err := n.jails.Workspace(id)
	require.NoError(t, err)

	for name, tc := range map[string]struct {
		script string
		// says must be in the output, not must not.
		says, not string
		fails     bool
	}{
		"the host's passwords are not there":      {script: "ls /etc/shadow /etc/ssh /etc/gshadow", says: "No such file", fails: true},
		"the host's accounts are not there":       {script: "cat /etc/passwd", not: "postgres"},
		"nobody's home is there":                  {script: "ls /root /home /boot /opt", says: "No such file", fails: true},
		"the node's data is not there":            {script: "ls " + n.cfg.DataDir, says: "No such file", fails: true},
		"another jail's workspace is not there":   {script: "ls " + otherWorkspace, says: "No such file", fails: true},
		"containerd's socket is not there":        {script: "ls " + n.cfg.Containerd + " /run/containerd", says: "No such file", fails: true},
		"init's state cannot be listed":           {script: "ls /run/deckhand", says: "Permission denied", fails: true},
		"init's socket cannot be reached":         {script: `python3 -c "import socket; socket.socket(socket.AF_UNIX).connect('/run/deckhand/init.sock')"`, says: "PermissionError", fails: true},
		"its own log cannot be written":           {script: "echo x >> /run/deckhand/execs/x/data", says: "Permission denied", fails: true},
		"init's root cannot be entered":           {script: "ls /proc/1/root/", says: "Permission denied", fails: true},
		"init's files cannot be listed":           {script: "ls /proc/1/fd", says: "Permission denied", fails: true},
		"init cannot be killed":                   {script: "kill -9 1 && sleep 0.2; kill -TERM 1", says: "ermitted", fails: true},
		"its stub cannot be killed":               {script: "kill -9 $PPID", says: "ermitted", fails: true},
		"init cannot be traced":                   {script: `python3 -c "import ctypes; l=ctypes.CDLL(None, use_errno=True); r=l.ptrace(16,1,0,0); print('errno', ctypes.get_errno(), r)"`, says: "errno 1 -1"},
		"there is no network":                     {script: `python3 -c "import socket; s=socket.socket(); s.settimeout(2); s.connect(('1.1.1.1', 80))"`, says: "unreachable", fails: true},
		"only loopback is there":                  {script: "cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' \\n'", says: "lo"},
		"a raw socket is refused":                 {script: `python3 -c "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"`, says: "PermissionError", fails: true},
		"nothing can be mounted":                  {script: "mount -t tmpfs none /tmp", fails: true},
		"no user namespace can be nested":         {script: "unshare -Ur true", fails: true},
		"the root is read-only":                   {script: "touch /x /usr/x /etc/x /.deckhand-init", fails: true},
		"the skills cannot be changed":            {script: "echo x > /.deckhand-skill", fails: true},
		"setuid programs give nothing":            {script: "su -c id; id -u", says: "1000", not: "uid=0"},
		"no capability is left":                   {script: "grep CapEff /proc/self/status", says: "0000000000000000"},
		"no new privileges":                       {script: "grep NoNewPrivs /proc/self/status", says: "1"},
		"seccomp is on":                           {script: "grep Seccomp: /proc/self/status", says: "2"},
		"no device can be made":                   {script: "mknod /workspace/disk b 8 0", fails: true},
		"the kernel's settings cannot be changed": {script: "echo x > /proc/sys/kernel/core_pattern", fails: true},
		"the kernel's keys are masked":            {script: "cat /proc/keys", not: "keyring"},
		"no cgroup can be written":                {script: "find /sys/fs/cgroup -writable 2>/dev/null | head -1 | grep .", fails: true},
		"the host's name is not told":             {script: "hostname", says: id},
		"processes of others are not seen":        {script: "ls /proc | grep -c '^[0-9]'; cat /proc/*/cmdline | tr '\\0' ' '", not: "containerd"},
		"the workspace is its own":                {script: "echo hello > mine && cat /workspace/mine && stat -c %U mine", says: "hello\nagent"},
		"/tmp is there":                           {script: "echo tmp > /tmp/x && cat /var/tmp/x", says: "tmp"},
		"/tmp is bounded":                         {script: "head -c 100M /dev/zero > /tmp/big; r=$?; rm /tmp/big; exit $r", says: "No space left", fails: true},
		"the workspace is bounded":                {script: "head -c 100M /dev/zero > /workspace/big; r=$?; rm /workspace/big; exit $r", says: "No space left", fails: true},
		"the programs of the machine are there":   {script: "python3 --version && perl -v >/dev/null && ls /usr/bin/env && getent passwd agent", says: "/workspace"},
		"certificates are there, keys are not":    {script: "ls /etc/ssl/certs | head -1 | grep . && ls /etc/ssl/private", says: "No such file", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{tb: t, api: n.api}
			out, text := n.run(shell(id, tc.script))
			require.Contains(t, text, tc.says)
			if tc.not != "" {
				require.NotContains(t, text, tc.not)
			}
			require.Equal(t, tc.fails, out.GetExitCode() != 0 || out.GetSignal() != 0, "exit code %d: %s", out.GetExitCode(), text)
		})
	}

	// The daemon's own view of the workspace: links that a command left do not
	// lead its log reader anywhere.
	n.sh(id, "ln -s /etc/shadow /workspace/link")
	target, err := os.Readlink(filepath.Join(workspace, "link"))
	require.NoError(t, err)
	require.Equal(t, "/etc/shadow", target)
	raw, err := os.ReadFile(filepath.Join(otherWorkspace, "theirs"))
	require.NoError(t, err)
	require.Equal(t, "secret\n", string(raw))
}

// What a persona shows of the host is there, and read-only.
func TestAFolderOfTheHostIsShownReadOnly(t *testing.T) {
	jailtest.Differs(t, jail.DifferKernel) // node/jail TestAGVisorJailShowsFoldersReadOnly
	t.Parallel()
	n := newNode(t)
	id := n.ensure(func(s *nodev1.JailSpec) { s.ReadOnlyPaths = []string{"/var/log"} })
	code, text := n.sh(id, "ls /var/log && touch /var/log/x")
	require.NotZero(t, code)
	require.Contains(t, text, "dpkg.log")
	require.Contains(t, text, "ead-only file system")
}

// What is mounted below a folder that is shown is as read-only as the folder.
func TestWhatIsMountedBelowAShownFolderIsReadOnly(t *testing.T) {
	jailtest.Differs(t, jail.DifferKernel)
	oneCommand(t)
	t.Parallel()
	dir, err := os.MkdirTemp("/opt", "deckhand-")
	require.NoError(t, err)
	below := filepath.Join(dir, "below")
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Mkdir(below, 0o755))
	require.NoError(t, unix.Mount("tmpfs", below, "tmpfs", 0, "mode=1777"))
	t.Cleanup(func() {
		require.NoError(t, unix.Unmount(below, unix.MNT_DETACH))
		require.NoError(t, os.RemoveAll(dir))
	})
	require.NoError(t, os.WriteFile(filepath.Join(below, "here"), []byte("what is mounted"), 0o666))
	n := prepared(t)
	n.cfg.ShowPaths = []string{dir}
	n.start()
	id := n.ensure(func(s *nodev1.JailSpec) { s.ReadOnlyPaths = []string{dir} })
	code, text := n.sh(id, "cat "+below+"/here; echo changed > "+below+"/here; touch "+below+"/x")
	require.NotZero(t, code)
	require.Equal(t, 2, strings.Count(text, "ead-only file system"), text)
	require.Contains(t, text, "what is mounted", "wherever the errors stand, which have a stream of their own")
}

// A service that begins to listen in a folder after a jail was shown it is not
// reached from the jail.
func TestASocketInAShownFolderIsNotReached(t *testing.T) {
	jailtest.Differs(t, jail.DifferKernel)
	oneCommand(t)
	t.Parallel()
	dir, err := os.MkdirTemp("/opt", "deckhand-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh\necho it runs\n"), 0o755))
	n := prepared(t)
	n.cfg.ShowPaths = []string{dir}
	n.start()
	id := n.ensure(func(s *nodev1.JailSpec) { s.ReadOnlyPaths = []string{dir} })
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, os.Chmod(filepath.Join(dir, "socket"), 0o777))
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Chmod(pipe, 0o666))
	out, text := n.run(command(id, "python3", "-c", `import os, socket, sys
d = sys.argv[1]
print(open(d + "/file").read(), os.popen(d + "/run").read())
for name, do in {
    "socket": lambda: socket.socket(socket.AF_UNIX).connect(d + "/socket"),
    "pipe": lambda: os.open(d + "/pipe", os.O_WRONLY | os.O_NONBLOCK),
    "pipe, both ways": lambda: os.open(d + "/pipe", os.O_RDWR | os.O_NONBLOCK),
}.items():
    try: do(); print(name, "OPEN")
    except OSError as e: print(name, e.strerror)`, dir))
	require.Zero(t, out.GetExitCode(), text)
	require.Equal(t, "text it runs\n\nsocket Permission denied\npipe Permission denied\npipe, both ways Permission denied\n", text)
	left, err := filepath.Glob(filepath.Join(n.cfg.DataDir, "jails", id, "shown"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A jail that takes all the inotify that it can leaves the machine and other
// jails theirs.
func TestAJailTakesNoInotifyFromOthers(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n := newNode(t)
	greedy, other := n.ensure(), n.ensure()
	raw, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	require.NoError(t, err)
	limit, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	require.NoError(t, err)
	take := `import ctypes, sys, time
libc = ctypes.CDLL(None)
n = 0
while libc.inotify_init() >= 0: n += 1
print("got", n, flush=True)
time.sleep(float(sys.argv[1]))`
	spec := command(greedy, "python3", "-c", take, "3333")
	n.startExec(spec)
	n.until(spec.GetExecId(), "\n")
	var got int
	_, err = fmt.Sscanf(string(n.log(spec.GetExecId(), false)[0]), "got %d", &got)
	require.NoError(t, err)
	require.LessOrEqual(t, got, max(limit/8, 8), "an eighth of the machine's is a jail's")
	// Everything else on this machine has its share as well, and may have all of the rest
	// for a moment.
	n.eventually(func() bool {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err == nil {
			require.NoError(t, unix.Close(fd))
		}
		return err == nil
	}, "the machine to have some left")
	n.eventually(func() bool {
		out, text := n.run(command(other, "python3", "-c", take, "0"))
		require.Zero(t, out.GetExitCode())
		return !strings.HasPrefix(text, "got 0")
	}, "the other jail to have some left")
}

// A jail is held to its memory, and the exec says what happened.
func TestAHogDiesAndSaysWhy(t *testing.T) {
	jailtest.Differs(t, jail.DifferMemory)
	oneCommand(t)
	t.Parallel()
	n := newNode(t)
	id := n.ensure(func(s *nodev1.JailSpec) { s.MemoryBytes = 64 << 20 })
	bystander := shell(id, "echo here; sleep 3333")
	n.startExec(bystander)
	n.until(bystander.GetExecId(), "here\n")
	for _, spec := range []*nodev1.ExecSpec{
		command(id, "python3", "-c", "x = bytearray(512 << 20)"),
		shell(id, "python3 -c 'x = bytearray(512 << 20)'; exit $?"),
	} {
		out, _ := n.run(spec)
		require.Equal(t, nodev1.EndReason_END_REASON_OUT_OF_MEMORY, out.GetEndReason(), "%v", out)
	}
	resp, err := n.api.GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: bystander.GetExecId()})
	require.NoError(t, err)
	require.Equal(t, nodev1.ExecState_EXEC_STATE_RUNNING, resp.GetExec().GetState(), "a bystander died with it")
}

// A fork storm ends at the jail's limit; init lives, says so, and ends it.
func TestAForkStormIsHeldAndEnded(t *testing.T) {
	jailtest.Differs(t, jail.DifferPIDs)
	oneCommand(t)
	t.Parallel()
	n := newNode(t)
	id := n.ensure(func(s *nodev1.JailSpec) { s.Pids = 64 })
	// Not bash's: that one dies back when it cannot fork. Its pauses leave the tests
	// beside it a processor, also once nothing can be forked any more.
	storm := command(id, "perl", "-e", `$| = 1; print "storm\n"; while (1) { select undef, undef, undef, defined(fork) ? 0.02 : 0.5 }`)
	n.startExec(storm)
	n.until(storm.GetExecId(), "storm\n")
	n.eventually(func() bool {
		spec := command(id, "true")
		n.startExec(spec)
		out := n.wait(spec.GetExecId())
		return strings.Contains(out.GetStartError(), "limit of pids")
	}, "no processes left")
	resp, err := n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: storm.GetExecId(), By: "operator"})
	require.NoError(t, err)
	require.Equal(t, nodev1.EndReason_END_REASON_KILLED, resp.GetExec().GetEndReason(), "%v", resp.GetExec())
	require.Zero(t, resp.GetExec().GetMembersLeft())
	out, _ := n.run(command(id, "true"))
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, out.GetEndReason(), "%v", out)
}
