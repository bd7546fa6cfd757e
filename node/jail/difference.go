package jail

// Difference is what a jail with a kernel of its own does otherwise than one that
// runc makes. The table is in docs/runtimes.md, too.
type Difference struct {
	// Subject is what differs: unique, and a test names it that is not run with
	// such a runtime.
	Subject string
	// Runc and OwnKernel say how it is with runc, and with runsc.
	Runc, OwnKernel string
}

// The subjects of differences.
const (
	DifferMemory     = "memory limit"
	DifferRaise      = "more memory while the jail runs"
	DifferPIDs       = "process limit"
	DifferHold       = "freezing a jail for a person's decision"
	DifferHostView   = "processes seen from the machine"
	DifferKernel     = "system calls"
	DifferUser       = "inotify and namespaces"
	DifferContainerd = "a restart of deckhand-node while containerd is down"
	DifferDaemonGone = "egress while deckhand-node is down"
	DifferRoot       = "commands as root"
	DifferTerminal   = "control characters in a terminal"
	DifferSpeed      = "time to start a command"
)

// Differences returns the differences between runc and runsc.
func Differences() []Difference {
	return []Difference{
		{DifferMemory, "the kernel kills a process, and the command ends with `out_of_memory`", "counts the jail's kernel as well; beyond it the machine ends the whole jail, its commands are lost, and the hub does not raise `jail.max_memory`"},
		{DifferRaise, "the running jail gets it", "the jail is made again as soon as nothing runs in it"},
		{DifferPIDs, "the machine's cgroup", "a cgroup of the jail's own kernel, which miscounts some: dozens more may start. The machine's cgroup has room for 64 threads for each; with `ptrace`, hundreds that run at once need more, and that ends the jail"},
		{DifferHold, "the machine's freezer", "init stops every process with SIGSTOP and continues those that it has stopped"},
		{DifferHostView, "each one", "the jail's kernel only; usage of commands and ports come from init, signals are sent by it"},
		{DifferKernel, "the machine's, through a seccomp profile", "gVisor's; what it lacks fails: with a runsc before 2023, such as Debian 12's, `ls` and `stat` of current coreutils answer `Invalid argument`"},
		{DifferUser, "an eighth of the machine's inotify limits, no namespaces", "the jail's own kernel has them, without these limits"},
		{DifferContainerd, "jails are found again when containerd is back", "the same; commands that run continue"},
		{DifferDaemonGone, "refused at once with 503", "the same if the daemon was stopped in order; if it was killed, connections wait up to 15 s first"},
		{DifferRoot, "run in a user namespace of their own", "refused: `jail.user: root` needs `trust: trusted`. `jail.setup` runs with `runc`, and its result with `runsc`"},
		{DifferTerminal, "Ctrl-C interrupts, Ctrl-D ends the input", "with a runsc before 2023 neither does; send a signal, or kill the command"},
		{DifferSpeed, "about 2 ms", "about 15 ms with the platform `ptrace`"},
	}
}
