// Package initd is deckhand-init: PID 1 of every jail.
//
// It starts commands when the daemon asks for it over a socket in the jail's
// state folder, which no command can reach. It owns their pipes, writes their
// output to their logs and their end to a file itself, and enforces their
// time-outs, so that the daemon may die, be upgraded and come back without a
// command noticing.
//
// Each command runs below a stub: a process in init's memory, with no program
// of its own, that is the subreaper of the command's whole tree. Whatever the
// command leaves behind, however often it forks, becomes a child of the stub;
// when the stub has none left it exits, which is the proof that nothing is. A
// stub is one thread and one page, so that hundreds fit in a jail, and a few
// wait there for commands to come.
//
//	init ── stub ── command ── …
//	     │       └─ what the command left behind
//	     ├─ stub ── command
//	     └─ stub
//
// The jail has no network but its own loopback. Ports of that which the daemon
// names lead to it, by another socket in the state folder, and it judges what may
// leave.
//
// Below the state folder each exec has a folder of its own. It is put there in
// one piece before the command is spawned: an id that has one is never spawned
// again. In it are
//
//	data    its output, and
//	index   the log's index (package execlog)
//	exit    a Status, put there in one piece when the whole tree has ended
//
// When init dies, the kernel ends everything in the jail. What is in the
// folders stays, and an exec that has a folder without exit was lost with it.
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
	// ExitFile is in the folder of an exec that has ended.
	ExitFile = "exit"
	// Workspace is where commands start unless told otherwise.
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
const Protocol = 4

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

// baseEnv is what every command has in its environment unless it is told
// otherwise.
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
