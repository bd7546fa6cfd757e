package initd

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// descendants returns every process below one, not itself.
func descendants(pid int) []int {
	var out []int
	todo := children(pid)
	for len(todo) > 0 {
		last := todo[len(todo)-1]
		todo = append(todo[:len(todo)-1], children(last)...)
		out = append(out, last)
	}
	return out
}

// children returns the children of all threads of a process. A process that
// is gone has none.
func children(pid int) []int {
	task := filepath.Join("/proc", strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(task)
	if err != nil {
		return nil
	}
	var out []int
	for _, thread := range threads {
		raw, err := os.ReadFile(filepath.Join(task, thread.Name(), "children"))
		if err != nil {
			continue
		}
		for _, field := range bytes.Fields(raw) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// killTree kills a command's tree until nothing is left, and returns how much is
// left when patience ends.
//
// What is killed cannot fork any more, and its children remain members, so each
// round meets all that the round before left: one that was born while it looked.
func (s *server) killTree(st *stub, patience time.Duration) (left int) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		select {
		case <-st.gone:
			return 0
		default:
		}
		var members []int
		s.gate.do(func() { members = s.trees.members(st) })
		for _, pid := range members {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		pause.Reset(wait)
		select {
		case <-st.gone:
			return 0
		case <-deadline.C:
			return len(members)
		case <-pause.C:
		}
	}
}
