package hub_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// changing is a node on which some commands change files in ways that their words
// do not tell.
func changing(changes map[string][]*nodev1.FileChange) func(context.Context, *nodev1.ExecSpec) (string, *nodev1.Exec) {
	return func(_ context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
		made := changes[spec.GetArgv()[2]]
		return "", &nodev1.Exec{Workspace: &nodev1.WorkspaceChange{Id: spec.GetExecId(), After: 1, Files: int32(len(made)), Changes: made}}
	}
}

// generated begins a task whose first call, ./gen, has changed files; they have these
// contents on the node.
func (r *rig) generated(agent string, contents map[string]string) *deckhandv1.Lease {
	r.t.Helper()
	lease, jail := r.beginIn(r.submit(agent).GetId(), 1)
	for name, content := range contents {
		_, err := r.node.WriteFile(r.t.Context(), &nodev1.WriteFileRequest{JailId: jail, Path: name, Content: []byte(content)})
		require.NoError(r.t, err)
	}
	r.turn(lease, 1)
	gen, err := r.propose(lease, 1, 0, "shell_exec", command("./gen"))
	require.NoError(r.t, err)
	_, err = r.execute(lease, gen.GetId())
	require.NoError(r.t, err)
	return lease
}

// A file whose text is known from the call that wrote it, that a program has
// changed since and that cannot be read now has a text that nobody knows: not its
// old one.
func TestAFileThatCannotBeReadAnyMoreIsNotTakenForItsOldText(t *testing.T) {
	t.Parallel()
	const known = "ls\n"
	large := known + strings.Repeat("# more\n", 30_000)
	r := newRig(t, hubtest.Shared(t), changing(map[string][]*nodev1.FileChange{
		"./gen": {changedTo("large.sh", large), changedTo("gone.sh", "rm -rf /\n"), changedTo("same.sh", known)},
	}))
	r.apply("writer", strings.Replace(scripted("writer"), "limits:", "workspace: {scope: task}\nlimits:", 1))
	for name, want := range map[string]deckhandv1.StepState{"large.sh": stepWaiting, "gone.sh": stepWaiting, "same.sh": stepGranted} {
		lease, jail := r.beginIn(r.submit("writer").GetId(), 1)
		r.turn(lease, 1)
		call := int32(0)
		propose := func(tool, arguments string) *deckhandv1.Step {
			step, err := r.propose(lease, 1, call, tool, arguments)
			require.NoError(t, err)
			call++
			return step
		}
		run := func(tool, arguments string) {
			step := propose(tool, arguments)
			require.Equal(t, stepGranted, step.GetState(), arguments)
			_, err := r.execute(lease, step.GetId())
			require.NoError(t, err)
		}
		arguments, err := json.Marshal(map[string]any{"path": name, "content": known})
		require.NoError(t, err)
		run("file_write", string(arguments))
		run("shell_exec", command("sh "+name))
		run("shell_exec", command("./gen"))
		_, err = r.node.WriteFile(t.Context(), &nodev1.WriteFileRequest{JailId: jail, Path: "large.sh", Content: []byte(large)})
		require.NoError(t, err)
		r.node.RemoveFile(jail, "gone.sh")
		step := propose("shell_exec", command("sh "+name))
		require.Equal(t, want, step.GetState(), name)
		if want == stepWaiting {
			require.Contains(t, step.GetDecision().GetWhy(), "whose content cannot be known")
		}
	}
}

// A script that a program has written, and that the node cannot show in time, is not run
// unseen: a person is asked.
func TestAScriptThatCannotBeReadInTimeIsAskedAbout(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{
		Looked: func(_, path string) {
			if path == "slow.sh" {
				<-slow
			}
		},
		Run: changing(map[string][]*nodev1.FileChange{"./gen": {changedTo("slow.sh", "rm -rf /\n")}}),
	})
	defer close(slow)
	r.apply("asker", strings.Replace(scripted("asker"), "limits:", "workspace: {scope: task}\nlimits:", 1))
	lease := r.generated("asker", map[string]string{"slow.sh": "rm -rf /\n"})
	step, err := r.propose(lease, 1, 1, "shell_exec", command("sh slow.sh"))
	require.NoError(t, err)
	require.Equal(t, stepWaiting, step.GetState(), step.GetDecisionReason())
	require.Contains(t, step.GetDecision().GetWhy(), "whose content cannot be known")
}

// While a decision is made the node is asked only before the task is locked: a
// node that is slow holds up nobody else.
func TestANodeIsNotAskedWhileATaskIsLocked(t *testing.T) {
	t.Parallel()
	var (
		mu     sync.Mutex
		locked []string
		asked  = map[string]int{}
		r      *rig
	)
	// The node tries to lock the task that it is asked about: who asks must not have it.
	looked := func(jail, path string) {
		mu.Lock()
		defer mu.Unlock()
		if r == nil || jail == "none" {
			return
		}
		asked[path]++
		conn, err := pgx.Connect(context.Background(), r.DatabaseURL)
		if err == nil {
			defer conn.Close(context.Background())
			_, err = conn.Exec(context.Background(), "SELECT id FROM tasks WHERE jail_id = $1 FOR UPDATE NOWAIT", jail)
		}
		if err != nil {
			locked = append(locked, path+": "+err.Error())
		}
	}
	times := func(path string) int {
		mu.Lock()
		defer mu.Unlock()
		require.Empty(t, locked, "asked under a lock")
		return asked[path]
	}
	made := newRigOn(t, hubtest.Shared(t), nodetest.Config{Looked: looked, Run: changing(map[string][]*nodev1.FileChange{
		"./gen": {changedTo("fine.sh", "ls\n"), changedTo("tidy.sh", "rm -rf /\n"), changedTo("turn.sh", "rm -rf /\n")},
	})})
	mu.Lock()
	r = made
	mu.Unlock()
	persona := strings.Replace(scripted("asker"), "limits:", "workspace: {scope: task}\nlimits:", 1)
	r.apply("asker", strings.Replace(persona, "[shell_exec,", "[file_delete, shell_exec,", 1))
	// A task of which a program has changed files.
	begin := func() *deckhandv1.Lease {
		return r.generated("asker", map[string]string{"fine.sh": "ls\n", "tidy.sh": "rm -rf /\n", "turn.sh": "rm -rf /\n", "old/a": "", "old/b": ""})
	}
	propose := func(lease *deckhandv1.Lease, tool, arguments string) *deckhandv1.Step {
		step, err := r.propose(lease, 1, 1, tool, arguments)
		require.NoError(t, err)
		return step
	}

	require.Equal(t, stepGranted, propose(begin(), "shell_exec", command("sh fine.sh")).GetState(), "granted at once")
	require.Equal(t, 1, times("fine.sh"))
	require.Equal(t, stepGranted, propose(begin(), "file_delete", `{"path":"old"}`).GetState(), "a snapshot gives it back")
	require.Equal(t, 1, times("old"))

	// What was asked for before the transaction is used in it, and asked for again
	// before the one of the answer.
	lease := begin()
	require.Equal(t, stepWaiting, propose(lease, "shell_exec", command("sh tidy.sh")).GetState())
	require.Equal(t, 1, times("tidy.sh"))
	require.NoError(t, r.yield(lease))
	_, err := r.answer(approve(r.item(lease.GetTaskId()).GetId(), ""))
	require.NoError(t, err)
	require.Equal(t, 2, times("tidy.sh"))

	// Calls that are decided with the turn which makes them.
	lease = begin()
	res, err := r.workers.Workers.RecordTurn(t.Context(), &deckhandv1.RecordTurnRequest{
		Lease: lease, Propose: []int32{0},
		Turn: &deckhandv1.Turn{
			Turn: 2, Provider: "script", Model: "scripted", StopReason: "tool_use", Usage: &deckhandv1.Usage{InputTokens: 10, OutputTokens: 5},
			Blocks: []*deckhandv1.Block{toolCall("a", "shell_exec", command("sh turn.sh"))},
		},
	})
	require.NoError(t, err)
	require.Len(t, res.GetSteps(), 1)
	require.Equal(t, stepWaiting, res.GetSteps()[0].GetState())
	require.Equal(t, []string{"wipe"}, res.GetSteps()[0].GetDecision().GetDangers())
	require.Equal(t, 1, times("turn.sh"))
	require.Equal(t, "2", r.sql("SELECT count(*)::text FROM turns WHERE task_id = $1", lease.GetTaskId()), "the turn is stored once")
	require.EqualValues(t, 20, r.task(lease.GetTaskId()).GetUsage().GetInputTokens())
}
