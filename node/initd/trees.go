package initd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// trees knows which processes belong to the tree of a stub.
type trees interface {
	// begin is called with each new stub, which has no child yet.
	begin(st *stub) error
	// members returns the processes of a tree, without the stub.
	members(st *stub) []int
	// end reports whether the tree of a stub that has exited has ended. Once it
	// has, the tree is forgotten.
	end(st *stub) bool
	// killRest kills what is left of a stub that was killed, and returns how much
	// outlasts that.
	killRest(s *server) (left int)
}

// newTrees returns the way of telling trees apart that this kernel has.
func newTrees(stateDir string, own *kernel) (trees, error) {
	var is int32
	err := getSubreaper(&is)
	switch {
	case err == nil:
		return subreapers{}, nil
	case own == nil:
		return nil, fmt.Errorf("this kernel has no subreapers, which end a command with all that it started: %w", err)
	}
	return newGroups(stateDir, own.pids)
}

// subreapers tells trees apart by their stubs, each of which adopts the orphans
// of its tree: it exits with the last member.
type subreapers struct{}

func (subreapers) begin(*stub) error      { return nil }
func (subreapers) members(st *stub) []int { return descendants(st.pid) }
func (subreapers) end(*stub) bool         { return true }

// Its children became init's, and no other processes do.
func (subreapers) killRest(s *server) int { return s.killOrphans() }

const (
	// groupsDir is below the state folder, where no command comes.
	groupsDir = "cgroup"
	procsFile = "cgroup.procs"
)

// groups tells trees apart by cgroups of version 1, in two hierarchies. In that of
// the controller job, which does nothing, each stub has a cgroup. In that of pids
// all have one together with init, in which they are born: gVisor counts the
// processes of one cgroup and not of those below it, and miscounts some that are
// moved.
type groups struct {
	dir  string
	made atomic.Int64
}

// newGroups mounts the cgroups of this kernel, in which all commands together may
// have so many processes. It is called while init has few threads.
func newGroups(stateDir string, pids int) (*groups, error) {
	g := &groups{dir: filepath.Join(stateDir, groupsDir, "job")}
	limit := filepath.Join(stateDir, groupsDir, "pids")
	for _, at := range []string{g.dir, limit} {
		if err := os.MkdirAll(at, 0o700); err != nil {
			return nil, fmt.Errorf("make the folder of cgroups: %w", err)
		}
		if err := unix.Mount("cgroup", at, "cgroup", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, filepath.Base(at)); err != nil {
			return nil, fmt.Errorf("this kernel has neither subreapers nor cgroups, one of which ends a command with all that it started: %w", err)
		}
	}
	limit = filepath.Join(limit, "jail")
	if err := os.Mkdir(limit, 0o700); err != nil {
		return nil, fmt.Errorf("make the jail's cgroup: %w", err)
	}
	if err := os.WriteFile(filepath.Join(limit, "pids.max"), []byte(strconv.Itoa(pids+OwnProcesses)), 0); err != nil {
		return nil, fmt.Errorf("limit the jail's processes: %w", err)
	}
	if err := os.WriteFile(filepath.Join(limit, procsFile), []byte("1"), 0); err != nil {
		return nil, fmt.Errorf("limit the jail's processes: %w", err)
	}
	return g, nil
}

func (g *groups) begin(st *stub) error {
	dir := filepath.Join(g.dir, strconv.FormatInt(g.made.Add(1), 10))
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, procsFile), []byte(strconv.Itoa(st.pid)), 0)
	}
	if err != nil {
		_ = os.Remove(dir)
		return fmt.Errorf("make the command's cgroup: %w", err)
	}
	st.group = dir
	return nil
}

func (g *groups) members(st *stub) []int {
	raw, err := os.ReadFile(filepath.Join(st.group, procsFile))
	if err != nil {
		return nil
	}
	var out []int
	for field := range bytes.FieldsSeq(raw) {
		if pid, err := strconv.Atoi(string(field)); err == nil && pid != st.pid && !slices.Contains(out, pid) {
			out = append(out, pid)
		}
	}
	return out
}

func (g *groups) end(st *stub) bool {
	if st.group == "" {
		return true // it never began
	}
	if members := g.members(st); len(members) > 0 {
		if !st.clean {
			for _, pid := range members {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		return false
	}
	_ = os.Remove(st.group)
	return true
}

// Nothing is left: end has seen to it.
func (g *groups) killRest(*server) int { return 0 }

// lookPause is after how long trees without a stub are looked at again. Their
// last member's end is a signal to init in most cases; not so if its parent asked
// for none.
const lookPause = 100 * time.Millisecond

// endTrees closes gone of the stubs that have exited and whose trees have ended.
func (s *server) endTrees() {
	s.ending = slices.DeleteFunc(s.ending, func(st *stub) bool {
		over := s.trees.end(st)
		if over {
			close(st.gone)
		}
		return over
	})
	if len(s.ending) > 0 {
		s.lookAgain.Reset(lookPause)
	}
}
