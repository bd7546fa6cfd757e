package pattern

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/model/inference"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// change locks a pattern that v owns, changes it, and writes the audit.
func (s *Service) change(ctx context.Context, v visibility.Viewer, by event.Actor, ref, action string, deleted bool, fn func(tx *event.Tx, row db.Pattern) (after map[string]any, err error)) (Pattern, error) {
	id, err := s.find(ctx, v, ref, deleted)
	if err != nil {
		return Pattern{}, err
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		row, err := tx.LockPattern(ctx, db.LockPatternParams{OrgID: v.OrgID, ID: id})
		if err != nil {
			return fmt.Errorf("lock pattern %s: %w", id, err)
		}
		if !Owns(v, row) {
			return fault.New(fault.Denied, "pattern %s belongs to %s", id, row.Owner).WithCode(fault.PermissionDenied).
				WithFix("ask %s or an administrator; feedback on it is open to you: deckhand feedback reject pattern %s", row.Owner, id).WithObject(id)
		}
		after, err := fn(tx, row)
		if err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{OrgID: v.OrgID, By: by, Action: action, ObjectKind: "pattern", ObjectID: id, After: after})
	})
	if err != nil {
		return Pattern{}, err
	}
	return s.Get(ctx, v.OrgID, id)
}

// Edit is a person's change. Empty fields leave what is there.
type Edit struct {
	// Version is the one that was changed; 0 for any.
	Version                 int32
	Title, TaskType, Domain string
	Keywords                []string
	Approach                *Approach
}

// Update changes the text of a pattern.
func (s *Service) Update(ctx context.Context, v visibility.Viewer, by event.Actor, ref string, e Edit) (Pattern, error) {
	return s.change(ctx, v, by, ref, "pattern.edited", false, func(tx *event.Tx, row db.Pattern) (map[string]any, error) {
		if e.Version != 0 && e.Version != row.Version {
			return nil, fault.New(fault.Precondition, "pattern %s has version %d, and the change was made to version %d", row.ID, row.Version, e.Version).
				WithFix("look at the newer version, and make the change again").WithObject(row.ID)
		}
		mask := tx.Redact(row.OrgID)
		words := row.Keywords
		if len(e.Keywords) > 0 {
			if words = Keywords(unmarked(mask.String(strings.Join(e.Keywords, " ")))); len(words) == 0 {
				return nil, fault.New(fault.Invalid, "keywords: none of them is a word of at least three letters").WithCode(fault.InvalidParameters).WithFix("give words that goals of such tasks have")
			}
		}
		column := row.Approach
		if e.Approach != nil {
			a := masked(*e.Approach, mask)
			if name := secretIn(*e.Approach, mask); name != "" {
				return nil, fault.New(fault.Invalid, "approach.%s: has a secret", name).WithCode(fault.InvalidParameters).
					WithFix("leave the secret out: patterns are shown to models and people. Store it as a credential")
			}
			var err error
			if column, err = a.column(); err != nil {
				return nil, err
			}
		}
		p := db.EditPatternParams{
			OrgID: row.OrgID, ID: row.ID, Title: cmp.Or(cut(mask.String(e.Title), maxTitle), row.Title), TaskType: cmp.Or(cut(mask.String(e.TaskType), maxTitle), row.TaskType),
			Domain: cmp.Or(cut(mask.String(e.Domain), maxTitle), row.Domain), Keywords: words, Approach: column, Edited: true,
		}
		if err := tx.EditPattern(ctx, p); err != nil {
			return nil, fmt.Errorf("change pattern %s: %w", row.ID, err)
		}
		row.Version, row.Title, row.Keywords, row.Approach = row.Version+1, p.Title, words, column
		return map[string]any{"version": row.Version}, addVersion(ctx, tx.Queries, row, "edited", by.ID)
	})
}

// masked returns an approach in which every secret is masked.
func masked(a Approach, mask *redact.Redactor) Approach {
	each := func(list []string) []string {
		out := make([]string, 0, len(list))
		for _, one := range list {
			if one = strings.TrimSpace(mask.String(one)); one != "" {
				out = append(out, one)
			}
		}
		return out
	}
	out := Approach{Plan: each(a.Plan), Tools: each(a.Tools), Signs: each(a.Signs), Notes: each(a.Notes)}
	for _, p := range a.Pitfalls {
		out.Pitfalls = append(out.Pitfalls, Pitfall{Tool: p.Tool, Failed: mask.String(p.Failed), Worked: mask.String(p.Worked)})
	}
	return out
}

// secretIn returns the name of a field that has a secret; empty for none.
func secretIn(a Approach, mask *redact.Redactor) string {
	has := func(list ...string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return mask.String(s) != s })
	}
	switch {
	case has(a.Plan...):
		return "plan"
	case has(a.Signs...):
		return "success_signs"
	case has(a.Notes...):
		return "notes"
	}
	for _, p := range a.Pitfalls {
		if has(p.Failed, p.Worked) {
			return "pitfalls"
		}
	}
	return ""
}

// Share sets who sees a pattern.
func (s *Service) Share(ctx context.Context, v visibility.Viewer, by event.Actor, ref string, level visibility.Level) (Pattern, error) {
	return s.change(ctx, v, by, ref, "pattern.shared", false, func(tx *event.Tx, row db.Pattern) (map[string]any, error) {
		return map[string]any{"visibility": string(level)}, tx.SharePattern(ctx, db.SharePatternParams{OrgID: row.OrgID, ID: row.ID, Visibility: string(level)})
	})
}

// Enable has a pattern offered, or not.
func (s *Service) Enable(ctx context.Context, v visibility.Viewer, by event.Actor, ref string, enabled bool) (Pattern, error) {
	action := "pattern.disabled"
	if enabled {
		action = "pattern.enabled"
	}
	return s.change(ctx, v, by, ref, action, false, func(tx *event.Tx, row db.Pattern) (map[string]any, error) {
		return nil, tx.EnablePattern(ctx, db.EnablePatternParams{OrgID: row.OrgID, ID: row.ID, Enabled: enabled})
	})
}

// Delete deletes a pattern, or with deleted false brings it back.
func (s *Service) Delete(ctx context.Context, v visibility.Viewer, by event.Actor, ref string, deleted bool) (Pattern, error) {
	action := "pattern.undeleted"
	if deleted {
		action = "pattern.deleted"
	}
	return s.change(ctx, v, by, ref, action, !deleted, func(tx *event.Tx, row db.Pattern) (map[string]any, error) {
		return nil, tx.DeletePattern(ctx, db.DeletePatternParams{OrgID: row.OrgID, ID: row.ID, Deleted: deleted})
	})
}

// Purge deletes for good what was learned from a user's tasks, and what that user said.
func (s *Service) Purge(ctx context.Context, orgID, user string, by event.Actor) (n db.PurgeLearnedRow, err error) {
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if n, err = tx.PurgeLearned(ctx, db.PurgeLearnedParams{OrgID: orgID, UserName: user}); err != nil {
			return fmt.Errorf("delete what was learned from the tasks of %s: %w", user, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "pattern.purged", ObjectKind: "user", ObjectID: user,
			After: map[string]any{"patterns": n.Patterns, "verdicts": n.Feedback, "proposals": n.Proposals},
		})
	})
	return n, err
}

// AddNote adds a note that a person accepted to a pattern, in the transaction of the
// decision. It returns false if the pattern is deleted.
func (s *Service) AddNote(ctx context.Context, tx *event.Tx, orgID, id, note, by string) (bool, error) {
	row, err := tx.LockPattern(ctx, db.LockPatternParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) || err == nil && row.DeletedAt != nil {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock pattern %s: %w", id, err)
	}
	a, err := ApproachOf(row.Approach)
	if err != nil {
		return false, err
	}
	if slices.Contains(a.Notes, note) {
		return true, nil
	}
	a.Notes = append(a.Notes, note)
	if len(a.Notes) > maxNotes {
		a.Notes = a.Notes[len(a.Notes)-maxNotes:]
	}
	column, err := a.column()
	if err != nil {
		return false, err
	}
	p := db.EditPatternParams{OrgID: orgID, ID: id, Title: row.Title, TaskType: row.TaskType, Domain: row.Domain, Keywords: row.Keywords, Approach: column}
	if err := tx.EditPattern(ctx, p); err != nil {
		return false, fmt.Errorf("add a note to pattern %s: %w", id, err)
	}
	row.Version, row.Approach = row.Version+1, column
	return true, addVersion(ctx, tx.Queries, row, "corrected", by)
}

// CreateFrom creates a pattern of a task with a note that a person accepted, in the
// transaction of the decision. The task may have failed.
func (s *Service) CreateFrom(ctx context.Context, tx *event.Tx, t db.Task, agentName, note, by string) (string, error) {
	goal := unmarked(tx.Redact(t.OrgID).String(t.Title + "\n" + t.Goal))
	words := Keywords(goal)
	if len(words) == 0 {
		words = Keywords(agentName + " task")
	}
	d := Drawn{
		Title: cmp.Or(cut(tx.Redact(t.OrgID).String(cmp.Or(t.Title, t.Goal)), maxTitle), agentName), TaskType: cmp.Or(t.TaskType, agentName),
		Domain: domainOf(goal), Keywords: words, Approach: Approach{Notes: []string{note}},
	}
	// No run has shown how it is done: the first that succeeds does.
	return s.create(ctx, tx.Queries, t, made{Drawn: d}, "corrected", by)
}

// Change is a change of settings; nil fields stay.
type Change struct {
	Enabled       *bool
	HoldOut       *int32
	MinConfidence *float64
	// Provider and Model are set together; both empty for no model.
	Provider, Model *string
}

// Set changes the settings of an organisation.
func (s *Service) Set(ctx context.Context, orgID string, by event.Actor, c Change) (Settings, error) {
	if (c.Provider == nil) != (c.Model == nil) || c.Model != nil && (*c.Provider == "") != (*c.Model == "") {
		return Settings{}, fault.New(fault.Invalid, "provider and model are set together").WithCode(fault.InvalidParameters).WithFix("give both, or both empty for no model")
	}
	if c.Model != nil && *c.Model != "" {
		if err := s.cfg.Models.Check(ctx, inference.Model{OrgID: orgID, Provider: *c.Provider, Name: *c.Model}); err != nil {
			return Settings{}, err
		}
	}
	var now Settings
	err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		var err error
		if now, err = settings(ctx, tx.Queries, orgID); err != nil {
			return err
		}
		was := now.values()
		if c.Enabled != nil {
			now.Enabled = *c.Enabled
		}
		if c.HoldOut != nil {
			now.HoldOut = *c.HoldOut
		}
		if c.MinConfidence != nil {
			now.MinConfidence = *c.MinConfidence
		}
		if c.Model != nil {
			now.Provider, now.Model = *c.Provider, *c.Model
		}
		if err := tx.SetPatternSettings(ctx, db.SetPatternSettingsParams{
			OrgID: orgID, Enabled: now.Enabled, HoldOut: now.HoldOut, MinConfidence: now.MinConfidence, Provider: now.Provider, Model: now.Model, ChangedBy: by.ID,
		}); err != nil {
			return fmt.Errorf("store the settings of patterns: %w", err)
		}
		return audit.Append(tx, audit.Entry{OrgID: orgID, By: by, Action: "pattern.settings", ObjectKind: "organisation", ObjectID: orgID, Before: was, After: now.values()})
	})
	return now, err
}

func (s Settings) values() map[string]any {
	return map[string]any{"enabled": s.Enabled, "hold_out": s.HoldOut, "min_confidence": s.MinConfidence, "provider": s.Provider, "model": s.Model}
}
