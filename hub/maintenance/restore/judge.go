package restore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/message"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
)

// The verdicts on a task. With either of them a person decides how it goes on.
const (
	recovered = "recovered" // it did something that the restored database does not have
	uncertain = "uncertain" // it may have done something that no node knows of
)

// maxTold is how many effects a task's event and message list.
const maxTold = 50

// judge gives a verdict on the tasks that wait for one. One that cannot be judged is held
// and tried again, and delays no other.
func (c *Comparer) judge(ctx context.Context, orgID, restoreID string) error {
	if err := c.cfg.Store.ForgetEndedRestoredTasks(ctx); err != nil {
		return fmt.Errorf("forget restored tasks that have ended: %w", err)
	}
	problems, err := c.problems(ctx, orgID, restoreID)
	if err != nil {
		return err
	}
	for after := ""; ; {
		tasks, err := c.cfg.Store.TasksToJudge(ctx, db.TasksToJudgeParams{OrgID: orgID, After: after, MaxRows: batch})
		if err != nil {
			return fmt.Errorf("find restored tasks without a verdict: %w", err)
		}
		for _, t := range tasks {
			after = t.ID
			if err := c.judgeTask(ctx, orgID, restoreID, t, problems); err != nil {
				if ctx.Err() != nil {
					return err
				}
				c.cfg.Log.Warn("cannot judge a task after a restore; it waits, and is tried again", "task_id", t.ID, "error", err)
			}
		}
		if len(tasks) < batch {
			return nil
		}
	}
}

// problems says of which nodes not everything is known; empty for none.
func (c *Comparer) problems(ctx context.Context, orgID, restoreID string) (string, error) {
	rows, err := c.cfg.Store.RestoreProblems(ctx, db.RestoreProblemsParams{OrgID: orgID, RestoreID: restoreID})
	if err != nil {
		return "", fmt.Errorf("load nodes that do not say everything: %w", err)
	}
	var said []string
	for _, p := range rows {
		said = append(said, fmt.Sprintf("node %s: %s", p.Name, p.Problem))
	}
	return strings.Join(said, "; "), nil
}

func (c *Comparer) judgeTask(ctx context.Context, orgID, restoreID string, row db.TasksToJudgeRow, problems string) error {
	own, err := c.cfg.Store.RecoveredEffectsOfTask(ctx, db.RecoveredEffectsOfTaskParams{
		OrgID: orgID, RestoreID: restoreID, TaskID: row.ID, JailID: row.JailID, MaxRows: maxTold,
	})
	if err != nil {
		return fmt.Errorf("load the recovered effects of %s: %w", row.ID, err)
	}
	n, err := c.cfg.Store.CountRecoveredEffects(ctx, db.CountRecoveredEffectsParams{OrgID: orgID, RestoreID: restoreID, TaskID: row.ID, JailID: row.JailID})
	if err != nil {
		return fmt.Errorf("count the recovered effects of %s: %w", row.ID, err)
	}
	verdict, why := uncertain, "no node shows a command of it that the restored database does not have, but it may have acted where no node sees it"
	if n.Own > 0 {
		verdict, why = recovered, commands(n.Own)+" of it that the restored database does not have"
	}
	if n.Elsewhere > 0 {
		why += "; " + commands(n.Elsewhere) + " of tasks, machines or workspaces that the restored database cannot tell, some of which may be this task's"
	}
	if problems != "" {
		why += "; what ran is not wholly known (" + problems + ")"
	}
	return c.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: orgID, ID: row.ID})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", row.ID, err)
		}
		reason := "the hub was restored to an earlier state: " + why + "; look at the task, then go on with: deckhand task resume " + t.ID
		judged, err := tx.JudgeRestoredTask(ctx, db.JudgeRestoredTaskParams{OrgID: orgID, TaskID: t.ID, Verdict: verdict, Reason: reason})
		if err != nil || judged == 0 {
			return err
		}
		if err := tx.Append(orgID, t.ID, by, event.Draft{Type: eventkind.TaskRestored, Payload: map[string]any{
			"verdict": verdict, "reason": reason, "steps": shownEffects(own), "count": n.Own, "elsewhere": n.Elsewhere,
		}}); err != nil {
			return err
		}
		if err := audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "task.restored", ObjectKind: "task", ObjectID: t.ID, Reason: reason,
			After: map[string]any{"verdict": verdict, "steps": n.Own}, Severity: audit.High,
		}); err != nil {
			return err
		}
		if n.Own > 0 {
			if _, _, err := message.Say(ctx, tx, t, letter(own, n.Own), "restored:"+t.ID+":"+restoreID, by, nil); err != nil {
				return err
			}
		}
		return stop(ctx, tx, t, n.Attached > 0, reason)
	})
}

// stop pauses a task that was judged. One that waits for a person keeps its question, unless
// what it asked about has run: its answer puts it into the queue, where it is held.
func stop(ctx context.Context, tx *event.Tx, t db.Task, attached bool, reason string) (err error) {
	if task.State(t.State) == task.AwaitingApproval && attached {
		if t, err = task.Move(ctx, tx, t, task.Queued, reason, by); err != nil {
			return err
		}
	}
	switch task.State(t.State) {
	case task.Queued, task.Waiting:
		_, err = task.Move(ctx, tx, t, task.Paused, reason, by)
	case task.ReviewNeeded:
		if err = tx.SetReviewReason(ctx, db.SetReviewReasonParams{OrgID: t.OrgID, ID: t.ID, Reason: reason}); err != nil {
			err = fmt.Errorf("say why the review of %s waits: %w", t.ID, err)
		}
	default:
		// Admission holds it when it is queued, and says why.
	}
	return err
}

func commands(n int64) string {
	if n == 1 {
		return "a node has 1 command or file operation"
	}
	return fmt.Sprintf("nodes have %d commands or file operations", n)
}

// shownEffects returns effects as the event lists them.
func shownEffects(effects []db.RecoveredEffectsOfTaskRow) []any {
	out := []any{}
	for _, e := range effects {
		out = append(out, map[string]any{
			"id": e.EffectID, "step_id": e.StepID, "node_id": e.NodeID, "node": e.NodeName, "what": e.What, "outcome": e.Outcome,
			"began_at": e.BeganAt.UTC().Format(time.RFC3339),
		})
	}
	return out
}

// letter is what the agent is told. all is how many effects there are.
func letter(effects []db.RecoveredEffectsOfTaskRow, all int64) string {
	var b strings.Builder
	b.WriteString("The hub was restored to an earlier state, and you have lost your latest turns. These commands and file operations of yours or of others in this workspace ran after that state. Do not repeat them before you have looked at what they did:\n")
	for _, e := range effects {
		fmt.Fprintf(&b, "- %s on %s: %s (%s)\n", e.BeganAt.UTC().Format(time.RFC3339), e.NodeName, e.What, e.Outcome)
	}
	if more := all - int64(len(effects)); more > 0 {
		fmt.Fprintf(&b, "- and %d more\n", more)
	}
	return b.String()
}
