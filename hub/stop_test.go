package hub_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

const (
	stopLimit     = deckhandv1.InboxKind_INBOX_KIND_LIMIT
	stopBudget    = deckhandv1.InboxKind_INBOX_KIND_BUDGET
	stopSuspended = deckhandv1.InboxKind_INBOX_KIND_SUSPENDED
	stopEgress    = deckhandv1.InboxKind_INBOX_KIND_EGRESS
	stopProvider  = deckhandv1.InboxKind_INBOX_KIND_PROVIDER

	taskPaused = deckhandv1.TaskState_TASK_STATE_PAUSED

	itemOpen      = deckhandv1.InboxState_INBOX_STATE_OPEN
	itemAnswered  = deckhandv1.InboxState_INBOX_STATE_ANSWERED
	itemWithdrawn = deckhandv1.InboxState_INBOX_STATE_WITHDRAWN
)

func raise(id string, limit int64) *deckhandv1.AnswerInboxItemRequest {
	return &deckhandv1.AnswerInboxItemRequest{ItemId: id, Answer: &deckhandv1.AnswerInboxItemRequest_Raise_{Raise: &deckhandv1.AnswerInboxItemRequest_Raise{Limit: limit}}}
}

func allow(id string) *deckhandv1.AnswerInboxItemRequest {
	return &deckhandv1.AnswerInboxItemRequest{ItemId: id, Answer: &deckhandv1.AnswerInboxItemRequest_Allow_{Allow: &deckhandv1.AnswerInboxItemRequest_Allow{}}}
}

func resumeItem(id string) *deckhandv1.AnswerInboxItemRequest {
	return &deckhandv1.AnswerInboxItemRequest{ItemId: id, Answer: &deckhandv1.AnswerInboxItemRequest_Resume_{Resume: &deckhandv1.AnswerInboxItemRequest_Resume{}}}
}

func dismiss(id string) *deckhandv1.AnswerInboxItemRequest {
	return &deckhandv1.AnswerInboxItemRequest{ItemId: id, Answer: &deckhandv1.AnswerInboxItemRequest_Dismiss_{Dismiss: &deckhandv1.AnswerInboxItemRequest_Dismiss{}}}
}

// stops returns the items of a kind that an organisation has in some state.
func (r *rig) stops(kind deckhandv1.InboxKind, states ...deckhandv1.InboxState) []*deckhandv1.InboxItem {
	r.t.Helper()
	return r.items(&deckhandv1.ListInboxRequest{Kinds: []deckhandv1.InboxKind{kind}, States: states})
}

// stop returns the only open item of a kind, as its card shows it.
func (r *rig) stop(kind deckhandv1.InboxKind) *deckhandv1.InboxItem {
	r.t.Helper()
	items := r.stops(kind)
	require.Len(r.t, items, 1)
	return r.inboxItem(items[0].GetId())
}

// A task that stands at a limit makes an item, whose answer lets it have more. Resuming or
// ending it in another way withdraws the item.
func TestATaskAtALimitWaitsInTheInbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task := r.submit("walker")
	r.end(r.begin(task.GetId(), 1), taskPaused, fault.MaxIterations, "iterations")
	item := r.stop(stopLimit)
	require.Equal(t, task.GetId(), item.GetTaskId())
	require.Equal(t, "The run has reached its limit of iterations", item.GetTitle())
	require.Equal(t, "iterations", item.GetStop().GetLimitName())
	require.EqualValues(t, 20, item.GetStop().GetLimitMost())
	require.EqualValues(t, 40, item.GetStop().GetLimitOffer())
	require.True(t, item.GetMayAnswer())
	require.Contains(t, r.types(task.GetId()), "work_stopped")

	for _, wrong := range []int64{20, 1001} {
		_, err := r.answer(raise(item.GetId(), wrong))
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
		require.ErrorContains(t, err, "raise.limit")
	}
	_, err := r.answer(allow(item.GetId()))
	require.ErrorContains(t, err, "raise the limit, or close the task")
	ann := r.as("ann", "advanced")
	_, err = answerAs(t, ann, raise(item.GetId(), 40))
	require.Error(t, err, "she does not see the task")

	answered, err := r.answer(raise(item.GetId(), 40))
	require.NoError(t, err)
	require.Equal(t, "raise", answered.GetAnswer())
	require.Len(t, r.audited("inbox.raise"), 1)
	require.Len(t, r.audited("task.limits_lifted"), 1)
	second := r.begin(task.GetId(), 2)
	require.EqualValues(t, 40, r.task(task.GetId()).GetOverride().GetLimits().GetIterations())

	// It stops again, and a person resumes it by other means.
	r.end(second, taskPaused, fault.MaxIterations, "iterations")
	again := r.stop(stopLimit)
	require.NotEqual(t, item.GetId(), again.GetId())
	require.EqualValues(t, 40, again.GetStop().GetLimitMost())
	r.resume(task.GetId())
	require.Equal(t, itemWithdrawn, r.inboxItem(again.GetId()).GetState())
	require.Len(t, r.audited("inbox.withdrawn"), 1)

	// And it is ended from its item.
	r.end(r.begin(task.GetId(), 3), taskPaused, fault.MaxIterations, "iterations")
	last := r.stop(stopLimit)
	_, err = r.answer(&deckhandv1.AnswerInboxItemRequest{ItemId: last.GetId(), Answer: &deckhandv1.AnswerInboxItemRequest_Close_{Close: &deckhandv1.AnswerInboxItemRequest_Close{}}})
	require.NoError(t, err)
	require.Equal(t, taskCancelled, r.task(task.GetId()).GetState())
	require.Empty(t, r.stops(stopLimit))
}

// Whoever submitted a task ends it at its limit, and only administrators let it have more.
func TestASubmitterMayNotRaiseALimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	ann := r.as("ann", "advanced")
	task := do(t, ann.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: "walker", Goal: "go on"}).GetTask()
	r.end(r.begin(task.GetId(), 1), taskPaused, fault.BudgetLimit, "tokens")
	id := r.stop(stopLimit).GetId()
	_, err := answerAs(t, ann, raise(id, 1_000_000))
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	_, err = answerAs(t, ann, &deckhandv1.AnswerInboxItemRequest{ItemId: id, Answer: &deckhandv1.AnswerInboxItemRequest_Close_{Close: &deckhandv1.AnswerInboxItemRequest_Close{}}})
	require.NoError(t, err)
	require.Equal(t, taskCancelled, r.task(task.GetId()).GetState())
}

// claude is a rig whose agent calls a provider that answers as told.
func claude(t *testing.T, status *atomic.Int64) (*rig, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `{"type":"message","usage":{"input_tokens":1000,"output_tokens":200}}`)
	}))
	t.Cleanup(server.Close)
	r := newRig(t, hubtest.Shared(t), nil)
	r.connectClaude(server.URL)
	r.apply("claude", strings.Replace(anthropicPersona("claude"), "limits:", "workspace: {scope: task}\nlimits:", 1))
	return r, server
}

func (r *rig) connectClaude(url string) {
	r.t.Helper()
	do(r.t, r.user.Providers.ConnectProvider, &deckhandv1.ConnectProviderRequest{Name: "anthropic", Key: "the-key-of-the-provider-1", BaseUrl: url})
}

// Tasks that a used-up budget stops share one item. Raising it in the inbox or elsewhere has
// all of them go on.
func TestAUsedUpBudgetIsOneItem(t *testing.T) {
	t.Parallel()
	status := &atomic.Int64{}
	status.Store(http.StatusOK)
	r, _ := claude(t, status)
	set := func(micros int64) {
		do(t, r.user.Budgets.SetBudget, &deckhandv1.SetBudgetRequest{Scope: "organisation", Every: "day", Limit: &deckhandv1.SetBudgetRequest_LimitMicros{LimitMicros: micros}})
	}
	set(10_000)
	var tasks []string
	stopAll := func(attempt int32) {
		for _, id := range tasks {
			lease := r.begin(id, attempt)
			res, body := r.askModel(lease, 4000)
			require.Equal(t, http.StatusTooManyRequests, res.StatusCode, body)
			r.end(lease, taskPaused, fault.BudgetLimit, "")
		}
	}
	for range 2 {
		tasks = append(tasks, r.submit("claude").GetId())
	}
	stopAll(1)
	item := r.stop(stopBudget)
	require.Empty(t, item.GetTaskId())
	require.EqualValues(t, 2, item.GetStop().GetWaitingTasks())
	require.Equal(t, "organisation", item.GetStop().GetScope())
	require.Equal(t, "day", item.GetStop().GetEvery())
	require.EqualValues(t, 10_000, item.GetStop().GetLimitMicros())
	require.EqualValues(t, 1_000_000, item.GetStop().GetOfferMicros())
	require.Contains(t, item.GetTitle(), "The budget of the organisation for ")

	_, err := r.answer(raise(item.GetId(), 10_000))
	require.ErrorContains(t, err, "raise.limit")
	_, err = r.answer(raise(item.GetId(), 20_000))
	require.NoError(t, err)
	require.EqualValues(t, 20_000, do(t, r.user.Budgets.GetBudget, &deckhandv1.GetBudgetRequest{Scope: "organisation", Every: "day"}).GetBudget().GetLimitMicros())
	require.Len(t, r.audited("inbox.raise"), 1)
	require.Empty(t, r.stops(stopBudget))

	stopAll(2)
	second := r.stop(stopBudget)
	set(30_000)
	require.Equal(t, itemWithdrawn, r.inboxItem(second.GetId()).GetState())

	// The last task that is resumed by itself withdraws it as well.
	stopAll(3)
	third := r.stop(stopBudget)
	r.resume(tasks[0])
	require.Equal(t, itemOpen, r.inboxItem(third.GetId()).GetState())
	r.cancel(tasks[1])
	require.Equal(t, itemWithdrawn, r.inboxItem(third.GetId()).GetState())

	// Dismissed, it does not come again before the limit is another one.
	tasks = tasks[:1]
	stopAll(4)
	_, err = r.answer(dismiss(r.stop(stopBudget).GetId()))
	require.NoError(t, err)
	require.Equal(t, taskPaused, r.task(tasks[0]).GetState())
	r.resume(tasks[0])
	stopAll(5)
	require.Empty(t, r.stops(stopBudget))
}

// A submitter sees the item that their task waits for, and only an administrator answers it.
func TestAStopOfNoTaskIsSeenByThoseWhoseTasksWait(t *testing.T) {
	t.Parallel()
	status := &atomic.Int64{}
	status.Store(http.StatusOK)
	r, _ := claude(t, status)
	do(t, r.user.Budgets.SetBudget, &deckhandv1.SetBudgetRequest{Scope: "organisation", Every: "month", Limit: &deckhandv1.SetBudgetRequest_LimitMicros{LimitMicros: 10}})
	ann, bob := r.as("ann", "advanced"), r.as("bob", "advanced")
	task := do(t, ann.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: "claude", Goal: "go on"}).GetTask()
	lease := r.begin(task.GetId(), 1)
	res, _ := r.askModel(lease, 10)
	require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	r.end(lease, taskPaused, fault.BudgetLimit, "")
	list := func(c *sdk.Client) *deckhandv1.ListInboxResponse {
		return do(t, c.Inbox.ListInbox, &deckhandv1.ListInboxRequest{Order: deckhandv1.InboxOrder_INBOX_ORDER_TIME_LEFT})
	}
	require.Empty(t, list(bob).GetItems())
	seen := list(ann)
	require.Len(t, seen.GetItems(), 1)
	require.False(t, seen.GetItems()[0].GetMayAnswer())
	require.Len(t, seen.GetCounts(), 1)
	_, err := answerAs(t, ann, resumeItem(seen.GetItems()[0].GetId()))
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	_, err = r.answer(resumeItem(seen.GetItems()[0].GetId()))
	require.NoError(t, err)
	r.begin(task.GetId(), 2)
}

// A suspended agent is an item. Resuming it there, or elsewhere, lets its tasks start.
func TestASuspendedAgentIsAnItem(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	suspend := func() {
		for range 3 {
			r.end(r.begin(r.submit("walker").GetId(), 1), deckhandv1.TaskState_TASK_STATE_FAILED, fault.ToolFailed, "")
		}
		require.Equal(t, deckhandv1.AgentStatus_AGENT_STATUS_ERROR_SUSPENDED, r.agent("walker").GetStatus())
	}
	suspend()
	item := r.stop(stopSuspended)
	require.Equal(t, "Agent walker is suspended: 3 tasks in a row failed", item.GetTitle())
	require.Equal(t, "walker", item.GetAgentName())
	waits := r.submit("walker")
	_, err := answerAs(t, r.as("ann", "basic"), resumeItem(item.GetId()))
	require.Error(t, err)
	_, err = r.answer(resumeItem(item.GetId()))
	require.NoError(t, err)
	require.Equal(t, deckhandv1.AgentStatus_AGENT_STATUS_IDLE, r.agent("walker").GetStatus())
	require.Len(t, r.audited("inbox.resume"), 1)
	require.Len(t, r.audited("agent.resumed"), 1)
	r.finish(r.begin(waits.GetId(), 1))

	suspend()
	second := r.stop(stopSuspended)
	r.acknowledge("walker")
	require.Equal(t, itemWithdrawn, r.inboxItem(second.GetId()).GetState())
}

// A refused host is one item for an agent, whatever how many of its commands try it. Allowing
// it applies the version of the persona that was shown, which the running task goes on with.
func TestARefusedHostIsOneItem(t *testing.T) {
	t.Parallel()
	refused := []*nodev1.EgressUse_Refusal{
		{Host: "api.example.com:443", Method: "CONNECT", Reason: "no rule allows api.example.com:443", Allow: `egress: {allow: ["api.example.com"]}`, Count: 1},
		{Host: "169.254.169.254:80", Method: "GET", Reason: "it is link-local", Count: 1}, // no rule should
	}
	r := newRig(t, hubtest.Shared(t), func(_ context.Context, _ *nodev1.ExecSpec) (string, *nodev1.Exec) {
		return "refused\n", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED, Egress: &nodev1.EgressUse{Refusals: refused}}
	})
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	try := func(turn int32) {
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, "shell_exec", `{"command":"curl https://api.example.com"}`)
		require.NoError(t, err)
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
	}
	try(1)
	try(2)
	item := r.stop(stopEgress)
	require.Equal(t, "api.example.com", item.GetStop().GetHost())
	require.EqualValues(t, 443, item.GetStop().GetPort())
	change := item.GetStop().GetChange()
	require.EqualValues(t, 1, change.GetVersion())
	require.Contains(t, change.GetDiff(), "+egress:\n+  allow: [\"api.example.com\"]\n")
	require.NotEmpty(t, item.GetShownDigest())

	// Another version comes between: what was shown is not what would be applied.
	r.apply("walker", strings.Replace(scripted("walker"), "For tests.", "For other tests.", 1))
	old := allow(item.GetId())
	old.ShownDigest = item.GetShownDigest()
	_, err := r.answer(old)
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	_, err = r.user.Inbox.AnswerInboxItem(t.Context(), allow(item.GetId()))
	require.ErrorContains(t, err, "shown_digest")
	require.Equal(t, itemOpen, r.inboxItem(item.GetId()).GetState())

	// Its owner, who may apply the agent, may allow it; nobody else but an administrator.
	_, err = answerAs(t, r.as("ann", "advanced"), allow(item.GetId()))
	require.Error(t, err)
	_, err = r.answer(allow(item.GetId()))
	require.NoError(t, err)
	a := do(t, r.user.Agents.GetAgent, &deckhandv1.GetAgentRequest{AgentId: "walker"})
	require.EqualValues(t, 3, a.GetAgent().GetVersion())
	require.Contains(t, a.GetVersion().GetMarkdown(), "egress:\n  allow: [\"api.example.com\"]\n---\nDo what the script says.")
	applied := r.audited("agent.applied")
	require.Contains(t, applied[0].GetReason(), item.GetId())
	// The task ran with version 1, and its next command is bound by its own version's rules.
	require.EqualValues(t, 1, r.task(task.GetId()).GetAgentVersion())
	require.Empty(t, r.stops(stopEgress))
}

// What a subject is about is stored and shown as it is, without being masked: a command that
// connects to a name with a secret in it leaves only a digest there.
func TestTheSubjectOfARefusedHostDoesNotHaveTheHost(t *testing.T) {
	t.Parallel()
	host := "c4n4ry-5ecret.example.com"
	r := newRig(t, hubtest.Shared(t), func(_ context.Context, _ *nodev1.ExecSpec) (string, *nodev1.Exec) {
		return "", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED, Egress: &nodev1.EgressUse{Refusals: []*nodev1.EgressUse_Refusal{
			{Host: host + ":443", Method: "CONNECT", Reason: "no rule allows it", Allow: "egress", Count: 1},
		}}}
	})
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"curl x"}`)
	require.NoError(t, err)
	_, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	subject := r.sql("SELECT subject FROM inbox_items WHERE id = $1", r.stop(stopEgress).GetId())
	require.NotContains(t, subject, "c4n4ry")
	agent := do(t, r.user.Agents.GetAgent, &deckhandv1.GetAgentRequest{AgentId: "walker"}).GetAgent().GetId()
	require.Regexp(t, "^"+agent+"/[0-9a-f]{32}$", subject)
}

// A task of the version that was shown goes on with the one that allows the host.
func TestARunningTaskMayReachAHostThatWasAllowed(t *testing.T) {
	t.Parallel()
	host := atomic.Value{}
	host.Store("one.example.com:443")
	r := newRig(t, hubtest.Shared(t), func(_ context.Context, _ *nodev1.ExecSpec) (string, *nodev1.Exec) {
		return "", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED, Egress: &nodev1.EgressUse{Refusals: []*nodev1.EgressUse_Refusal{
			{Host: host.Load().(string), Method: "CONNECT", Reason: "no rule allows it", Allow: "egress", Count: 1},
		}}}
	})
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	try := func(turn int32) {
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, "shell_exec", `{"command":"curl x"}`)
		require.NoError(t, err)
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
	}
	try(1)
	_, err := r.answer(allow(r.stop(stopEgress).GetId()))
	require.NoError(t, err)
	require.EqualValues(t, 2, r.task(task.GetId()).GetAgentVersion())

	// One that another version allows is withdrawn when that is applied.
	host.Store("two.example.com:8443")
	try(2)
	second := r.stop(stopEgress)
	require.Contains(t, second.GetStop().GetChange().GetDiff(), `"two.example.com:8443", "one.example.com"`)
	r.apply("walker", strings.Replace(scripted("walker"), "limits:", "egress: {allow: [\"*.example.com:8443\"]}\nlimits:", 1))
	require.Equal(t, itemWithdrawn, r.inboxItem(second.GetId()).GetState())

	// What was dismissed does not come again soon.
	host.Store("three.example.com:443")
	try(3)
	_, err = r.answer(dismiss(r.stop(stopEgress).GetId()))
	require.NoError(t, err)
	try(4)
	require.Empty(t, r.stops(stopEgress))

	// A command that tries any number of names opens no more than 20.
	for i := range 25 {
		host.Store(strings.Repeat("a", i+1) + ".example.org:443")
		try(int32(5 + i)) //nolint:gosec // few
	}
	require.Len(t, r.items(&deckhandv1.ListInboxRequest{Kinds: []deckhandv1.InboxKind{stopEgress}, PageSize: 100}), 20)
}

// A key that its provider refuses is an item at once; a new key has the tasks go on that wait
// for it.
func TestARefusedKeyIsAnItem(t *testing.T) {
	t.Parallel()
	status := &atomic.Int64{}
	status.Store(http.StatusOK)
	r, server := claude(t, status)
	task := r.submit("claude")
	lease := r.begin(task.GetId(), 1)
	status.Store(http.StatusUnauthorized)
	for range 2 {
		res, _ := r.askModel(lease, 10)
		require.Equal(t, http.StatusUnauthorized, res.StatusCode)
	}
	item := r.stop(stopProvider)
	require.Equal(t, "anthropic refuses the key", item.GetTitle())
	require.Equal(t, "refused", item.GetStop().GetReason())
	require.EqualValues(t, 0, item.GetStop().GetWaitingTasks())
	r.end(lease, taskPaused, fault.CredentialInvalid, "")
	require.EqualValues(t, 1, r.stop(stopProvider).GetStop().GetWaitingTasks())

	// Trying again does not withdraw it while the key is refused.
	r.resume(task.GetId())
	require.Equal(t, itemOpen, r.inboxItem(item.GetId()).GetState())
	r.end(r.begin(task.GetId(), 2), taskPaused, fault.CredentialInvalid, "")
	require.Equal(t, item.GetId(), r.stop(stopProvider).GetId())

	status.Store(http.StatusOK)
	r.connectClaude(server.URL)
	require.Equal(t, itemWithdrawn, r.inboxItem(item.GetId()).GetState())
	third := r.begin(task.GetId(), 3)

	// Without a key, the item comes with the task that stops, and goes with it.
	do(t, r.user.Providers.DisconnectProvider, &deckhandv1.DisconnectProviderRequest{Name: "anthropic"})
	r.end(third, taskPaused, fault.NoCredentials, "")
	last := r.stop(stopProvider)
	require.Equal(t, "not_connected", last.GetStop().GetReason())
	require.Equal(t, "Provider anthropic is not connected", last.GetTitle())
	r.cancel(task.GetId())
	require.Equal(t, itemWithdrawn, r.inboxItem(last.GetId()).GetState())
}
