//go:build amd64 || arm64

package initd

import "golang.org/x/sys/unix"

// vforkFlags make a child that uses its parent's memory until it executes a
// program: copying it, only to throw the copy away, takes longer than all else
// that a stub does.
const vforkFlags = unix.CLONE_VFORK | unix.CLONE_VM | uintptr(unix.SIGCHLD)

// rawVfork is the system call clone. It returns twice, to the child first, on
// the same stack: neither may return from the function that called it before
// the child is gone from it.
//
//go:noescape
func rawVfork(flags uintptr) (pid, errno uintptr)
