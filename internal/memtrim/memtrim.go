// Package memtrim adjusts how much of the machine's memory a program holds.
// LetGo keeps programs small that mostly wait: deckhand-node, and deckhand-init
// in every jail. Room lets the servers, hub and worker, use more memory and
// collect garbage less often.
//
// Most of the memory of a waiting program is pages of its own executable that
// only its start, or work that finished long ago, needed. LetGo returns them to
// the kernel, and they are read from the page cache when they are used again.
// Nothing depends on it: if the program dies during LetGo, no state is lost.
package memtrim

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ballast is never touched, so that it is no memory of the machine's, and counts
// for the garbage collector as in use.
var ballast []byte

// roomBytes is how much more a program with room may leave to its collector.
const roomBytes = 64 << 20

// Room has garbage collected when there are at least 64 MiB of it, however
// little is in use: a server with a small heap would collect many times a
// second. It is for a whole program, once, at its start.
func Room() {
	ballast = make([]byte, roomBytes)
	runtime.KeepAlive(ballast)
}

// LetGo gives back what work took of the memory and is not needed now: of the
// heap, and of the program itself. It collects garbage, some milliseconds.
func LetGo() {
	debug.FreeOSMemory()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	// A program that was replaced in the meantime is still what is mapped.
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		// Only what is never written: the rest is not in the file.
		if len(fields) < 6 || fields[1] != "r-xp" && fields[1] != "r--p" || strings.Join(fields[5:], " ") != self {
			continue
		}
		first, last, _ := strings.Cut(fields[0], "-")
		from, err := strconv.ParseUint(first, 16, 64)
		to, terr := strconv.ParseUint(last, 16, 64)
		if err != nil || terr != nil {
			return
		}
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTNEED)
	}
}

// Bytes returns how much memory this process uses now, or 0 if that is not
// known.
func Bytes() int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(raw)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
