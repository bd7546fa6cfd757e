package jail

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Process is one of a jail's, seen from the host. Its number and the time of
// its start together are never another's.
type Process struct {
	PID    int
	Parent int
	// Inside is its number in the jail.
	Inside  int
	started string
}

// ReadProcess returns a process that has not ended.
func ReadProcess(pid int) (Process, bool) {
	state, parent, started, ok := readStat(pid)
	if !ok || state == 'Z' || state == 'X' {
		return Process{}, false
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Process{}, false
	}
	p := Process{PID: pid, Parent: parent, started: started}
	for line := range bytes.Lines(raw) {
		if numbers, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			// One for each namespace, the innermost last.
			fields := bytes.Fields(numbers)
			p.Inside, err = strconv.Atoi(string(fields[len(fields)-1]))
		}
	}
	return p, err == nil && p.Inside > 0
}

func readStat(pid int) (state byte, parent int, started string, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, "", false
	}
	// The name, in parentheses, may hold anything; the state follows it.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, "", false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, string(fields[19]), err == nil
}

// readProcesses returns those of the processes that have not ended.
func readProcesses(pids []int) []Process {
	out := make([]Process, 0, len(pids))
	for _, pid := range pids {
		if p, ok := ReadProcess(pid); ok {
			out = append(out, p)
		}
	}
	return out
}

// TreeBelow returns, out of a jail's processes, the one whose pid inside the
// jail is inside, and its descendants.
func TreeBelow(pids []int, inside int) (root Process, below []Process) {
	all := readProcesses(pids)
	for _, p := range all {
		if p.Inside == inside {
			root = p
		}
	}
	if root.PID == 0 {
		return root, nil
	}
	return root, descendants(all, root.PID)
}

// descendants returns what is below a process, itself not.
func descendants(all []Process, root int) (below []Process) {
	children := map[int][]Process{}
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
	}
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		for _, p := range children[todo[0]] {
			below, todo = append(below, p), append(todo, p.PID)
		}
	}
	return below
}

// StillThere returns how many of the processes have not ended: the proof of a
// kill.
func StillThere(tree []Process) (left int32) {
	for _, p := range tree {
		state, _, started, ok := readStat(p.PID)
		if ok && started == p.started && state != 'Z' && state != 'X' {
			left++
		}
	}
	return left
}
