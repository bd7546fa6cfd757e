package hub_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// askModel makes a call of claude-sonnet-4-5 through the relay, as a worker
// with that lease would.
func (r *rig) askModel(lease *deckhandv1.Lease, maxTokens int) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.URL()+"/relay/anthropic/v1/messages",
		strings.NewReader(fmt.Sprintf(`{"model":"claude-sonnet-4-5","max_tokens":%d}`, maxTokens)))
	require.NoError(r.t, err)
	req.Header.Set("X-Api-Key", fmt.Sprintf("%s:%d:%s", lease.GetTaskId(), lease.GetAttempt(), lease.GetToken()))
	res, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	return res, string(body)
}

// A turn costs what the relay read off the wire, whatever the worker
// says; the task's own limit holds for its calls; and after its end it makes none.
func TestTheHubCountsForItself(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"message","usage":{"input_tokens":1000,"output_tokens":200}}`)
	}))
	t.Cleanup(provider.Close)
	cfg := hubtest.Config(t)
	cfg.AnthropicBaseURL, cfg.AnthropicKey = provider.URL, config.Secret("the-provider-key")
	r := newRig(t, hubtest.Start(t, cfg), nil)
	r.apply("claude", strings.Replace(anthropicPersona("claude"), "iterations: 20", "iterations: 20, cost_usd: 0.02", 1))
	task := r.submit("claude")
	lease := r.begin(task.GetId(), 1)
	for range 2 { // the first answer was no use to the worker
		res, body := r.askModel(lease, 400)
		require.Equal(t, http.StatusOK, res.StatusCode, body)
	}
	stored, err := r.workers.Workers.RecordTurn(t.Context(), &deckhandv1.RecordTurnRequest{
		Lease: lease, Turn: &deckhandv1.Turn{
			Turn: 1, Provider: "anthropic", Model: "claude-haiku-4-5", StopReason: "end_turn", Usage: &deckhandv1.Usage{InputTokens: 1, OutputTokens: 1},
			Blocks: []*deckhandv1.Block{{Kind: &deckhandv1.Block_Text_{Text: &deckhandv1.Block_Text{Text: "x"}}}},
		},
	})
	require.NoError(t, err)
	usage := stored.GetTurn().GetUsage()
	require.EqualValues(t, 2*(1000*3+200*15), usage.GetCostMicros())
	require.EqualValues(t, 2000, usage.GetInputTokens())
	require.EqualValues(t, usage.GetCostMicros(), r.task(task.GetId()).GetUsage().GetCostMicros())

	// 12 000 are spent; a prompt like the last one may cost 4 000, and the output 15 000.
	res, body := r.askModel(lease, 1000)
	require.Equal(t, http.StatusTooManyRequests, res.StatusCode, body)
	require.Equal(t, string(fault.BudgetLimit), res.Header.Get(fault.CodeHeader))
	require.Contains(t, body, "0.01 USD of 0.02 USD")
	require.Contains(t, res.Header.Get(fault.FixHeader), "deckhand budget set task "+task.GetId())
	res, body = r.askModel(lease, 200)
	require.Equal(t, http.StatusOK, res.StatusCode, body)

	r.kill(deckhandv1.KillScope_KILL_SCOPE_TASK, task.GetId())
	res, body = r.askModel(lease, 1)
	require.Equal(t, http.StatusUnauthorized, res.StatusCode, body)
	require.Equal(t, "3", r.sql("SELECT count(*)::text FROM model_calls WHERE basis = 'reported'"))
	require.Equal(t, "0", r.sql("SELECT sum(reserved_micros)::text FROM budget_accounts"))
}

// What models cost is added up by agent, user, model, task and day; who is no
// administrator sees their own.
func TestAReportAddsUpWhatModelsCost(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"message","usage":{"input_tokens":1000,"output_tokens":200}}`)
	}))
	t.Cleanup(provider.Close)
	cfg := hubtest.Config(t)
	cfg.AnthropicBaseURL, cfg.AnthropicKey = provider.URL, config.Secret("the-provider-key")
	r := newRig(t, hubtest.Start(t, cfg), nil)
	r.apply("claude", anthropicPersona("claude"))
	ann := r.as("ann", "basic")
	const each = 1000*3 + 200*15 // micro-dollars
	of := func(task *deckhandv1.Task, calls int) {
		lease := r.begin(task.GetId(), 1)
		for range calls {
			res, body := r.askModel(lease, 400)
			require.Equal(t, http.StatusOK, res.StatusCode, body)
		}
		r.finish(lease)
	}
	mine := r.submit("claude")
	of(mine, 3)
	res, err := ann.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "claude", Goal: "go on"})
	require.NoError(t, err)
	hers := res.GetTask()
	of(hers, 1)

	report := func(client *sdk.Client, by string) (*deckhandv1.GetUsageReportResponse, map[string]int64) {
		res, err := client.Budgets.GetUsageReport(t.Context(), &deckhandv1.GetUsageReportRequest{By: by})
		require.NoError(t, err)
		rows := map[string]int64{}
		for _, row := range res.GetRows() {
			rows[row.GetKey()] = row.GetUsage().GetCostMicros()
		}
		return res, rows
	}
	for by, want := range map[string]map[string]int64{
		"agent": {"claude": 4 * each}, "user": {"admin": 3 * each, "ann": each}, "model": {"anthropic/claude-sonnet-4-5": 4 * each},
		"task": {mine.GetId(): 3 * each, hers.GetId(): each},
	} {
		msg, rows := report(r.user, by)
		require.Equal(t, want, rows, by)
		require.EqualValues(t, 4*each, msg.GetTotal().GetUsage().GetCostMicros())
		require.EqualValues(t, 4, msg.GetTotal().GetCalls())
		require.EqualValues(t, 2, msg.GetTotal().GetTasks())
	}
	msg, _ := report(r.user, "day")
	require.EqualValues(t, 4*each, msg.GetForecast().GetSpentMicros())
	require.Zero(t, msg.GetForecast().GetMonthMicros(), "a forecast takes three days")
	require.EqualValues(t, 500_000_000, msg.GetForecast().GetLimitMicros())
	_, rows := report(ann, "user")
	require.Equal(t, map[string]int64{"ann": each}, rows)

	// Split, the parts of an hour add up to it.
	for _, split := range []string{"agent", "user", "model"} {
		res, err := r.user.Budgets.GetUsageReport(t.Context(), &deckhandv1.GetUsageReportRequest{By: "hour", Split: split})
		require.NoError(t, err)
		parts := map[string]int64{}
		for _, row := range res.GetRows() {
			_, err := time.Parse("2006-01-02T15", row.GetKey())
			require.NoError(t, err)
			parts[row.GetPart()] += row.GetUsage().GetCostMicros()
		}
		_, whole := report(r.user, split)
		require.Equal(t, whole, parts, split)
	}
	require.True(t, msg.GetForecast().GetEarly())
	for field, req := range map[string]*deckhandv1.GetUsageReportRequest{
		"split": {By: "task", Split: "agent"},
		"since": {By: "hour", Split: "agent", Since: timestamppb.New(time.Now().AddDate(0, 0, -40))},
	} {
		_, err := r.user.Budgets.GetUsageReport(t.Context(), req)
		require.True(t, fault.Is(fault.FromConnect(err), fault.Invalid), "%s: %v", field, err)
		require.ErrorContains(t, err, field)
	}

	// What an agent did last, and spent today, is of the caller's tasks where the caller
	// is no administrator.
	for _, c := range []struct {
		client *sdk.Client
		last   string
		spent  int64
	}{{r.user, hers.GetId(), 4 * each}, {ann, hers.GetId(), each}, {r.as("bob", "viewer"), "", 0}} {
		res, err := c.client.Agents.ListAgentSummaries(t.Context(), &deckhandv1.ListAgentSummariesRequest{})
		require.NoError(t, err)
		require.Len(t, res.GetAgents(), 2)
		one := res.GetAgents()[0]
		require.Equal(t, "claude", one.GetName())
		require.Equal(t, c.last, one.GetLastTaskId())
		require.Equal(t, c.last != "", one.GetLastState() == deckhandv1.TaskState_TASK_STATE_SUCCEEDED)
		require.Len(t, one.GetDayCostMicros(), 7)
		require.Equal(t, c.spent, one.GetDayCostMicros()[6])
		require.Zero(t, one.GetQueued())
		require.Empty(t, res.GetAgents()[1].GetLastTaskId(), "walker never ran")
	}
	first, err := r.user.Agents.ListAgentSummaries(t.Context(), &deckhandv1.ListAgentSummariesRequest{PageSize: 1})
	require.NoError(t, err)
	rest, err := r.user.Agents.ListAgentSummaries(t.Context(), &deckhandv1.ListAgentSummariesRequest{PageSize: 1, PageToken: first.GetNextPageToken()})
	require.NoError(t, err)
	require.Equal(t, "walker", rest.GetAgents()[0].GetName())
	require.Empty(t, rest.GetNextPageToken())
	_, err = r.user.Budgets.GetUsageReport(t.Context(), &deckhandv1.GetUsageReportRequest{By: "weather"})
	require.True(t, fault.Is(fault.FromConnect(err), fault.Invalid), "%v", err)
}
