//go:build !amd64 && !arm64

package initd

import "golang.org/x/sys/unix"

// There are no jails on other processors yet.

func rawStub(_, _ uintptr) (pid, errno uintptr) { return 0, uintptr(unix.ENOSYS) }

//go:norace
//go:nosplit
func rawVfork(uintptr) (pid, errno uintptr) { return 0, uintptr(unix.ENOSYS) }
