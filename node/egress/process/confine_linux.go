package process

import (
	"fmt"
	"runtime/debug"
	"slices"
	"syscall"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

const (
	// memoryGoal is where the garbage collector works harder, and memoryMost where the
	// kernel gives the process no more; both in bytes.
	memoryGoal = 384 << 20
	memoryMost = 1 << 30
	// files is how many the process may have open, if the machine lets it: two for each
	// connection.
	files = 64 << 10
)

// calls are the system calls that the proxy may make: memory, threads, sockets, and files
// of its own folder and those that say how names are resolved and whom to trust. It may not
// run a program, look at another process, or change its rights.
var calls = []string{
	"accept4", "bind", "brk", "clock_gettime", "clock_nanosleep", "close", "connect", "dup", "dup2", "dup3", "epoll_create1", "epoll_ctl",
	"epoll_pwait", "epoll_wait", "eventfd2", "exit", "exit_group", "fchmod", "fcntl", "fdatasync", "flock", "fstat", "fsync", "ftruncate", "futex", "getdents64",
	"getegid", "geteuid", "getgid", "getpeername", "getpid", "getrandom", "getrlimit", "getrusage", "getsockname", "getsockopt", "gettid", "getuid", "listen",
	"lseek", "madvise", "membarrier", "mincore", "mkdirat", "mmap", "mprotect", "munmap", "nanosleep", "newfstatat", "openat", "pipe2", "poll", "ppoll", "pread64",
	"prlimit64", "pwrite64", "read", "readlinkat", "readv", "recvfrom", "recvmsg", "renameat", "renameat2", "restart_syscall", "rseq", "rt_sigaction",
	"rt_sigprocmask", "rt_sigreturn", "sched_getaffinity", "sched_yield", "sendfile", "sendmmsg", "sendmsg", "sendto", "set_robust_list", "setitimer",
	"setsockopt", "shutdown", "sigaltstack", "socket", "splice", "statx", "tgkill", "timer_create", "timer_delete", "timer_settime", "uname", "unlinkat",
	"write", "writev",
}

// confine gives up what the process may do as root.
func confine(uid uint32) error {
	debug.SetMemoryLimit(memoryGoal)
	for what, most := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_DATA: memoryMost, unix.RLIMIT_NOFILE: files} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(what, &limit); err != nil {
			return fmt.Errorf("read limit %d: %w", what, err)
		}
		most = min(most, limit.Max)
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("set limit %d: %w", what, err)
		}
	}
	if unix.Geteuid() == 0 {
		if err := dropRoot(int(uid)); err != nil {
			return err
		}
	}
	// Nobody may read its memory, or make it dump it. Setting the user has set this as well.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid dumps: %w", err)
	}
	known, err := arch.GetInfo("")
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	allowed := slices.DeleteFunc(slices.Clone(calls), func(name string) bool {
		_, ok := known.SyscallNames[name] // some architectures lack the older ones
		return !ok
	})
	// Threads only: no process.
	filter := seccomp.Filter{
		NoNewPrivs: true, Flag: seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionErrno,
			Syscalls: []seccomp.SyscallGroup{
				{Action: seccomp.ActionAllow, Names: allowed},
				{Action: seccomp.ActionAllow, NamesWithCondtions: []seccomp.NameWithConditions{{
					Name:       "clone",
					Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_THREAD}},
				}}},
			},
		},
	}
	if err := seccomp.LoadFilter(filter); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}

// dropRoot makes every thread that of another user, without groups and capabilities.
func dropRoot(uid int) error {
	for last := uintptr(0); last <= unix.CAP_LAST_CAP; last++ {
		// Of this thread; the others cannot gain any either, after no_new_privs.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, last, 0, 0, 0); err != nil && err != unix.EINVAL { //nolint:errorlint // an errno by itself
			return fmt.Errorf("drop the capability %d: %w", last, err)
		}
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("drop all groups: %w", err)
	}
	if err := syscall.Setresgid(uid, uid, uid); err != nil {
		return fmt.Errorf("change the group: %w", err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("change the user: %w", err)
	}
	return nil
}
