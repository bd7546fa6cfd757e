package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// withTasks gives a hub two tasks, one of them with steps and logs.
func withTasks(t *testing.T) *testHub {
	t.Helper()
	h := newHub(t)
	created := timestamppb.New(time.Now().Add(-3 * time.Hour))
	h.tasks = []*deckhandv1.Task{
		{
			Id: "task_aaa1", AgentName: "triage", Title: "Night\x1b[2J logs\nand more", State: deckhandv1.TaskState_TASK_STATE_RUNNING,
			Progress: 0.5, CreatedAt: created, Provider: "anthropic", Model: "claude-test", Priority: 5,
			Usage: &deckhandv1.Usage{InputTokens: 10, CostMicros: 1_500_000}, Goal: "first line\nsecond\u202e line",
		},
		{Id: "task_bbb2", AgentName: "demo", Goal: "demo", State: deckhandv1.TaskState_TASK_STATE_FAILED, CreatedAt: created, ErrorCode: "AGENT_005"},
	}
	arguments, err := structpb.NewStruct(map[string]any{"command": "ls -l"})
	require.NoError(t, err)
	outcome, err := structpb.NewStruct(map[string]any{"exit_code": 2})
	require.NoError(t, err)
	h.steps["task_aaa1"] = []*deckhandv1.Step{
		{Id: "step_1", Number: 1, Tool: "shell_exec", State: deckhandv1.StepState_STEP_STATE_FAILED, Arguments: arguments, Outcome: outcome,
			LogBytes: 2048, StartedAt: created, FinishedAt: timestamppb.New(created.AsTime().Add(1500 * time.Millisecond))},
		{Id: "step_2", Number: 2, Tool: "update_plan", State: deckhandv1.StepState_STEP_STATE_SUCCEEDED},
		{Id: "step_3", Number: 3, Tool: "shell_exec", State: deckhandv1.StepState_STEP_STATE_STARTED, LogBytes: 5},
	}
	h.logs["step_1"] = []byte("\x1b[31mred ✓\x1b[0m \x00\xff\r\n\x1b]0;title\x07end\n")
	h.logs["step_3"] = []byte("more\n")
	return h
}

func TestTasksAreListedInEveryFormat(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	got := h.run(t, "task", "list")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, `ID         AGENT   STATE    PROGRESS  COST     AGE  TITLE                WHY
task_aaa1  triage  running  50%       $1.5000  3h   Night logs and more  -
task_bbb2  demo    failed   0%        $0.0000  3h   demo                 AGENT_005
`, got.stdout)
	require.Empty(t, got.stderr)

	wide := h.run(t, "task", "list", "-o", "wide").stdout
	require.Contains(t, wide, "MODEL")
	require.Contains(t, wide, "anthropic/claude-test")

	require.Equal(t, "task_aaa1\ntask_bbb2\n", h.run(t, "task", "list", "-o", "name").stdout)

	var array []map[string]any
	out := h.run(t, "task", "list", "-o", "json").stdout
	require.NoError(t, json.Unmarshal([]byte(out), &array))
	require.Equal(t, "TASK_STATE_RUNNING", array[0]["state"])
	require.Equal(t, "first line\nsecond\u202e line", array[0]["goal"], "values are whole")
	require.NotContains(t, out, "\u202e", "and safe to print")
	require.NotContains(t, out, "\x1b")
	require.Equal(t, float64(0), array[1]["iteration"], "defaults are there")

	lines := strings.Split(strings.TrimSuffix(h.run(t, "task", "list", "-o", "jsonl").stdout, "\n"), "\n")
	require.Len(t, lines, 2)
	for i, line := range lines {
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		require.Equal(t, array[i], one)
	}
	var fromYAML []map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(h.run(t, "task", "list", "-o", "yaml").stdout), &fromYAML))
	require.Equal(t, array[0]["title"], fromYAML[0]["title"])
	require.Equal(t, array[0]["goal"], fromYAML[0]["goal"])
}

func TestAnEmptyListTeachesTheNextCommand(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for _, c := range []struct{ args, want string }{
		{"task list", `deckhand run AGENT "what to reach"`},
		{"task list --state running", "deckhand task list"},
		{"node list", "deckhand node token"},
		{"agent list", "deckhand agent apply -f FILE"},
	} {
		for _, format := range []string{"table", "json", "jsonl", "name", "yaml"} {
			got := h.run(t, append(strings.Fields(c.args), "-o", format)...)
			require.Equal(t, 0, got.code, got.stderr)
			require.Contains(t, got.stderr, c.want)
			require.Contains(t, []string{"", "[]\n"}, got.stdout)
		}
	}
}

// Pages.
func TestAListGoesOverPages(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for i := range 1200 {
		h.tasks = append(h.tasks, &deckhandv1.Task{Id: fmt.Sprintf("task_%04d", i)})
	}
	count := func(args ...string) (int, result) {
		got := h.run(t, append([]string{"task", "list", "-o", "name"}, args...)...)
		require.Equal(t, 0, got.code, got.stderr)
		return strings.Count(got.stdout, "\n"), got
	}
	n, got := count()
	require.Equal(t, 20, n)
	require.Contains(t, got.stderr, "20 shown, there are more. The next ones: --page 20. All: --limit 0")
	n, got = count("--page", "20", "--limit", "2")
	require.Equal(t, 2, n)
	require.Equal(t, "task_0020\ntask_0021\n", got.stdout)
	n, _ = count("--limit", "700")
	require.Equal(t, 700, n)
	n, got = count("--limit", "0")
	require.Equal(t, 1200, n)
	require.Empty(t, got.stderr)

	require.Equal(t, 0, h.run(t, "task", "list", "--state", "running,needs_input", "--agent", "tri", "--limit", "3").code)
	request, ok := h.last["ListTasksRequest"].(*deckhandv1.ListTasksRequest)
	require.True(t, ok)
	require.Equal(t, "tri", request.GetAgentId())
	require.Equal(t, int32(3), request.GetPageSize())
	require.Equal(t, []deckhandv1.TaskState{deckhandv1.TaskState_TASK_STATE_RUNNING, deckhandv1.TaskState_TASK_STATE_NEEDS_INPUT}, request.GetStates())
}

func TestATaskIsShownByAPrefixOfItsID(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	got := h.run(t, "task", "show", "task_a")
	require.Equal(t, 0, got.code, got.stderr)
	request, ok := h.last["GetTaskRequest"].(*deckhandv1.GetTaskRequest)
	require.True(t, ok)
	require.Equal(t, "task_a", request.GetTaskId(), "the hub resolves prefixes")
	require.Regexp(t, `(?m)^id +task_aaa1$`, got.stdout)
	require.Regexp(t, `(?m)^title +Night logs and more$`, got.stdout)
	require.Contains(t, got.stdout, "\ngoal\nfirst line\nsecond\ufffd line\n")
	require.NotContains(t, got.stdout, "\x1b")
}

func TestStepsAreListed(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	require.Equal(t, `#  ID      TOOL         STATE      TOOK  LOG    ARGUMENTS
1  step_1  shell_exec   failed     1s    2 KiB  ls -l
2  step_2  update_plan  succeeded  -     -      -
3  step_3  shell_exec   started    -     5 B    -
`, h.run(t, "task", "steps", "task_a").stdout)
	require.Contains(t, h.run(t, "task", "steps", "task_b").stderr, "no steps yet")
}

// Binary-safe, nothing lost or repeated.
func TestLogsAreRawWhereTheyAreNotShown(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	got := h.run(t, "task", "logs", "step_1")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, string(h.logs["step_1"]), got.stdout)
	require.Empty(t, got.stderr)

	h.cutLogs = 14
	require.Equal(t, string(h.logs["step_1"]), h.run(t, "task", "logs", "step_1").stdout, "a broken stream is taken up again")
	require.Equal(t, string(h.logs["step_1"][5:]), h.run(t, "task", "logs", "step_1", "--offset", "5").stdout)

	all := h.run(t, "task", "logs", "task_a")
	require.Equal(t, 0, all.code)
	require.Equal(t, string(h.logs["step_1"])+"more\n", all.stdout)
	require.Equal(t, "==> step_1 shell_exec failed ls -l\n==> step_3 shell_exec started\n", all.stderr)
	require.Contains(t, h.run(t, "task", "logs", "task_b").stderr, "no step of it has written anything")
}

func TestATaskIsCancelled(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	got := h.run(t, "task", "cancel", "task_aaa1", "--reason", "wrong server")
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stdout, "cancelled")
	request, ok := h.last["CancelTaskRequest"].(*deckhandv1.CancelTaskRequest)
	require.True(t, ok)
	require.Equal(t, "wrong server", request.GetReason())
	require.Equal(t, "task_aaa1\ntask_bbb2\n", h.run(t, "task", "cancel", "task_aaa1", "task_bbb2", "-o", "name").stdout)
}

func TestWatchShowsEverythingAndEndsWithTheTask(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	h.steps["task_aaa1"] = []*deckhandv1.Step{{Id: "step_1", Observation: strings.Repeat("line\n", 20), FinishedAt: timestamppb.Now()}}
	for _, event := range []struct {
		kind    string
		payload map[string]any
	}{
		{"thinking", map[string]any{"text": "Hm.\x1b[2J\nLet me see.\n\nI shall look.", "usage": map[string]any{"input_tokens": 100}}},
		{"tool_selected", map[string]any{"tool": "shell_exec", "arguments": map[string]any{"command": strings.Repeat("x", 500)}}},
		{"tool_executing", map[string]any{"tool": "shell_exec"}},
		{"tool_completed", map[string]any{"tool": "shell_exec", "step_id": "step_1", "state": "failed", "outcome": map[string]any{"exit_code": 2}, "error_code": "AGENT_004"}},
		{"tool_rejected", map[string]any{"tool": "fly", "message": "there is no tool fly", "error_code": "AGENT_003"}},
		{"plan_updated", map[string]any{"items": []any{map[string]any{"status": "done", "title": "look"}, map[string]any{"status": "pending", "title": "tell\x1b[2J"}}}},
		{"progress_update", map[string]any{"progress": 0.5, "next_action": "go on"}},
		{"iteration_complete", map[string]any{"usage": map[string]any{"input_tokens": 100, "output_tokens": 20, "cost_micros": 4200}, "reflection": map[string]any{"what_happened": "Looked."}}},
		{"limit_warning", map[string]any{"kind": "iterations", "current": 8, "limit": 10}},
		{"model_failover", map[string]any{"from_provider": "anthropic", "from_model": "a", "to_provider": "openai", "to_model": "b", "reason": "overloaded"}},
		{"something_new", map[string]any{"a": 1, "b": "c"}},
	} {
		h.emit("task_aaa1", event.kind, event.payload)
	}
	go func() {
		<-h.watched
		h.end("task_aaa1", deckhandv1.TaskState_TASK_STATE_SUCCEEDED, nil)
	}()
	got := h.run(t, "task", "watch", "task_a")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, `03:04:05 think Hm.
03:04:05 think Let me see.
03:04:05 think
03:04:05 think I shall look.
03:04:05 call  shell_exec `+strings.Repeat("x", lineWidth-1)+`…
03:04:05 done  shell_exec failed exit 2 AGENT_004
`+strings.Repeat("03:04:05 saw   line\n", 12)+`03:04:05 saw   … 8 more lines
03:04:05 no    fly there is no tool fly (AGENT_003)
03:04:05 plan  done        look
03:04:05 plan  pending     tell
03:04:05 next  50% go on
03:04:05 saw   Looked.
03:04:05 cost  120 tokens, $0.0042
03:04:05 limit iterations: 8 of 10 used
03:04:05 model openai/b goes on for anthropic/a (overloaded)
03:04:05 event something_new a=1 b=c
03:04:05 state succeeded
`, got.stdout)
	require.Contains(t, got.stderr, "succeeded, ")

	lines := h.run(t, "task", "watch", "task_a", "-o", "jsonl")
	require.Equal(t, 0, lines.code)
	require.Equal(t, 12, strings.Count(lines.stdout, "\n"))
	require.Empty(t, lines.stderr)
	for line := range strings.Lines(lines.stdout) {
		require.True(t, json.Valid([]byte(line)))
	}
}

func TestWatchOfSeveralTasksNamesThemAndFailsWithOne(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	h.tasks[0].State = deckhandv1.TaskState_TASK_STATE_SUCCEEDED
	h.emit("task_aaa1", "phase_changed", map[string]any{"phase": "think"})
	h.emit("task_bbb2", "phase_changed", map[string]any{"phase": "iterate"})
	got := h.run(t, "task", "watch", "task_a", "task_b")
	require.Equal(t, 1, got.code)
	require.Equal(t, "03:04:05 task_aaa1 phase think\n03:04:05 task_bbb2 phase iterate\n", got.stdout)
	require.Equal(t, "error: task task_bbb2 failed: see `deckhand task steps task_bbb2` (AGENT_005)", got.errorLine(t))

	stored := h.run(t, "task", "watch", "task_b", "--follow=false", "-o", "yaml")
	require.Equal(t, 0, stored.code)
	require.True(t, strings.HasPrefix(stored.stdout, "---\nseq: \"1\"\n"), stored.stdout)
}

// lineWidth is how much of one argument list is shown.
const lineWidth = 160

// A list is read to its end, however many pages the hub has of it.
func TestListsAreReadToTheirEnd(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	h.steps["task_aaa1"] = nil
	var want []string
	for i := range 7 {
		id := fmt.Sprintf("step_%d", i)
		want = append(want, id)
		h.steps["task_aaa1"] = append(h.steps["task_aaa1"], &deckhandv1.Step{Id: id, Number: int32(i + 1)})
		h.nodes = append(h.nodes, &deckhandv1.Node{Id: fmt.Sprintf("node_%d", i), Name: fmt.Sprintf("n%d", i)})
	}
	require.Equal(t, strings.Join(want, "\n")+"\n", h.run(t, "task", "steps", "task_aaa1", "-o", "name").stdout)
	require.Equal(t, "n0\nn1\nn2\nn3\nn4\nn5\nn6\n", h.run(t, "node", "list", "-o", "name").stdout)
}
