package nodeexec

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Kind is the first part of a command's id.
const Kind = "nexec"

const (
	sendTimeout = 30 * time.Second
	// waitStep is how long one question to the node waits for an end.
	waitStep = 20 * time.Second
	// settleTime is how long a kill waits for the end to be written.
	settleTime = 5 * time.Second
	// orphanTimeout bounds one round of KillOrphans, which asks orphansAtOnce at a time.
	orphanTimeout = 5 * time.Second
	orphansAtOnce = 128
	// adoptAfter is the age from which a command may have lost its hub.
	adoptAfter = 30 * time.Second
	// onItsWay is how long a command that the node does not know may still be on
	// its way there, sent by a hub that has died since.
	onItsWay = 2 * sendTimeout
)

var retries = backoff.Policy{Base: 200 * time.Millisecond, Max: 10 * time.Second}

// reserve reserves a command for this hub's follower before it is sent. The returned
// function must be called once: with the row to follow it, with nil to release it.
func (e *Execs) reserve(id string) (func(*db.NodeExec), error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running == nil {
		return nil, fault.New(fault.Unavailable, "the hub is stopping").WithFix("try again")
	}
	ctx, done := e.running, make(chan struct{})
	e.ended[id] = done
	e.followers.Add(1)
	release := func() {
		e.mu.Lock()
		delete(e.ended, id)
		e.mu.Unlock()
		close(done)
		e.followers.Done()
	}
	return func(row *db.NodeExec) {
		if row == nil {
			release()
			return
		}
		go func() {
			defer release()
			e.follow(ctx, *row)
		}()
	}, nil
}

// adopt follows what runs on a node and is not followed here yet.
func (e *Execs) adopt(ctx context.Context, nodeIDs []string) error {
	rows, err := e.cfg.Store.LiveNodeExecs(ctx, nodeIDs)
	if err != nil {
		return fmt.Errorf("load live commands: %w", err)
	}
	return e.adoptRows(rows)
}

// KillOrphans ends commands that were part of a step which does not run any more: its task
// was killed, or it ended while no hub waited for them.
func (e *Execs) KillOrphans(ctx context.Context) error {
	rows, err := e.cfg.Store.OrphanedNodeExecs(ctx)
	if err != nil {
		return fmt.Errorf("find commands whose step has ended: %w", err)
	}
	// One silent node delays neither the others nor the caller's next job for long.
	ctx, cancel := context.WithTimeout(ctx, orphanTimeout)
	defer cancel()
	var asking errgroup.Group
	asking.SetLimit(orphansAtOnce)
	for _, row := range rows {
		asking.Go(func() error {
			link, err := e.cfg.Node(row.NodeID)
			if err != nil {
				return nil // when it is connected again
			}
			if _, err := link.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: row.ID, By: "hub: its step has ended"}); err != nil {
				e.cfg.Log.Info("cannot end a command whose step has ended; will try again", "exec_id", row.ID, "error", err)
			}
			return nil
		})
	}
	return asking.Wait()
}

// AdoptAll follows commands that have not ended and may have lost their follower, because
// a hub died. Following one twice is harmless: its end is stored once.
func (e *Execs) AdoptAll(ctx context.Context) error {
	rows, err := e.cfg.Store.OldLiveNodeExecs(ctx, adoptAfter)
	if err != nil {
		return fmt.Errorf("load live commands: %w", err)
	}
	return e.adoptRows(rows)
}

func (e *Execs) adoptRows(rows []db.NodeExec) error {
	for _, row := range rows {
		e.mu.Lock()
		known := e.ended[row.ID] != nil
		e.mu.Unlock()
		if known {
			continue
		}
		follow, err := e.reserve(row.ID)
		if err != nil {
			return err
		}
		follow(&row)
	}
	return nil
}

// follow waits for a command's end, whatever happens to its node's link, and
// writes it down.
func (e *Execs) follow(ctx context.Context, row db.NodeExec) {
	for failures := 0; ; {
		reason, end, err := e.ask(ctx, row)
		if err == nil && reason != "" {
			err = e.recordEnd(ctx, row, reason, end)
			if err == nil {
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
			continue
		}
		if failures++; failures == 1 {
			e.cfg.Log.Info("cannot follow a command; will try again", "exec_id", row.ID, "reason", err)
		}
		if done, derr := e.hasEnded(ctx, row); derr == nil && done {
			return
		}
		if backoff.Wait(ctx, retries.Delay(failures)) != nil {
			return
		}
	}
}

// ask asks the node for a command's end: reason is empty while it runs.
func (e *Execs) ask(ctx context.Context, row db.NodeExec) (reason string, end *nodev1.Exec, err error) {
	link, err := e.cfg.Node(row.NodeID)
	if err != nil {
		return "", nil, err
	}
	res, err := link.Exec().WaitExec(ctx, &nodev1.WaitExecRequest{ExecId: row.ID, Timeout: durationpb.New(waitStep)})
	err = fault.FromGRPC(err)
	switch {
	case fault.Is(err, fault.NotFound) && row.State == "pending" && time.Since(row.CreatedAt) > onItsWay:
		return endReason(nodev1.EndReason_END_REASON_NOT_STARTED), &nodev1.Exec{StartError: "the node never got it"}, nil
	case fault.Is(err, fault.NotFound) && row.State != "pending":
		return endReason(nodev1.EndReason_END_REASON_UNKNOWN), &nodev1.Exec{StartError: "the node does not know it any more"}, nil
	case err != nil:
		return "", nil, err
	case res.GetExec().GetState() != nodev1.ExecState_EXEC_STATE_ENDED:
		return "", nil, nil
	}
	return endReason(res.GetExec().GetEndReason()), res.GetExec(), nil
}

// hasEnded reports that there is nothing to follow any more: another hub has stored the
// end, or the node was revoked, so that the end stays unknown.
func (e *Execs) hasEnded(ctx context.Context, row db.NodeExec) (bool, error) {
	now, err := e.Get(ctx, row.OrgID, row.ID)
	if err != nil || now.NodeExec.State == "ended" {
		return err == nil, err
	}
	n, err := e.cfg.Store.NodeByID(ctx, row.NodeID)
	if err != nil || n.RevokedAt == nil {
		return false, err
	}
	return true, e.recordEnd(ctx, row, endReason(nodev1.EndReason_END_REASON_UNKNOWN), &nodev1.Exec{StartError: "the node was revoked"})
}

// endReason is an end's reason as it is stored.
func endReason(r nodev1.EndReason) string {
	return strings.ToLower(strings.TrimPrefix(r.String(), "END_REASON_"))
}

// recordEnd stores a command's end and releases the lock that it took. It is idempotent.
func (e *Execs) recordEnd(ctx context.Context, row db.NodeExec, reason string, end *nodev1.Exec) error {
	var released int64
	err := e.cfg.Store.Tx(ctx, func(q *db.Queries) error {
		if _, err := q.EndNodeExec(ctx, db.EndNodeExecParams{
			OrgID: row.OrgID, ID: row.ID, EndReason: reason, ExitCode: end.GetExitCode(), Signal: end.GetSignal(),
			KilledBy: end.GetKilledBy(), Error: e.cfg.Redact.Org(row.OrgID).String(end.GetStartError()), LogBytes: end.GetLogBytes(),
			MembersLeft: end.GetMembersLeft(), Files: end.GetWorkspace().GetFiles(),
		}); err != nil {
			return fmt.Errorf("store the end of %s: %w", row.ID, err)
		}
		var err error
		released, err = q.ReleaseExecLock(ctx, db.ReleaseExecLockParams{OrgID: row.OrgID, ExecID: row.ID, ReleasedBy: row.UserName})
		return err
	})
	if err != nil {
		return err
	}
	e.cfg.Recorded(row.NodeID, row.ID)
	if released > 0 {
		e.cfg.Recorder.Publish(change.QueueChanged{OrgID: row.OrgID})
	}
	return nil
}

// Source is the place of the log of a person's command, or of a step. host reports that
// the command ran on the machine itself.
type Source struct {
	ExecID string
	NodeID string
	Host   bool
	// Size is how many bytes the log has if nothing is written to it any more; nil if not.
	Size *int64
}

// Source finds a log by its command's or step's id or a unique prefix with its
// kind.
func (e *Execs) Source(ctx context.Context, v task.Viewer, ref string) (Source, error) {
	orgID := v.OrgID
	if !strings.HasPrefix(ref, "step_") {
		id, err := e.Find(ctx, v, ref)
		if err != nil {
			return Source{}, err
		}
		row, err := e.Get(ctx, orgID, id)
		src := Source{ExecID: id, NodeID: row.NodeExec.NodeID, Host: row.NodeExec.Target == Host}
		if row.NodeExec.FinishedAt != nil {
			src.Size = &row.NodeExec.LogBytes
		}
		return src, err
	}
	rows, err := e.cfg.Store.FindSteps(ctx, db.FindStepsParams{OrgID: orgID, SeesAll: v.All, Viewer: v.Name, Ref: ref, Prefix: store.Prefix("step", ref)})
	id, err := store.One("step", ref, rows, err)
	if err != nil {
		return Source{}, err
	}
	s, err := e.cfg.Store.GetStep(ctx, db.GetStepParams{OrgID: orgID, ID: id})
	if err != nil {
		return Source{}, fmt.Errorf("load step %s: %w", id, err)
	}
	if s.StartedAt == nil || s.NodeID == nil {
		return Source{}, fault.New(fault.Precondition, "step %s has no log: it was never started on a node", id).WithObject(id)
	}
	src := Source{ExecID: s.ExecID, NodeID: *s.NodeID}
	log, err := e.cfg.Store.StepLog(ctx, db.StepLogParams{OrgID: orgID, ID: id})
	if err != nil {
		return Source{}, fmt.Errorf("look whether the log of %s is whole: %w", id, err)
	}
	if log.Whole {
		src.Size = &log.LogBytes
	}
	return src, nil
}
