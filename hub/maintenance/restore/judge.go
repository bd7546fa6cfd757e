package restore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/message"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// The verdicts on a task.
const (
	unchanged = "unchanged" // it goes on
	recovered = "recovered" // it did something that the backup does not have
	uncertain = "uncertain" // it may have done something that no node knows of
)

const (
	// maxEffects is how many effects of an organisation are looked at, maxTold how many
	// a task's event and message list.
	maxEffects = 10_000
	maxTold    = 50
)

// findings are what the comparison of an organisation's nodes came to.
type findings struct {
	effects []db.RecoveredEffectsRow
	// foreign are effects of steps that the backup does not have: of which task is known
	// by the jail only.
	foreign int
	// problems says of which nodes not everything is known; empty for none.
	problems string
}

// judge gives a verdict on the tasks that wait for one.
func (c *Comparer) judge(ctx context.Context, orgID, restoreID string) error {
	if err := c.cfg.Store.ForgetEndedRestoredTasks(ctx); err != nil {
		return fmt.Errorf("forget restored tasks that have ended: %w", err)
	}
	found, err := c.find(ctx, orgID, restoreID)
	if err != nil {
		return err
	}
	for {
		tasks, err := c.cfg.Store.TasksToJudge(ctx, db.TasksToJudgeParams{OrgID: orgID, MaxRows: batch})
		if err != nil {
			return fmt.Errorf("find restored tasks without a verdict: %w", err)
		}
		for _, t := range tasks {
			if err := c.judgeTask(ctx, orgID, t, found); err != nil {
				return err
			}
		}
		if len(tasks) < batch {
			return nil
		}
	}
}

func (c *Comparer) find(ctx context.Context, orgID, restoreID string) (out findings, err error) {
	out.effects, err = c.cfg.Store.RecoveredEffects(ctx, db.RecoveredEffectsParams{OrgID: orgID, RestoreID: restoreID, MaxRows: maxEffects})
	if err != nil {
		return out, fmt.Errorf("load recovered effects: %w", err)
	}
	for _, e := range out.effects {
		if e.StepID == "" {
			out.foreign++
		}
	}
	problems, err := c.cfg.Store.RestoreProblems(ctx, db.RestoreProblemsParams{OrgID: orgID, RestoreID: restoreID})
	if err != nil {
		return out, fmt.Errorf("load nodes that do not say everything: %w", err)
	}
	var said []string
	for _, p := range problems {
		said = append(said, fmt.Sprintf("node %s: %s", p.Name, p.Problem))
	}
	out.problems = strings.Join(said, "; ")
	return out, nil
}

func (c *Comparer) judgeTask(ctx context.Context, orgID string, row db.TasksToJudgeRow, found findings) error {
	var own []db.RecoveredEffectsRow
	for _, e := range found.effects {
		if e.TaskID == row.ID || e.StepID == "" && e.JailID == row.JailID {
			own = append(own, e)
		}
	}
	return c.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: orgID, ID: row.ID})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", row.ID, err)
		}
		verdict, why := recovered, fmt.Sprintf("%s that the hub's backup does not have", commands(len(own)))
		if len(own) == 0 {
			if verdict, why, err = c.elsewhere(ctx, tx, t, found); err != nil {
				return err
			}
		}
		reason := ""
		if verdict != unchanged {
			reason = "the hub was restored from a backup: " + why + "; look at the task, then go on with: deckhand task resume " + t.ID
		}
		n, err := tx.JudgeRestoredTask(ctx, db.JudgeRestoredTaskParams{OrgID: orgID, TaskID: t.ID, Verdict: verdict, Reason: reason})
		if err != nil || n == 0 {
			return err
		}
		if err := tx.Append(orgID, t.ID, by, event.Draft{Type: eventkind.TaskRestored, Payload: map[string]any{
			"verdict": verdict, "reason": reason, "steps": shownEffects(own), "count": len(own),
		}}); err != nil {
			return err
		}
		if verdict == unchanged {
			return nil
		}
		if err := audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "task.restored", ObjectKind: "task", ObjectID: t.ID, Reason: reason,
			After: map[string]any{"verdict": verdict, "steps": len(own)}, Severity: audit.High,
		}); err != nil {
			return err
		}
		if len(own) > 0 {
			if _, _, err := message.Say(ctx, tx, t, letter(own), "restored:"+row.ID+":"+own[0].RestoreID, by, nil); err != nil {
				return err
			}
		}
		if task.State(t.State) == task.AwaitingApproval && attached(own) {
			// What it asked about has run.
			if t, err = task.Move(ctx, tx, t, task.Queued, reason, by); err != nil {
				return err
			}
		}
		if task.State(t.State) == task.Queued {
			_, err = task.Move(ctx, tx, t, task.Paused, reason, by)
		}
		return err
	})
}

// attached reports whether an effect is of a step that the backup has.
func attached(effects []db.RecoveredEffectsRow) bool {
	return slices.ContainsFunc(effects, func(e db.RecoveredEffectsRow) bool { return e.StepID != "" })
}

// elsewhere returns the verdict on a task of which no node has anything new: whether it may
// have acted where no node sees it.
func (c *Comparer) elsewhere(ctx context.Context, tx *event.Tx, t db.Task, found findings) (verdict, why string, err error) {
	if found.problems != "" {
		return uncertain, "what ran after it is not wholly known (" + found.problems + ")", nil
	}
	p, err := c.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return "", "", err
	}
	for _, offered := range c.cfg.Tools.For(p) {
		name := offered.GetName()
		switch record := c.cfg.Tools.Get(name); {
		case record == nil:
		case record.Sends():
			return uncertain, "the task may have sent something since (" + name + "), which no node knows of", nil
		case (record.Spawns || name == toolname.HandoffToAgent) && found.foreign > 0:
			return uncertain, fmt.Sprintf("%s of tasks that the backup does not have, which this one may have given (%s)", commands(found.foreign), name), nil
		}
	}
	return unchanged, "", nil
}

func commands(n int) string {
	if n == 1 {
		return "a node has 1 command or file operation"
	}
	return fmt.Sprintf("nodes have %d commands or file operations", n)
}

// shownEffects returns effects as the event lists them.
func shownEffects(effects []db.RecoveredEffectsRow) []any {
	out := []any{}
	for _, e := range effects[:min(len(effects), maxTold)] {
		out = append(out, map[string]any{
			"id": e.EffectID, "step_id": e.StepID, "node_id": e.NodeID, "node": e.NodeName, "what": e.What, "outcome": e.Outcome,
			"began_at": e.BeganAt.UTC().Format(time.RFC3339),
		})
	}
	return out
}

// letter is what the agent is told.
func letter(effects []db.RecoveredEffectsRow) string {
	var b strings.Builder
	b.WriteString("The hub was restored from a backup, and you have lost your latest turns. These commands and file operations of yours or of others in this workspace ran after the backup. Do not repeat them before you have looked at what they did:\n")
	for _, e := range effects[:min(len(effects), maxTold)] {
		fmt.Fprintf(&b, "- %s on %s: %s (%s)\n", e.BeganAt.UTC().Format(time.RFC3339), e.NodeName, e.What, e.Outcome)
	}
	if more := len(effects) - maxTold; more > 0 {
		fmt.Fprintf(&b, "- and %d more\n", more)
	}
	return b.String()
}
