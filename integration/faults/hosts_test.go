package faults

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// host simulates a machine in the network: a network namespace with one cable to the
// switch. A nil host is this machine itself.
type host struct {
	name    string // of the namespace
	ip      string
	port    string // the cable's end at the switch
	network *network
}

func (h *host) path() string { return filepath.Join("/run/netns", h.name) }

// command returns a command that runs on the host. Its pid is the program's.
func (h *host) command(program string, args ...string) *exec.Cmd {
	if h == nil {
		return exec.Command(program, args...)
	}
	return exec.Command("nsenter", append([]string{"--net=" + h.path(), "--", program}, args...)...)
}

// within runs fn in the host's network: a socket that it opens stays there.
func (h *host) within(fn func() error) error {
	if h == nil {
		return fn()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	there, err := os.Open(h.path())
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", h.name, err)
	}
	err = fn()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		panic(back) // this thread would serve others from the wrong network
	}
	return err
}

// dial opens a connection from the host.
func (h *host) dial(ctx context.Context, networkName, address string) (conn net.Conn, err error) {
	err = h.within(func() error {
		// One address, and no name to resolve: it all happens on this thread.
		conn, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, networkName, address)
		return err
	})
	return conn, err
}

// listen opens a listener on the host.
func (h *host) listen(address string) (l net.Listener, err error) {
	err = h.within(func() error {
		l, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
		return err
	})
	return l, err
}
