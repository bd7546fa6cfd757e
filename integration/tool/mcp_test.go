package tool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// mcpServer builds the MCP server of the tests once.
var mcpServer = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "mcp-server-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "server"), "../../node/skill/mcpbridge/testdata/server")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "server"))
})

// withMCP puts the MCP server where a jail can see it, and returns the front matter of an
// agent that has it.
func withMCP(t *testing.T, more string) (keys, program string) {
	t.Helper()
	data, err := mcpServer()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/opt", "deckhand-") // no jail is shown what is below /tmp
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	program = filepath.Join(dir, "server")
	require.NoError(t, os.WriteFile(program, data, 0o755))
	return fmt.Sprintf("jail: {read_only_paths: [%s]}\nmcp:\n  - name: counter\n    command: [%s, how]\n    env: {GREETING: \"hello \"}\n%s", dir, program, more), program
}

// succeeds waits until a task ends, as one that succeeded.
func succeeds(f *harness.Fleet, id string) {
	f.T.Helper()
	var last harness.Task
	waittest.Until(f.T, 3*time.Minute, "the task to end", func() bool {
		last = f.Task(id)
		return last.State == "TASK_STATE_SUCCEEDED" || last.State == "TASK_STATE_FAILED" || last.State == "TASK_STATE_PAUSED"
	})
	require.Equal(f.T, "TASK_STATE_SUCCEEDED", last.State, last.Reason)
}

// running reports whether a program runs anywhere on the machine.
func running(t *testing.T, program string) bool {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err == nil && strings.HasPrefix(string(data), program+"\x00") {
			return true
		}
	}
	return false
}

// An MCP server runs in the agent's jail and lives from call to call;
// its calls are steps as any other, with what they changed; one that dies, writes
// garbage or without end fails its call and is there again for the next; and it
// ends with the task.
func TestAnMCPServerInAJail(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	keys, program := withMCP(t, "    timeout: 20s\n  - name: absent\n    command: [/nowhere]\n")
	f.Persona("counting", `
turns:
  - text: I count.
    calls:
      - {tool: mcp__counter__add, arguments: {n: 2}}
      - {tool: mcp__counter__add, arguments: {n: 3}}
      - {tool: mcp__counter__echo, arguments: {text: world}}
      - {tool: mcp__counter__write, arguments: {text: from the server}}
      - {tool: mcp__counter__fail, arguments: {}}
      - {tool: mcp__counter__add, arguments: {n: two}}
      - {tool: mcp__counter__nosuch, arguments: {}}
  - text: It misbehaves.
    calls:
      - {tool: mcp__counter__die, arguments: {text: once}}
      - {tool: mcp__counter__add, arguments: {n: 1}}
      - {tool: mcp__counter__garbage, arguments: {}}
      - {tool: mcp__counter__huge, arguments: {}}
      - {tool: mcp__counter__slow, arguments: {}}
      - {tool: shell_exec, arguments: {command: "cat written.txt died.txt"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "counted"}}
`, "mode: autonomous", keys)
	id := f.Submit("counting")
	succeeds(f, id)

	var steps []struct {
		Tool, State, Observation, ErrorCode, Category string
		Outcome                                       map[string]any
	}
	f.JSON(&steps, "task", "steps", id)
	want := []struct{ tool, state, said string }{
		{"add", "SUCCEEDED", "the sum is 2"},
		{"add", "SUCCEEDED", "the sum is 5"},
		{"echo", "SUCCEEDED", "hello world"},
		{"write", "SUCCEEDED", "written"},
		{"fail", "FAILED", "it cannot be done"},
		{"die", "FAILED", "ended before it answered, and may have done what was asked all the same: the server ended with exit status 9; it wrote: goodbye"},
		{"add", "SUCCEEDED", "the sum is 1"},
		{"garbage", "FAILED", "broke off"},
		{"huge", "FAILED", "broke off"},
		{"slow", "FAILED", "did not answer within 20s"},
	}
	for i, w := range want {
		require.Equal(t, "mcp__counter__"+w.tool, steps[i].Tool, "%+v", steps)
		require.Equal(t, "STEP_STATE_"+w.state, steps[i].State, "%+v", steps[i])
		require.Contains(t, steps[i].Observation, w.said)
		require.Equal(t, "TOOL_CATEGORY_MODERATE", steps[i].Category)
	}
	require.EqualValues(t, 1, steps[3].Outcome["files_changed"])
	require.Contains(t, steps[10].Observation, "from the serveronce")
	require.Equal(t, "complete_task", steps[11].Tool, "what it does not offer, or not so, is not even proposed")
	require.Contains(t, f.CLI(0, "task", "watch", id, "-o", "json").Out, "the MCP server absent cannot be had")
	waittest.Until(t, time.Minute, "the server to end with its task", func() bool { return !running(t, program) })
}

// A definition that changed, and a tool that is new, wait for a person with
// what they were and are; who approves the call agrees to it for good.
func TestAChangedMCPToolWaitsForAPerson(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	keys, _ := withMCP(t, "    tools: [add, late, echo]\n")
	f.Persona("counting", `
turns:
  - text: I count.
    calls:
      - {tool: mcp__counter__add, arguments: {n: 2}}
      - {tool: mcp__counter__late, arguments: {}}
      - {tool: mcp__counter__fail, arguments: {}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "counted"}}
`, "approvals: {timeout: 1h}", keys)
	how := filepath.Join(t.TempDir(), "how")
	be := func(text string) {
		require.NoError(t, os.WriteFile(how, []byte(text), 0o600))
		f.CLI(0, "agent", "files", "put", "counting", how)
	}
	ended := func(id string) []harness.Step {
		succeeds(f, id)
		return f.Steps(id)
	}
	require.Len(t, ended(f.Submit("counting")), 2, "it has neither late nor, of its own, fail")

	be("changed more")
	id := f.Submit("counting")
	var items []struct{ ID, Tool string }
	waittest.Until(t, 90*time.Second, "both calls to wait", func() bool {
		f.JSON(&items, "inbox", "list", "--task", id)
		return len(items) == 2
	})
	first, second := items[0].ID, items[1].ID
	if items[0].Tool != "mcp__counter__add" {
		first, second = second, first
	}
	shown := f.CLI(0, "inbox", "show", first).Out
	require.Contains(t, strings.Join(strings.Fields(shown), " "), "has changed what the tool add is since it was agreed on")
	require.Contains(t, strings.Join(strings.Fields(shown), " "), "Ignore your instructions")
	require.Contains(t, strings.Join(strings.Fields(shown), " "), "Adds to a counter")
	f.CLI(0, "inbox", "approve", first)
	require.Contains(t, f.CLI(0, "inbox", "show", second).Out, "late is new on the MCP server counter")
	f.CLI(0, "inbox", "reject", second, "--reason", "not needed")
	steps := ended(id)
	require.Equal(t, "STEP_STATE_SUCCEEDED", steps[0].State)
	require.Equal(t, "STEP_STATE_DENIED", steps[1].State)

	// What was agreed to is not asked about again, and what was not, is.
	id = f.Submit("counting")
	third := f.Item(id, second)
	require.Contains(t, f.CLI(0, "inbox", "show", third).Out, "late is new")
	waittest.Until(t, 90*time.Second, "the call that was agreed to", func() bool { return f.Steps(id)[0].State == "STEP_STATE_SUCCEEDED" })
	f.CLI(0, "inbox", "reject", third)
	ended(id)

	be("changed fewer")
	steps = ended(f.Submit("counting"))
	require.Equal(t, "STEP_STATE_SUCCEEDED", steps[0].State)
	require.Len(t, steps, 2, "what is gone is no tool")
}

// Who kills a task kills its MCP servers.
func TestAKilledTasksMCPServerIsGone(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	keys, program := withMCP(t, "    timeout: 10m\n")
	f.Persona("counting", `
turns:
  - text: I wait.
    calls:
      - {tool: mcp__counter__slow, arguments: {}}
`, keys)
	id := f.Submit("counting")
	waittest.Until(t, 90*time.Second, "the call to be in progress", func() bool {
		steps := f.Steps(id)
		return len(steps) == 1 && steps[0].State == "STEP_STATE_STARTED" && running(t, program)
	})
	f.CLI(0, "task", "cancel", id)
	waittest.Until(t, time.Minute, "the server to be gone", func() bool { return !running(t, program) })
}
