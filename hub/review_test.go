package hub_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	stepDeferred = deckhandv1.StepState_STEP_STATE_DEFERRED
	taskReview   = deckhandv1.TaskState_TASK_STATE_REVIEW_NEEDED
)

// requests are what a node was told to send, with what its jail might reach then.
type requests struct {
	mu    sync.Mutex
	node  func() *nodetest.Node
	ids   []string
	hosts [][]string
	// answers are those of the requests in turn; all is well where there is none.
	answers []string
}

func (s *requests) run(_ context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hosts []string
	for _, rule := range s.node().Jail(spec.GetJailId()).GetEgress().GetRules() {
		hosts = append(hosts, rule.GetHost())
	}
	answer := `{"answer":"204 No Content"}`
	if n := len(s.ids); n < len(s.answers) {
		answer = s.answers[n]
	}
	s.ids, s.hosts = append(s.ids, spec.GetExecId()), append(s.hosts, hosts)
	return answer, &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
}

func (s *requests) all() ([]string, [][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.ids...), append([][]string(nil), s.hosts...)
}

// reviewed is a persona in review mode that may post to one host, and read
// another.
func reviewed(name string) string {
	text := strings.Replace(scripted(name), "limits:", "mode: review\negress: {allow: [hooks.example.org, {host: docs.example.org, read_only: true}]}\nlimits:", 1)
	return strings.Replace(text, "[shell_exec,", "[http_post, http_get, handoff_to_agent, shell_exec,", 1)
}

func newReview(t *testing.T, answers ...string) (*rig, *requests) {
	sent := &requests{answers: answers}
	var r *rig
	sent.node = func() *nodetest.Node { return r.node }
	r = newRig(t, hubtest.Shared(t), sent.run)
	r.apply("careful", reviewed("careful"))
	return r, sent
}

const note = `{"url":"https://hooks.example.org/notes","body":"it is done"}`

// review runs a task that would send two notes, and answers it as it waits for
// its review, with its item.
func (r *rig) review() (*deckhandv1.Task, []*deckhandv1.Step, *deckhandv1.InboxItem) {
	r.t.Helper()
	return r.reviewOf("careful", note)
}

// reviewOf is review for another agent, with other requests.
func (r *rig) reviewOf(agent, arguments string) (*deckhandv1.Task, []*deckhandv1.Step, *deckhandv1.InboxItem) {
	r.t.Helper()
	task := r.submit(agent)
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	var deferred []*deckhandv1.Step
	for i := range int32(2) {
		step, err := r.propose(lease, 1, i, "http_post", arguments)
		require.NoError(r.t, err)
		require.Equal(r.t, stepDeferred, step.GetState())
		require.Contains(r.t, step.GetObservation(), "when a person accepts your work")
		// A worker that wants it made all the same gets it as it stands.
		step, err = r.execute(lease, step.GetId())
		require.NoError(r.t, err)
		require.Equal(r.t, stepDeferred, step.GetState())
		deferred = append(deferred, step)
	}
	said, err := structpb.NewStruct(map[string]any{"summary": "done"})
	require.NoError(r.t, err)
	_, err = r.workers.Workers.FinishTask(r.t.Context(), &deckhandv1.FinishTaskRequest{
		Lease: lease, State: taskSucceeded, Summary: "done", Events: []*deckhandv1.EventDraft{{Type: "execution_completed", Payload: said}},
	})
	require.NoError(r.t, err)
	require.NotContains(r.t, r.types(task.GetId()), "execution_completed", "nobody is told what it came to")
	item := r.looked(task.GetId())
	return r.task(task.GetId()), deferred, item
}

// looked returns a task's item for a review once it is noted how the workspace
// stands: before that there is nothing to accept.
func (r *rig) looked(task string) *deckhandv1.InboxItem {
	r.t.Helper()
	item := r.item(task).GetId()
	require.Eventually(r.t, func() bool {
		return r.sql("SELECT binding::text FROM inbox_items WHERE id = $1", item) != "{}"
	}, waittest.Limit(20*time.Second), 10*time.Millisecond, "the workspace to be looked at")
	return r.item(task)
}

// types are those of a task's events.
func (r *rig) types(id string) (out []string) {
	r.t.Helper()
	for _, e := range r.events(id, false) {
		out = append(out, e.GetType())
	}
	return out
}

func accept(id string) *deckhandv1.AnswerInboxItemRequest {
	return &deckhandv1.AnswerInboxItemRequest{ItemId: id, Answer: &deckhandv1.AnswerInboxItemRequest_Accept_{}}
}

// A person accepts the work that they saw: with nothing to say what that was, or
// when the workspace has changed since, nothing is made until they have looked
// again.
func TestWorkIsAcceptedAsItWasShown(t *testing.T) {
	t.Parallel()
	var state atomic.Int64
	sent := &requests{}
	var r *rig
	sent.node = func() *nodetest.Node { return r.node }
	r = newRigOn(t, hubtest.Shared(t), nodetest.Config{Run: sent.run, Snapshot: func(string) *nodev1.TakeSnapshotResponse {
		return &nodev1.TakeSnapshotResponse{Record: "r", Snapshot: state.Load()}
	}})
	r.apply("careful", reviewed("careful"))
	task, _, item := r.review()
	require.NotEmpty(t, item.GetShownDigest())
	send := func(digest string) error {
		req := accept(item.GetId())
		req.ShownDigest = digest
		_, err := r.user.Inbox.AnswerInboxItem(t.Context(), req)
		return fault.FromConnect(err)
	}
	err := send("")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.ErrorContains(t, err, "shown_digest")

	// Something in the workspace has changed it since.
	state.Store(2)
	err = send(item.GetShownDigest())
	require.True(t, fault.Is(err, fault.Aborted), "%v", err)
	require.ErrorContains(t, err, "has changed since its review was asked for")
	// To send the same again is not to have looked again, for another person neither.
	err = send(item.GetShownDigest())
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.ErrorContains(t, err, "look again")
	ids, _ := sent.all()
	require.Empty(t, ids, "nothing has left")

	require.NoError(t, send(r.inboxItem(item.GetId()).GetShownDigest()))
	r.awaitTask(task.GetId(), taskSucceeded)
	ids, _ = sent.all()
	require.Len(t, ids, 2)
}

// A run in review mode sends nothing; when it is done its task waits without
// a slot and shows what it did. What was deferred is made once, when a person accepts
// it, and only then may the jail reach what cannot be read only.
func TestDeferredCallsRunOnceWhenARunIsAccepted(t *testing.T) {
	t.Parallel()
	r, sent := newReview(t)
	task, deferred, item := r.review()
	require.Equal(t, taskReview, task.GetState())
	require.Contains(t, task.GetReason(), "deckhand inbox list")
	require.Nil(t, task.GetFinishedAt())
	require.Equal(t, deckhandv1.InboxKind_INBOX_KIND_REVIEW, item.GetKind())
	require.Equal(t, "done", item.GetReview().GetSummary())
	require.Len(t, item.GetReview().GetDeferred(), 2)
	require.Equal(t, deferred[0].GetId(), item.GetReview().GetDeferred()[0].GetStepId())
	require.Contains(t, item.GetReview().GetDeferred()[0].GetPreview(), "POST https://hooks.example.org/notes")
	require.Equal(t, "moderate", r.sql("SELECT category FROM inbox_items WHERE id = $1", item.GetId()))
	ids, _ := sent.all()
	require.Empty(t, ids, "nothing has left")
	require.Equal(t, "", r.sql("SELECT coalesce(lease_hash::text, '') FROM tasks WHERE id = $1", task.GetId()), "it holds no slot")

	_, err := r.answer(approve(item.GetId(), ""))
	require.ErrorContains(t, err, "accept it, ask for changes, or reject it")
	basic := r.as("bea", "basic")
	_, err = answerAs(t, basic, accept(item.GetId()))
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)

	// Two people at once: one wins, and the other is told who did.
	other := r.as("ann", "admin")
	errs := make([]error, 2)
	var both sync.WaitGroup
	both.Go(func() { _, errs[0] = r.answer(accept(item.GetId())) })
	both.Go(func() { _, errs[1] = answerAs(t, other, reject(item.GetId(), "no")) })
	both.Wait()
	if errs[0] != nil {
		require.NoError(t, errs[1])
		require.ErrorContains(t, errs[0], "reject by ann")
		done := r.awaitTask(task.GetId(), taskFailed)
		require.Contains(t, done.GetReason(), "rejected by ann: no")
		ids, _ = sent.all()
		require.Empty(t, ids)
		return
	}
	require.ErrorContains(t, errs[1], "accept by admin")
	done := r.awaitTask(task.GetId(), taskSucceeded)
	require.Contains(t, done.GetReason(), "accepted by admin; 2 deferred calls ran")
	ids, hosts := sent.all()
	require.Equal(t, []string{deferred[0].GetId(), deferred[1].GetId()}, ids, "each once, in their order")
	require.Contains(t, hosts[0], "hooks.example.org")
	jail := r.sql("SELECT jail_id FROM tasks WHERE id = $1", task.GetId())
	require.Eventually(t, func() bool { return len(r.node.Jail(jail).GetEgress().GetRules()) == 1 }, waittest.Limit(30*time.Second), 10*time.Millisecond,
		"the jail to reach no more than what is read only")
	require.Equal(t, stepSucceeded, r.step(deferred[0].GetId()).GetState())
	require.Contains(t, r.types(task.GetId()), "execution_completed")
	require.Len(t, r.audited("inbox.accept"), 1)
	again, err := r.answer(accept(item.GetId()))
	require.NoError(t, err, "repeating one's own answer is harmless")
	require.Equal(t, "accept", again.GetAnswer())
	ids, _ = sent.all()
	require.Len(t, ids, 2)
}

// After a restore from a backup nobody knows whether deferred calls were made since: neither a
// new verdict nor one that the backup has is carried out before a person resumes the task.
func TestAReviewWaitsAfterARestore(t *testing.T) {
	t.Parallel()
	r, sent := newReview(t)
	task, _, item := r.review()
	r.exec("INSERT INTO restores (id, backup_id, taken_at, epoch_floor) VALUES ('restore_1', 'backup_1', now() - interval '1 hour', 1)")
	r.exec("INSERT INTO restored_tasks (task_id, org_id, restore_id) SELECT id, org_id, 'restore_1' FROM tasks WHERE id = '" + task.GetId() + "'")
	_, err := r.answer(accept(item.GetId()))
	require.ErrorContains(t, err, "restored to an earlier state")
	// No node has to be asked here, so that the hub's leader gives its verdict by itself.
	require.Eventually(t, func() bool {
		return r.sql("SELECT verdict FROM restored_tasks WHERE task_id = $1", task.GetId()) == "uncertain"
	}, waittest.Limit(30*time.Second), 10*time.Millisecond)
	_, err = r.answer(reject(item.GetId(), "no"))
	require.ErrorContains(t, err, "deckhand task resume "+task.GetId())
	require.Contains(t, r.task(task.GetId()).GetReason(), "restored to an earlier state")
	ids, _ := sent.all()
	require.Empty(t, ids)

	do(t, r.user.Tasks.ResumeTask, &deckhandv1.ResumeTaskRequest{TaskId: task.GetId()})
	require.Equal(t, taskReview, r.task(task.GetId()).GetState())
	_, err = r.answer(accept(item.GetId()))
	require.NoError(t, err)
	r.awaitTask(task.GetId(), taskSucceeded)
	ids, _ = sent.all()
	require.Len(t, ids, 2)
}

// A part of the work is left out: its request is never made, and what is no part of the
// work cannot be left out.
func TestAPartOfARunIsAccepted(t *testing.T) {
	t.Parallel()
	r, sent := newReview(t)
	task, deferred, item := r.review()
	without := func(paths, steps []string) *deckhandv1.AnswerInboxItemRequest {
		return &deckhandv1.AnswerInboxItemRequest{ItemId: item.GetId(), Answer: &deckhandv1.AnswerInboxItemRequest_Accept_{
			Accept: &deckhandv1.AnswerInboxItemRequest_Accept{WithoutPaths: paths, WithoutStepIds: steps},
		}}
	}
	_, err := r.answer(without([]string{"never/changed.txt"}, nil))
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.ErrorContains(t, err, "never/changed.txt")
	_, err = r.answer(without(nil, []string{deferred[0].GetId(), "step_other"}))
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.ErrorContains(t, err, "step_other is no deferred call")
	require.Equal(t, stepDeferred, r.step(deferred[0].GetId()).GetState(), "a refused answer drops nothing")

	_, err = r.answer(without(nil, []string{deferred[0].GetId()}))
	require.NoError(t, err)
	done := r.awaitTask(task.GetId(), taskSucceeded)
	require.Contains(t, done.GetReason(), "accepted by admin; 1 deferred calls ran")
	ids, _ := sent.all()
	require.Equal(t, []string{deferred[1].GetId()}, ids)
	left := r.step(deferred[0].GetId())
	require.Equal(t, stepSkipped, left.GetState())
	require.Contains(t, left.GetObservation(), "admin accepted the work without it")
	entry := r.audited("inbox.accept")[0].GetAfter().GetFields()["without_step_ids"].GetListValue().AsSlice()
	require.Equal(t, []any{deferred[0].GetId()}, entry)
}

// The agent goes on with what a person asks for; what was deferred is dropped,
// and what it holds then is reviewed anew.
func TestAReviewThatAsksForChanges(t *testing.T) {
	t.Parallel()
	r, sent := newReview(t)
	task, deferred, item := r.review()
	_, err := r.answer(&deckhandv1.AnswerInboxItemRequest{ItemId: item.GetId(), Answer: &deckhandv1.AnswerInboxItemRequest_Changes_{
		Changes: &deckhandv1.AnswerInboxItemRequest_Changes{Text: "one note is enough"},
	}})
	require.NoError(t, err)
	require.Equal(t, stepSkipped, r.step(deferred[0].GetId()).GetState())
	claimed := r.claim(task.GetId(), 2)
	require.Contains(t, r.sql("SELECT content FROM task_messages WHERE task_id = $1", task.GetId()), "one note is enough")
	_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: claimed.GetLease()})
	require.NoError(t, err)
	r.turn(claimed.GetLease(), 2)
	one, err := r.propose(claimed.GetLease(), 2, 0, "http_post", note)
	require.NoError(t, err)
	require.Equal(t, stepDeferred, one.GetState())
	r.finish(claimed.GetLease())
	next := r.looked(task.GetId())
	require.NotEqual(t, item.GetId(), next.GetId())
	require.Len(t, next.GetReview().GetDeferred(), 1)
	_, err = r.answer(accept(next.GetId()))
	require.NoError(t, err)
	r.awaitTask(task.GetId(), taskSucceeded)
	ids, _ := sent.all()
	require.Equal(t, []string{one.GetId()}, ids)
}

// What was deferred of a rejected run is never made; a cancelled one asks for
// nothing any more.
func TestARejectedAndACancelledReview(t *testing.T) {
	t.Parallel()
	r, sent := newReview(t)
	task, deferred, item := r.review()
	_, err := r.answer(reject(item.GetId(), "not like this"))
	require.NoError(t, err)
	done := r.awaitTask(task.GetId(), taskFailed)
	require.Contains(t, done.GetReason(), "rejected by admin: not like this")
	require.Equal(t, stepSkipped, r.step(deferred[1].GetId()).GetState())

	task, deferred, item = r.review()
	r.cancel(task.GetId())
	require.Equal(t, "withdrawn", r.sql("SELECT state FROM inbox_items WHERE id = $1", item.GetId()))
	_, err = r.answer(accept(item.GetId()))
	require.ErrorContains(t, err, "waits for nothing any more")
	ids, _ := sent.all()
	require.Empty(t, ids)
	_ = deferred
}

// The first deferred call that fails ends it: those after it are not made, and
// the task has failed, and says where.
func TestADeferredCallThatFails(t *testing.T) {
	t.Parallel()
	r, sent := newReview(t, `{"error":"the server answered 500"}`)
	task, deferred, item := r.review()
	_, err := r.answer(accept(item.GetId()))
	require.NoError(t, err)
	done := r.awaitTask(task.GetId(), taskFailed)
	require.Contains(t, done.GetReason(), "step 1 (http_post), which was deferred, is failed")
	require.Equal(t, string(fault.ToolFailed), done.GetErrorCode())
	require.Equal(t, stepFailed, r.step(deferred[0].GetId()).GetState())
	require.Equal(t, stepSkipped, r.step(deferred[1].GetId()).GetState())
	ids, _ := sent.all()
	require.Len(t, ids, 1)
}

// What the policy denies by the time that the run is accepted is not made.
func TestAPolicyThatDeniesADeferredCall(t *testing.T) {
	t.Parallel()
	r, sent := newReview(t)
	task, deferred, item := r.review()
	_, err := r.policy("", "rules:\n  - {name: hooks, effect: deny, host: hooks.example.org}\n")
	require.NoError(t, err)
	_, err = r.answer(accept(item.GetId()))
	require.NoError(t, err)
	r.awaitTask(task.GetId(), taskFailed)
	require.Equal(t, stepDenied, r.step(deferred[0].GetId()).GetState())
	ids, _ := sent.all()
	require.Empty(t, ids)
}

// A review waits across restarts; a hub that dies after somebody accepted it
// leaves what was deferred to the next one, which makes each once.
func TestAReviewOutlivesItsHub(t *testing.T) {
	t.Parallel()
	sent := &requests{}
	var r *rig
	sent.node = func() *nodetest.Node { return r.node }
	cfg := hubtest.Config(t)
	r = newRig(t, hubtest.Start(t, cfg), sent.run)
	r.apply("careful", reviewed("careful"))
	task, deferred, item := r.review()
	cfg.Listen, cfg.EdgeListen = strings.TrimPrefix(r.URL(), "http://"), r.EdgeAddress()
	r.Hub.Stop()
	r.through(hubtest.Start(t, cfg))
	require.Equal(t, taskReview, r.task(task.GetId()).GetState())
	require.Equal(t, item.GetId(), r.item(task.GetId()).GetId())

	// As a hub leaves it that dies after the answer, before anything came of it.
	r.exec(`UPDATE inbox_items SET state = 'answered', answer = 'accept', answered_by = 'admin', answered_at = clock_timestamp() WHERE id = '` + item.GetId() + `'`)
	r.Hub.Stop()
	r.through(hubtest.Start(t, cfg))
	r.awaitTask(task.GetId(), taskSucceeded)
	ids, _ := sent.all()
	require.Equal(t, []string{deferred[0].GetId(), deferred[1].GetId()}, ids)
}

// Nothing of a run in review mode goes to another agent, and what a run gives
// to others is reviewed as well.
func TestWhatARunInReviewModeGivesAway(t *testing.T) {
	t.Parallel()
	r, _ := newReview(t)
	r.applyAll(map[string]string{
		"free":  strings.Replace(scripted("free"), "[shell_exec,", "[http_post, shell_exec,", 1),
		"giver": strings.Replace(strings.Replace(reviewed("giver"), "[http_post,", "[create_subtask, delegate, http_post,", 1), "limits:", "agents: {delegate: [free], handoff: [free]}\nlimits:", 1),
	})
	task := r.submit("giver")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	over, err := r.propose(lease, 1, 0, "handoff_to_agent", `{"target_agent":"free","status":"done","artifacts":{},"summary_for_target":"go on"}`)
	require.NoError(t, err)
	require.Equal(t, stepDenied, over.GetState(), over.GetObservation())
	given := r.give(lease, 1, 1, "delegate", `{"agent":"free","goal":"do it"}`)
	require.Equal(t, stepWaiting, given.GetState(), given.GetObservation())
	child := r.below(task.GetId())[0]
	require.Equal(t, "review", child.GetOverride().GetMode())
	below := r.begin(child.GetId(), 1)
	r.turn(below, 1)
	deferred, err := r.propose(below, 1, 0, "http_post", note)
	require.NoError(t, err)
	require.Equal(t, stepDeferred, deferred.GetState())
	r.finish(below)
	require.Equal(t, taskReview, r.task(child.GetId()).GetState())
}

// An escalated task is in the inbox with its answers.
func TestAnEscalatedTaskIsInTheInbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	escalate := func() (*deckhandv1.Task, *deckhandv1.InboxItem) {
		task := r.submit("walker")
		r.exec(`UPDATE tasks SET failures = 3 WHERE id = '` + task.GetId() + `'`)
		lease := r.begin(task.GetId(), 1)
		_, err := r.workers.Workers.FinishTask(t.Context(), &deckhandv1.FinishTaskRequest{
			Lease: lease, State: taskFailed, ErrorCode: string(fault.ModelUnavailable), ErrorMessage: "the model is away", Transient: true,
		})
		require.NoError(t, err)
		return r.task(task.GetId()), r.item(task.GetId())
	}
	task, item := escalate()
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_ESCALATED, task.GetState())
	require.Equal(t, deckhandv1.InboxKind_INBOX_KIND_ESCALATION, item.GetKind())
	require.Contains(t, item.GetWhy(), "the model is away")
	_, err := r.answer(reject(item.GetId(), ""))
	require.ErrorContains(t, err, "retry or close it")
	_, err = r.answer(&deckhandv1.AnswerInboxItemRequest{ItemId: item.GetId(), Answer: &deckhandv1.AnswerInboxItemRequest_Retry_{
		Retry: &deckhandv1.AnswerInboxItemRequest_Retry{Override: &deckhandv1.TaskOverride{MemoryBytes: 1 << 30}},
	}})
	require.NoError(t, err)
	require.Equal(t, taskQueued, r.task(task.GetId()).GetState())
	require.EqualValues(t, 1<<30, r.task(task.GetId()).GetOverride().GetMemoryBytes())
	r.cancel(task.GetId())

	task, item = escalate()
	closing := &deckhandv1.AnswerInboxItemRequest{ItemId: item.GetId(), Reason: "nobody needs it", Answer: &deckhandv1.AnswerInboxItemRequest_Close_{}}
	_, err = answerAs(t, r.as("ben", "basic"), closing)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = r.answer(closing)
	require.NoError(t, err)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_CANCELLED, r.task(task.GetId()).GetState())

	task, item = escalate()
	closing.ItemId = item.GetId()
	_, err = r.user.Tasks.RetryTask(t.Context(), &deckhandv1.RetryTaskRequest{TaskId: task.GetId()})
	require.NoError(t, err)
	require.Equal(t, "withdrawn", r.sql("SELECT state FROM inbox_items WHERE id = $1", item.GetId()), "answered another way")
	_, err = r.answer(closing)
	require.ErrorContains(t, err, "waits for nothing any more")
}
