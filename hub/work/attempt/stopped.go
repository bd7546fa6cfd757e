package attempt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// stopped opens the inbox item of a run that has paused for a reason that a person must
// remove: it stands at a limit, its budget is used up, or its provider cannot be called.
func (r *Reports) stopped(ctx context.Context, tx *event.Tx, t db.Task, end Outcome) error {
	if end.Limit != "" {
		return r.atLimit(ctx, tx, t, end)
	}
	switch fault.Code(end.ErrorCode) {
	case fault.BudgetLimit:
		refused, err := tx.TakeBudgetRefusal(ctx, db.TakeBudgetRefusalParams{OrgID: t.OrgID, TaskID: t.ID})
		if err == nil {
			return budgetUsedUp(ctx, tx, t, refused)
		}
		if !store.IsNotFound(err) {
			return fmt.Errorf("load the budget that refused a call of %s: %w", t.ID, err)
		}
		if end.RetryAfter > 0 {
			return nil // the provider's quota comes back by itself
		}
		return r.providerEnded(ctx, tx, t, stop.Quota, end.ErrorMessage)
	case fault.CredentialInvalid:
		return r.providerEnded(ctx, tx, t, stop.Refused, end.ErrorMessage)
	case fault.NoCredentials:
		return r.providerEnded(ctx, tx, t, stop.NotConnected, end.ErrorMessage)
	}
	return nil
}

// limitWords are the limits of a run as people call them.
var limitWords = map[string]string{
	"iterations": "iterations", "active_time": "active time", "tokens": "tokens", "calls": "model calls", "cost_usd": "cost",
	"files": "changed files", "file_size": "file size",
}

// LimitKinds returns the kinds of limits of a run, sorted.
func LimitKinds() []string { return slices.Sorted(maps.Keys(limitWords)) }

// atLimit opens the item of a task that stands at a limit of its run.
func (r *Reports) atLimit(ctx context.Context, tx *event.Tx, t db.Task, end Outcome) error {
	words, known := limitWords[end.Limit]
	if !known {
		return nil // of a newer worker: the task's reason says what to do
	}
	p, err := r.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return err
	}
	o, err := task.OverrideOf(t)
	if err != nil {
		return fmt.Errorf("task %s: %w", t.ID, err)
	}
	_, err = stop.Open(ctx, tx, stop.Stop{
		OrgID: t.OrgID, Kind: stop.Limit, Subject: t.ID, TaskID: t.ID, AgentID: t.AgentID, Why: end.ErrorMessage,
		Title:  "The run has reached its limit of " + words,
		Detail: stop.Detail{LimitName: end.Limit, LimitMost: limitOf(end.Limit, p.Limits, o.Limits)},
	})
	return err
}

// limitOf returns a limit of a run: the task's own, or its persona's.
func limitOf(name string, p persona.Limits, own task.Limits) int64 {
	pick := func(own, persona int64) int64 {
		if own > 0 {
			return own
		}
		return persona
	}
	switch name {
	case "iterations":
		return pick(int64(own.Iterations), int64(p.Iterations))
	case "active_time":
		return pick(int64(own.ActiveTime/time.Second), int64(p.ActiveTime/time.Second))
	case "tokens":
		return pick(own.Tokens, p.Tokens)
	case "calls":
		return pick(own.Calls, p.Calls)
	case "files":
		return pick(own.Files, p.Files)
	case "file_size":
		return pick(own.FileSize, p.FileSize)
	default:
		return pick(own.CostMicros, int64(p.CostUSD*1e6))
	}
}

// budgetUsedUp opens the item of a budget that has too little left for a task's next call.
func budgetUsedUp(ctx context.Context, tx *event.Tx, t db.Task, b db.BudgetRefusal) error {
	subject := stop.BudgetSubject(b.Scope, b.ObjectID, b.Period)
	if err := stop.Hold(ctx, tx, t, stop.Budget, subject); err != nil {
		return err
	}
	whose, every := b.Scope+" "+b.ObjectID, ""
	if b.Scope == "organisation" {
		whose = "the organisation"
	}
	if b.Period != "" {
		every = "day"
		if len(b.Period) == len("2006-01") {
			every = "month"
		}
		whose += " for " + b.Period
	}
	_, err := stop.Open(ctx, tx, stop.Stop{
		OrgID: t.OrgID, Kind: stop.Budget, Subject: subject, Cause: fmt.Sprint(b.LimitMicros), ToldTo: t.ID,
		Title: fmt.Sprintf("The budget of %s is used up: %s of %s are spent", whose, usd(b.SpentMicros), usd(b.LimitMicros)),
		Why:   fmt.Sprintf("The next model call of task %s may cost %s. Tasks that need this budget are paused.", t.ID, usd(b.AmountMicros)),
		Detail: stop.Detail{
			Scope: b.Scope, ObjectID: b.ObjectID, Every: every, Period: b.Period, LimitMicros: b.LimitMicros, SpentMicros: b.SpentMicros, Amount: b.AmountMicros,
		},
	})
	return err
}

func usd(micros int64) string { return fmt.Sprintf("$%.2f", float64(micros)/1e6) }

// providerEnded opens the item of a provider that a task's model needs. Of several
// models, it is about the first whose provider is known to be in trouble.
func (r *Reports) providerEnded(ctx context.Context, tx *event.Tx, t db.Task, reason, message string) error {
	name, err := r.providerOf(ctx, tx, t, reason)
	if err != nil || name == "" {
		return err
	}
	if err := stop.Hold(ctx, tx, t, stop.Provider, name); err != nil {
		return err
	}
	return stop.OpenProvider(ctx, tx, t.OrgID, t.ID, name, reason, message)
}

// providerOf returns the provider of a task's models that has ended: its key was refused or
// has expired, or it is not connected. If none is known to have, it is the one that the
// task prefers; "" for a script.
func (r *Reports) providerOf(ctx context.Context, tx *event.Tx, t db.Task, reason string) (string, error) {
	v, err := r.cfg.Agents.VersionIn(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return "", err
	}
	first, model, err := task.ModelOf(t, v)
	if err != nil || first == persona.ProviderScript {
		return "", err
	}
	names := []string{first}
	if first == v.Provider && model == v.Model { // one that was chosen for the task has no fallbacks
		p, err := r.cfg.Agents.Persona(v.Digest, v.Markdown)
		if err != nil {
			return "", err
		}
		for _, f := range p.Fallbacks {
			names = append(names, f.Provider)
		}
	}
	for _, name := range names {
		c, err := tx.GetCredential(ctx, db.GetCredentialParams{OrgID: t.OrgID, Provider: name})
		switch {
		case store.IsNotFound(err):
			if reason == stop.NotConnected {
				return name, nil
			}
		case err != nil:
			return "", fmt.Errorf("load the credential of %s: %w", name, err)
		case c.RefusedAt != nil || !c.Login && c.ExpiresAt != nil && !c.ExpiresAt.After(time.Now()):
			return name, nil
		}
	}
	return first, nil
}
