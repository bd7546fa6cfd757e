package exec

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/jail"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// process is one of a jail's, seen from the host. Its number and the time of
// its start together are never another's.
type process struct {
	pid, parent, inside int
	started             string
}

// freezePatience bounds how long a kill waits for its jail to stand still.
const freezePatience = 500 * time.Millisecond

// killFrozen kills an exec's tree while its whole jail stands still, so that
// nothing of it can fork away, and answers what it was. Where that cannot be
// done init does the killing, round by round; it does the waiting in any case.
func (w *watch) killFrozen(ctx context.Context, conn *jail.Init, by string) []process {
	spec := w.rec.GetSpec()
	noted, err := conn.Kill(ctx, &initv1.KillRequest{ExecId: spec.GetExecId(), By: by, NoteOnly: true})
	if err != nil || noted.GetStatus().GetEnded() || noted.GetStatus().GetStubPid() == 0 {
		return nil
	}
	freezing, cancel := context.WithTimeout(ctx, freezePatience)
	defer cancel()
	thaw, err := w.s.jails.Freeze(freezing, spec.GetJailId())
	if err != nil {
		w.s.log.Debug("a jail cannot be frozen for a kill", "jail_id", spec.GetJailId(), "error", err)
		return nil
	}
	defer func() {
		if err := thaw(); err != nil {
			w.s.log.Error("thaw a jail after a kill", "jail_id", spec.GetJailId(), "error", err)
		}
	}()
	all, err := w.s.jails.Processes(ctx, spec.GetJailId())
	if err != nil {
		w.s.log.Warn("list a jail's processes for a kill", "jail_id", spec.GetJailId(), "error", err)
		return nil
	}
	tree := treeBelow(all, int(noted.GetStatus().GetStubPid()))
	for _, p := range tree {
		_ = unix.Kill(p.pid, unix.SIGKILL)
	}
	return tree
}

// treeBelow answers what is below the process that has a number inside the
// jail. It itself goes when it has nothing left below it.
func treeBelow(pids []int, inside int) []process {
	below := map[int][]process{}
	root := 0
	for _, pid := range pids {
		p, ok := readProcess(pid)
		if !ok {
			continue
		}
		if p.inside == inside {
			root = pid
		}
		below[p.parent] = append(below[p.parent], p)
	}
	if root == 0 {
		return nil
	}
	var out []process
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		for _, p := range below[todo[0]] {
			out, todo = append(out, p), append(todo, p.pid)
		}
	}
	return out
}

// readProcess answers a process that has not ended.
func readProcess(pid int) (process, bool) {
	state, parent, started, ok := readStat(pid)
	if !ok || state == 'Z' || state == 'X' {
		return process{}, false
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return process{}, false
	}
	p := process{pid: pid, parent: parent, started: started}
	for line := range bytes.Lines(raw) {
		if numbers, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			// One for each namespace, the innermost last.
			fields := bytes.Fields(numbers)
			p.inside, err = strconv.Atoi(string(fields[len(fields)-1]))
		}
	}
	return p, err == nil && p.inside > 0
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

// stillThere answers how many of the processes have not ended, seen from the
// host: the proof of a kill.
func stillThere(tree []process) (left int32) {
	for _, p := range tree {
		state, _, started, ok := readStat(p.pid)
		if ok && started == p.started && state != 'Z' && state != 'X' {
			left++
		}
	}
	return left
}
