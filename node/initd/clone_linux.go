//go:build amd64 || arm64

package initd

// rawStub is the system call clone with a stack for the child, which calls
// runStub there. The child does not return from it.
//
//go:noescape
func rawStub(flags, stack uintptr) (pid, errno uintptr)

var _ = runStub

// rawVfork is the system call clone. It returns twice, to the child first, on
// the same stack: neither may return from the function that called it before
// the child is gone from it.
//
//go:noescape
func rawVfork(flags uintptr) (pid, errno uintptr)
