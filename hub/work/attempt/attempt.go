// Package attempt stores what a worker reports of the task that it holds: events,
// finished turns, checkpoints and the end of its loop. Reports is its service. Each
// report is one transaction that verifies the lease; a report with a stale lease changes
// nothing and returns an error, and a repeated one is stored once.
package attempt

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/message"
	"github.com/deckhand-sh/deckhand/hub/work/outage"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/phase"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Config holds the dependencies of Reports.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Agents   *agent.Service
	Vault    *vault.Vault
	Redact   *redact.Redactor
	// Price returns what a model costs.
	Price func(ctx context.Context, q *db.Queries, orgID, provider, model string) (price.Model, error)
	// Propose decides calls of a turn in the transaction that stores it.
	Propose func(ctx context.Context, tx *event.Tx, t db.Task, turn *deckhandv1.Turn, indices []int32) ([]db.Step, error)
	// Review opens the review of a run that is done, in the transaction that ends it.
	// completed is the payload of its event, which is recorded when the run is accepted.
	Review func(ctx context.Context, tx *event.Tx, t db.Task, summary string, completed map[string]any) error
	// AfterFailure brings the workspace of a run that failed back to a checkpoint of its
	// task, and returns an error of kind Precondition if it must stay as it is.
	AfterFailure func(ctx context.Context, t db.Task, checkpoint string) error
}

// Reports takes reports.
type Reports struct{ cfg Config }

// New creates Reports.
func New(cfg Config) *Reports { return &Reports{cfg} }

// held runs fn in a transaction that holds the lease.
func (r *Reports) held(ctx context.Context, orgID string, le lease.Lease, fn func(tx *event.Tx, t db.Task, by event.Actor) error) error {
	return r.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := lease.LockTask(ctx, tx, orgID, le)
		if err != nil {
			return err
		}
		return fn(tx, t, event.Actor{Kind: "worker", ID: *t.WorkerID})
	})
}

// Events appends events and returns the last one's number. A numbered batch is stored
// once, however often it is sent; 0 means not numbered.
func (r *Reports) Events(ctx context.Context, orgID string, le lease.Lease, batch int64, drafts []event.Draft) (int64, error) {
	seq, held, err := r.cfg.Recorder.AppendLeased(ctx, event.LeaseRef{
		OrgID: orgID, TaskID: le.TaskID, Attempt: le.Attempt, LeaseHash: ident.Hash(le.Token), Batch: batch,
	}, drafts...)
	if err == nil && !held {
		err = lease.Stale(le)
	}
	return seq, err
}

// Turn stores a finished turn with its use and cost, and returns it. A turn that was
// stored before is returned as it was stored, and nothing is counted twice. The calls
// that indices name are decided in the same transaction, and their steps returned.
func (r *Reports) Turn(ctx context.Context, orgID string, le lease.Lease, turn *deckhandv1.Turn, drafts []event.Draft, indices []int32) (*deckhandv1.Turn, []db.Step, error) {
	if turn.GetUsage() == nil {
		turn.Usage = &deckhandv1.Usage{}
	}
	turn.Attempt = le.Attempt
	stored := turn
	var steps []db.Step
	err := r.held(ctx, orgID, le, func(tx *event.Tx, t db.Task, by event.Actor) error {
		if turn.GetTurn() <= t.TurnCount {
			row, err := tx.GetTurn(ctx, db.GetTurnParams{OrgID: orgID, TaskID: t.ID, Turn: turn.GetTurn()})
			if err != nil {
				return fmt.Errorf("load turn %d of %s: %w", turn.GetTurn(), t.ID, err)
			}
			if stored, err = r.Original(row); err != nil {
				return err
			}
			steps, err = r.cfg.Propose(ctx, tx, t, stored, indices)
			return err
		}
		if turn.GetTurn() != t.TurnCount+1 {
			return fault.New(fault.Invalid, "turn.turn is %d, and the task's next turn is %d", turn.GetTurn(), t.TurnCount+1).WithObject(t.ID)
		}
		usage, err := r.count(ctx, tx, t, turn)
		if err != nil {
			return err
		}
		turn.Usage = usage
		params := db.CreateTurnParams{TaskID: t.ID, Turn: turn.GetTurn(), OrgID: orgID, Attempt: t.Attempt}
		if params.Content, params.Sealed, err = r.encode(t.OrgID, t.ID, turn); err != nil {
			return fmt.Errorf("encode turn %d of %s: %w", turn.GetTurn(), t.ID, err)
		}
		tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
			if err := q.CreateTurn(ctx, params); err != nil {
				return err
			}
			if turn.GetTurn() > 1 {
				// The turn is chosen, and none of its calls was made.
				if err := q.CreatePhaseCheckpoint(ctx, db.CreatePhaseCheckpointParams{
					ID: ident.New("ckpt"), TaskID: t.ID, Iteration: turn.GetTurn() - 1, OrgID: orgID, Attempt: t.Attempt, KeepAuto: task.CheckpointTime,
				}); err != nil {
					return err
				}
			}
			return q.AddTaskUsage(ctx, db.AddTaskUsageParams{
				LimitTokens: usage.GetLimitTokens(), OrgID: orgID, ID: t.ID, Turn: turn.GetTurn(), InputTokens: usage.GetInputTokens(), OutputTokens: usage.GetOutputTokens(),
				CacheReadTokens: usage.GetCacheReadTokens(), CacheWriteTokens: usage.GetCacheWriteTokens(), CostMicros: usage.GetCostMicros(),
			})
		})
		if err := tx.Append(orgID, t.ID, by, drafts...); err != nil {
			return err
		}
		steps, err = r.cfg.Propose(ctx, tx, t, turn, indices)
		return err
	})
	return stored, steps, err
}

// count returns what a turn used and cost: what the relay read off the wire of
// the calls since the turn before. Where none came through it, as with a
// script, the worker's own figures count, at the price of the model that the
// task may use, whatever the worker calls it.
func (r *Reports) count(ctx context.Context, tx *event.Tx, t db.Task, turn *deckhandv1.Turn) (*deckhandv1.Usage, error) {
	usage := turn.GetUsage()
	v, err := r.cfg.Agents.VersionIn(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	name, model, err := task.ModelOf(t, v)
	if err != nil {
		return nil, err
	}
	if name != persona.ProviderScript {
		calls, err := tx.BindModelCalls(ctx, db.BindModelCallsParams{OrgID: t.OrgID, TaskID: t.ID, Turn: turn.GetTurn()})
		if err != nil {
			return nil, fmt.Errorf("find the model calls of turn %d of %s: %w", turn.GetTurn(), t.ID, err)
		}
		if calls.Calls > 0 {
			return &deckhandv1.Usage{
				InputTokens: calls.InputTokens, OutputTokens: calls.OutputTokens, CacheReadTokens: calls.CacheReadTokens,
				CacheWriteTokens: calls.CacheWriteTokens, CostMicros: calls.CostMicros, LimitTokens: calls.LimitTokens,
			}, nil
		}
	}
	if usage.GetInputTokens()|usage.GetOutputTokens()|usage.GetCacheReadTokens()|usage.GetCacheWriteTokens() == 0 {
		return usage, nil // as of most scripts: whatever the price, it costs nothing
	}
	p, err := r.cfg.Price(ctx, tx.Queries, t.OrgID, name, model)
	if err != nil {
		return nil, err
	}
	used := price.Usage{
		Input: usage.GetInputTokens(), Output: usage.GetOutputTokens(), CacheRead: usage.GetCacheReadTokens(), CacheWrite: usage.GetCacheWriteTokens(),
	}
	usage.CostMicros, usage.LimitTokens = p.Micros(used), p.LimitTokens(used)
	return usage, nil
}

// noTurn is the turn number of calls whose responses became no turn.
const noTurn = 0

// uncounted bounds how many tasks one count takes on.
const uncounted = 200

// CountLate adds the cost of calls that were settled after their task had ended, such as
// those that a kill cut off, and returns the number of tasks with such calls. Any number
// of hubs may call it at once.
func (r *Reports) CountLate(ctx context.Context) (int, error) {
	rows, err := r.cfg.Store.UncountedTasks(ctx, uncounted)
	if err != nil {
		return 0, fmt.Errorf("find calls that are not counted: %w", err)
	}
	for _, row := range rows {
		if err := r.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
			t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: row.OrgID, ID: row.ID})
			if err != nil {
				return fmt.Errorf("lock task %s: %w", row.ID, err)
			}
			return bindRest(ctx, tx, t)
		}); err != nil {
			return 0, fmt.Errorf("count the late calls of task %s: %w", row.ID, err)
		}
	}
	return len(rows), nil
}

// countRest adds the cost of calls that led to no turn.
func (r *Reports) countRest(ctx context.Context, tx *event.Tx, t db.Task) error {
	v, err := r.cfg.Agents.VersionIn(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return err
	}
	if name, _, err := task.ModelOf(t, v); err != nil || name == persona.ProviderScript {
		return err
	}
	return bindRest(ctx, tx, t)
}

func bindRest(ctx context.Context, tx *event.Tx, t db.Task) error {
	calls, err := tx.BindModelCalls(ctx, db.BindModelCallsParams{OrgID: t.OrgID, TaskID: t.ID, Turn: noTurn})
	if err != nil || calls.Calls == 0 {
		return err
	}
	return tx.AddTaskUsage(ctx, db.AddTaskUsageParams{
		OrgID: t.OrgID, ID: t.ID, Turn: noTurn, InputTokens: calls.InputTokens, OutputTokens: calls.OutputTokens,
		CacheReadTokens: calls.CacheReadTokens, CacheWriteTokens: calls.CacheWriteTokens, CostMicros: calls.CostMicros, LimitTokens: calls.LimitTokens,
	})
}

// encode returns a turn as masked JSON, for readers, and encrypted without masking, for
// the next attempt.
func (r *Reports) encode(orgID, taskID string, turn *deckhandv1.Turn) (masked, sealed []byte, err error) {
	data, err := protojson.Marshal(turn)
	if err != nil {
		return nil, nil, err
	}
	if sealed, err = r.cfg.Vault.Seal(data, object(taskID, turn.GetTurn())); err != nil {
		return nil, nil, err
	}
	var plain map[string]any
	if err := json.Unmarshal(data, &plain); err != nil {
		return nil, nil, err
	}
	masked, err = json.Marshal(r.cfg.Redact.Org(orgID).Map(plain))
	return masked, sealed, err
}

func object(taskID string, turn int32) string { return fmt.Sprintf("turn %d of %s", turn, taskID) }

// Original reads a stored turn as the model wrote it.
func (r *Reports) Original(row db.Turn) (*deckhandv1.Turn, error) {
	data, err := r.cfg.Vault.Open(row.Sealed, object(row.TaskID, row.Turn))
	if err != nil {
		return nil, err
	}
	turn := &deckhandv1.Turn{}
	if err := protojson.Unmarshal(data, turn); err != nil {
		return nil, fmt.Errorf("read turn %d of %s: %w", row.Turn, row.TaskID, err)
	}
	return turn, nil
}

// Checkpoint is the loop's state at the end of an iteration.
type Checkpoint struct {
	Iteration int32
	State     map[string]any
	// Progress is 0 to 1.
	Progress float64

	// phases are the milliseconds of the iteration's phases, in their order; nil if they are
	// not known.
	phases []int64
}

// phasesOf returns the milliseconds of the phases of the iteration that events complete, in
// the order of the phases; nil if they complete none.
func phasesOf(drafts []event.Draft) []int64 {
	for _, d := range drafts {
		spent, ok := d.Payload["phases_ms"].(map[string]any)
		if d.Type != eventkind.IterationComplete || !ok {
			continue
		}
		names := phase.Names()
		out := make([]int64, len(names))
		for i, name := range names {
			if ms, ok := spent[name].(float64); ok && ms > 0 && ms < maxPhase {
				out[i] = int64(math.Round(ms))
			}
		}
		return out
	}
	return nil
}

// maxPhase is the longest time of one phase that is believed, in milliseconds: 30 days.
const maxPhase = 30 * 24 * 3600 * 1000

// Checkpoint stores a checkpoint, with the events that close the iteration, and returns
// the messages that have arrived since. It is idempotent.
func (r *Reports) Checkpoint(ctx context.Context, orgID string, le lease.Lease, b Checkpoint, drafts []event.Draft) ([]db.TaskMessage, error) {
	var told []db.TaskMessage
	b.phases = phasesOf(drafts)
	err := r.held(ctx, orgID, le, func(tx *event.Tx, t db.Task, by event.Actor) error {
		stored, err := r.checkpoint(ctx, tx, t, b)
		if err != nil {
			return err
		}
		if !stored {
			// The answer to the first call may have been lost.
			told, err = message.After(ctx, tx.Queries, t, b.Iteration)
			return err
		}
		if told, err = message.Bind(ctx, tx, t, b.Iteration); err != nil {
			return err
		}
		return tx.Append(orgID, t.ID, by, drafts...)
	})
	return told, err
}

// checkpoint stores a checkpoint and reports whether it is a new one.
func (r *Reports) checkpoint(ctx context.Context, tx *event.Tx, t db.Task, b Checkpoint) (bool, error) {
	params, err := r.checkpointParams(t, b)
	if err != nil {
		return false, err
	}
	n, err := tx.CreateCheckpoint(ctx, params)
	if err != nil {
		return false, fmt.Errorf("store checkpoint %d of %s: %w", b.Iteration, t.ID, err)
	}
	if n == 0 {
		return false, nil
	}
	if err := tx.SetTaskProgress(ctx, db.SetTaskProgressParams{
		OrgID: t.OrgID, ID: t.ID, Iteration: b.Iteration, Progress: b.Progress, Phases: b.phases,
	}); err != nil {
		return false, fmt.Errorf("store progress of %s: %w", t.ID, err)
	}
	return true, nil
}

func (r *Reports) checkpointParams(t db.Task, b Checkpoint) (db.CreateCheckpointParams, error) {
	data, err := json.Marshal(r.cfg.Redact.Org(t.OrgID).Map(b.State))
	if err != nil {
		return db.CreateCheckpointParams{}, fmt.Errorf("encode checkpoint of %s: %w", t.ID, err)
	}
	return db.CreateCheckpointParams{
		ID: ident.New("ckpt"), KeepAuto: task.CheckpointTime, TaskID: t.ID, Iteration: b.Iteration, OrgID: t.OrgID, Attempt: t.Attempt, State: data, Tool: toolname.Checkpoint, KeepFor: task.MaxCheckpointTime,
	}, nil
}

// Outcome is how a loop ended.
type Outcome struct {
	State        task.State
	Reason       string
	Summary      string
	ErrorCode    string
	ErrorMessage string
	Events       []event.Draft
	// Checkpoint is that of the iteration that ended the run; nil when none did.
	Boundary *Checkpoint
	// Transient reports that a retry may succeed, after RetryAfter.
	Transient  bool
	RetryAfter time.Duration
	// Outage is the model that did not answer, if that was the reason.
	Outage outage.Model
	// Limit is the limit that ended the run; empty for none.
	Limit string
}

// declared reports that the agent ended the run itself.
func (o Outcome) declared() bool {
	return o.State == task.Succeeded || o.ErrorCode == string(fault.GivenUp) || o.ErrorCode == string(fault.PartlyDone)
}

// continueRun requeues a task whose agent has ended its run, because a message arrived
// before: the next attempt receives it.
func (r *Reports) continueRun(ctx context.Context, tx *event.Tx, t db.Task, end Outcome, by event.Actor) error {
	events, _ := withoutEnd(end.Events)
	if err := tx.Append(t.OrgID, t.ID, by, events...); err != nil {
		return err
	}
	tx.Publish(change.QueueChanged{OrgID: t.OrgID})
	_, err := task.Requeue(ctx, tx, t, "a message came as the agent ended its run; waits for a worker to go on with it", "released", by)
	return err
}

// withoutEnd returns the events without that of the run's end, and that event's payload.
func withoutEnd(events []event.Draft) (rest []event.Draft, completed map[string]any) {
	for _, d := range events {
		switch d.Type {
		case eventkind.ExecutionCompleted:
			completed = d.Payload
			continue
		case eventkind.ExecutionFailed:
			continue
		}
		rest = append(rest, d)
	}
	return rest, completed
}

// keepLast keeps the last checkpoint of a failed task, so that the task can be inspected
// and resumed.
func keepLast(ctx context.Context, tx *event.Tx, t db.Task) error {
	_, err := tx.KeepCheckpoint(ctx, db.KeepCheckpointParams{
		OrgID: t.OrgID, TaskID: t.ID, Iteration: t.Iteration, Reason: "error", KeepFor: task.MaxCheckpointTime,
	})
	if err != nil && !store.IsNotFound(err) {
		return fmt.Errorf("keep the last checkpoint of %s: %w", t.ID, err)
	}
	return nil
}

// Finish moves the task to the state in which its loop ended and ends the lease.
func (r *Reports) Finish(ctx context.Context, orgID string, le lease.Lease, end Outcome) error {
	if end.Reason == "" {
		end.Reason = "the agent ended its run"
	}
	return r.held(ctx, orgID, le, func(tx *event.Tx, t db.Task, by event.Actor) error {
		goesOn := end.declared() && t.MessagesWaiting > 0
		if goesOn {
			var err error
			if goesOn, err = tx.MessageKeepsTask(ctx, db.MessageKeepsTaskParams{OrgID: orgID, TaskID: t.ID, Programs: task.ProgramPrefix}); err != nil {
				return fmt.Errorf("look for messages to %s: %w", t.ID, err)
			}
		}
		result := task.Result{
			Summary: r.cfg.Redact.Org(orgID).String(end.Summary), ErrorCode: end.ErrorCode,
			ErrorMessage: r.cfg.Redact.Org(orgID).String(end.ErrorMessage), Done: end.State == task.Succeeded,
		}
		if end.Boundary != nil {
			end.Boundary.phases = phasesOf(end.Events)
		}
		if quotaEnded(t, end) {
			return r.waitForQuota(ctx, tx, t, end, by)
		}
		switch b := end.Boundary; {
		case b != nil && (goesOn || end.State == task.Failed):
			if _, err := r.checkpoint(ctx, tx, t, *b); err != nil {
				return err
			}
			t.Iteration = max(t.Iteration, b.Iteration)
		case b != nil:
			params, err := r.checkpointParams(t, *b)
			if err != nil {
				return err
			}
			tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
				_, err := q.CreateCheckpoint(ctx, params)
				return err
			})
			result.Iteration, result.Progress, result.Phases = b.Iteration, b.Progress, b.phases
		}
		if goesOn {
			return r.continueRun(ctx, tx, t, end, by)
		}
		var completed map[string]any
		if end.State == task.Succeeded {
			reviewed, err := r.reviewed(ctx, tx, t)
			if err != nil {
				return err
			}
			if reviewed {
				end.Events, completed = withoutEnd(end.Events)
				end.State, end.Reason = task.ReviewNeeded, "the agent is done, and its work waits for somebody to accept it: deckhand inbox list --task "+t.ID
			}
		}
		if end.State == task.Failed {
			if err := keepLast(ctx, tx, t); err != nil {
				return err
			}
		}
		if end.State == task.Failed && end.Transient {
			// The run continues later, and finds its steps unchanged.
			if err := tx.Append(orgID, t.ID, by, end.Events...); err != nil {
				return err
			}
			tx.Publish(change.QueueChanged{OrgID: orgID})
			return r.later(ctx, tx, t, end, result.ErrorMessage, by)
		}
		if end.State == task.Failed && end.ErrorCode != string(fault.PartlyDone) {
			said, err := r.goBack(ctx, tx, t)
			if err != nil {
				return err
			}
			end.Reason += said
		}
		if err := r.countRest(ctx, tx, t); err != nil {
			return err
		}
		if err := tx.Append(orgID, t.ID, by, end.Events...); err != nil {
			return err
		}
		if err := r.judge(ctx, tx, t, end); err != nil {
			return err
		}
		tx.Publish(change.QueueChanged{OrgID: orgID})
		reason := r.cfg.Redact.Org(orgID).String(end.Reason)
		open, err := task.End(ctx, tx, t, end.State, reason, result, by)
		if err == nil && end.State == task.ReviewNeeded {
			err = r.cfg.Review(ctx, tx, t, result.Summary, completed)
		}
		if err == nil && end.State == task.Paused && end.RetryAfter > 0 {
			// It continues then, unless a person resumes it earlier.
			err = tx.SetTaskTimer(ctx, db.SetTaskTimerParams{OrgID: t.OrgID, ID: t.ID, Wait: end.RetryAfter, Reason: reason})
		}
		if err == nil && end.State == task.Paused {
			end.ErrorMessage = result.ErrorMessage
			err = r.stopped(ctx, tx, t, end)
		}
		if err != nil || !open {
			return err
		}
		return r.cancelOpen(ctx, tx, t, by)
	})
}

// later has a task try again what failed, or wait until its model answers again.
func (r *Reports) later(ctx context.Context, tx *event.Tx, t db.Task, end Outcome, message string, by event.Actor) error {
	if end.Outage == (outage.Model{}) || task.State(t.State) != task.Running {
		return task.Fail(ctx, tx, t, task.Failure{Code: end.ErrorCode, Message: message, After: end.RetryAfter}, by)
	}
	p, err := r.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return err
	}
	return outage.Wait(ctx, tx, t, outage.Failure{
		Model: end.Outage, Code: end.ErrorCode, Message: message, After: end.RetryAfter, MaxWait: p.Limits.Outage,
	}, by)
}

// reviewed reports whether the results of a task's run stay in its workspace until a
// person has accepted it.
func (r *Reports) reviewed(ctx context.Context, tx *event.Tx, t db.Task) (bool, error) {
	p, err := r.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return false, err
	}
	p, err = task.EffectivePersona(t, p)
	return err == nil && p.Mode == persona.Review, err
}

// cancelOpen ends the steps that a run left open: none of them continues when the next
// run starts.
func (r *Reports) cancelOpen(ctx context.Context, tx *event.Tx, t db.Task, by event.Actor) error {
	open, err := tx.CancelSteps(ctx, db.CancelStepsParams{OrgID: t.OrgID, TaskID: t.ID, Reason: "the run ended"})
	if err != nil {
		return fmt.Errorf("end open steps of %s: %w", t.ID, err)
	}
	if err := task.AuditCancelled(tx, open, t); err != nil {
		return err
	}
	for _, step := range open {
		if step.StartedAt != nil {
			tx.Publish(change.StepCancelled{Step: step, By: by.ID})
		}
	}
	return nil
}
