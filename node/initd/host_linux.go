package initd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// Host mode is the same init outside a jail, for commands on the machine
// itself: a daemon that runs as root in its own cgroup. It is not PID 1, so it
// makes itself the subreaper of its stubs. When it dies, the kernel ends
// nothing: the daemon, when it detects that, ends the remaining processes in
// its cgroup.
//
// The daemon starts it in two steps. HostLaunch waits until its standard input
// ends, which is after it has been moved to its cgroup, and starts HostServe
// there, whose parent is then the machine's PID 1. HostLaunch writes the PID of
// HostServe to its standard output and exits.

// The arguments of host mode; each is followed by the state folder.
const (
	HostLaunch = "--host-launch"
	HostServe  = "--host-serve"
)

func hostMain(args []string) error {
	if len(args) == 2 && os.Geteuid() == 0 {
		switch args[0] {
		case HostLaunch:
			return hostLaunch(args[1])
		case HostServe:
			return hostServe(args[1])
		}
	}
	return errors.New("deckhand-init is started by deckhand-node")
}

func hostLaunch(state string) error {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return fmt.Errorf("wait for the cgroup: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	child, err := os.StartProcess(self, []string{self, HostServe, state}, &os.ProcAttr{ //nolint:gosec // itself, with a folder that the daemon made
		Dir: "/", Env: os.Environ(), Files: []*os.File{null, os.Stderr, os.Stderr},
		Sys: &unix.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start the init of host mode: %w", err)
	}
	_, err = fmt.Println(child.Pid)
	return err
}

func hostServe(state string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of commands: %w", err)
	}
	// By way of the open folder: a socket's path may be 108 bytes long, and
	// that of a data folder is not ours to choose.
	dir, err := os.Open(state)
	if err != nil {
		return err
	}
	defer dir.Close()
	return serve(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), place{host: true})
}

// hostDir is the default working directory of commands on the machine.
const hostDir = "/root"

// jailUser is the user id that the daemon requests if no user was named.
const jailUser = 1000

// onMachine returns a request as the machine takes it: by root unless another
// user was named, and with root's own folder and environment.
func onMachine(in *initv1.StartRequest) *initv1.StartRequest {
	req := proto.CloneOf(in)
	if req.GetUid() == jailUser {
		req.Uid, req.Gid = 0, 0
	}
	dir := req.GetDir()
	if dir == "" || dir == Workspace {
		req.Dir = "/"
		if info, err := os.Stat(hostDir); err == nil && info.IsDir() {
			req.Dir = hostDir
		}
	}
	req.Env = MergeEnv([]string{"HOME=" + hostDir, "USER=root", "LOGNAME=root"}, req.GetEnv())
	return req
}
