// Package initd implements deckhand-init: PID 1 of every jail.
//
// It starts commands when the daemon requests it over a socket in the jail's
// state folder, which no command can reach. It owns their pipes, writes their
// output to their logs and their exit status to a file, and enforces their
// timeouts. The daemon may therefore die, be upgraded and come back without a
// command noticing.
//
// Each command runs below a stub: a process in init's memory, without a program
// of its own, that is the subreaper of the command's whole process tree. Every
// process that the command leaves behind, however often it forks, becomes a
// child of the stub. The stub exits when it has no child left, which proves
// that the whole tree has ended. A stub is one thread and one page, so that
// hundreds fit in a jail, and a few are started in advance.
//
//	init ── stub ── command ── …
//	     │       └─ what the command left behind
//	     ├─ stub ── command
//	     └─ stub
//
// gVisor before 2023 has no subreapers: an orphan there becomes a child of init.
// Init then puts each stub in a cgroup of its own, in a hierarchy that it mounts
// below the state folder. The command's processes are born in it, and no command
// has the right to leave it. The whole tree has ended when the stub has exited and
// its cgroup is empty.
//
// In a jail with a kernel of its own, the host neither sees nor stops single
// processes, and shares no socket with init. Init then stops commands itself when
// the daemon holds them, limits how many processes they have, and a second
// process of this program (Bridge) connects the daemon's pipes to the sockets in
// the state folder (package bridge). It ends with the daemon's connection to init.
//
// The jail's network consists of its own loopback interface. Connections to the
// ports that the daemon names are passed to the daemon over another socket in
// the state folder, and the daemon decides which may leave.
//
// Each exec has its own folder below the state folder. It is renamed into
// place, complete, before the command is spawned; an id that has a folder is
// never spawned again. It contains
//
//	data    its output, and
//	index   the log's index (package execlog)
//	exit    a Status, renamed into place when the whole tree has ended
//
// When init dies, the kernel kills everything in the jail. The folders remain,
// and an exec whose folder has no exit file was lost with the jail.
package initd

import (
	"time"

	"github.com/deckhand-sh/deckhand/internal/nodelink"
)

// The layout inside a jail.
const (
	// StateDir is the state folder: mode 0700, owned by the jail's root.
	StateDir = "/run/deckhand"
	// SocketFile is the socket's name in the state folder.
	SocketFile = "init.sock"
	// EgressSocket is where the daemon takes what leaves the jail.
	EgressSocket = "egress.sock"
	// ExecsDir holds a folder for each exec.
	ExecsDir = "execs"
	// SpareDir holds folders for execs to come.
	SpareDir = "spare"
	// OutputsDir holds the logs' bytes of agents' commands once more, as links. Jails show it
	// to commands, read-only, at nodelink.OutputsPath.
	OutputsDir = "out"
	// ExitFile is in the folder of an exec that has ended.
	ExitFile = "exit"
	// Bridge is the argument of the process that connects the daemon to the init
	// of a jail with a kernel of its own.
	Bridge = "--bridge"
	// OwnKernel is the first argument of the init of such a jail. The second is
	// how many processes its commands may have.
	OwnKernel = "--own-kernel"
	// CommandsAsRoot is the argument with which init runs commands as user 0 of a user
	// namespace of their own: userns_linux.go.
	CommandsAsRoot = "--commands-as-root"
	// RootInit is the user and group that init runs as then, the last of the jail's, which
	// is not mapped in the commands' namespace.
	RootInit = 65535
	// Workspace is the default working directory of commands.
	Workspace = "/workspace"
)

// Protocol is the number of the protocol between daemon and init. An init
// keeps serving daemons that are newer than itself.
//
//	1  Info, Start, Wait, Kill, List
//	2  WriteStdin, Signal, Resize, Contact; terminals, open input, offline
//	   grace, output cap, note_only
//	3  Hold
//	4  Forward
//	5  Usage, Ports
const Protocol = 5

// OfflineGrace is on whose behalf a command is killed whose node was cut off
// from its hub for longer than it may be.
const OfflineGrace = nodelink.OfflineGrace

const (
	// killPatience bounds how long a kill waits for the tree to be gone. A
	// process that the kernel cannot interrupt may outlast it.
	killPatience = 5 * time.Second
	// drainPatience bounds how long output is awaited once the tree is gone. It
	// matters only when another command of the jail was handed the pipe.
	drainPatience = 200 * time.Millisecond
)

// baseEnv is the default environment of every command.
func baseEnv(term string) []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + Workspace,
		"USER=agent",
		"LOGNAME=agent",
		"SHELL=/bin/sh",
		"LANG=C.UTF-8",
		"TERM=" + term,
		"TMPDIR=/tmp",
	}
}
