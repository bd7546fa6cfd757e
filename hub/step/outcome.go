package step

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// withFiles adds to a result's outcome how many files the call changed, if that is known.
func withFiles(r tool.Result) tool.Result {
	if r.Workspace == nil || r.Workspace.GetError() != "" {
		return r
	}
	if r.Outcome == nil {
		r.Outcome = map[string]any{}
	}
	r.Outcome["files_changed"] = r.Workspace.GetFiles()
	return r
}

// encodeOutcome returns the outcome of a result as masked JSON.
func (s *Steps) encodeOutcome(orgID string, r tool.Result) (json.RawMessage, error) {
	if r.Outcome == nil {
		return json.RawMessage("{}"), nil
	}
	return json.Marshal(s.cfg.Redact.Org(orgID).Map(r.Outcome))
}

// outcome returns the state that a started step ends in with a result.
func outcome(r tool.Result) State {
	switch {
	case r.Unknown:
		return Unknown
	case r.Failed:
		return Failed
	}
	return Succeeded
}

// end stores an outcome in a transaction of its own; see endIn.
func (s *Steps) end(ctx context.Context, orgID string, t db.Task, step db.Step, record *tool.Tool, r tool.Result) (db.Step, error) {
	if len(r.Images) == 0 && r.Browser == nil && r.UsedTarget == nil && len(r.Refused) == 0 && !r.OutOfMemory && !r.Unknown && r.WorkspaceNode == "" && r.Workspace.GetFiles() == 0 && r.Machine.GetFiles() == 0 && r.Started == nil && r.Progress == nil && !task.StepAudited(step) {
		return s.endAlone(ctx, step, record, r)
	}
	r = fileCounter{&s.cfg}.add(ctx, t, step, r)
	ended := step
	err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) (err error) {
		if r.OutOfMemory || r.Unknown {
			// What follows depends on the task's current state.
			if t, err = tx.LockTask(ctx, db.LockTaskParams{OrgID: orgID, ID: t.ID}); err != nil {
				return fmt.Errorf("lock task %s: %w", step.TaskID, err)
			}
		}
		ended, err = s.endIn(ctx, tx, t, step, record, r)
		return err
	})
	return ended, err
}

// endAlone stores an outcome that has no other effect, with its event, in one round trip.
// Like endIn, it stores only the first outcome.
func (s *Steps) endAlone(ctx context.Context, step db.Step, record *tool.Tool, r tool.Result) (db.Step, error) {
	r = withFiles(r)
	params, err := s.outcomeParams(step, r)
	if err != nil {
		return step, err
	}
	var changed map[string]any
	if r.Workspace != nil && step.NodeID != nil {
		changed = workspace.Said(r.Workspace)
	}
	ended := step
	ended.State, ended.Observation, ended.Outcome, ended.ErrorCode = params.State, params.Observation, params.Outcome, params.ErrorCode
	ended.LogBytes, ended.WorkspaceRecord, ended.WorkspaceState = params.LogBytes, params.WorkspaceRecord, params.WorkspaceState
	ended.FinishedAt = ended.StartedAt // the statement computes the duration
	err = s.cfg.Recorder.AppendWith(step.OrgID, step.TaskID, func(_, payloads []string) error {
		row, err := s.cfg.Store.EndStepAlone(ctx, db.EndStepAloneParams{
			TaskID: params.TaskID, OrgID: params.OrgID, State: params.State, Observation: params.Observation, Outcome: params.Outcome,
			ErrorCode: params.ErrorCode, LogBytes: params.LogBytes, WorkspaceState: params.WorkspaceState,
			WorkspaceRecord: params.WorkspaceRecord, ID: params.ID, Run: params.Run, Payload: payloads[0],
		})
		ended.FinishedAt = row.FinishedAt
		return err
	}, completed(ended, r, changed))
	if store.IsNotFound(err) {
		return s.Get(ctx, step.OrgID, step.ID)
	}
	if err != nil {
		return step, fmt.Errorf("end step %s: %w", step.ID, err)
	}
	if record.Place == deckhandv1.ToolPlace_TOOL_PLACE_NODE && ended.NodeID != nil {
		s.cfg.AckOutcome(*ended.NodeID, ended.ExecID)
	}
	return ended, nil
}

// outcomeParams returns the parameters that store an outcome.
func (s *Steps) outcomeParams(step db.Step, r tool.Result) (db.EndStepParams, error) {
	encoded, err := s.encodeOutcome(step.OrgID, r)
	if err != nil {
		return db.EndStepParams{}, fmt.Errorf("encode outcome of step %s: %w", step.ID, err)
	}
	params := db.EndStepParams{
		OrgID: step.OrgID, ID: step.ID, TaskID: step.TaskID, Run: step.Run, State: string(outcome(r)),
		Observation: changedNote(step) + s.cfg.Redact.Org(step.OrgID).String(r.Observation),
		Outcome:     encoded, ErrorCode: string(r.Code), LogBytes: r.LogBytes,
	}
	if r.WorkspaceNode == "" || step.NodeID != nil && *step.NodeID == r.WorkspaceNode {
		params.WorkspaceRecord, params.WorkspaceState = workspace.StateAfter(r.Workspace)
	}
	return params, nil
}

// endIn stores an outcome once: if another caller has stored one, that one is returned.
// The task's row is locked, unless the outcome only says that the call succeeded or
// failed.
func (s *Steps) endIn(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, record *tool.Tool, r tool.Result) (db.Step, error) {
	to := outcome(r)
	var hungry memoryRaise
	if r.OutOfMemory {
		var err error
		if hungry, err = s.planMemoryRaise(ctx, tx, t, step); err != nil {
			return step, err
		}
		r.Observation += "\n" + hungry.note
	}
	r = withFiles(r)
	params, err := s.outcomeParams(step, r)
	if err != nil {
		return step, err
	}
	changedAt := step.NodeID
	if r.WorkspaceNode != "" {
		changedAt = &r.WorkspaceNode
	}
	ended, err := tx.EndStep(ctx, params)
	if store.IsNotFound(err) {
		return tx.GetStep(ctx, db.GetStepParams{OrgID: t.OrgID, ID: step.ID})
	}
	if err != nil {
		return step, fmt.Errorf("end step %s: %w", step.ID, err)
	}
	if err := s.keepImages(ctx, tx.Queries, ended, r.Images); err != nil {
		return ended, err
	}
	if err := (browsers{s}).keep(ctx, tx.Queries, ended, r.Browser); err != nil {
		return ended, err
	}
	// Only the one who stores the outcome weighs the target.
	tx.AfterCommit(func() { browsers{s}.used(context.WithoutCancel(ctx), t, ended, r.UsedTarget) })
	changed, err := workspace.Record(ctx, tx, ended, changedAt, r.Workspace)
	if err != nil {
		return ended, err
	}
	if _, err := workspace.Record(ctx, tx, ended, ended.NodeID, r.Machine); err != nil {
		return ended, err
	}
	if err := tx.Append(t.OrgID, t.ID, event.Hub, completed(ended, r, changed)); err != nil {
		return ended, err
	}
	if err := task.AuditStep(tx, t, ended); err != nil {
		return ended, err
	}
	if err := s.recordJob(ctx, tx, t, ended, r); err != nil {
		return ended, err
	}
	if len(r.Refused) > 0 {
		if err := s.recordRefused(ctx, tx, t, ended, r.Refused); err != nil {
			return ended, err
		}
	}
	if record.Place == deckhandv1.ToolPlace_TOOL_PLACE_NODE && ended.NodeID != nil {
		tx.AfterCommit(func() { s.cfg.AckOutcome(*ended.NodeID, ended.ExecID) })
	}
	if to == Unknown {
		return s.unknown(ctx, tx, t, ended, record)
	}
	return ended, s.applyMemoryRaise(ctx, tx, t, ended, hungry)
}
