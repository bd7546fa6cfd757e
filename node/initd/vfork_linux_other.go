//go:build !amd64 && !arm64

package initd

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const vforkFlags = unix.CLONE_VFORK | uintptr(unix.SIGCHLD)

//go:norace
//go:nosplit
func rawVfork(flags uintptr) (pid, errno uintptr) {
	pid, _, e := syscall.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	return pid, uintptr(e)
}
