package hub_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func export(t *testing.T, c *sdk.Client, id string, format deckhandv1.ExportTaskFormat) (string, error) {
	t.Helper()
	stream, err := c.History.ExportTask(t.Context(), &deckhandv1.ExportTaskRequest{TaskId: id, Format: format})
	require.NoError(t, err)
	defer stream.Close()
	var out bytes.Buffer
	for stream.Receive() {
		out.Write(stream.Msg().GetData())
	}
	return out.String(), fault.FromConnect(stream.Err())
}

// An export has every event once and in order, and says at its end how much
// there is. Somebody else's task is refused, and who took one is on record.
func TestATaskIsExportedWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), output("a\x00\xffb\n"))
	id := r.submit("walker").GetId()
	lease := r.begin(id, 1)
	for range 250 { // more than are read at once
		_, err := r.workers.Workers.RecordEvents(t.Context(), &deckhandv1.RecordEventsRequest{
			Lease: lease, Events: []*deckhandv1.EventDraft{{Type: "thinking"}},
		})
		require.NoError(t, err)
	}
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"printf '\u001b[31m'"}`)
	require.NoError(t, err)
	_, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	r.finish(lease)

	text, err := export(t, r.user, id, 0)
	require.NoError(t, err)
	var seq, steps int
	var log []byte
	var kinds []string
	for line := range strings.Lines(text) {
		var l struct {
			Kind  string
			Event struct{ Seq string }
			Step  struct{ ID string }
			Log   struct {
				Text   string
				Base64 []byte
			}
			End map[string]int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		if len(kinds) == 0 || kinds[len(kinds)-1] != l.Kind {
			kinds = append(kinds, l.Kind)
		}
		switch l.Kind {
		case "event":
			seq++
			require.Equal(t, strconv.Itoa(seq), l.Event.Seq)
		case "step":
			steps++
			require.Equal(t, step.GetId(), l.Step.ID)
		case "log":
			log = append(append(log, l.Log.Text...), l.Log.Base64...)
		case "end":
			require.Equal(t, map[string]int{"events": seq, "steps": 1, "logBytes": len(log), "missing": 0}, l.End)
		}
	}
	require.Equal(t, []string{"export", "task", "event", "step", "log", "end"}, kinds)
	require.EqualValues(t, r.task(id).GetEventSeq(), seq)
	require.Equal(t, "a\x00\xffb\n", string(log))

	cast, err := export(t, r.user, id, deckhandv1.ExportTaskFormat_EXPORT_TASK_FORMAT_ASCIICAST)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(cast, `{"version":3,"term":{"cols":80,"rows":24}`), cast)
	require.Contains(t, cast, `"m","step 1: shell_exec"`)
	require.Contains(t, cast, `$ printf '�[31m'\r\n`, "a command shows, and does nothing")
	require.Contains(t, cast, `b\r\n"`)

	viewer := r.as("vic", "viewer")
	_, err = export(t, viewer, id, 0)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	entries, err := r.user.Audit.ListAuditEntries(t.Context(), &deckhandv1.ListAuditEntriesRequest{})
	require.NoError(t, err)
	taken := 0
	for _, e := range entries.GetEntries() {
		if e.GetAction() == "task.exported" {
			taken++
		}
	}
	require.Equal(t, 2, taken)
}

// An agent without five finished runs has no history; then its runs are the
// estimate, and what is left of the budgets is beside it.
func TestAnEstimateIsOfTheRunsBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	estimate := func(req *deckhandv1.GetEstimateRequest) *deckhandv1.GetEstimateResponse {
		t.Helper()
		res, err := r.user.History.GetEstimate(t.Context(), req)
		require.NoError(t, err)
		return res
	}
	none := estimate(&deckhandv1.GetEstimateRequest{AgentId: "walker"})
	require.Equal(t, "no history", none.GetEstimate().GetBasis())
	require.Nil(t, none.GetEstimate().GetDurationP50())
	require.Len(t, none.GetBudgets(), 2, "the organisation's of the day and of the month")
	require.EqualValues(t, 50_000_000, none.GetBudgets()[0].GetLimitMicros())

	r.apply("known", scripted("known"))
	for range 5 {
		r.finish(r.begin(r.submit("known").GetId(), 1))
	}
	// One that a person cancelled does not count.
	cancelled := r.submit("known").GetId()
	r.begin(cancelled, 1)
	_, err := r.user.Tasks.CancelTask(t.Context(), &deckhandv1.CancelTaskRequest{TaskId: cancelled})
	require.NoError(t, err)
	r.sql("UPDATE tasks SET started_at = finished_at - interval '40 seconds', cost_micros = 20000 WHERE state = 'succeeded' RETURNING id")
	e := estimate(&deckhandv1.GetEstimateRequest{AgentId: "known"}).GetEstimate()
	require.EqualValues(t, 5, e.GetRuns())
	require.Equal(t, 40*time.Second, e.GetDurationP50().AsDuration())
	require.Equal(t, 40*time.Second, e.GetDurationP90().AsDuration())
	require.EqualValues(t, 20_000, e.GetCostMicrosP90())

	require.Nil(t, estimate(&deckhandv1.GetEstimateRequest{AgentId: "known"}).RunsLeft)
	r.plan("free")
	require.EqualValues(t, 50-6, estimate(&deckhandv1.GetEstimateRequest{AgentId: "known"}).GetRunsLeft())

	submitted := do(t, r.user.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: "known", Goal: "test"})
	require.EqualValues(t, 5, submitted.GetEstimate().GetRuns(), "who submits is told, too")
	live := submitted.GetTask().GetId()
	r.begin(live, 1)
	under := estimate(&deckhandv1.GetEstimateRequest{TaskId: live})
	require.Equal(t, 40*time.Second, under.GetEstimate().GetDurationP50().AsDuration().Round(time.Second))
	require.Equal(t, "task", under.GetBudgets()[0].GetScope())

	_, err = r.user.History.GetEstimate(t.Context(), &deckhandv1.GetEstimateRequest{})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

// Tasks are added up by agent, tool, outcome and time; of whoever is no
// administrator their own.
func TestTasksAreAddedUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), output("x\n"))
	r.apply("other", scripted("other"))
	r.finish(r.begin(r.submit("other").GetId(), 1))
	lease := r.begin(r.submit("walker").GetId(), 1)
	r.turn(lease, 1)
	for i, command := range []string{"true", "ls"} {
		step, err := r.propose(lease, 1, int32(i), "shell_exec", `{"command":"`+command+`"}`) //nolint:gosec // small
		require.NoError(t, err)
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
	}
	r.finish(lease)
	basic := r.as("bea", "basic")
	mine, err := basic.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "walker", Goal: "mine"})
	require.NoError(t, err)
	ask := func(c *sdk.Client, req *deckhandv1.GetStatisticsRequest) map[string]*deckhandv1.StatisticsRow {
		t.Helper()
		res, err := c.History.GetStatistics(t.Context(), req)
		require.NoError(t, err)
		out := map[string]*deckhandv1.StatisticsRow{}
		for _, row := range res.GetRows() {
			out[row.GetKey()] = row
		}
		return out
	}
	agents := ask(r.user, &deckhandv1.GetStatisticsRequest{By: "agent"})
	require.Len(t, agents, 2)
	require.EqualValues(t, 2, agents["walker"].GetTasks())
	require.EqualValues(t, 1, agents["walker"].GetSucceeded())
	require.EqualValues(t, 1, agents["walker"].GetLive())
	require.EqualValues(t, 10, agents["walker"].GetUsage().GetInputTokens())
	require.NotNil(t, agents["other"].GetDurationP90())
	tools := ask(r.user, &deckhandv1.GetStatisticsRequest{By: "tool"})
	require.EqualValues(t, 2, tools["shell_exec"].GetCalls())
	require.EqualValues(t, 1, tools["shell_exec"].GetTasks())
	require.Empty(t, ask(r.user, &deckhandv1.GetStatisticsRequest{By: "tool", AgentId: "other"}))
	require.EqualValues(t, 2, ask(r.user, &deckhandv1.GetStatisticsRequest{By: "outcome"})["succeeded"].GetTasks())
	months := ask(r.user, &deckhandv1.GetStatisticsRequest{By: "month"})
	require.EqualValues(t, 3, months[r.task(mine.GetTask().GetId()).GetCreatedAt().AsTime().Format("2006-01")].GetTasks())

	own := ask(basic, &deckhandv1.GetStatisticsRequest{By: "agent"})
	require.Len(t, own, 1)
	require.EqualValues(t, 1, own["walker"].GetTasks())
	require.Empty(t, ask(basic, &deckhandv1.GetStatisticsRequest{By: "tool"}))

	long := &deckhandv1.GetStatisticsRequest{By: "day", Since: timestamppb.New(time.Now().AddDate(-2, 0, 0))}
	_, err = r.user.History.GetStatistics(t.Context(), long)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

// Statistics also say how many iterations tasks had, the time in their phases, whether they
// succeeded at the first time, and what was denied: by agent, version, type and tool.
func TestStatisticsSayHowTasksWent(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), output("x\n"))
	r.apply("typed", strings.Replace(scripted("typed"), "description:", "task_type: upkeep\ndescription:", 1))
	phases := map[string]any{"think": 1500, "execute_action": 250, "unknown": 7}
	run := func(sub *deckhandv1.SubmitTaskRequest) (id string) {
		t.Helper()
		id = do(t, r.user.Tasks.SubmitTask, sub).GetTask().GetId()
		lease := r.begin(id, 1)
		for turn := int32(1); turn <= 2; turn++ {
			r.turn(lease, turn)
			step, err := r.propose(lease, turn, 0, "shell_exec", `{"command":"true"}`)
			require.NoError(t, err)
			_, err = r.execute(lease, step.GetId())
			require.NoError(t, err)
			_, err = r.propose(lease, turn, 1, "file_edit", `{"path":"a","old_string":"b","new_string":"c"}`) // not among its tools
			require.NoError(t, err)
			state, err := structpb.NewStruct(map[string]any{"iteration": turn, "opening": "go on"})
			require.NoError(t, err)
			payload, err := structpb.NewStruct(map[string]any{"iteration": turn, "phases_ms": phases})
			require.NoError(t, err)
			_, err = r.workers.Workers.SaveCheckpoint(t.Context(), &deckhandv1.SaveCheckpointRequest{
				Lease: lease, Progress: 0.5, Checkpoint: &deckhandv1.Checkpoint{Iteration: turn, State: state},
				Events: []*deckhandv1.EventDraft{{Type: "iteration_complete", Payload: payload}},
			})
			require.NoError(t, err)
		}
		r.finish(lease)
		return id
	}
	first := run(&deckhandv1.SubmitTaskRequest{AgentId: "walker", Goal: "go on"})
	require.Equal(t, "walker", r.task(first).GetTaskType())
	typed := run(&deckhandv1.SubmitTaskRequest{AgentId: "typed", Goal: "go on"})
	require.Equal(t, "upkeep", r.task(typed).GetTaskType())
	run(&deckhandv1.SubmitTaskRequest{AgentId: "typed", Goal: "go on", TaskType: "repair"})
	retried := do(t, r.user.Tasks.RetryTask, &deckhandv1.RetryTaskRequest{TaskId: typed}).GetTask()
	require.Equal(t, "upkeep", retried.GetTaskType())
	r.finish(r.begin(retried.GetId(), 1))
	_, err := r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "typed", Goal: "go on", TaskType: "=cmd"})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)

	ask := func(req *deckhandv1.GetStatisticsRequest) map[string]*deckhandv1.StatisticsRow {
		t.Helper()
		out := map[string]*deckhandv1.StatisticsRow{}
		for _, row := range do(t, r.user.History.GetStatistics, req).GetRows() {
			out[row.GetKey()] = row
		}
		return out
	}
	types := ask(&deckhandv1.GetStatisticsRequest{By: "task_type"})
	require.Len(t, types, 3)
	require.EqualValues(t, 2, types["upkeep"].GetTasks())
	require.EqualValues(t, 2, types["upkeep"].GetSucceeded())
	require.EqualValues(t, 1, types["upkeep"].GetFirstTime())
	require.EqualValues(t, 1, types["upkeep"].GetRetries())
	require.EqualValues(t, 2, types["upkeep"].GetDenied())
	require.InDelta(t, 1, types["upkeep"].GetMeanIterations(), 0.01, "two iterations, and none")
	require.EqualValues(t, 1, types["upkeep"].GetTimed())
	require.Equal(t, "think", types["upkeep"].GetPhases()[2].GetPhase())
	require.Equal(t, 3*time.Second, types["upkeep"].GetPhases()[2].GetTotal().AsDuration())
	require.Equal(t, 500*time.Millisecond, types["upkeep"].GetPhases()[4].GetTotal().AsDuration())
	require.NotNil(t, types["repair"].GetDurationMean())
	versions := ask(&deckhandv1.GetStatisticsRequest{By: "version"})
	require.EqualValues(t, 3, versions["typed v1"].GetTasks())
	require.EqualValues(t, 1, ask(&deckhandv1.GetStatisticsRequest{By: "agent", AgentId: "typed", AgentVersion: 1, TaskType: "repair"})["typed"].GetTasks())
	require.Empty(t, ask(&deckhandv1.GetStatisticsRequest{By: "agent", AgentId: "typed", AgentVersion: 2}))
	tools := ask(&deckhandv1.GetStatisticsRequest{By: "tool"})
	require.EqualValues(t, 6, tools["file_edit"].GetDenied())
	require.Zero(t, tools["shell_exec"].GetDenied())
	year, week := time.Now().UTC().ISOWeek()
	require.EqualValues(t, 4, ask(&deckhandv1.GetStatisticsRequest{By: "week"})[fmt.Sprintf("%d-W%02d", year, week)].GetTasks())
	_, err = r.user.History.GetStatistics(t.Context(), &deckhandv1.GetStatisticsRequest{By: "agent", AgentVersion: 1})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}
