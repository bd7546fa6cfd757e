package initd

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A stub is forked, not executed: starting a program for it would cost more
// than the command. The child of a fork of a Go process has one thread and no
// runtime, so everything below runs on raw system calls: it must not allocate,
// grow its stack, take a lock or call anything that does. All signals are
// blocked before the fork, since the runtime's handlers could not run.

// stubArgs is what a stub is told. Everything in it is allocated before the
// fork.
type stubArgs struct {
	paths    []*byte // candidates for the program, tried in order
	argv     **byte
	envv     **byte
	dir      *byte
	uid, gid uintptr
	stdio    [3]uintptr // above 2
	report   uintptr    // above 2
	maxFD    uintptr
	tty      uintptr // 1 when stdio is a terminal, to be the command's own
}

// report is what a stub says through its pipe, in this order: failed alone, or
// started and later exited. The pipe ends when the stub does.
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
	oomPath  = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'o', 'o', 'm', '_', 's', 'c', 'o', 'r', 'e', '_', 'a', 'd', 'j', 0}
	oomValue = [...]byte{oomScore[0], oomScore[1], oomScore[2]}
)

// forkStub forks a stub and answers its PID.
func forkStub(args *stubArgs) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, errno := rawForkStub(args)
	runtime.KeepAlive(args)
	if errno != 0 {
		return 0, errno
	}
	return int(pid), nil
}

//go:norace
//go:nosplit
//go:noinline
func rawForkStub(args *stubArgs) (uintptr, syscall.Errno) {
	var all, old uint64
	all = ^uint64(0)
	_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
		uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		runStub(args)
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	return pid, errno
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
	var action [4]uint64
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
	// Nothing of init's stays open here: a pipe of another exec would not end.
	for fd := uintptr(0); fd < 3; fd++ {
		syscall.RawSyscall(unix.SYS_DUP3, args.stdio[fd], fd, 0)
	}
	if args.report != 3 {
		syscall.RawSyscall(unix.SYS_DUP3, args.report, 3, unix.O_CLOEXEC)
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 4, uintptr(^uint32(0)), 0); errno != 0 {
		for fd := uintptr(4); fd < args.maxFD; fd++ {
			syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		}
	}
	// This goes on when the command has been executed, or failed to be and has
	// said so.
	child, errno := rawVfork(vforkFlags)
	if errno != 0 {
		say(reportFailed, stepFork, syscall.Errno(errno))
		exit(1)
	}
	if child == 0 {
		runCommand(args)
	}
	say(reportStarted, child, 0)
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
			say(reportExited, uintptr(status), 0)
		}
	}
}

// runCommand becomes the command. It does not return.
//
//go:norace
//go:nosplit
//go:noinline
func runCommand(args *stubArgs) {
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
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		fail(stepUser, errno)
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESGID, args.gid, args.gid, args.gid); errno != 0 {
		fail(stepUser, errno)
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, args.uid, args.uid, args.uid); errno != 0 {
		fail(stepUser, errno)
	}
	// Only now: a folder is entered with the command's rights.
	if _, _, errno := syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(args.dir)), 0, 0); errno != 0 {
		fail(stepDir, errno)
	}
	var none uint64
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
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
			fail(stepExec, errno)
		}
	}
	fail(stepExec, said)
}

//go:norace
//go:nosplit
func fail(step uintptr, errno syscall.Errno) {
	say(reportFailed, step, errno)
	exit(127)
}

//go:norace
//go:nosplit
func say(kind reportKind, value uintptr, errno syscall.Errno) {
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
