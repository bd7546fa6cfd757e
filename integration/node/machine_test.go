package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// operator applies a scripted agent that may work on machines.
func operator(f *harness.Fleet, name, script, host string) {
	f.T.Helper()
	dir, files := f.T.TempDir(), ""
	if strings.Contains(host, "paths") {
		files = "host_read, host_write, "
	}
	require.NoError(f.T, os.WriteFile(filepath.Join(dir, name+".md"), fmt.Appendf(nil, `---
name: %[1]s
description: Works on machines.
provider: script
script: %[1]s.script.yaml
tools: [shell_exec, node_list, node_lock, host_exec, %[3]sservice_status, journal_read, complete_task]
host: %[2]s
---
Do what the script says.
`, name, host, files), 0o600))
	require.NoError(f.T, os.WriteFile(filepath.Join(dir, name+".script.yaml"), []byte(script), 0o600))
	f.CLI(0, "agent", "apply", "-f", dir)
}

// observations returns the results of a task's steps, by their order.
func observations(f *harness.Fleet, taskID string) (out []*deckhandv1.Step) {
	f.T.Helper()
	list, err := f.Client().Steps(f.T.Context(), taskID)
	require.NoError(f.T, err)
	return list
}

// step waits until a task's step with a number has a state.
func step(f *harness.Fleet, taskID string, number int, state deckhandv1.StepState) (found *deckhandv1.Step) {
	f.T.Helper()
	waittest.Until(f.T, 90*time.Second, fmt.Sprintf("step %d to be %s", number, state), func() bool {
		list := observations(f, taskID)
		if len(list) >= number && list[number-1].GetState() == state {
			found = list[number-1]
		}
		return found != nil
	})
	return found
}

// An agent works on the machine itself once an administrator has let it: alone, with its
// command run once and its output whole although the node's daemon and the hub are killed
// meanwhile; others wait and see why; what it changed in the named folders is undone, and a
// file that was there before is there again.
func TestAnAgentWorksOnTheMachineUnderTheLock(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	node := f.StartNode()
	f.StartWorker()
	name := f.NodeName()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for file, text := range map[string]string{"before": "before\n", "changed": "old\n", "deleted": "gone\n"} {
		require.NoError(t, os.WriteFile(in(file), []byte(text), 0o640))
	}
	require.NoError(t, os.Chown(in("changed"), 1234, 1234))
	operator(f, "ops", fmt.Sprintf(`
turns:
  - text: I look which nodes there are.
    calls: [{tool: node_list, arguments: {}}]
  - text: I try without a lock.
    calls: [{tool: host_exec, arguments: {command: "true"}}]
  - text: I lock the node.
    calls: [{tool: node_lock, arguments: {node: %[1]q, reason: "mend the configuration", minutes: 10}}]
  - text: I change files, and wait.
    calls: [{tool: host_exec, arguments: {command: "echo ran >> %[2]s/counter; echo new > %[2]s/changed; echo made > %[2]s/created; rm %[2]s/deleted; echo id $(id -u); while [ ! -e %[2]s.go ]; do sleep 0.1; done; echo done", timeout_seconds: 300}}]
  - text: I write a file, and read one.
    calls:
      - {tool: host_write, arguments: {path: "%[2]s/changed", content: "written\n"}}
      - {tool: host_read, arguments: {path: "%[2]s/changed"}}
      - {tool: host_read, arguments: {path: "/etc/passwd"}}
      - {tool: node_unlock, arguments: {}}
  - text: All done.
    calls: [{tool: complete_task, arguments: {summary: "mended"}}]
`, name, dir), fmt.Sprintf(`{nodes: [%q], paths: [%q]}`, name, dir))
	f.Persona("other", `
turns:
  - text: I print.
    calls: [{tool: shell_exec, arguments: {command: "echo in the jail"}}]
  - text: All done.
    calls: [{tool: complete_task, arguments: {summary: "printed"}}]
`)
	id := f.Submit("ops")
	first := f.Item(id, "")
	steps := observations(f, id)
	require.Contains(t, steps[0].GetObservation(), name+": connected")
	require.Contains(t, steps[0].GetObservation(), "kernel")
	require.Equal(t, deckhandv1.StepState_STEP_STATE_DENIED, steps[1].GetState(), "not without the lock")
	item, err := f.Client().Inbox.GetInboxItem(t.Context(), &deckhandv1.GetInboxItemRequest{ItemId: first})
	require.NoError(t, err)
	require.Contains(t, item.GetItem().GetPreview(), "on the machine itself, not in a jail")
	require.Contains(t, item.GetItem().GetPreview(), "mend the configuration")
	require.True(t, item.GetItem().GetDecision().GetOnMachine())
	always := harness.Run(t, []string{"DECKHAND_DATA_DIR=" + f.Dir}, "inbox", "approve", first, "--always", "tool")
	require.NotZero(t, always.Code)
	require.Contains(t, always.Err, "each call of node_lock is asked about")
	f.CLI(0, "inbox", "approve", first)
	second := f.Item(id, first)
	killHub := func() {
		api, edge, bus := f.Hub.Addresses(t)
		f.Hub.Kill()
		f.StartHub("--listen", api, "--edge-listen", edge, "--nats-listen", bus)
		require.Contains(t, f.CLI(0, "node", "locks").Out, "agent ops", "the lock survives")
	}
	killHub() // after the lock was taken
	item, err = f.Client().Inbox.GetInboxItem(t.Context(), &deckhandv1.GetInboxItemRequest{ItemId: second})
	require.NoError(t, err)
	require.Contains(t, item.GetItem().GetPreview(), "On node "+name+". It runs on the machine itself, as root, and not in a jail.")
	f.CLI(0, "inbox", "approve", second)
	run := step(f, id, 4, deckhandv1.StepState_STEP_STATE_STARTED)
	waittest.Until(t, time.Minute, "the command to have changed files", func() bool { _, err := os.Stat(in("created")); return err == nil })

	// Everybody else waits, and sees why.
	waits := f.Submit("other")
	waittest.Until(t, time.Minute, "the other task to say why it waits", func() bool {
		reason := f.Task(waits).Reason
		return strings.Contains(reason, "is locked by agent ops until") && strings.Contains(reason, "mend the configuration")
	})
	require.Contains(t, f.CLI(0, "node", "locks").Out, "agent ops")
	client := f.Client()
	_, err = client.NodeExecs.StartNodeExec(t.Context(), &deckhandv1.StartNodeExecRequest{NodeId: name, Target: &deckhandv1.StartNodeExecRequest_Host{Host: true}, Argv: []string{"true"}})
	require.Equal(t, fault.NodeLocked, fault.As(err).Code)

	// Neither kill is noticed.
	node.Kill()
	f.StartNode()
	killHub()
	require.NoError(t, os.WriteFile(dir+".go", nil, 0o600))
	t.Cleanup(func() { _ = os.Remove(dir + ".go") })
	f.Ended(id)
	f.Ended(waits)
	counter, err := os.ReadFile(in("counter"))
	require.NoError(t, err)
	require.Equal(t, "ran\n", string(counter), "the command ran exactly once")
	require.Equal(t, "id 0\ndone\n", f.CLI(0, "task", "logs", run.GetId()).Out, "its output is whole")
	steps = observations(f, id)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, steps[3].GetState(), steps[3].GetObservation())
	require.Contains(t, steps[3].GetObservation(), "[deleted "+in("deleted")+"]")
	require.Contains(t, steps[3].GetObservation(), "[added "+in("created")+"]")
	require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, steps[4].GetState(), steps[4].GetObservation())
	require.Contains(t, steps[5].GetObservation(), "written")
	require.Contains(t, steps[6].GetObservation(), "in none of the folders", "the tools for files stay in the named folders")
	info, err := os.Stat(in("changed"))
	require.NoError(t, err)
	require.EqualValues(t, 1234, ownerOf(info), "a file that is replaced keeps its owner")
	require.NotContains(t, f.CLI(0, "node", "locks").Out, "agent ops")

	// Undone step by step, the last one first.
	f.CLI(0, "task", "undo", id, "--step", steps[4].GetId(), "--yes")
	text, err := os.ReadFile(in("changed"))
	require.NoError(t, err)
	require.Equal(t, "new\n", string(text))
	f.CLI(0, "task", "undo", id, "--step", run.GetId(), "--yes")
	for file, want := range map[string]string{"before": "before\n", "changed": "old\n", "deleted": "gone\n"} {
		text, err := os.ReadFile(in(file))
		require.NoError(t, err, "%s was there before", file)
		require.Equal(t, want, string(text), file)
	}
	require.NoFileExists(t, in("created"))
	require.NoFileExists(t, in("counter"))
	audit := f.CLI(0, "audit", "list", "-o", "json").Out
	for _, action := range []string{"node.locked", "node.unlocked", "machine.undone"} {
		require.Contains(t, audit, action)
	}
}

// A lock ends with its task when that is killed, and when an administrator takes it; the command
// that runs under it ends too.
func TestALockEndsWithItsTask(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	name := f.NodeName()
	operator(f, "ops", fmt.Sprintf(`
turns:
  - text: I lock the node.
    calls: [{tool: node_lock, arguments: {node: %[1]q, reason: "look around", minutes: 1}}]
  - text: I wait.
    calls: [{tool: host_exec, arguments: {command: "tail -f -s 3141 /dev/null", timeout_seconds: 3600}}]
  - text: All done.
    calls: [{tool: complete_task, arguments: {summary: "looked"}}]
`, name), fmt.Sprintf(`{nodes: [%q], commands: ["tail -f *"]}`, name))
	locked := func() bool { return strings.Contains(f.CLI(0, "node", "locks").Out, "agent ops") }
	start := func() string {
		id := f.Submit("ops")
		f.CLI(0, "inbox", "approve", f.Item(id, ""))
		step(f, id, 2, deckhandv1.StepState_STEP_STATE_STARTED) // nobody is asked about it
		require.True(t, locked())
		return id
	}
	id := start()
	f.CLI(0, "kill", "task", id, "--yes")
	require.False(t, locked(), "with the end of the task")
	require.Zero(t, running(t, "tail -f -s 3141 /dev/null"))

	id = start()
	f.CLI(0, "node", "unlock", name, "--force")
	require.False(t, locked())
	ended := step(f, id, 2, deckhandv1.StepState_STEP_STATE_FAILED)
	require.Contains(t, ended.GetObservation(), "killed")
	require.Zero(t, running(t, "tail -f -s 3141 /dev/null"))
	f.Ended(id)
}

// running returns how many processes have a command line.
func running(t *testing.T, commandLine string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, name := range all {
		raw, err := os.ReadFile(name)
		if err == nil && strings.ReplaceAll(strings.TrimRight(string(raw), "\x00"), "\x00", " ") == commandLine {
			n++
		}
	}
	return n
}

// ownerOf returns the user that a file is of.
func ownerOf(info os.FileInfo) uint32 {
	st, _ := info.Sys().(*syscall.Stat_t)
	return st.Uid
}
