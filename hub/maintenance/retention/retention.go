// Package retention deletes what ended tasks have left, as long after their end as their
// organisation says. Service reads and changes the rules and sets legal holds; the
// leader's hub calls Collect.
//
// Collect goes through the ended tasks of an organisation in the order of their ends,
// once for each kind of data, a few tasks in each transaction, which also stores how far
// it has come: a hub that dies loses nothing and repeats nothing. A task of a lineage that
// goes on, which may still read what it left, is collected with the last of the lineage.
// Collect skips a task with a legal hold. Releasing a hold and changing a rule start the
// collection from the beginning.
//
// Tasks, their results and the audit are never deleted. Of steps the number, tool, state
// and times stay, which are the record that something ran.
package retention

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// kind is a kind of data with a rule of its own.
type kind struct {
	name, description string
	// collect deletes what tasks have left, and returns how many rows.
	collect func(ctx context.Context, q *db.Queries, orgID string, tasks []string) (int64, error)
	// pending, if set, returns those of the tasks whose data is still needed.
	pending func(ctx context.Context, q *db.Queries, orgID string, tasks []string) ([]string, error)
}

// kinds are all, in the order in which they are shown.
var kinds = []kind{
	{name: "events", description: "history: events and what the search finds of them", collect: func(ctx context.Context, q *db.Queries, orgID string, tasks []string) (int64, error) {
		n, err := q.CountEventsOf(ctx, db.CountEventsOfParams{OrgID: orgID, Tasks: tasks})
		if err != nil {
			return 0, err
		}
		for _, id := range tasks {
			if err := q.PruneEvents(ctx, db.PruneEventsParams{OrgID: orgID, TaskID: id}); err != nil {
				return 0, err
			}
		}
		return n, nil
	}, pending: func(ctx context.Context, q *db.Queries, orgID string, tasks []string) ([]string, error) {
		return q.Undelivered(ctx, db.UndeliveredParams{OrgID: orgID, Tasks: tasks})
	}},
	{name: "turns", description: "transcripts: what the model was told and said", collect: func(ctx context.Context, q *db.Queries, orgID string, tasks []string) (int64, error) {
		return q.CollectTurns(ctx, db.CollectTurnsParams{OrgID: orgID, Tasks: tasks})
	}},
	{name: "steps", description: "arguments and results of tool calls, and images in them", collect: func(ctx context.Context, q *db.Queries, orgID string, tasks []string) (int64, error) {
		images, err := q.CollectStepImages(ctx, db.CollectStepImagesParams{OrgID: orgID, Tasks: tasks})
		if err != nil {
			return 0, err
		}
		sessions, err := q.CollectBrowserSessions(ctx, db.CollectBrowserSessionsParams{OrgID: orgID, Tasks: tasks})
		if err != nil {
			return 0, err
		}
		recordings, err := q.CollectBrowserRecordings(ctx, db.CollectBrowserRecordingsParams{OrgID: orgID, Tasks: tasks})
		if err != nil {
			return 0, err
		}
		n, err := q.CollectSteps(ctx, db.CollectStepsParams{OrgID: orgID, Tasks: tasks})
		return images + sessions + recordings + n, err
	}},
	{name: "inputs", description: "files that were given to tasks", collect: func(ctx context.Context, q *db.Queries, orgID string, tasks []string) (int64, error) {
		return q.CollectInputs(ctx, db.CollectInputsParams{OrgID: orgID, Tasks: tasks})
	}},
	{name: "inbox", description: "approvals, questions and reviews with their attachments", collect: func(ctx context.Context, q *db.Queries, orgID string, tasks []string) (int64, error) {
		return q.CollectInbox(ctx, db.CollectInboxParams{OrgID: orgID, Tasks: tasks})
	}},
	{name: "model_calls", description: "single calls of models; sums of budgets and tasks are kept", collect: func(ctx context.Context, q *db.Queries, orgID string, tasks []string) (int64, error) {
		return q.CollectModelCalls(ctx, db.CollectModelCallsParams{OrgID: orgID, Tasks: tasks})
	}},
	{name: "artifacts", description: "lists of files that were handed over; the files are in the workspaces", collect: func(ctx context.Context, q *db.Queries, orgID string, tasks []string) (int64, error) {
		return q.CollectArtifacts(ctx, db.CollectArtifactsParams{OrgID: orgID, Tasks: tasks})
	}},
}

// Kinds returns the names of all kinds.
func Kinds() []string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = k.name
	}
	return out
}

const (
	// perBatch is how many tasks one transaction collects, and batches how many of them
	// one Collect does for a kind: the rest follows.
	perBatch = 50
	batches  = 20
	// minDays is the least time that anything is kept.
	minDays = 1
)

// Config holds the dependencies of a Service. All are required.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Log      hclog.Logger
}

// Service keeps the rules.
type Service struct{ cfg Config }

// New creates a Service.
func New(cfg Config) *Service { return &Service{cfg: cfg} }

// Rule is how long a kind is kept, and what was done about it.
type Rule struct {
	Kind, Description string
	// Days after the end of a task; 0 for ever.
	Days      int32
	Deleted   int64
	DeletedAt *time.Time
	// DueTasks, DueRows and HeldTasks are what would be deleted now, and what a hold keeps.
	DueTasks, DueRows, HeldTasks int64
}

// Rules returns an organisation's rules; with plan also what they would delete now.
func (s *Service) Rules(ctx context.Context, orgID string, plan bool) ([]Rule, error) {
	rows, err := s.cfg.Store.RetentionRules(ctx, orgID)
	if err != nil {
		return nil, fmt.Errorf("load the retention of %s: %w", orgID, err)
	}
	days := map[string]int32{}
	for _, row := range rows {
		days[row.Kind] = row.Days
	}
	progress, err := s.cfg.Store.RetentionProgress(ctx, orgID)
	if err != nil {
		return nil, fmt.Errorf("load what was deleted of %s: %w", orgID, err)
	}
	out := make([]Rule, len(kinds))
	for i, k := range kinds {
		out[i] = Rule{Kind: k.name, Description: k.description, Days: days[k.name]}
		for _, p := range progress {
			if p.Kind == k.name {
				out[i].Deleted, out[i].DeletedAt = p.Deleted, p.DeletedAt
			}
		}
		if !plan || out[i].Days == 0 {
			continue
		}
		due, err := s.cfg.Store.RetentionPlan(ctx, db.RetentionPlanParams{OrgID: orgID, Kind: k.name, Days: out[i].Days})
		if err != nil {
			return nil, fmt.Errorf("count what would be deleted of %s: %w", k.name, err)
		}
		out[i].DueTasks, out[i].DueRows, out[i].HeldTasks = due.Tasks, due.Rows, due.HeldTasks
	}
	return out, nil
}

// Set changes rules: days by kind.
func (s *Service) Set(ctx context.Context, orgID string, days map[string]int32, by event.Actor) error {
	for name := range days {
		if !slices.Contains(Kinds(), name) {
			return fault.New(fault.Invalid, "days: there is no kind %q", name).WithCode(fault.InvalidParameters).
				WithFix("use one of %s", strings.Join(Kinds(), ", "))
		}
	}
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockRetention(ctx, orgID); err != nil {
			return fmt.Errorf("lock the retention of %s: %w", orgID, err)
		}
		before, err := tx.RetentionRules(ctx, orgID)
		if err != nil {
			return fmt.Errorf("load the retention of %s: %w", orgID, err)
		}
		was, now := map[string]any{}, map[string]any{}
		for _, row := range before {
			if _, changes := days[row.Kind]; changes {
				was[row.Kind] = row.Days
			}
		}
		for _, name := range slices.Sorted(maps.Keys(days)) {
			now[name] = days[name]
			if err := tx.SetRetentionRule(ctx, db.SetRetentionRuleParams{OrgID: orgID, Kind: name, Days: days[name], ChangedBy: by.ID}); err != nil {
				return fmt.Errorf("set the retention of %s: %w", name, err)
			}
		}
		if err := tx.CollectAgain(ctx, orgID); err != nil {
			return fmt.Errorf("begin to collect again: %w", err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "retention.set", ObjectKind: "organisation", ObjectID: orgID, Before: was, After: now,
		})
	})
}

// Hold keeps everything of a task, or with released no longer.
func (s *Service) Hold(ctx context.Context, orgID, taskID, reason string, released bool, by event.Actor) (hold *db.LegalHold, err error) {
	if !released && strings.TrimSpace(reason) == "" {
		return nil, fault.New(fault.Invalid, "reason: is empty").WithCode(fault.InvalidParameters).WithFix("say why the task is kept, for those who find the hold later")
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		// A batch that runs has not seen the hold: it ends first.
		if err := tx.LockRetention(ctx, orgID); err != nil {
			return fmt.Errorf("lock the retention of %s: %w", orgID, err)
		}
		action, said := "retention.hold_set", tx.Redact(orgID).String(reason)
		if released {
			action = "retention.hold_released"
			n, err := tx.ReleaseLegalHold(ctx, db.ReleaseLegalHoldParams{OrgID: orgID, TaskID: taskID})
			if err != nil {
				return fmt.Errorf("release the legal hold of %s: %w", taskID, err)
			}
			if n == 0 {
				return nil // it is not held
			}
			if err := tx.CollectAgain(ctx, orgID); err != nil {
				return fmt.Errorf("begin to collect again: %w", err)
			}
		} else {
			row, err := tx.SetLegalHold(ctx, db.SetLegalHoldParams{OrgID: orgID, TaskID: taskID, Reason: said, SetBy: by.ID})
			if err != nil {
				return fmt.Errorf("set a legal hold on %s: %w", taskID, err)
			}
			hold = &row
		}
		return audit.Append(tx, audit.Entry{OrgID: orgID, By: by, Action: action, ObjectKind: "task", ObjectID: taskID, Reason: said})
	})
	return hold, err
}

// Holds returns a page of an organisation's legal holds, the newest first.
func (s *Service) Holds(ctx context.Context, orgID, token string, size int32) (holds []db.LegalHold, next string, err error) {
	params := db.ListLegalHoldsParams{OrgID: orgID, MaxRows: size + 1}
	if token != "" {
		at, id, err := store.ParsePageToken(token)
		if err != nil {
			return nil, "", err
		}
		params.BeforeTime, params.BeforeID = &at, id
	}
	if holds, err = s.cfg.Store.ListLegalHolds(ctx, params); err != nil {
		return nil, "", fmt.Errorf("list the legal holds: %w", err)
	}
	if len(holds) > int(size) {
		holds = holds[:size]
		last := holds[size-1]
		next = store.PageToken(last.SetAt, last.TaskID)
	}
	return holds, next, nil
}

// Collect deletes some of what is due, of all organisations.
func (s *Service) Collect(ctx context.Context) error {
	rules, err := s.cfg.Store.RulesToCollect(ctx)
	if err != nil {
		return fmt.Errorf("load the rules of retention: %w", err)
	}
	for _, rule := range rules {
		at := slices.IndexFunc(kinds, func(k kind) bool { return k.name == rule.Kind })
		if at < 0 {
			continue // of a newer release
		}
		total := int64(0)
		for range batches {
			n, more, err := s.batch(ctx, rule, kinds[at])
			if err != nil {
				return err
			}
			if total += n; !more {
				break
			}
		}
		if total > 0 {
			s.cfg.Log.Info("deleted what was kept long enough", "org_id", rule.OrgID, "kind", rule.Kind, "rows", total)
		}
	}
	return nil
}

// batch collects the next tasks, and reports whether there are more.
func (s *Service) batch(ctx context.Context, rule db.RulesToCollectRow, k kind) (rows int64, more bool, err error) {
	err = s.cfg.Store.Tx(ctx, func(q *db.Queries) error {
		// The rule may have been changed since it was read.
		days, err := q.LockRetentionRule(ctx, db.LockRetentionRuleParams{OrgID: rule.OrgID, Kind: rule.Kind})
		if store.IsNotFound(err) || err == nil && days == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock the retention of %s: %w", rule.Kind, err)
		}
		days = max(days, minDays)
		tasks, err := q.TasksToCollect(ctx, db.TasksToCollectParams{OrgID: rule.OrgID, Kind: rule.Kind, Days: days, MaxRows: perBatch})
		if err != nil {
			return fmt.Errorf("find tasks whose %s are old: %w", rule.Kind, err)
		}
		if more = len(tasks) == perBatch; len(tasks) == 0 {
			return nil
		}
		var lineages []string
		for _, t := range tasks {
			if !t.Kept {
				lineages = append(lineages, t.LineageID)
			}
		}
		// With those before it that were passed over because it went on.
		ids, err := q.EndedOfLineages(ctx, db.EndedOfLineagesParams{OrgID: rule.OrgID, Lineages: lineages, Days: days})
		if err != nil {
			return fmt.Errorf("find tasks of lineages: %w", err)
		}
		var late []string
		if k.pending != nil {
			if late, err = k.pending(ctx, q, rule.OrgID, ids); err != nil {
				return fmt.Errorf("find tasks whose %s are still needed: %w", rule.Kind, err)
			}
			ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(late, id) })
		}
		if rows, err = k.collect(ctx, q, rule.OrgID, ids); err != nil {
			return fmt.Errorf("delete old %s: %w", rule.Kind, err)
		}
		if len(late) > 0 {
			// They are collected when they are no longer needed, and those after them then.
			more = false
			if rows == 0 {
				return nil
			}
			return q.CountCollected(ctx, db.CountCollectedParams{OrgID: rule.OrgID, Kind: rule.Kind, Deleted: rows})
		}
		last := tasks[len(tasks)-1]
		return q.RecordCollected(ctx, db.RecordCollectedParams{OrgID: rule.OrgID, Kind: rule.Kind, AfterTime: last.FinishedAt, AfterID: last.ID, Deleted: rows})
	})
	return rows, more, err
}
