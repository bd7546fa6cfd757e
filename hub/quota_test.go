package hub_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (r *rig) plan(name string) {
	r.t.Helper()
	_, err := r.user.Plans.SetPlan(r.t.Context(), &deckhandv1.SetPlanRequest{Name: name})
	require.NoError(r.t, err)
}

// A plan bounds how long a run works and which tools it may call, whatever
// its persona and the role of who submitted it; its runs are counted.
func TestAPlanBoundsRuns(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("worker", scripted("worker"))
	unset, err := r.user.Plans.GetPlan(t.Context(), &deckhandv1.GetPlanRequest{})
	require.NoError(t, err)
	require.Equal(t, "self-hosted", unset.GetPlan().GetName())
	require.Nil(t, unset.GetPlan().Left)

	_, err = r.user.Plans.SetPlan(t.Context(), &deckhandv1.SetPlanRequest{Name: "free", Runs: new(int64(9))})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	r.plan("free")
	task := r.submit("worker")
	claim := r.claim(task.GetId(), 1)
	require.Equal(t, 5*time.Minute, claim.GetTask().GetOverride().GetLimits().GetActiveTime().AsDuration())
	_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: claim.GetLease()})
	require.NoError(t, err)
	r.turn(claim.GetLease(), 1)
	denied, err := r.propose(claim.GetLease(), 1, 0, "shell_exec", command("true"))
	require.NoError(t, err)
	require.Equal(t, stepDenied, denied.GetState())
	require.Contains(t, denied.GetObservation(), "the organisation's plan, free, has none that are worse than safe")
	r.plan("starter")
	allowed, err := r.propose(claim.GetLease(), 1, 1, "shell_exec", command("true"))
	require.NoError(t, err)
	require.Equal(t, stepGranted, allowed.GetState())

	used, err := r.user.Plans.GetPlan(t.Context(), &deckhandv1.GetPlanRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 1, used.GetPlan().GetUsed())
	require.EqualValues(t, 499, used.GetPlan().GetLeft())
	require.Len(t, r.audited("plan.set"), 2)
	_, err = r.as("ann", "advanced").Plans.SetPlan(t.Context(), &deckhandv1.SetPlanRequest{Name: "enterprise"})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
}

// A run gets the limits that its user's quota leaves, waits in the queue when it has used them,
// and goes on with more; calls of tools beyond the quota are denied. Users see what is left
// before a run, administrators what everybody has used.
func TestAUsersQuotaBoundsARun(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.UpgradeURL = "https://example.com/plans"
	r := newRig(t, hubtest.Start(t, cfg), output("x"))
	r.apply("worker", scripted("worker"))
	ann := r.as("ann", "advanced")
	set := func(q *deckhandv1.Quota) *deckhandv1.Plan {
		t.Helper()
		return do(t, r.user.Plans.SetQuota, &deckhandv1.SetQuotaRequest{Quota: q}).GetPlan()
	}
	_, err := ann.Plans.SetQuota(t.Context(), &deckhandv1.SetQuotaRequest{Quota: &deckhandv1.Quota{UserName: "ann", Runs: new(int64(5))}})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	_, err = r.user.Plans.SetQuota(t.Context(), &deckhandv1.SetQuotaRequest{Quota: &deckhandv1.Quota{UserName: "nobody", Runs: new(int64(5))}})
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	set(&deckhandv1.Quota{UserName: "*", Runs: new(int64(5))})
	plan := set(&deckhandv1.Quota{UserName: "ann", Iterations: new(int64(2)), ToolCalls: new(int64(1))})
	require.Len(t, plan.GetLimits(), 2)
	require.Equal(t, "https://example.com/plans", plan.GetUpgradeUrl())

	task := do(t, ann.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: "worker", Goal: "go on"}).GetTask()
	claim := r.claim(task.GetId(), 1)
	require.EqualValues(t, 2, claim.GetTask().GetOverride().GetLimits().GetIterations())
	require.Equal(t, []string{"iterations"}, claim.GetTask().GetQuotaLimits())
	estimate := do(t, ann.History.GetEstimate, &deckhandv1.GetEstimateRequest{AgentId: "worker"})
	require.Equal(t, "https://example.com/plans", estimate.GetUpgradeUrl())
	require.Len(t, estimate.GetQuotas(), 2)
	require.Equal(t, "iterations", estimate.GetQuotas()[0].GetMetric())
	require.EqualValues(t, 2, estimate.GetQuotas()[0].GetReserved())

	lease := claim.GetLease()
	_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: lease})
	require.NoError(t, err)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", command("true"))
	require.NoError(t, err)
	_, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	denied, err := r.propose(lease, 1, 1, "shell_exec", command("true"))
	require.NoError(t, err)
	require.Equal(t, stepDenied, denied.GetState())
	require.Contains(t, denied.GetObservation(), "the 1 tool calls that the quota leaves it")
	r.checkpoint(lease, 1)
	r.turn(lease, 2)
	r.checkpoint(lease, 2)
	r.end(lease, deckhandv1.TaskState_TASK_STATE_PAUSED, fault.BudgetLimit, "iterations")
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_QUEUED, r.task(task.GetId()).GetState())
	r.waitsFor(task.GetId(), "all 2 iterations of the quota of ann for ")

	set(&deckhandv1.Quota{UserName: "ann", Iterations: new(int64(5)), ToolCalls: new(int64(0))})
	again := r.claim(task.GetId(), 2)
	require.EqualValues(t, 5, again.GetTask().GetOverride().GetLimits().GetIterations())
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_STARTING, again.GetTask().GetState())
	_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: again.GetLease()})
	require.NoError(t, err)
	r.finish(again.GetLease())

	own := do(t, ann.Plans.GetQuotaHistory, &deckhandv1.GetQuotaHistoryRequest{UserName: "ann", Periods: 2})
	require.Len(t, own.GetPeriods(), 2)
	require.EqualValues(t, 1, own.GetPeriods()[0].GetRuns())
	require.EqualValues(t, 2, own.GetPeriods()[0].GetIterations())
	require.EqualValues(t, 1, own.GetPeriods()[0].GetToolCalls())
	require.Empty(t, do(t, ann.Plans.GetQuotaHistory, &deckhandv1.GetQuotaHistoryRequest{}).GetUsers())
	_, err = ann.Plans.GetQuotaHistory(t.Context(), &deckhandv1.GetQuotaHistoryRequest{UserName: "root"})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	all := do(t, r.user.Plans.GetQuotaHistory, &deckhandv1.GetQuotaHistoryRequest{})
	require.Len(t, all.GetPeriods(), 12)
	require.Len(t, all.GetUsers(), 1)
	require.Equal(t, "ann", all.GetUsers()[0].GetUserName())
	require.Empty(t, do(t, ann.Plans.GetPlan, &deckhandv1.GetPlanRequest{}).GetPlan().GetLimits())
	require.Len(t, r.audited("quota.set"), 3)
}

// A model that is not allowed is refused where a task is submitted with it,
// and the relay refuses it of tasks that are in progress.
func TestOnlyAllowedModelsAreCalled(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"message","usage":{"input_tokens":10,"output_tokens":2}}`)
	}))
	t.Cleanup(provider.Close)
	cfg := hubtest.Config(t)
	cfg.AnthropicBaseURL, cfg.AnthropicKey = provider.URL, config.Secret("the-provider-key")
	r := newRig(t, hubtest.Start(t, cfg), nil)
	r.apply("claude", anthropicPersona("claude"))
	allow := func(models ...string) error {
		_, err := r.user.Plans.SetAllowedModels(t.Context(), &deckhandv1.SetAllowedModelsRequest{Models: models})
		return err
	}
	lease := r.begin(r.submit("claude").GetId(), 1)
	require.NoError(t, allow("anthropic/*"))
	res, body := r.askModel(lease, 400)
	require.Equal(t, http.StatusOK, res.StatusCode, body)

	require.NoError(t, allow("anthropic/claude-haiku-*", "openai/gpt-5"))
	res, body = r.askModel(lease, 400)
	require.Equal(t, http.StatusForbidden, res.StatusCode, body)
	require.Equal(t, string(fault.PermissionDenied), res.Header.Get(fault.CodeHeader))
	_, err := r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "claude", Goal: "go on"})
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.ErrorContains(t, err, "not among those that the organisation may call: anthropic/claude-haiku-*, openai/gpt-5")
	require.NoError(t, allow())
	res, body = r.askModel(lease, 400)
	require.Equal(t, http.StatusOK, res.StatusCode, body)

	for _, bad := range []string{"claude", "nobody/x", "anthropic/", "anthropic/a b"} {
		require.True(t, fault.Is(allow(bad), fault.Invalid), bad)
	}
	require.Len(t, r.audited("plan.models_set"), 3)
}

// Calls of a provider that gets so many a minute wait for their turns, and one
// whose turn is too far off is told to come again.
func TestCallsOfAProviderWaitForTheirTurns(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var calls []time.Time
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		calls = append(calls, time.Now())
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"message","usage":{"input_tokens":10,"output_tokens":2}}`)
	}))
	t.Cleanup(provider.Close)
	cfg := hubtest.Config(t)
	cfg.AnthropicBaseURL, cfg.AnthropicKey = provider.URL, config.Secret("the-provider-key")
	r := newRig(t, hubtest.Start(t, cfg), nil)
	r.apply("claude", anthropicPersona("claude"))
	lease := r.begin(r.submit("claude").GetId(), 1)
	rate := func(n int32) {
		_, err := r.user.Plans.SetCallRate(t.Context(), &deckhandv1.SetCallRateRequest{Provider: "anthropic", CallsPerMinute: n})
		require.NoError(t, err)
	}
	rate(600) // 60 at once, and then one in 100 ms
	var asking sync.WaitGroup
	began := time.Now()
	for range 75 {
		asking.Go(func() {
			res, _ := r.askModel(lease, 400)
			_ = res
		})
	}
	asking.Wait()
	require.Len(t, calls, 75)
	require.GreaterOrEqual(t, calls[74].Sub(began), 1300*time.Millisecond, "15 of them waited for turns of 100 ms")

	rate(1)
	res, body := r.askModel(lease, 400)
	require.Equal(t, http.StatusOK, res.StatusCode, body)
	res, body = r.askModel(lease, 400)
	require.Equal(t, http.StatusTooManyRequests, res.StatusCode, body)
	require.Equal(t, string(fault.RateLimited), res.Header.Get(fault.CodeHeader))
	require.NotEmpty(t, res.Header.Get("Retry-After"))
	rate(0)
	res, body = r.askModel(lease, 400)
	require.Equal(t, http.StatusOK, res.StatusCode, body)
}
