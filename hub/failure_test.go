package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A NUL, which the database does not take, loses nothing but itself.
func TestBytesThatTheDatabaseDoesNotTake(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), output("a\x00b\xff"))
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	_, err := r.workers.Workers.RecordTurn(t.Context(), &deckhandv1.RecordTurnRequest{
		Lease: lease, Turn: &deckhandv1.Turn{Turn: 1, Provider: "script", Model: "scripted", Blocks: []*deckhandv1.Block{
			{Kind: &deckhandv1.Block_Text_{Text: &deckhandv1.Block_Text{Text: "x\x00y"}}},
		}},
	})
	require.NoError(t, err)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"printf 'a\u0000b'"}`)
	require.NoError(t, err)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, done.GetState())
	require.Contains(t, done.GetObservation(), "a\uFFFDb\uFFFD")
	r.finish(lease)

	_, err = r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "walker", Goal: "a\x00b"})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.ErrorContains(t, err, "goal has a NUL")
}

// A task that kills its workers stops going round.
func TestATaskThatLosesItsWorkersIsEscalated(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.LeaseTTL = waittest.Limit(time.Second)
	r := newRig(t, hubtest.Start(t, cfg), nil)
	task := r.submit("walker")
	for attempt := int32(1); attempt <= 5; attempt++ {
		r.claim(task.GetId(), attempt)
	}
	require.Eventually(t, func() bool {
		return r.task(task.GetId()).GetState() == deckhandv1.TaskState_TASK_STATE_ESCALATED
	}, waittest.Limit(20*time.Second), 50*time.Millisecond)
	require.Contains(t, r.task(task.GetId()).GetReason(), "workers in a row were lost")
}

// blocking runs until it is killed, and says when.
func blocking(started, killed chan<- string) func(context.Context, *nodev1.ExecSpec) (string, *nodev1.Exec) {
	return func(ctx context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
		started <- spec.GetExecId()
		<-ctx.Done()
		killed <- spec.GetExecId()
		return "half", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_KILLED}
	}
}

func (r *rig) sleeping() (task *deckhandv1.Task, lease *deckhandv1.Lease, step *deckhandv1.Step) {
	r.t.Helper()
	task = r.submit("walker")
	lease = r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"sleep 1000"}`)
	require.NoError(r.t, err)
	go func() { _, _ = r.execute(lease, step.GetId()) }() // answers when it is cancelled
	return task, lease, step
}

func (r *rig) cancel(taskID string) {
	r.t.Helper()
	_, err := r.user.Tasks.CancelTask(r.t.Context(), &deckhandv1.CancelTaskRequest{TaskId: taskID})
	require.NoError(r.t, err)
}

// A cancellation between the hub's intent and the node's start is on the
// node's record first, so that nothing starts.
func TestACancelThatOvertakesTheStart(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	started, killed := make(chan string, 1), make(chan string, 1)
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{
		Run: blocking(started, killed), Before: func(*nodev1.ExecSpec) { close(arrived); <-goOn },
	})
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"sleep 1000"}`)
	require.NoError(t, err)
	executed := make(chan *deckhandv1.Step, 1)
	go func() {
		step, _ := r.execute(lease, step.GetId())
		executed <- step
	}()
	<-arrived
	r.cancel(task.GetId())
	close(goOn)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_CANCELLED, (<-executed).GetState())
	require.Empty(t, started, "nothing was started")
}

// A node that was away at the cancellation ends the command when it comes
// back.
func TestACancelWhileTheNodeIsAway(t *testing.T) {
	t.Parallel()
	started, killed := make(chan string, 1), make(chan string, 1)
	r := newRig(t, hubtest.Shared(t), blocking(started, killed))
	task, _, _ := r.sleeping()
	<-started
	r.node.Stop()
	r.cancel(task.GetId())
	select {
	case <-killed:
		t.Fatal("nobody can have reached the node")
	default:
	}
	require.NoError(t, r.node.Start(t.Context()))
	select {
	case <-killed:
	case <-time.After(waittest.Limit(20 * time.Second)):
		t.Fatal("the command goes on")
	}
}

// A run that ends leaves no command behind, and what it wrote can be read.
func TestAnEndingRunEndsItsCommands(t *testing.T) {
	t.Parallel()
	started, killed := make(chan string, 1), make(chan string, 1)
	r := newRig(t, hubtest.Shared(t), blocking(started, killed))
	task, lease, step := r.sleeping()
	<-started
	r.finish(lease)
	<-killed
	require.Eventually(t, func() bool {
		res, err := r.user.Tasks.ListSteps(t.Context(), &deckhandv1.ListStepsRequest{TaskId: task.GetId()})
		require.NoError(t, err)
		return res.GetSteps()[0].GetLogBytes() == int64(len("half"))
	}, waittest.Limit(10*time.Second), 20*time.Millisecond, "step %s tells of its output", step.GetId())
}

// What is shown is masked; what a run goes on from is not.
func TestARunGoesOnFromWhatTheModelWrote(t *testing.T) {
	t.Parallel()
	const secret = "sk-ant-api03-SECRETSECRETSECRET"
	cfg := hubtest.Config(t)
	cfg.LeaseTTL = waittest.Limit(time.Second)
	r := newRig(t, hubtest.Start(t, cfg), nil)
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	arguments := `{"command":"use ` + secret + ` disk-usage-report-2026-11-20.txt"}`
	_, err := r.workers.Workers.RecordTurn(t.Context(), &deckhandv1.RecordTurnRequest{
		Lease: lease, Turn: &deckhandv1.Turn{Turn: 1, Blocks: []*deckhandv1.Block{{Kind: &deckhandv1.Block_ToolCall_{
			ToolCall: &deckhandv1.Block_ToolCall{Id: "c", Name: "shell_exec", ArgumentsJson: arguments},
		}}}},
	})
	require.NoError(t, err)
	claimed := r.claim(task.GetId(), 2)
	require.Equal(t, arguments, claimed.GetTurns()[0].GetBlocks()[0].GetToolCall().GetArgumentsJson())

	conn, err := pgx.Connect(t.Context(), r.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var content string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT content::text FROM turns").Scan(&content))
	require.NotContains(t, content, secret)
	require.Contains(t, content, "disk-usage-report-2026-11-20.txt")
}

// A turn costs what the task's own model costs, whatever a worker calls it.
func TestAWorkerDoesNotChooseThePrice(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.AnthropicKey = config.Secret("the-provider-key")
	r := newRig(t, hubtest.Start(t, cfg), nil)
	r.apply("claude", anthropicPersona("claude"))
	task := r.submit("claude")
	lease := r.begin(task.GetId(), 1)
	res, err := r.workers.Workers.RecordTurn(t.Context(), &deckhandv1.RecordTurnRequest{
		Lease: lease, Turn: &deckhandv1.Turn{Turn: 1, Provider: "script", Model: "scripted", Usage: &deckhandv1.Usage{InputTokens: 1000}},
	})
	require.NoError(t, err)
	require.EqualValues(t, 3000, res.GetTurn().GetUsage().GetCostMicros())
}

func anthropicPersona(name string) string {
	return strings.NewReplacer("provider: script", "provider: anthropic\nmodel: claude-sonnet-4-5",
		"script: "+name+".script.yaml\n", "").Replace(scripted(name))
}

// The relay reads the model as the provider will.
func TestTheRelayIsNotFooledByKeys(t *testing.T) {
	t.Parallel()
	var got map[string]any
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		got = nil
		_ = json.NewDecoder(req.Body).Decode(&got)
	}))
	t.Cleanup(provider.Close)
	cfg := hubtest.Config(t)
	cfg.AnthropicBaseURL, cfg.AnthropicKey = provider.URL, config.Secret("the-provider-key")
	r := newRig(t, hubtest.Start(t, cfg), nil)
	r.apply("claude", anthropicPersona("claude"))
	lease := r.begin(r.submit("claude").GetId(), 1)
	ask := func(body string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL()+"/relay/anthropic/v1/messages", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("X-Api-Key", fmt.Sprintf("%s:%d:%s", lease.GetTaskId(), lease.GetAttempt(), lease.GetToken()))
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	require.Equal(t, http.StatusBadRequest, ask(`{"model":"claude-opus-4-1","Model":"claude-sonnet-4-5","max_tokens":7}`))
	require.Equal(t, http.StatusBadRequest, ask(`{"Model":"claude-sonnet-4-5","max_tokens":7}`))
	require.Equal(t, http.StatusForbidden, ask(`{"model":["claude-sonnet-4-5"],"max_tokens":7}`))
	require.Equal(t, http.StatusBadRequest, ask(`{"model":"claude-opus-4-1","model":"claude-sonnet-4-5","max_tokens":7}`))
	require.Nil(t, got, "the provider was asked")
	// What a model wrote as arguments is passed on as it stands.
	const said = `[{"role":"assistant","content":[{"type":"tool_use","input":{"a":1,"a":"\ud83d"}}]}]`
	require.Equal(t, http.StatusOK, ask(`{"model":"claude-sonnet-4-5","max_tokens":7,"messages":`+said+`}`))
	require.Equal(t, "claude-sonnet-4-5", got["model"])
	require.Contains(t, got, "messages")
}

// Somebody else's long transaction on the same server holds up no watch, and
// neither does a database that was restored into a younger server.
func TestWatchesKnowTheirOwnDatabaseOnly(t *testing.T) {
	t.Parallel()
	other, err := pgx.Connect(t.Context(), postgrestest.Database(t))
	require.NoError(t, err)
	defer other.Close(context.Background())
	tx, err := other.Begin(t.Context())
	require.NoError(t, err)
	var xid string
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text").Scan(&xid))

	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	task := r.submit("walker")
	r.finish(r.begin(task.GetId(), 1))
	begin := time.Now()
	events := r.events(task.GetId(), true)
	require.Less(t, time.Since(begin), waittest.Limit(10*time.Second))
	require.EqualValues(t, r.task(task.GetId()).GetEventSeq(), len(events))
	require.NoError(t, tx.Rollback(t.Context()))

	conn, err := pgx.Connect(t.Context(), r.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "UPDATE events SET xid = (xid::text::bigint + 1000000)::text::xid8")
	require.NoError(t, err)
	s, err := store.Open(t.Context(), r.DatabaseURL) // as a hub does at its start
	require.NoError(t, err)
	s.Close()
	for i, e := range r.events(task.GetId(), true) {
		require.EqualValues(t, i+1, e.GetSeq(), "in order")
	}
}

// A key names one submission.
func TestAnIdempotencyKeyIsForOneGoal(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	submit := func(goal string) error {
		_, err := r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{
			AgentId: "walker", Goal: goal, IdempotencyKey: "k",
		})
		return err
	}
	require.NoError(t, submit("one"))
	require.NoError(t, submit("one"))
	require.True(t, fault.Is(submit("another"), fault.Exists))
}

// A persona bounds the output of its agent's commands, and at the bound the
// agent is told what stopped them.
func TestACommandThatWritesTooMuchEndsWithThePersonasLimit(t *testing.T) {
	t.Parallel()
	asked := make(chan int64, 1)
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Run: func(_ context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
		asked <- spec.GetOutputLimitBytes()
		return "some words\n", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_OUTPUT_LIMIT, Signal: 9}
	}})
	r.apply("walker", strings.Replace(scripted("walker"), "limits:", "output_limit: 3MiB\nlimits:", 1))
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"yes"}`)
	require.NoError(t, err)
	step, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.EqualValues(t, 3<<20, <-asked)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_FAILED, step.GetState())
	require.Contains(t, step.GetObservation(), "it wrote more output than its limit")
	require.Contains(t, step.GetObservation(), "some words")
}
