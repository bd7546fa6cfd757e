package pattern

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/plan"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

const (
	// LearnEvery is how often the leader looks for ended runs, batch how many it learns from at
	// once, and batches how often one after the other. A batch is small, since it keeps patterns
	// locked until it ends, and a task that is to be offered one of them waits so long at its start.
	LearnEvery = time.Second
	batch      = 10
	batches    = 20
	// maxSteps bounds what is read of a run.
	maxSteps = 1000
	// retryAfter is how long a run waits that could not be learned from, the longer the
	// more often it failed.
	retryAfter = time.Minute
	// undeleteFor is how long a deleted pattern is kept.
	undeleteFor = time.Hour
)

// Failures receives runs that failed, in the transaction in which the run is learned from.
type Failures func(ctx context.Context, q *db.Queries, t db.Task, steps []db.StepsToLearnRow) error

// Learner learns from ended runs. The leader runs it; row locks keep two apart while one hub
// takes over from another. Each run is learned from once.
type Learner struct {
	Patterns *Service
	Failures Failures
	// Teaches reports whether patterns are drawn from a task's runs.
	Teaches func(ctx context.Context, q *db.Queries, t db.Task) (bool, error)
}

// Learn learns from the runs that have ended, up to some batches of them. The runs of a batch
// share a transaction. If it fails each gets its own, so that one that nothing can be learned
// from holds up no other.
func (l *Learner) Learn(ctx context.Context) error {
	for range batches {
		ids, err := l.some(ctx, batch)
		if err != nil && len(ids) > 0 && ctx.Err() == nil {
			err = l.oneByOne(ctx, len(ids))
		}
		if err != nil || len(ids) < batch {
			return err
		}
	}
	return nil
}

// oneByOne learns from up to n runs.
func (l *Learner) oneByOne(ctx context.Context, n int) error {
	var failed []error
	for range n {
		ids, err := l.some(ctx, 1)
		if err != nil {
			failed = append(failed, err)
			if len(ids) > 0 && ctx.Err() == nil {
				// It waits behind the others, and is left alone after some times.
				failed = append(failed, l.Patterns.cfg.Store.LearningFailed(ctx, db.LearningFailedParams{TaskID: ids[0], Pause: retryAfter}))
			}
		}
		if len(ids) == 0 || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// Purge deletes patterns for good whose deletion can no longer be undone.
func (l *Learner) Purge(ctx context.Context) error {
	if _, err := l.Patterns.cfg.Store.PurgePatterns(ctx, undeleteFor); err != nil {
		return fmt.Errorf("delete patterns: %w", err)
	}
	return nil
}

// some learns from up to n runs in one transaction, and returns which these were, also if it
// fails.
func (l *Learner) some(ctx context.Context, n int32) (ids []string, err error) {
	err = l.Patterns.cfg.Store.Tx(ctx, func(q *db.Queries) error {
		ids = nil
		rows, err := q.NextToLearn(ctx, n)
		if err != nil {
			return fmt.Errorf("find ended runs: %w", err)
		}
		for _, row := range rows {
			ids = append(ids, row.TaskID)
		}
		if len(ids) == 0 {
			return nil
		}
		for _, row := range rows {
			if err := l.learn(ctx, q, row.OrgID, row.TaskID); err != nil {
				return fmt.Errorf("learn from task %s: %w", row.TaskID, err)
			}
		}
		return q.LearntFrom(ctx, ids)
	})
	return ids, err
}

func (l *Learner) learn(ctx context.Context, q *db.Queries, orgID, taskID string) error {
	row, err := q.RunToLearn(ctx, db.RunToLearnParams{OrgID: orgID, ID: taskID})
	if err != nil {
		return fmt.Errorf("load it: %w", err)
	}
	t := row.Task
	o, err := task.OverrideOf(t)
	if err != nil || o.Chat || t.FinishedAt == nil {
		return err
	}
	r := run{task: t}
	if r.untrusted, err = q.RunReadUntrusted(ctx, db.RunReadUntrustedParams{OrgID: orgID, TaskID: taskID}); err != nil {
		return fmt.Errorf("look what it has read: %w", err)
	}
	if r.steps, err = q.StepsToLearn(ctx, db.StepsToLearnParams{OrgID: orgID, TaskID: taskID, MaxRows: maxSteps}); err != nil {
		return fmt.Errorf("load its steps: %w", err)
	}
	p, err := plan.Load(ctx, q, orgID, taskID)
	if err != nil {
		return err
	}
	r.plan, r.criteria = p.Items, p.Criteria
	succeeded := task.State(t.State) == task.Succeeded
	if !succeeded && !r.cancelled() {
		if err := l.Failures(ctx, q, t, r.steps); err != nil {
			return err
		}
	}
	match, err := l.endOffer(ctx, q, r, succeeded)
	if err != nil || !succeeded {
		return err
	}
	if teaches, err := l.Teaches(ctx, q, t); err != nil || !teaches {
		return err
	}
	return l.draw(ctx, q, r, row.AgentName, match)
}

// excused are failures that say nothing about the approach of a run.
var excused = []fault.Code{
	fault.BudgetLimit, fault.RateLimited, fault.ModelUnavailable, fault.NodeUnavailable, fault.NodeLocked, fault.CredentialInvalid, fault.NoCredentials,
	fault.Killed, fault.UnpricedModel, fault.ImageUnavailable, fault.SetupFailed, fault.CredentialRefused,
}

// offered is the pattern that a run was offered, or that was held out from it; empty for none.
type offered struct {
	id            string
	heldOut, used bool
}

// endOffer stores what came of the pattern that matched a run.
func (l *Learner) endOffer(ctx context.Context, q *db.Queries, r run, succeeded bool) (o offered, err error) {
	offer, err := q.OfferOfTask(ctx, db.OfferOfTaskParams{OrgID: r.task.OrgID, TaskID: r.task.ID})
	if store.IsNotFound(err) {
		return o, nil
	}
	if err != nil {
		return o, fmt.Errorf("load what it was offered: %w", err)
	}
	o.heldOut = offer.HeldOut
	row, err := q.LockPattern(ctx, db.LockPatternParams{OrgID: r.task.OrgID, ID: offer.PatternID})
	switch {
	case store.IsNotFound(err): // deleted meanwhile
	case err != nil:
		return o, fmt.Errorf("lock pattern %s: %w", offer.PatternID, err)
	default:
		o.id = row.ID
		a, err := ApproachOf(row.Approach)
		if err != nil {
			return o, err
		}
		// A second time it is the same run.
		if o.used = !offer.HeldOut && followed(r, a); o.used && offer.EndedAt == nil {
			p := db.ConfirmPatternParams{OrgID: row.OrgID, ID: row.ID}
			switch {
			case succeeded:
				p.Success = 1
			case !r.cancelled() && !slices.Contains(excused, fault.Code(r.task.ErrorCode)):
				p.Failure = 1
			}
			if err := q.ConfirmPattern(ctx, p); err != nil {
				return o, fmt.Errorf("count the use of pattern %s: %w", row.ID, err)
			}
		}
	}
	end := db.EndOfferParams{OrgID: r.task.OrgID, TaskID: r.task.ID, Used: &o.used, Succeeded: &succeeded}
	if r.cancelled() {
		end.Succeeded = nil
	}
	if err := q.EndOffer(ctx, end); err != nil {
		return o, fmt.Errorf("store what came of the pattern: %w", err)
	}
	if o.id == "" || o.heldOut {
		return o, nil
	}
	return o, countVerdicts(ctx, q, r.task.OrgID, o.id)
}

// countVerdicts counts what people said of a pattern's runs, since which runs those are has changed.
func countVerdicts(ctx context.Context, q *db.Queries, orgID, id string) error {
	if err := q.CountVerdicts(ctx, db.CountVerdictsParams{OrgID: orgID, ID: id}); err != nil {
		return fmt.Errorf("count the verdicts on pattern %s: %w", id, err)
	}
	return nil
}

// draw stores what a succeeded run teaches. A pattern that it was offered and used has counted
// it already.
func (l *Learner) draw(ctx context.Context, q *db.Queries, r run, agentName string, match offered) error {
	t := r.task
	set, err := settings(ctx, q, t.OrgID)
	if err != nil || !set.Enabled {
		return err
	}
	d, ok := draw(r, agentName, l.Patterns.cfg.Redact.Org(t.OrgID))
	if !ok {
		return nil
	}
	if done, err := q.IsPatternSource(ctx, db.IsPatternSourceParams{OrgID: t.OrgID, TaskID: t.ID}); err != nil || done {
		return err
	}
	id, err := l.put(ctx, q, r, d, match)
	if err != nil {
		return err
	}
	if _, err := q.AddPatternSource(ctx, db.AddPatternSourceParams{TaskID: t.ID, OrgID: t.OrgID, PatternID: id, Iterations: d.Iterations}); err != nil {
		return fmt.Errorf("store the source of pattern %s: %w", id, err)
	}
	return countVerdicts(ctx, q, t.OrgID, id)
}

// put merges what was drawn into a similar pattern of the same person and type of task, or
// creates one.
func (l *Learner) put(ctx context.Context, q *db.Queries, r run, d Drawn, match offered) (id string, err error) {
	t := r.task
	near, err := q.PatternsToMerge(ctx, db.PatternsToMergeParams{OrgID: t.OrgID, Owner: t.CreatedBy, TaskType: d.TaskType, Words: d.Keywords})
	if err != nil {
		return "", fmt.Errorf("find similar patterns: %w", err)
	}
	for _, one := range near {
		row := one.Pattern
		if similarity(row.Keywords, d.Keywords) < mergeAt && !(match.used && row.ID == match.id) {
			continue
		}
		return row.ID, l.merge(ctx, q, r, row, d, match)
	}
	return l.Patterns.create(ctx, q, t, made{Drawn: d, sources: 1, held: r.untrusted}, "drawn", t.ID)
}

// merge adds a run to a pattern. It confirms the pattern if it did what that says; not where the
// pattern was held out, or has counted it already. What a run wrote that has read untrusted text
// does not enter a pattern that is there.
func (l *Learner) merge(ctx context.Context, q *db.Queries, r run, row db.Pattern, d Drawn, match offered) error {
	was, err := ApproachOf(row.Approach)
	if err != nil {
		return err
	}
	a, keywords, mean := merge(row, was, d, r.untrusted)
	before, err := was.column()
	if err != nil {
		return err
	}
	column, err := a.column()
	if err != nil {
		return err
	}
	p := db.MergePatternParams{OrgID: row.OrgID, ID: row.ID, Title: row.Title, Keywords: keywords, Approach: column, ExpectedIterations: mean}
	if string(before) != string(column) || !slices.Equal(keywords, row.Keywords) {
		p.Changed = 1
	}
	if !match.heldOut && !(match.used && match.id == row.ID) && followed(r, was) {
		p.Confirmed = 1
	}
	now, err := q.MergePattern(ctx, p)
	if err != nil {
		return fmt.Errorf("merge into pattern %s: %w", row.ID, err)
	}
	if p.Changed == 0 {
		return nil
	}
	return addVersion(ctx, q, now, "merged", r.task.ID)
}

// made is a new pattern.
type made struct {
	Drawn
	sources int32
	// held has it wait until a person enables it.
	held bool
}

// create stores a new pattern of the task's submitter.
func (s *Service) create(ctx context.Context, q *db.Queries, t db.Task, d made, change, by string) (string, error) {
	column, err := d.Approach.column()
	if err != nil {
		return "", err
	}
	row, err := q.CreatePattern(ctx, db.CreatePatternParams{
		ID: ident.New("pattern"), OrgID: t.OrgID, Owner: t.CreatedBy, Title: d.Title, TaskType: d.TaskType, Domain: d.Domain, Keywords: d.Keywords,
		Approach: column, ExpectedIterations: float64(d.Iterations), SourceCount: d.sources, Held: d.held,
	})
	if err != nil {
		return "", fmt.Errorf("create a pattern: %w", err)
	}
	return row.ID, addVersion(ctx, q, row, change, by)
}

func addVersion(ctx context.Context, q *db.Queries, row db.Pattern, change, by string) error {
	err := q.AddPatternVersion(ctx, db.AddPatternVersionParams{
		PatternID: row.ID, Version: row.Version, OrgID: row.OrgID, Title: row.Title, Approach: row.Approach, Keywords: row.Keywords, Change: change, ChangedBy: by,
	})
	if err != nil {
		return fmt.Errorf("store version %d of pattern %s: %w", row.Version, row.ID, err)
	}
	return nil
}
