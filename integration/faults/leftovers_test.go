package faults

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/ledger"
)

// ofTask are functions that run for a task only: once all tasks have ended, no
// goroutine may be in one.
var ofTask = []string{
	"worker/loop.", "worker.(*Worker).work(", "hub/step.(*Steps).Execute(", "hub/tool.", "node/exec.(*watch)",
}

// halfWritten are the names of files that were to be renamed once they were
// whole (os.CreateTemp).
var halfWritten = regexp.MustCompile(`[-.][0-9]{5,}$`)

// inits returns the pids of all jails' inits.
func (r *rig) inits() (out []int) {
	for n := range r.nodes {
		out = append(out, r.initsOf(n+1)...)
	}
	return out
}

// initsOf returns those of one node's.
func (r *rig) initsOf(node int) (out []int) {
	dirs, _ := filepath.Glob(filepath.Join(r.containerdState(), "io.containerd.runtime.v2.task", r.namespace(node), "*"))
	for _, dir := range dirs {
		if pid := initIn(dir); pid != 0 {
			out = append(out, pid)
		}
	}
	return out
}

// nothingIsLeft verifies, once every task has ended, that nothing is left: no unused
// jail, no goroutine of a task, no unfinished command in a ledger, no partly written
// file. It stops the roles.
func (r *rig) nothingIsLeft() {
	r.t.Helper()
	// The nodes stop idle jails by themselves, and with them all that was in
	// them.
	r.eventually(time.Minute, "idle jails to be stopped", func() bool { return len(r.inits()) == 0 })

	for _, u := range slices.Concat(r.hubs, r.workers, r.nodes) {
		dump := u.dump()
		goroutines := strings.Count(dump, "\ngoroutine ")
		r.t.Logf("%s: %d goroutines at rest", u.name, goroutines)
		for _, name := range ofTask {
			if at := strings.Index(dump, name); at >= 0 {
				r.t.Errorf("%s has a goroutine of a task: …%s…", u.name, dump[max(0, at-1000):min(len(dump), at+1000)])
			}
		}
	}
	for n := range r.nodes {
		dir := r.nodeDir(n + 1)
		l, err := ledger.Open(ledger.Config{Path: filepath.Join(dir, "ledger.db")})
		require.NoError(r.t, err)
		live, err := l.Execs(r.t.Context(), "", true)
		require.NoError(r.t, err)
		require.Empty(r.t, live, "the ledger of node %d has unfinished commands", n+1)
		require.NoError(r.t, l.Close())
		jails, err := filepath.Glob(filepath.Join(dir, "jails", "*"))
		require.NoError(r.t, err)
		for _, jail := range jails {
			for _, file := range entries(jail) {
				if halfWritten.MatchString(file) {
					r.t.Errorf("%s was left in %s", file, jail)
				}
			}
			for _, exec := range entries(filepath.Join(jail, "state", "execs")) {
				files := entries(filepath.Join(jail, "state", "execs", exec))
				if !slices.Contains(files, "data") || !slices.Contains(files, "index") {
					r.t.Errorf("the log of %s is not whole: %v", exec, files)
				}
			}
		}
	}
}

func entries(dir string) (names []string) {
	all, _ := os.ReadDir(dir)
	for _, one := range all {
		names = append(names, one.Name())
	}
	return names
}

// dump ends a unit for good and returns the stacks of its goroutines.
func (u *unit) dump() string {
	u.mu.Lock()
	u.stopping = true
	u.mu.Unlock()
	before, _ := os.ReadFile(u.log.Name())
	u.signalAndWait(syscall.SIGQUIT)
	<-u.ended
	after, _ := os.ReadFile(u.log.Name())
	return string(after[min(len(before), len(after)):])
}

// gone verifies, at a rig's end, that nothing of it is left on the machine.
func (r *rig) gone() {
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(r.t, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, r.dir+"/") {
			r.t.Errorf("a mount is left: %s", line)
		}
	}
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, loop := range loops {
		if file, err := os.ReadFile(loop); err == nil && bytes.Contains(file, []byte(r.dir+"/")) {
			r.t.Errorf("a loop device is left: %s", file)
		}
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/faults-" + r.id + "-*")
	if len(groups) > 0 {
		below, _ := filepath.Glob("/sys/fs/cgroup/*/faults-" + r.id + "-*/*")
		r.t.Errorf("control groups are left: %v, with those below them: %v", groups, below)
	}
	r.eventually(10*time.Second, "its processes to be gone", func() bool { return len(r.processes()) == 0 })
}

// processes returns those that are this rig's by their command line.
func (r *rig) processes() (out []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err == nil && (bytes.Contains(line, []byte(r.dir+"/")) || bytes.Contains(line, []byte("faults-"+r.id+"-"))) {
			out = append(out, fmt.Sprintf("%s: %s", filepath.Base(filepath.Dir(path)), bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return out
}
