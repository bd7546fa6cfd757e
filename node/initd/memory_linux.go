package initd

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// restPause is how long nothing must run for init to let go of what it does not
// need meanwhile.
const restPause = 2 * time.Second

// resting is called when the last command ended a while ago.
func (s *server) resting() {
	for _, r := range s.all() {
		if !r.ended() {
			return // its end comes here again
		}
	}
	letGo()
}

// letGo gives back what work took of the memory and is not needed now:
// of the heap, and of the program itself, whose pages come back from its file
// as they are used.
func letGo() {
	debug.FreeOSMemory()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		// Only what is never written: the rest is not in the file.
		if len(fields) != 6 || fields[5] != self || fields[1] != "r-xp" && fields[1] != "r--p" {
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
