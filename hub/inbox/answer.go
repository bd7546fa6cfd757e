package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/passkey"
	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/plan"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/passkeyproof"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// Verdict is what a person, or an item's timeout, decides.
type Verdict string

// The verdicts.
const (
	Approve   Verdict = "approve"
	Reject    Verdict = "reject"
	Reply     Verdict = "reply"
	Retry     Verdict = "retry"
	Skip      Verdict = "skip"
	Succeeded Verdict = "succeeded"
	Failed    Verdict = "failed"
	Suggest   Verdict = "suggest"
	Replan    Verdict = "replan"
	Clarify   Verdict = "clarify"
	Accept    Verdict = "accept"
	Changes   Verdict = "changes"
	Close     Verdict = "close"
	// TimeOut is the verdict of an item whose time ran out.
	TimeOut Verdict = "time_out"
	// Verdicts on stops; see answerStop.
	Raise   Verdict = "raise"
	Allow   Verdict = "allow"
	Resume  Verdict = "resume"
	Dismiss Verdict = "dismiss"
)

// fitting lists the verdicts that a person may give, by kind.
var fitting = map[Kind][]Verdict{
	Approval: {Approve, Reject, Skip, Suggest, Replan, Clarify},
	Question: {Reply, Reject},
	Unknown:  {Retry, Skip, Succeeded, Failed},
	Review:   {Accept, Changes, Reject},
	// Escalated tasks; see escalated.
	Escalation: {Retry, Close},
	Limit:      {Raise, Close},
	Budget:     {Raise, Resume, Dismiss},
	Suspended:  {Resume, Dismiss},
	Egress:     {Allow, Dismiss},
	Provider:   {Resume, Dismiss},
	Credential: {Dismiss},
}

// commands are the command-line commands that decide items, by kind.
var commands = map[Kind]string{
	Approval:   "approve, reject or skip it, suggest another way, replan, or ask",
	Question:   "answer or reject it",
	Unknown:    "retry or skip it, or mark it as succeeded or failed",
	Review:     "accept it, ask for changes, or reject it",
	Escalation: "retry or close it",
	Limit:      "raise the limit, or close the task",
	Budget:     "raise or resume it, or dismiss it",
	Suspended:  "resume or dismiss it",
	Egress:     "allow or dismiss it",
	Provider:   "resume or dismiss it; connect the provider with: deckhand provider connect",
	Credential: "dismiss it; store a new value with: deckhand credential rotate",
}

// Answer is a person's decision on an item, or their reply to a question.
type Answer struct {
	Verdict Verdict
	// ArgumentsJSON replaces the arguments of a call that is approved; "" keeps the
	// requested ones.
	ArgumentsJSON string
	// JudgedDigest is the digest of ArgumentsJSON as Judge returned it; "" to approve
	// whatever is decided about them.
	JudgedDigest string
	// Text is the reply to a question. For the verdicts that reject a call, ask for
	// another plan or return a question, the text is in Reason.
	Text string
	// Always asks, with an approval, to store a rule that approves similar calls.
	Always *policy.RememberRule
	Reason string
	// ShownDigest is the digest of the item as the person saw it.
	ShownDigest string
	// Override changes the settings of an escalated task that is retried.
	Override task.Override
	// Plan replaces the agent's plan in PlanRevision, with the verdict Replan.
	Plan         plan.Change
	PlanRevision int32
	// Without is what is left out of the work of a review that is accepted.
	Without Without
	// Limit is the new limit of a run or a budget that is raised.
	Limit int64
	By    event.Actor
	// Role is the person's role.
	Role string
	// Proof is what the person's passkey made of a challenge about this decision, for
	// Identity; nil for none. RequestDigest is part of what was signed.
	Proof         *passkey.Proof
	Identity      auth.Identity
	RequestDigest string

	// evidence is the proof once it was verified.
	evidence *passkeyproof.Evidence

	// unseen reports that the workspace of the call could not be inspected.
	unseen bool
}

// Without is what a person leaves out of the work that they accept: files, which are
// restored to what they were before the task, and deferred calls, which are never made.
type Without struct {
	Paths   []string
	StepIDs []string
}

// Unseen reports whether the node was offline when the decision was made, so that the
// workspace could not be inspected.
func (a Answer) Unseen() bool { return a.unseen }

// Applied is what a decision changed in the step, as it is stored with the item.
type Applied struct {
	// Reply is the reply to a question as the agent sees it.
	Reply string
	// ChangedArguments are masked; nil if the arguments were not replaced.
	ChangedArguments json.RawMessage
}

// Steps applies decisions to steps.
type Steps interface {
	// EnsureWorkspaceRecorded records the state of the workspace with a call that is
	// about to be approved, if that was not done yet. unseen reports that the node could
	// not be asked.
	EnsureWorkspaceRecorded(ctx context.Context, orgID, stepID string) (unseen bool, err error)
	Resolve(ctx context.Context, tx *event.Tx, t db.Task, item db.InboxItem, a Answer) (Applied, error)
	// Judge returns what the hub would decide about a waiting call with other arguments.
	Judge(ctx context.Context, orgID, stepID, argumentsJSON string) (Judged, error)
}

// Tasks reports whether a task may continue with what a person grants it.
type Tasks interface {
	MayRun(ctx context.Context, orgID, id string, with task.Override) error
}

// Reviews carries out the verdicts on reviews.
type Reviews interface {
	// Unchanged refuses to accept work that has changed since it was shown.
	Unchanged(ctx context.Context, item db.InboxItem) error
	// MayLeaveOut refuses to leave out files that the task did not change.
	MayLeaveOut(ctx context.Context, item db.InboxItem, paths []string) error
	// Decided applies the task's part of a verdict, in the transaction that stores it.
	Decided(ctx context.Context, tx *event.Tx, t db.Task, a Answer) error
}

// Budgets sets budgets.
type Budgets interface {
	SetIn(ctx context.Context, tx *event.Tx, orgID string, n budget.Name, limit int64, by event.Actor) error
}

// Sealer encrypts what must not be readable at rest.
type Sealer interface {
	Opener
	Seal(value []byte, object string) ([]byte, error)
}

// Config holds the dependencies of a Service.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Steps    Steps
	Reviews  Reviews
	Tasks    Tasks
	Agents   *agent.Service
	Budgets  Budgets
	Passkeys Passkeys
	Vault    Sealer
	Redact   *redact.Redactor
	// Sweep is the interval at which expired items are looked for.
	Sweep time.Duration
	Log   hclog.Logger
}

// Service lists and decides items, and lets them expire. It is a lifecycle.Service; any
// number of hubs may run one.
type Service struct {
	lifecycle.Runner

	Snoozes     Snoozes
	Attachments Attachments
	cfg         Config
}

// New creates a Service.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, Snoozes: Snoozes{cfg.Store}, Attachments: newAttachments(cfg)}
}

// Answer closes an open item; see Applied for what it stores. Repeating the same decision
// as the same person has no effect.
func (s *Service) Answer(ctx context.Context, orgID, id string, a Answer) (db.GetInboxItemRow, error) {
	row, err := s.Get(ctx, orgID, id)
	if err != nil {
		return row, err
	}
	a.Reason = s.cfg.Redact.Org(orgID).String(a.Reason)
	if stop.Is(row.InboxItem.Kind) {
		if a.Proof != nil {
			return row, fault.New(fault.Invalid, "proof: the answer to an item of kind %s takes none, and it would not be kept", row.InboxItem.Kind).
				WithObject(id).WithFix("send the answer without a proof")
		}
		if err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error { return s.answerStop(ctx, tx, row, a) }); err != nil {
			return row, err
		}
		return s.Get(ctx, orgID, id)
	}
	if err := s.prove(ctx, row.InboxItem, &a); err != nil {
		return row, err
	}
	if err := s.look(ctx, row.InboxItem, &a); err != nil {
		return row, err
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: orgID, ID: row.InboxItem.TaskID})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", row.InboxItem.TaskID, err)
		}
		locked, err := tx.LockInboxItem(ctx, db.LockInboxItemParams{OrgID: orgID, ID: id})
		if err != nil {
			return fmt.Errorf("lock inbox item %s: %w", id, err)
		}
		item := locked.InboxItem
		if err := mayAnswer(a, t, item); err != nil {
			return err
		}
		if a.Always != nil && a.Role != "admin" {
			return fault.New(fault.Denied, "only administrators may allow calls permanently, and you have the role %s", a.Role).
				WithCode(fault.PermissionDenied).WithObject(item.ID).WithFix("approve this call only")
		}
		if State(item.State) == Answered && item.AnsweredBy == a.By.ID && item.Answer == string(a.Verdict) && item.Reason == a.Reason {
			return nil
		}
		if err := answerable(item, locked.Over, a); err != nil {
			return err
		}
		// Now that the item is locked: the state of the workspace may have been recorded
		// since it was first read.
		seen := row
		seen.InboxItem = item
		if err := asShown(seen, a); err != nil {
			return err
		}
		if item.StepID == nil {
			return s.closeTask(ctx, tx, t, item, a)
		}
		if a.Verdict == Replan {
			if _, err := plan.EditIn(ctx, tx, t, a.PlanRevision, a.Plan, a.By); err != nil {
				return err
			}
		}
		effect, err := s.cfg.Steps.Resolve(ctx, tx, t, item, a)
		if err != nil {
			return err
		}
		if err := s.close(ctx, tx, item, a, effect); err != nil {
			return err
		}
		return s.settle(ctx, tx, t, fmt.Sprintf("%s answered %s (%s); waits for a worker", a.By.ID, item.ID, a.Verdict), a.By)
	})
	if err != nil {
		return row, err
	}
	return s.Get(ctx, orgID, id)
}

// look records the workspace before a decision that executes something there.
func (s *Service) look(ctx context.Context, item db.InboxItem, a *Answer) (err error) {
	switch {
	case State(item.State) != Open:
	case item.StepID != nil && (a.Verdict == Approve || a.Verdict == Retry):
		a.unseen, err = s.cfg.Steps.EnsureWorkspaceRecorded(ctx, item.OrgID, *item.StepID)
	case Kind(item.Kind) == Review && a.Verdict == Accept:
		if err = s.cfg.Reviews.Unchanged(ctx, item); err == nil && len(a.Without.Paths) > 0 {
			err = s.cfg.Reviews.MayLeaveOut(ctx, item, a.Without.Paths)
		}
	case Kind(item.Kind) == Escalation && a.Verdict == Retry:
		err = s.cfg.Tasks.MayRun(ctx, item.OrgID, item.TaskID, a.Override)
	}
	return err
}

// closeTask is close for an item about a task, which then continues or ends.
func (s *Service) closeTask(ctx context.Context, tx *event.Tx, t db.Task, item db.InboxItem, a Answer) error {
	// The decision is stored first: a task that continues withdraws its open items.
	if err := s.close(ctx, tx, item, a, Applied{}); err != nil {
		return err
	}
	switch {
	case Kind(item.Kind) == Review:
		return s.cfg.Reviews.Decided(ctx, tx, t, a)
	case a.Verdict == Close:
		tx.Publish(change.QueueChanged{OrgID: t.OrgID})
		return task.Close(ctx, tx, t, a.Reason, a.By)
	}
	tx.Publish(change.QueueChanged{OrgID: t.OrgID})
	return task.TryAgain(ctx, tx, t, a.Override, a.By)
}

// mayAnswer refuses callers who may not decide an item. Administrators may, and so may
// the task's submitter if their role covers the tool.
func mayAnswer(a Answer, t db.Task, item db.InboxItem) error {
	if a.Role == "admin" || a.By.ID == t.CreatedBy && tool.Covers(a.Role, tool.CategoryOf(item.Category)) {
		return nil
	}
	e := fault.New(fault.Denied, "you may not answer %s: it is about a %s tool in a task of %s, and you are %s with the role %s",
		item.ID, item.Category, t.CreatedBy, a.By.ID, a.Role).WithCode(fault.PermissionDenied).WithObject(item.ID)
	return e.WithFix("ask an administrator")
}

// answerable refuses a decision that comes too late or does not fit the kind of item.
func answerable(item db.InboxItem, over bool, a Answer) error {
	switch State(item.State) {
	case Answered:
		return fault.New(fault.Precondition, "%s has been answered: %s by %s at %s", item.ID, item.Answer, item.AnsweredBy,
			item.AnsweredAt.UTC().Format(time.RFC3339)).WithObject(item.ID).WithFix("see what came of it: deckhand inbox show %s", item.ID)
	case Withdrawn:
		if item.TaskID == "" || item.Subject != "" {
			return fault.New(fault.Precondition, "%s waits for nothing any more: its cause is gone", item.ID).WithObject(item.ID).WithFix("see what else waits: deckhand inbox list")
		}
		return fault.New(fault.Precondition, "%s waits for nothing any more: its task has ended", item.ID).WithObject(item.ID).
			WithFix("see: deckhand task show %s", item.TaskID)
	}
	if State(item.State) == Expired || over {
		return fault.New(fault.Precondition, "the time to answer %s was over at %s", item.ID, item.ExpiresAt.UTC().Format(time.RFC3339)).
			WithCode(fault.ApprovalExpired).WithObject(item.ID).WithFix("see what became of the task: deckhand task show %s", item.TaskID)
	}
	if !slices.Contains(fitting[Kind(item.Kind)], a.Verdict) {
		return fault.New(fault.Invalid, "%s is not a valid decision on %s, which is of kind %s", a.Verdict, item.ID, item.Kind).WithObject(item.ID).
			WithFix("%s", commands[Kind(item.Kind)])
	}
	return nil
}

// close stores a decision whose effect is in the same transaction.
func (s *Service) close(ctx context.Context, tx *event.Tx, item db.InboxItem, a Answer, effect Applied) error {
	params := db.AnswerInboxItemParams{
		OrgID: item.OrgID, ID: item.ID, Answer: string(a.Verdict), Reply: s.cfg.Redact.Org(item.OrgID).String(effect.Reply),
		ChangedArguments: effect.ChangedArguments, Reason: a.Reason, AnsweredBy: a.By.ID, WithoutPaths: append([]string{}, a.Without.Paths...),
	}
	if effect.Reply != "" {
		var err error
		if params.ReplySealed, err = s.cfg.Vault.Seal([]byte(effect.Reply), item.ID); err != nil {
			return err
		}
	}
	if _, err := tx.AnswerInboxItem(ctx, params); err != nil {
		return fmt.Errorf("store the answer to %s: %w", item.ID, err)
	}
	after := map[string]any{"reply": params.Reply, "changed_arguments": string(effect.ChangedArguments), "limit": a.Limit}
	if len(a.Without.Paths)+len(a.Without.StepIDs) > 0 {
		after["without_paths"], after["without_step_ids"] = a.Without.Paths, a.Without.StepIDs
	}
	if a.evidence != nil {
		after["proof"] = a.evidence.Map()
	}
	after["waited_ms"] = time.Since(item.AskedAt).Milliseconds()
	// The entry has the time, address and user agent. The preview may be cut; the digest
	// covers all arguments, which the step keeps.
	if err := audit.Append(tx, audit.Entry{
		OrgID: item.OrgID, By: a.By, Action: "inbox." + string(a.Verdict), ObjectKind: "inbox_item", ObjectID: item.ID, Reason: a.Reason,
		Before: map[string]any{"kind": item.Kind, "task_id": item.TaskID, "step_id": store.Text(item.StepID), "tool": item.Tool, "preview": item.Preview,
			"arguments_sha256": digest(item.Arguments), "shown_digest": a.ShownDigest, "subject": item.Subject},
		After: after,
	}); err != nil {
		return err
	}
	if item.TaskID == "" {
		return nil
	}
	if err := tx.Append(item.OrgID, item.TaskID, a.By, event.Draft{Type: eventkind.InboxAnswered, Payload: map[string]any{
		"item_id": item.ID, "kind": item.Kind, "step_id": store.Text(item.StepID), "tool": item.Tool, "answer": string(a.Verdict),
		"reply": effect.Reply, "reason": a.Reason, "by": a.By.ID, "changed": effect.ChangedArguments != nil,
		"waited_ms": time.Since(item.AskedAt).Milliseconds(),
	}}); err != nil {
		return err
	}
	return nil
}

// settle requeues a waiting task if its next call may run, and otherwise updates what it
// waits for. A paused task stays paused: it finds the decision when it is resumed.
func (s *Service) settle(ctx context.Context, tx *event.Tx, t db.Task, why string, by event.Actor) error {
	if from := task.State(t.State); from != task.AwaitingApproval && from != task.NeedsInput {
		return nil // a worker has it, or will, and finds the step in its current state
	}
	to, reason, err := parking(ctx, tx, t)
	if err != nil {
		return err
	}
	if string(to) == t.State {
		return tx.SetParkedReason(ctx, db.SetParkedReasonParams{OrgID: t.OrgID, ID: t.ID, Reason: reason})
	}
	// Also if it waits for something else now: a worker parks it again.
	tx.Publish(change.QueueChanged{OrgID: t.OrgID})
	_, err = task.Move(ctx, tx, t, task.Queued, why, by)
	return err
}
