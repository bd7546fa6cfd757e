package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/message"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// batch is the number of reviews that one sweep handles; nodeTimeout is how long a node
// may take to kill what runs in a jail and to record the workspace.
const (
	batch       = 100
	nodeTimeout = time.Minute
)

// busy are the items that this hub is working on.
type busy struct {
	mu    sync.Mutex
	items map[string]bool
}

func (b *busy) take(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.items[id] {
		return false
	}
	b.items[id] = true
	return true
}

func (b *busy) leave(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.items, id)
}

// Kick starts a sweep now.
func (s *Service) Kick() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Start starts to carry out verdicts, including those that another hub left unfinished.
func (s *Service) Start(ctx context.Context) error {
	return s.Run(ctx, func(ctx context.Context) error {
		var at sync.WaitGroup
		defer at.Wait()
		ticker := time.NewTicker(s.cfg.Sweep)
		defer ticker.Stop()
		for {
			if err := s.sweep(ctx, &at); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("cannot find reviews; will try again", "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			case <-s.kick:
			}
		}
	})
}

func (s *Service) sweep(ctx context.Context, at *sync.WaitGroup) error {
	open, err := s.cfg.Store.ReviewsToStill(ctx, batch)
	if err != nil {
		return fmt.Errorf("find open reviews: %w", err)
	}
	decided, err := s.cfg.Store.ReviewsToCarry(ctx, batch)
	if err != nil {
		return fmt.Errorf("find reviews to carry out: %w", err)
	}
	do := func(id string, what func(ctx context.Context) error) {
		if !s.busy.take(id) {
			return
		}
		at.Go(func() {
			defer s.busy.leave(id)
			err := what(ctx)
			switch {
			case err == nil || ctx.Err() != nil:
			case fault.Is(err, fault.Unavailable):
				s.cfg.Log.Debug("a review waits for its node", "item_id", id, "error", err)
			default:
				s.cfg.Log.Warn("cannot carry out a review; will try again", "item_id", id, "error", err)
			}
		})
	}
	for _, row := range open {
		do(row.ID, func(ctx context.Context) error {
			return s.stopCommands(ctx, row.OrgID, row.ID, row.TaskID)
		})
	}
	for _, row := range decided {
		do(row.ID, func(ctx context.Context) error { return s.execute(ctx, row) })
	}
	return nil
}

// workspaceVersion is what a verdict is valid for: the state of the workspace.
type workspaceVersion struct {
	Record string `json:"record,omitempty"`
	State  int64  `json:"state,omitempty"`
	// None is why there is no state.
	None string `json:"none,omitempty"`
}

// stopCommands ends what runs in the workspace of a review and records the state of the
// workspace with the item.
func (s *Service) stopCommands(ctx context.Context, orgID, itemID, taskID string) error {
	row, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: orgID, ID: taskID})
	if err != nil {
		return fmt.Errorf("load task %s: %w", taskID, err)
	}
	now, err := s.currentVersion(ctx, row.Task, true)
	if err != nil {
		return err
	}
	return s.bind(ctx, orgID, itemID, now)
}

func (s *Service) bind(ctx context.Context, orgID, itemID string, now workspaceVersion) error {
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode the state of a workspace: %w", err)
	}
	if _, err := s.cfg.Store.BindReview(ctx, db.BindReviewParams{OrgID: orgID, ID: itemID, Binding: data}); err != nil {
		return fmt.Errorf("record the state of the workspace of review %s: %w", itemID, err)
	}
	return nil
}

// currentVersion returns the current state of a task's workspace; with kill, after
// everything that runs there was killed.
func (s *Service) currentVersion(ctx context.Context, t db.Task, kill bool) (workspaceVersion, error) {
	if t.NodeID == nil {
		return workspaceVersion{None: "the task ran on no node"}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	node, err := s.cfg.Node(*t.NodeID)
	if err != nil {
		return workspaceVersion{}, err
	}
	if kill {
		_, err := node.Jails().KillJail(ctx, &nodev1.KillJailRequest{JailId: t.JailID, By: "review of " + t.ID})
		if err = fault.FromGRPC(err); err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Precondition) {
			return workspaceVersion{}, fmt.Errorf("end what runs in jail %s: %w", t.JailID, err)
		}
	}
	seen, err := node.Snapshots().TakeSnapshot(ctx, &nodev1.TakeSnapshotRequest{JailId: t.JailID})
	switch err = fault.FromGRPC(err); {
	case err == nil:
		return workspaceVersion{Record: seen.GetRecord(), State: seen.GetSnapshot()}, nil
	case fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Deadline) || fault.Is(err, fault.Canceled):
		return workspaceVersion{}, err
	}
	return workspaceVersion{None: "its node keeps no states"}, nil
}

// Unchanged refuses to accept a workspace that changed after its review was shown: the
// person who accepts it must have seen it. If the state of the workspace was not recorded
// yet, it is recorded now, and the item differs from the one that was shown. It
// implements inbox.Reviews.
func (s *Service) Unchanged(ctx context.Context, item db.InboxItem) error {
	var was workspaceVersion
	if err := json.Unmarshal(item.Binding, &was); err != nil {
		return fmt.Errorf("read the binding of %s: %w", item.ID, err)
	}
	if was == (workspaceVersion{}) {
		return s.stopCommands(ctx, item.OrgID, item.ID, item.TaskID)
	}
	row, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: item.OrgID, ID: item.TaskID})
	if err != nil {
		return fmt.Errorf("load task %s: %w", item.TaskID, err)
	}
	now, err := s.currentVersion(ctx, row.Task, false)
	if err != nil || now == was {
		return err
	}
	if err := s.bind(ctx, item.OrgID, item.ID, now); err != nil {
		return err
	}
	return fault.New(fault.Aborted, "the workspace of %s has changed since its review was asked for", item.TaskID).WithObject(item.ID).
		WithCode(fault.FileConflict).WithFix("look at it again (deckhand task diff %s), and answer again", item.TaskID)
}

// MayLeaveOut refuses to leave out files that the task did not change, or that can no
// longer be restored: the person would believe that they are as they were before. It
// implements inbox.Reviews.
func (s *Service) MayLeaveOut(ctx context.Context, item db.InboxItem, paths []string) error {
	row, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: item.OrgID, ID: item.TaskID})
	if err != nil {
		return fmt.Errorf("load task %s: %w", item.TaskID, err)
	}
	seen, err := s.cfg.Workspaces.Undo(ctx, workspace.Request{Task: row.Task, OnConflict: nodev1.OnConflict_ON_CONFLICT_OVERWRITE, Paths: paths, Preview: true})
	switch {
	case err != nil && !fault.Is(err, fault.NotFound):
		return fmt.Errorf("look at what leaving out files of %s restores: %w", item.TaskID, err)
	case err == nil && !seen.Span.Open():
		return fault.New(fault.Precondition, "without_paths: files cannot be left out any more: the changes of %s could be undone until %s", item.TaskID, seen.Span.Until.UTC().Format(time.RFC3339)).
			WithObject(item.ID).WithFix("ask for changes instead")
	}
	changes := seen.Node.GetChanges()
	if int(seen.Node.GetFiles()) > len(changes) && len(changes) > 0 {
		return nil // there are too many to tell
	}
	for _, path := range paths {
		if !slices.ContainsFunc(changes, func(c *nodev1.FileChange) bool { return below(string(c.GetPath()), path) }) {
			return fault.New(fault.Invalid, "without_paths: %q is no file that %s changed", path, item.TaskID).
				WithObject(item.ID).WithFix("see which files it changed: deckhand task diff %s", item.TaskID)
		}
	}
	return nil
}

// below reports whether a file is the one at a path, or in the folder there.
func below(file, path string) bool {
	return file == path || strings.HasPrefix(file, strings.TrimSuffix(path, "/")+"/")
}

// Decided applies the task's part of a verdict, in the transaction that stores it. The
// task's row is locked. It implements inbox.Reviews.
func (s *Service) Decided(ctx context.Context, tx *event.Tx, t db.Task, a inbox.Answer) error {
	who := a.By.ID
	if a.Verdict != inbox.Changes {
		if err := afterRestore(ctx, tx, t); err != nil {
			return err
		}
	}
	if a.Verdict == inbox.Changes {
		if err := dropHeld(ctx, tx, t, who+" asked for changes", "it was not made: "+who+" asked for changes. Make it again if it is still right."); err != nil {
			return err
		}
		text := "The work was reviewed and is not accepted as it is. Asked for is: " + a.Reason +
			"\nDeferred calls are dropped; make those again that are still right."
		if _, _, err := message.Say(ctx, tx, t, text, "", a.By, nil); err != nil {
			return err
		}
		tx.Publish(change.QueueChanged{OrgID: t.OrgID})
		_, err := task.Move(ctx, tx, t, task.Queued, who+" asked for changes; waits for a worker", a.By)
		return err
	}
	if ids := a.Without.StepIDs; len(ids) > 0 {
		dropped, err := tx.DropNamedDeferredSteps(ctx, db.DropNamedDeferredStepsParams{
			OrgID: t.OrgID, TaskID: t.ID, Ids: ids, Reason: "left out by " + who, Observation: "it was never made: " + who + " accepted the work without it",
		})
		if err != nil {
			return fmt.Errorf("drop deferred calls of %s: %w", t.ID, err)
		}
		for _, id := range ids {
			if !slices.Contains(dropped, id) {
				return fault.New(fault.Invalid, "without_step_ids: %s is no deferred call of %s", id, t.ID).WithObject(id).
					WithFix("name the steps that the review lists: deckhand inbox list --task %s -o json", t.ID)
			}
		}
	}
	tx.AfterCommit(s.Kick)
	reason := "accepted by " + who + "; its deferred calls are running"
	if a.Verdict == inbox.Reject {
		reason = "rejected by " + who + "; its workspace is being restored as it was"
	}
	if err := tx.SetReviewReason(ctx, db.SetReviewReasonParams{OrgID: t.OrgID, ID: t.ID, Reason: reason}); err != nil {
		return fmt.Errorf("store the next state of %s: %w", t.ID, err)
	}
	return nil
}

// afterRestore refuses to carry out a verdict on a task that waits since the hub was restored
// from a backup: what was deferred may have been done since, and no node need know of it.
func afterRestore(ctx context.Context, tx *event.Tx, t db.Task) error {
	held, err := tx.RestoreHold(ctx, db.RestoreHoldParams{OrgID: t.OrgID, TaskID: t.ID})
	if store.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("see whether %s waits after a restore: %w", t.ID, err)
	}
	why := held.Reason
	if why == "" {
		why = "the hub was restored to an earlier state, and has not compared the task with its nodes yet"
	}
	return fault.New(fault.Precondition, "the review of %s cannot be decided yet: %s", t.ID, why).WithObject(t.ID).
		WithFix("see whether its deferred calls were made since, leave those out, and release it first: deckhand task resume %s", t.ID)
}

func dropHeld(ctx context.Context, tx *event.Tx, t db.Task, reason, observation string) error {
	if err := tx.DropDeferredSteps(ctx, db.DropDeferredStepsParams{OrgID: t.OrgID, TaskID: t.ID, Reason: reason, Observation: observation}); err != nil {
		return fmt.Errorf("drop the deferred calls of %s: %w", t.ID, err)
	}
	return nil
}

// execute carries out the verdict on a review.
func (s *Service) execute(ctx context.Context, row db.ReviewsToCarryRow) error {
	got, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: row.OrgID, ID: row.TaskID})
	if err != nil {
		return fmt.Errorf("load task %s: %w", row.TaskID, err)
	}
	item, err := s.cfg.Store.GetInboxItem(ctx, db.GetInboxItemParams{OrgID: row.OrgID, ID: row.ID})
	if err != nil {
		return fmt.Errorf("load inbox item %s: %w", row.ID, err)
	}
	t := got.Task
	end := outcome{state: task.Failed, by: event.Actor{Kind: event.User, ID: item.InboxItem.AnsweredBy}}
	switch {
	case task.State(t.State) != task.ReviewNeeded: // it was cancelled, or got more work
	case row.Answer == string(inbox.Accept):
		if err = s.leaveOut(ctx, t, item.InboxItem, end.by); err == nil {
			err = s.release(ctx, t, item.InboxItem, &end)
		}
	default:
		err = s.restore(ctx, t, item.InboxItem, &end)
	}
	if err != nil {
		return s.recordStuck(ctx, t, err)
	}
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: row.OrgID, ID: row.TaskID})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", row.TaskID, err)
		}
		n, err := tx.ReviewCarried(ctx, db.ReviewCarriedParams{OrgID: row.OrgID, ID: row.ID})
		if err != nil {
			return fmt.Errorf("record that review %s was carried out: %w", row.ID, err)
		}
		if n == 0 || task.State(t.State) != task.ReviewNeeded {
			return nil // another hub did it
		}
		tx.Publish(change.QueueChanged{OrgID: t.OrgID})
		if end.state == task.Succeeded {
			d, err := DetailOf(item.InboxItem)
			if err != nil {
				return err
			}
			if d.Completed != nil {
				if err := tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.ExecutionCompleted, Payload: d.Completed}); err != nil {
					return err
				}
			}
			_, err = task.Move(ctx, tx, t, task.Succeeded, end.reason, end.by)
			return err
		}
		if err := dropHeld(ctx, tx, t, end.reason, "it was never made: "+end.reason); err != nil {
			return err
		}
		if err := tx.SetTaskResult(ctx, db.SetTaskResultParams{
			OrgID: t.OrgID, ID: t.ID, Summary: t.Summary, ErrorCode: string(end.code), ErrorMessage: end.reason,
		}); err != nil {
			return fmt.Errorf("store result of %s: %w", t.ID, err)
		}
		_, err = task.Move(ctx, tx, t, task.Failed, end.reason, end.by)
		return err
	})
}

// outcome is the end of a task whose review was decided.
type outcome struct {
	state  task.State
	code   fault.Code
	reason string
	by     event.Actor
}

// recordStuck stores in the task's reason what it waits for, and returns the error.
func (s *Service) recordStuck(ctx context.Context, t db.Task, err error) error {
	if ctx.Err() != nil {
		return err
	}
	reason := "what was decided on its review is not done yet; tries again: " + s.cfg.Redact.Org(t.OrgID).String(fault.FromGRPC(err).Error())
	return errors.Join(err, s.cfg.Store.SetReviewReason(ctx, db.SetReviewReasonParams{OrgID: t.OrgID, ID: t.ID, Reason: reason}))
}

// leaveOut restores the files that a person left out when they accepted the rest. It may
// be called again after a crash: what is restored stays so.
func (s *Service) leaveOut(ctx context.Context, t db.Task, item db.InboxItem, by event.Actor) error {
	if len(item.WithoutPaths) == 0 {
		return nil
	}
	if _, err := s.currentVersion(ctx, t, true); err != nil {
		return err
	}
	_, err := s.cfg.Workspaces.Undo(ctx, workspace.Request{Task: t, OnConflict: nodev1.OnConflict_ON_CONFLICT_OVERWRITE, Paths: item.WithoutPaths, By: by})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("restore what was left out of %s: %w", t.ID, err)
	}
	return nil
}

// release executes the deferred calls, in order. It stops at the first that does not
// succeed: a later one may depend on it.
func (s *Service) release(ctx context.Context, t db.Task, item db.InboxItem, end *outcome) error {
	steps, err := s.cfg.Store.ReleasedSteps(ctx, db.ReleasedStepsParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return fmt.Errorf("find the deferred calls of %s: %w", t.ID, err)
	}
	for _, one := range steps {
		if one.State == string(step.Deferred) || one.State == string(step.Started) {
			if one, err = s.cfg.Steps.Release(ctx, t, one.ID); err != nil {
				return fmt.Errorf("execute the deferred step %s: %w", one.ID, err)
			}
		}
		if step.State(one.State) != step.Succeeded {
			end.code = fault.Code(one.ErrorCode)
			end.reason = fmt.Sprintf("accepted by %s, but step %d (%s), which was deferred, is %s; those after it did not run", end.by.ID, one.Number, one.Tool, one.State)
			return nil
		}
	}
	end.state, end.reason = task.Succeeded, "accepted by "+end.by.ID
	if n := len(item.WithoutPaths); n > 0 {
		end.reason += fmt.Sprintf(" without %d of its file changes", n)
	}
	if n := len(steps); n > 0 {
		end.reason += fmt.Sprintf("; %d deferred calls ran", n)
	}
	return nil
}

// restore restores a workspace to its state before the task.
func (s *Service) restore(ctx context.Context, t db.Task, item db.InboxItem, end *outcome) error {
	if _, err := s.currentVersion(ctx, t, true); err != nil {
		return err
	}
	_, err := s.cfg.Workspaces.Undo(ctx, workspace.Request{Task: t, OnConflict: nodev1.OnConflict_ON_CONFLICT_OVERWRITE, By: end.by})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("restore the workspace of %s: %w", t.ID, err)
	}
	end.code, end.reason = fault.PermissionDenied, "rejected by "+end.by.ID
	if item.Reason != "" {
		end.reason += ": " + item.Reason
	}
	return nil
}
