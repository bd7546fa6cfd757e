package hub_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

const (
	stepWaiting   = deckhandv1.StepState_STEP_STATE_WAITING
	stepGranted   = deckhandv1.StepState_STEP_STATE_GRANTED
	stepDenied    = deckhandv1.StepState_STEP_STATE_DENIED
	stepSkipped   = deckhandv1.StepState_STEP_STATE_SKIPPED
	stepSucceeded = deckhandv1.StepState_STEP_STATE_SUCCEEDED
	stepFailed    = deckhandv1.StepState_STEP_STATE_FAILED
	stepUnknown   = deckhandv1.StepState_STEP_STATE_UNKNOWN

	taskQueued    = deckhandv1.TaskState_TASK_STATE_QUEUED
	taskAwaiting  = deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL
	taskNeedsWord = deckhandv1.TaskState_TASK_STATE_NEEDS_INPUT
	taskTimedOut  = deckhandv1.TaskState_TASK_STATE_TIMED_OUT
)

// asking is a persona whose shell commands, and whatever else is said, need a
// person's leave.
func asking(name, approvals string) string {
	return strings.Replace(scripted(name), "limits:", "approvals: {"+approvals+"}\nlimits:", 1)
}

// ran are the commands that a node was given, by exec id.
type ran struct {
	mu       sync.Mutex
	commands []string
	ids      []string
	end      []nodev1.EndReason // of each run in turn; exited when there are no more
}

func (r *ran) run(_ context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := nodev1.EndReason_END_REASON_EXITED
	if n := len(r.ids); n < len(r.end) {
		end = r.end[n]
	}
	r.commands, r.ids = append(r.commands, spec.GetArgv()[2]), append(r.ids, spec.GetExecId())
	return "did it as " + spec.GetExecId() + "\n", &nodev1.Exec{EndReason: end}
}

func (r *ran) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.commands...)
}

// park runs a task of that agent up to a call that waits, and yields. It
// answers the task, the step and its open item.
func (r *rig) park(agent, tool, arguments string) (*deckhandv1.Task, *deckhandv1.Step, *deckhandv1.InboxItem) {
	r.t.Helper()
	task := r.submit(agent)
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, tool, arguments)
	require.NoError(r.t, err)
	require.Equal(r.t, stepWaiting, step.GetState(), "%v", step)
	require.NoError(r.t, r.yield(lease))
	return r.task(task.GetId()), step, r.item(task.GetId())
}

func (r *rig) yield(lease *deckhandv1.Lease) error {
	_, err := r.workers.Workers.YieldTask(r.t.Context(), &deckhandv1.YieldTaskRequest{Lease: lease})
	return err
}

// item returns a task's only open item.
func (r *rig) item(taskID string) *deckhandv1.InboxItem {
	r.t.Helper()
	items := r.items(&deckhandv1.ListInboxRequest{TaskId: taskID})
	require.Len(r.t, items, 1)
	return items[0]
}

func (r *rig) items(req *deckhandv1.ListInboxRequest) []*deckhandv1.InboxItem {
	r.t.Helper()
	res, err := r.user.Inbox.ListInbox(r.t.Context(), req)
	require.NoError(r.t, err)
	return res.GetItems()
}

func (r *rig) answer(req *deckhandv1.AnswerInboxItemRequest) (*deckhandv1.InboxItem, error) {
	return answerAs(r.t, r.user, req)
}

// answerAs has a person look at an item and answer it.
func answerAs(t *testing.T, client *sdk.Client, req *deckhandv1.AnswerInboxItemRequest) (*deckhandv1.InboxItem, error) {
	if req.GetShownDigest() == "" {
		item, err := client.Inbox.GetInboxItem(t.Context(), &deckhandv1.GetInboxItemRequest{ItemId: req.GetItemId()})
		if err == nil {
			req.ShownDigest = item.GetItem().GetShownDigest()
		}
	}
	res, err := client.Inbox.AnswerInboxItem(t.Context(), req)
	if err != nil {
		return nil, err
	}
	return res.GetItem(), nil
}

func approve(id, arguments string) *deckhandv1.AnswerInboxItemRequest {
	return &deckhandv1.AnswerInboxItemRequest{ItemId: id, Answer: &deckhandv1.AnswerInboxItemRequest_Approve_{
		Approve: &deckhandv1.AnswerInboxItemRequest_Approve{ArgumentsJson: arguments},
	}}
}

func reject(id, reason string) *deckhandv1.AnswerInboxItemRequest {
	return &deckhandv1.AnswerInboxItemRequest{ItemId: id, Reason: reason, Answer: &deckhandv1.AnswerInboxItemRequest_Reject_{}}
}

func reply(id, text string) *deckhandv1.AnswerInboxItemRequest {
	return &deckhandv1.AnswerInboxItemRequest{ItemId: id, Answer: &deckhandv1.AnswerInboxItemRequest_Reply_{
		Reply: &deckhandv1.AnswerInboxItemRequest_Reply{Text: text},
	}}
}

func (r *rig) step(id string) *deckhandv1.Step {
	r.t.Helper()
	res, err := r.user.Tasks.ListSteps(r.t.Context(), &deckhandv1.ListStepsRequest{TaskId: r.stepTask(id)})
	require.NoError(r.t, err)
	for _, s := range res.GetSteps() {
		if s.GetId() == id {
			return s
		}
	}
	r.t.Fatalf("no step %s", id)
	return nil
}

func (r *rig) store() *store.Store {
	r.t.Helper()
	s, err := store.Open(r.t.Context(), r.DatabaseURL)
	require.NoError(r.t, err)
	r.t.Cleanup(s.Close)
	return s
}

// sql asks the database for one text, or changes it.
func (r *rig) sql(query string, args ...any) (out string) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.DatabaseURL)
	require.NoError(r.t, err)
	defer conn.Close(r.t.Context())
	require.NoError(r.t, conn.QueryRow(r.t.Context(), query, args...).Scan(&out))
	return out
}

func (r *rig) stepTask(id string) string { return r.sql("SELECT task_id FROM steps WHERE id = $1", id) }

func (r *rig) awaitTask(id string, state deckhandv1.TaskState) *deckhandv1.Task {
	r.t.Helper()
	var task *deckhandv1.Task
	require.Eventually(r.t, func() bool {
		task = r.task(id)
		return task.GetState() == state
	}, waittest.Limit(30*time.Second), 20*time.Millisecond, "task %s to be %s", id, state)
	return task
}

// A call that must be asked for waits without a slot, says for what,
// and runs with the hub's own arguments once a person approves it.
func TestAnApprovedCallRuns(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task, step, item := r.park("asker", "shell_exec", `{"command":"rm -r old","cwd":"/workspace/data"}`)

	require.Equal(t, taskAwaiting, task.GetState())
	require.Contains(t, task.GetReason(), "deckhand inbox show "+item.GetId())
	require.Equal(t, deckhandv1.InboxKind_INBOX_KIND_APPROVAL, item.GetKind())
	require.Equal(t, "in /workspace/data:\nrm -r old", item.GetPreview())
	require.Equal(t, deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE, item.GetCategory())
	require.Contains(t, item.GetWhy(), "approvals.tools")
	require.Contains(t, item.GetWhy(), "Effects outside /workspace (network, processes, /tmp) cannot be undone.")
	require.Equal(t, "reject", item.GetOnExpiry())
	require.InDelta(t, 5*time.Minute, item.GetExpiresAt().AsTime().Sub(item.GetAskedAt().AsTime()), float64(time.Second))
	require.Empty(t, node.all())

	jail := r.sql("SELECT jail_id FROM tasks WHERE id = $1", task.GetId())
	require.Eventually(t, func() bool { return len(r.node.FrozenBy(jail)) == 1 }, waittest.Limit(30*time.Second), 10*time.Millisecond, "the jail to be frozen")

	answered, err := r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)
	require.Equal(t, "approve", answered.GetAnswer())
	require.Equal(t, "admin", answered.GetAnsweredBy())
	again, err := r.answer(approve(item.GetId(), ""))
	require.NoError(t, err, "repeating one's own answer is harmless")
	require.Equal(t, answered.GetAnsweredAt().AsTime(), again.GetAnsweredAt().AsTime())

	lease := r.begin(task.GetId(), 2)
	require.Empty(t, r.node.FrozenBy(jail))
	same, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"rm -r old","cwd":"/workspace/data"}`)
	require.NoError(t, err)
	require.Equal(t, step.GetId(), same.GetId())
	require.Equal(t, stepGranted, same.GetState())
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, done.GetState())
	require.Equal(t, []string{"rm -r old"}, node.all())
	r.finish(lease)

	var types []string
	for _, e := range r.events(task.GetId(), false) {
		types = append(types, e.GetType())
	}
	require.Subset(t, types, []string{"approval_requested", "inbox_answered", "tool_executing", "tool_completed"})
	s := r.store()
	audit, err := s.ListAudit(t.Context(), db.ListAuditParams{OrgID: r.OrgID, ObjectID: item.GetId(), MaxRows: 10})
	require.NoError(t, err)
	require.Len(t, audit, 1)
	require.Equal(t, "inbox.approve", audit[0].Action)
	require.NotEmpty(t, audit[0].Address)
	require.Equal(t, "deckhand-sdk", audit[0].UserAgent)
}

// A person's arguments are checked, sealed, used, and told to the model.
func TestApprovingWithOtherArguments(t *testing.T) {
	t.Parallel()
	const canary = "sk-ant-api03-CANARYCANARYCANARY"
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", asking("asker", "categories: [moderate]"))
	task, step, item := r.park("asker", "shell_exec", `{"command":"rm -r /"}`)
	_, err := r.answer(approve(item.GetId(), `{"comand":"true"}`))
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.ErrorContains(t, err, "comand")
	_, err = r.answer(approve(item.GetId(), `{"command":"rm -r old `+canary+`"}`))
	require.NoError(t, err)

	lease := r.begin(task.GetId(), 2)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, []string{"rm -r old " + canary}, node.all())
	require.Contains(t, done.GetObservation(), "admin changed the arguments before the call was made")
	require.Contains(t, done.GetObservation(), "rm -r old ⟦secret⟧")
	require.Equal(t, "admin", done.GetChangedBy())
	require.Equal(t, "rm -r /", done.GetArguments().GetFields()["command"].GetStringValue(), "the original stays")
	require.Equal(t, "rm -r old ⟦secret⟧", done.GetChangedArguments().GetFields()["command"].GetStringValue())
	all, err := json.Marshal(r.items(&deckhandv1.ListInboxRequest{States: []deckhandv1.InboxState{deckhandv1.InboxState_INBOX_STATE_ANSWERED}}))
	require.NoError(t, err)
	require.NotContains(t, string(all), canary)
}

// All but an approval reach the model as what it observes.
func TestARejectedAndASkippedCall(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task, step, item := r.park("asker", "shell_exec", `{"command":"reboot"}`)
	_, err := r.answer(reject(item.GetId(), "not on a Friday"))
	require.NoError(t, err)
	lease := r.begin(task.GetId(), 2)
	denied := r.step(step.GetId())
	require.Equal(t, stepDenied, denied.GetState())
	require.Equal(t, string(fault.PermissionDenied), denied.GetErrorCode())
	require.Contains(t, denied.GetObservation(), "admin rejected this call of shell_exec; it was not made: not on a Friday")

	r.turn(lease, 2)
	second, err := r.propose(lease, 2, 0, "shell_exec", `{"command":"halt"}`)
	require.NoError(t, err)
	require.NoError(t, r.yield(lease))
	_, err = r.answer(&deckhandv1.AnswerInboxItemRequest{
		ItemId: r.item(task.GetId()).GetId(), Answer: &deckhandv1.AnswerInboxItemRequest_Skip_{},
	})
	require.NoError(t, err)
	require.Equal(t, stepSkipped, r.step(second.GetId()).GetState())
	require.Contains(t, r.step(second.GetId()).GetObservation(), "skipped")
	require.Empty(t, node.all())
}

// A question's answer is the call's result; it must fit the question.
func TestAQuestionIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("walker", strings.Replace(scripted("walker"), "[shell_exec,", "[request_input, shell_exec,", 1))
	task, step, item := r.park("walker", "request_input", `{"question":"Which?","kind":"choice","options":["red","blue"]}`)
	require.Equal(t, taskNeedsWord, task.GetState())
	require.Contains(t, task.GetReason(), item.GetId())
	require.Equal(t, []string{"red", "blue"}, item.GetQuestion().GetChoices())
	_, err := r.answer(reply(item.GetId(), "green"))
	require.ErrorContains(t, err, "red, blue")
	_, err = r.answer(approve(item.GetId(), ""))
	require.ErrorContains(t, err, "answer or reject it")
	_, err = r.answer(reply(item.GetId(), "blue"))
	require.NoError(t, err)
	lease := r.begin(task.GetId(), 2)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, done.GetState())
	require.Equal(t, "admin answered: blue", done.GetObservation())

	r.turn(lease, 2)
	bad, err := r.propose(lease, 2, 0, "request_input", `{"question":"Sure?","kind":"confirmation","default":"perhaps"}`)
	require.NoError(t, err)
	require.Equal(t, stepDenied, bad.GetState())
	require.Equal(t, string(fault.InvalidParameters), bad.GetErrorCode())
}

// An agent that says it is blocked asks a person, and goes on with the answer.
func TestABlockedAgentAsks(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("walker", scripted("walker"))
	task, step, item := r.park("walker", "complete_task", `{"status":"blocked","summary":"I need the key.","question":"Where is the key?"}`)
	require.Equal(t, taskNeedsWord, task.GetState())
	require.Equal(t, "Where is the key?", item.GetQuestion().GetText())
	require.InDelta(t, 7*24*time.Hour, item.GetExpiresAt().AsTime().Sub(item.GetAskedAt().AsTime()), float64(time.Minute))
	_, err := r.answer(reply(item.GetId(), "under the mat"))
	require.NoError(t, err)
	lease := r.begin(task.GetId(), 2)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, done.GetState())
	require.Equal(t, "admin answered: under the mat", done.GetObservation())
}

// Where a person does not approve a call, those after it in the same turn are not made:
// the model planned them as if it were.
func TestACallThatIsRejectedTakesThoseAfterItAlong(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	const plan = `{"items":[{"id":"a","title":"A","status":"pending"}]}`
	var steps []*deckhandv1.Step
	for i, call := range [][2]string{
		{"update_plan", plan}, {"shell_exec", `{"command":"second"}`}, {"shell_exec", `{"command":"third"}`}, {"update_plan", plan},
	} {
		step, err := r.propose(lease, 1, int32(i), call[0], call[1])
		require.NoError(t, err)
		steps = append(steps, step)
	}
	require.NoError(t, r.yield(lease))
	items := r.items(&deckhandv1.ListInboxRequest{TaskId: task.GetId()})
	require.Len(t, items, 2)
	second, third := items[1], items[0]
	_, err := r.answer(reject(second.GetId(), "not now"))
	require.NoError(t, err)
	require.Empty(t, r.items(&deckhandv1.ListInboxRequest{TaskId: task.GetId()}), "nobody is asked about the third any more")
	_, err = r.answer(approve(third.GetId(), ""))
	require.Error(t, err)

	lease = r.begin(task.GetId(), 2)
	require.Equal(t, stepDenied, r.step(steps[1].GetId()).GetState())
	for _, later := range steps[2:] {
		got := r.step(later.GetId())
		require.Equal(t, stepSkipped, got.GetState())
		require.Contains(t, got.GetObservation(), "call 2 of the same turn (shell_exec) was not approved")
	}
	first, err := r.execute(lease, steps[0].GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, first.GetState(), "what came before is made")
	require.Empty(t, node.all())
}

// Nobody answers: the default holds, or the model is told AGENT_007.
func TestAQuestionThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("walker", strings.Replace(scripted("walker"), "[shell_exec,", "[request_input, shell_exec,", 1))
	task, step, _ := r.park("walker", "request_input", `{"question":"Sure?","kind":"confirmation","default":"y","timeout_seconds":1}`)
	lease := r.begin(task.GetId(), 2)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, done.GetState())
	require.Equal(t, "nobody answered in time; your default holds: yes", done.GetObservation())

	r.turn(lease, 2)
	step, err = r.propose(lease, 2, 0, "request_input", `{"question":"What?","timeout_seconds":1}`)
	require.NoError(t, err)
	require.NoError(t, r.yield(lease))
	lease = r.begin(task.GetId(), 3)
	done, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepFailed, done.GetState())
	require.Equal(t, string(fault.InputTimeout), done.GetErrorCode())
}

// AGENT_022: time runs out while no hub runs; the next one sees to it.
func TestAnApprovalExpiresAcrossARestartOfTheHub(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	r := newRig(t, hubtest.Start(t, cfg), nil)
	r.apply("asker", asking("asker", "tools: [shell_exec], timeout: 2s"))
	r.apply("stopper", asking("stopper", "tools: [shell_exec], timeout: 2s, on_timeout: stop"))
	rejected, step, item := r.park("asker", "shell_exec", `{"command":"true"}`)
	stopped, _, _ := r.park("stopper", "shell_exec", `{"command":"true"}`)
	r.node.Stop()
	r.Hub.Stop()
	h := hubtest.Start(t, cfg)
	r.Hub, r.user, r.workers = h, h.Client(t, h.AdminToken), h.Client(t, h.WorkerToken)

	r.awaitTask(rejected.GetId(), taskQueued)
	denied := r.step(step.GetId())
	require.Equal(t, stepDenied, denied.GetState())
	require.Equal(t, string(fault.ApprovalExpired), denied.GetErrorCode())
	end := r.awaitTask(stopped.GetId(), taskTimedOut)
	require.Equal(t, string(fault.ApprovalExpired), end.GetErrorCode())
	_, err := r.answer(approve(item.GetId(), ""))
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.Equal(t, fault.ApprovalExpired, fault.As(err).Code)
	require.Equal(t, "hub reject", r.sql(
		"SELECT actor_kind || ' ' || (after->>'on_expiry') FROM audit_entries WHERE object_id = $1 AND action = 'inbox.expired'", item.GetId()))
}

// The answer overtakes the worker that is about to yield.
func TestAnAnswerWhileTheWorkerYields(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	_, err = r.answer(approve(r.item(task.GetId()).GetId(), ""))
	require.NoError(t, err)
	require.NoError(t, r.yield(lease))
	require.NotEqual(t, taskAwaiting, r.task(task.GetId()).GetState(), "there is nothing left to wait for")
	require.True(t, fault.Is(r.yield(lease), fault.Precondition), "the lease has ended")
	lease = r.begin(task.GetId(), 2)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, done.GetState())
}

// The worker is lost between proposal and yield; the next one finds the
// call waiting, and asks nobody twice.
func TestAWorkerLostBeforeItYields(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	r.exec("UPDATE tasks SET lease_expires_at = clock_timestamp()") // nobody renewed it
	next := r.begin(task.GetId(), 2)
	same, err := r.propose(next, 1, 0, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	require.Equal(t, step.GetId(), same.GetId())
	require.Equal(t, stepWaiting, same.GetState())
	require.NoError(t, r.yield(next))
	require.Equal(t, taskAwaiting, r.task(task.GetId()).GetState())
	r.item(task.GetId()) // one
}

// Two people answer at once: one is heard, and the other told so.
func TestTwoAnswersAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	_, step, item := r.park("asker", "shell_exec", `{"command":"true"}`)
	s := r.store()
	second := r.Client(t, userToken(t, s, r.OrgID, "anna", "admin"))
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { _, errs[0] = r.answer(approve(item.GetId(), "")) })
	wg.Go(func() { _, errs[1] = answerAs(t, second, reject(item.GetId(), "no")) })
	wg.Wait()
	lost := errs[0]
	want := stepDenied
	if errs[0] == nil {
		lost, want = errs[1], stepGranted
	} else {
		require.NoError(t, errs[1])
	}
	require.True(t, fault.Is(lost, fault.Precondition), "%v", lost)
	require.ErrorContains(t, lost, "has been answered")
	require.Equal(t, want, r.step(step.GetId()).GetState())
}

// Administrators may answer, and whoever submitted the task where their
// role covers the tool.
func TestWhoMayAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	s := r.store()
	org := r.OrgID
	own := r.Client(t, userToken(t, s, org, "olga", "advanced"))
	other := r.Client(t, userToken(t, s, org, "otto", "advanced"))
	res, err := own.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "asker", Goal: "x"})
	require.NoError(t, err)
	task := res.GetTask()
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	_, err = r.propose(lease, 1, 0, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	require.NoError(t, r.yield(lease))
	item := r.item(task.GetId())
	_, err = answerAs(t, other, approve(item.GetId(), ""))
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	lessThan := r.Client(t, userToken(t, s, org, "olga", "basic"))
	r.exec("UPDATE users SET role = 'basic' WHERE name = 'olga'")
	_, err = answerAs(t, lessThan, approve(item.GetId(), ""))
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	r.exec("UPDATE users SET role = 'advanced' WHERE name = 'olga'")
	_, err = answerAs(t, own, approve(item.GetId(), ""))
	require.NoError(t, err)
}

// A task that is cancelled asks for nothing any more.
func TestACancelledTaskWithdrawsItsItems(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task, _, item := r.park("asker", "shell_exec", `{"command":"true"}`)
	r.cancel(task.GetId())
	require.Empty(t, r.items(&deckhandv1.ListInboxRequest{}))
	_, err := r.answer(approve(item.GetId(), ""))
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.ErrorContains(t, err, "its task has ended")
	require.Equal(t, "hub withdrawn shell_exec", r.sql(
		"SELECT actor_kind || ' ' || (after->>'state') || ' ' || (before->>'tool') FROM audit_entries WHERE object_id = $1 AND action = 'inbox.withdrawn'", item.GetId()))
}

// Calls are made in their order: a later one's leave does not let it overtake.
func TestALaterCallDoesNotOvertakeOneThatWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	for i, command := range []string{"first", "second"} {
		_, err := r.propose(lease, 1, int32(i), "shell_exec", `{"command":"`+command+`"}`)
		require.NoError(t, err)
	}
	require.NoError(t, r.yield(lease))
	items := r.items(&deckhandv1.ListInboxRequest{TaskId: task.GetId()})
	require.Len(t, items, 2)
	require.Equal(t, "second", items[0].GetPreview(), "newest first")
	_, err := r.answer(approve(items[0].GetId(), ""))
	require.NoError(t, err)
	require.Equal(t, taskAwaiting, r.task(task.GetId()).GetState())
	_, err = r.answer(approve(items[1].GetId(), ""))
	require.NoError(t, err)
	require.NotEqual(t, taskAwaiting, r.task(task.GetId()).GetState())
}

// Pages of the inbox follow each other without gap or repeat.
func TestTheInboxInPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	for i := range int32(5) {
		_, err := r.propose(lease, 1, i, "shell_exec", `{"command":"true"}`)
		require.NoError(t, err)
	}
	seen := map[string]bool{}
	for token := ""; ; {
		res, err := r.user.Inbox.ListInbox(t.Context(), &deckhandv1.ListInboxRequest{PageSize: 2, PageToken: token, AgentId: "asker"})
		require.NoError(t, err)
		for _, item := range res.GetItems() {
			require.False(t, seen[item.GetId()])
			seen[item.GetId()] = true
		}
		if token = res.GetNextPageToken(); token == "" {
			break
		}
	}
	require.Len(t, seen, 5)
	_, err := r.user.Inbox.ListInbox(t.Context(), &deckhandv1.ListInboxRequest{PageToken: "x"})
	require.ErrorContains(t, err, "page_token")
}
