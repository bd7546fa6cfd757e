package initd

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A stub is a process of its own in init's memory, on a stack of its own:
// copying the memory, or starting a program, would cost more than the command,
// and this way one that waits costs next to nothing. It has one thread and none
// of Go's runtime, so everything below runs on raw system calls: it must not
// allocate, grow its stack, take a lock or call anything that does. All signals
// are blocked before it is made, since the runtime's handlers could not run.

// stubArgs are the arguments of a stub. They and everything they point to must
// not change until the stub has reported that the command runs, or is gone.
type stubArgs struct {
	// Read at once.
	stdio [3]uintptr // above 2
	line  uintptr    // above 2
	maxFD uintptr
	// namespace is the user namespace that the command enters, above namespaceFD; 0 for
	// none.
	namespace uintptr
	// Read when the stub is told to start the command.
	paths  []*byte // candidates for the program, tried in order
	argv   **byte
	envv   **byte
	dir    *byte
	become []systemCall // gives up init's user for the command's
	tty    uintptr      // 1 when stdio is a terminal, to be the command's own
	// The stub's own, for the names of its files.
	names [512]byte
}

// systemCall is a system call that a stub makes. What its arguments point to is kept by
// who made it.
type systemCall struct {
	number uintptr
	args   [3]uintptr
}

// namespaceFD is the descriptor of the commands' user namespace in a stub.
const namespaceFD = 4

// stubStack is the size of a stub's stack. The linker limits what it calls to
// less than 1 KiB, as for every function that must not grow its stack.
const stubStack = 4 << 10

// stubFlags make a process that shares init's memory and nothing else.
const stubFlags = unix.CLONE_VM | uintptr(unix.SIGCHLD)

// vforkFlags make a child that uses its parent's memory until it executes a
// program, with its parent standing still.
const vforkFlags = unix.CLONE_VFORK | unix.CLONE_VM | uintptr(unix.SIGCHLD)

// report is what a stub says on its line, in this order: failed alone, or
// started and later exited. The line ends when the stub does.
type report struct {
	kind  reportKind
	value int32 // failed: a step; started: the PID; exited: the wait status
	errno int32 // failed
	_     int32
}

type reportKind int32

const (
	reportFailed reportKind = iota + 1
	reportStarted
	reportExited
)

const reportSize = unsafe.Sizeof(report{})

// The steps of a start that may fail.
const (
	stepFork = iota
	stepUser
	stepDir
	stepExec
)

// oomScore makes the kernel choose a command over init when the jail, or the
// machine, is out of memory.
const oomScore = "300"

var (
	oomPath   = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'o', 'o', 'm', '_', 's', 'c', 'o', 'r', 'e', '_', 'a', 'd', 'j', 0}
	filesPath = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'f', 'd', 0}

	oomValue = [...]byte{oomScore[0], oomScore[1], oomScore[2]}

	defaultAction [4]uint64 // as rt_sigaction(2) takes it
	noSignals     uint64
)

// forkStub makes a stub and returns its PID. Both args and stack are the stub's
// until it is gone.
func forkStub(args *stubArgs, stack *[stubStack]byte) (int, syscall.Errno) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// This is where a function that is called with this stack pointer expects
	// its argument: there on amd64, one word above on arm64.
	top := (uintptr(unsafe.Pointer(stack)) + stubStack - 2*unsafe.Sizeof(args)) &^ 15
	place := (*[2]*stubArgs)(unsafe.Pointer(&stack[top-uintptr(unsafe.Pointer(stack))]))
	place[0], place[1] = args, args
	pid, errno := rawForkStub(top)
	runtime.KeepAlive(args)
	runtime.KeepAlive(stack)
	return int(pid), errno
}

//go:norace
//go:nosplit
//go:noinline
func rawForkStub(top uintptr) (uintptr, syscall.Errno) {
	var all, old uint64
	all = ^uint64(0)
	_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
		uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	pid, failed := rawStub(stubFlags, top)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	return pid, syscall.Errno(failed)
}

// runStub is the stub. It does not return.
//
//go:norace
//go:nosplit
//go:noinline
func runStub(args *stubArgs) {
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0)
	// Handlers would not survive the command's exec; they must not run before
	// it either.
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&defaultAction)), 0, 8, 0, 0)
	}
	// No file descriptor of init may stay open here: a pipe of another exec
	// would never end.
	for fd := uintptr(0); fd < 3; fd++ {
		syscall.RawSyscall(unix.SYS_DUP3, args.stdio[fd], fd, 0)
	}
	if args.line != 3 {
		syscall.RawSyscall(unix.SYS_DUP3, args.line, 3, unix.O_CLOEXEC)
	}
	first := uintptr(4)
	if args.namespace != 0 {
		syscall.RawSyscall(unix.SYS_DUP3, args.namespace, namespaceFD, unix.O_CLOEXEC)
		first = namespaceFD + 1
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, first, uintptr(^uint32(0)), 0); errno != 0 {
		closeFrom(args, first)
	}
	// Wait until there is a command for it, or init is gone.
	for {
		var word byte
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, 3, uintptr(unsafe.Pointer(&word)), 1)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 || n != 1 {
			exit(0)
		}
		break
	}
	// This continues when the command has been executed, or failed to be and
	// has said so.
	child, errno := rawVfork(vforkFlags)
	if errno != 0 {
		sendReport(reportFailed, stepFork, syscall.Errno(errno))
		exit(1)
	}
	if child == 0 {
		runCommand(args)
	}
	sendReport(reportStarted, child, 0)
	for fd := uintptr(0); fd < 3; fd++ {
		syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
	for {
		var status uint32
		pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), unix.WALL, 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			exit(0) // ECHILD: the whole tree is gone
		}
		if pid == child {
			sendReport(reportExited, uintptr(status), 0)
		}
	}
}

// closeFrom closes what /proc says is open from a number on, for kernels without close_range: to
// close every number there is would be 65 536 system calls.
//
//go:norace
//go:nosplit
//go:noinline
func closeFrom(args *stubArgs, first uintptr) {
	dir, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(unix.AT_FDCWD&(1<<64-1)),
		uintptr(unsafe.Pointer(&filesPath)), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		for fd := first; fd < args.maxFD; fd++ {
			syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		}
		return
	}
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_GETDENTS64, dir, uintptr(unsafe.Pointer(&args.names)), unsafe.Sizeof(args.names))
		if errno != 0 || n == 0 {
			break
		}
		// A struct linux_dirent64: two numbers of 8 bytes, the length of the entry, a
		// type, and the name with a NUL (getdents64(2)).
		for at := uintptr(0); at+19 < n && at+19 < uintptr(len(args.names)); {
			fd, digits := uintptr(0), false
			for i := at + 19; i < n && i < uintptr(len(args.names)) && args.names[i] >= '0' && args.names[i] <= '9'; i++ {
				fd, digits = fd*10+uintptr(args.names[i]-'0'), true
			}
			if digits && fd >= first && fd != dir {
				syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
			}
			length := uintptr(args.names[at+16]) | uintptr(args.names[at+17])<<8
			if length == 0 {
				break
			}
			at += length
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE, dir, 0, 0)
}

// runCommand becomes the command. It does not return.
//
//go:norace
//go:nosplit
//go:noinline
func runCommand(args *stubArgs) {
	step, errno := becomeCommand(args)
	fail(step, errno)
}

// becomeCommand returns if it fails.
//
//go:norace
//go:nosplit
//go:noinline
func becomeCommand(args *stubArgs) (step uintptr, errno syscall.Errno) {
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(unix.AT_FDCWD&(1<<64-1)),
		uintptr(unsafe.Pointer(&oomPath)), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno == 0 {
		syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&oomValue)), uintptr(len(oomScore)))
		syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	if args.tty != 0 {
		syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	}
	syscall.RawSyscall(unix.SYS_UMASK, 0o022, 0, 0)
	for i := 0; i < len(args.become); i++ {
		call := &args.become[i]
		if _, _, errno := syscall.RawSyscall(call.number, call.args[0], call.args[1], call.args[2]); errno != 0 {
			return stepUser, errno
		}
	}
	// Only now: a folder is entered with the command's rights.
	if _, _, errno := syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(args.dir)), 0, 0); errno != 0 {
		return stepDir, errno
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&noSignals)), 0, 8, 0, 0)
	// As execvp: one that may not be executed is said if no other can be.
	said := syscall.Errno(unix.ENOENT)
	for i := 0; i < len(args.paths); i++ {
		_, _, errno := syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(args.paths[i])),
			uintptr(unsafe.Pointer(args.argv)), uintptr(unsafe.Pointer(args.envv)))
		switch errno {
		case unix.ENOENT, unix.ENOTDIR:
		case unix.EACCES:
			said = errno
		default:
			return stepExec, errno
		}
	}
	return stepExec, said
}

//go:norace
//go:nosplit
func fail(step uintptr, errno syscall.Errno) {
	sendReport(reportFailed, step, errno)
	exit(127)
}

//go:norace
//go:nosplit
func sendReport(kind reportKind, value uintptr, errno syscall.Errno) {
	r := report{kind: kind, value: int32(value), errno: int32(errno)}
	syscall.RawSyscall(unix.SYS_WRITE, 3, uintptr(unsafe.Pointer(&r)), reportSize)
}

//go:norace
//go:nosplit
func exit(code uintptr) {
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, code, 0, 0)
	}
}
