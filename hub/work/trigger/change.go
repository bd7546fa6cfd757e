package trigger

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/schedule"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// locked runs fn on a trigger's locked row.
func (s *Service) locked(ctx context.Context, orgID, id string, fn func(tx *event.Tx, row db.Trigger) error) error {
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		row, err := tx.LockTrigger(ctx, db.LockTriggerParams{OrgID: orgID, ID: id})
		if store.IsNotFound(err) {
			return fault.New(fault.NotFound, "there is no trigger %q", id).WithObject(id)
		}
		if err != nil {
			return fmt.Errorf("lock trigger %s: %w", id, err)
		}
		return fn(tx, row)
	})
}

// Change changes what a trigger does to what change returns for its present spec, which is
// locked meanwhile.
func (s *Service) Change(ctx context.Context, orgID, id string, change func(now *deckhandv1.TriggerSpec) (*deckhandv1.TriggerSpec, error), by event.Actor) error {
	return s.update(ctx, orgID, id, change, false, by)
}

func to(spec *deckhandv1.TriggerSpec) func(*deckhandv1.TriggerSpec) (*deckhandv1.TriggerSpec, error) {
	return func(*deckhandv1.TriggerSpec) (*deckhandv1.TriggerSpec, error) { return spec, nil }
}

func (s *Service) update(ctx context.Context, orgID, id string, change func(now *deckhandv1.TriggerSpec) (*deckhandv1.TriggerSpec, error), declared bool, by event.Actor) error {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, row db.Trigger) error {
		if row.Declared != declared {
			return fault.New(fault.Precondition, "trigger %s is its agent's persona's", row.Name).
				WithFix("change it there, and apply the file again: deckhand agent apply").WithObject(id)
		}
		before, err := readSpec(row.Spec)
		if err != nil {
			return err
		}
		spec, err := change(clone(before))
		if err != nil {
			return err
		}
		kind := Kind(row.Kind)
		every, err := mayBecome(kind, before, spec)
		if err != nil {
			return err
		}
		if row.State == stateEnabled {
			if err := s.unattended(ctx, orgID, row.AgentID, spec); err != nil {
				return err
			}
		}
		params := db.UpdateTriggerParams{OrgID: orgID, ID: id, SlotAt: row.SlotAt, NextAt: row.NextAt, CreatedBy: row.CreatedBy}
		if declared {
			// It runs this version, with the rights of the user who stores it.
			params.CreatedBy = by.ID
		}
		if params.Spec, err = encode(spec); err != nil {
			return err
		}
		if kind == Cron && row.State == stateEnabled {
			params.SlotAt, params.NextAt = begin(kind, id, spec, every, time.Now())
		}
		if _, err := tx.UpdateTrigger(ctx, params); err != nil {
			return fmt.Errorf("store trigger %s: %w", id, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "trigger.updated", ObjectKind: "trigger", ObjectID: id,
			Before: map[string]any{"spec": string(row.Spec)}, After: map[string]any{"spec": string(params.Spec)},
		})
	})
}

// mayBecome checks another spec for a trigger.
func mayBecome(kind Kind, before, spec *deckhandv1.TriggerSpec) (every *schedule.Schedule, err error) {
	if every, err = check(kind, spec); err != nil {
		return nil, err
	}
	if was, now := before.GetWebhook().GetVerify(), spec.GetWebhook().GetVerify(); was != now && (was == "standard" || now == "standard") {
		return nil, fault.New(fault.Invalid, "spec.webhook.verify cannot become %s: its secret has another form", now).WithFix("make another trigger")
	}
	return every, nil
}

// Enable lets a trigger fire from now on.
func (s *Service) Enable(ctx context.Context, orgID, id string, by event.Actor) error {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, row db.Trigger) error {
		if row.State == stateEnabled {
			return nil
		}
		spec, err := readSpec(row.Spec)
		if err != nil {
			return err
		}
		every, err := check(Kind(row.Kind), spec)
		if err != nil {
			return err
		}
		if err := s.unattended(ctx, orgID, row.AgentID, spec); err != nil {
			return err
		}
		slot, next := begin(Kind(row.Kind), id, spec, every, time.Now())
		return set(ctx, tx, row, stateEnabled, "", slot, next, by)
	})
}

// Disable keeps a trigger from firing.
func (s *Service) Disable(ctx context.Context, orgID, id, reason string, by event.Actor) error {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, row db.Trigger) error {
		if row.State == stateDisabled {
			return nil
		}
		why := "disabled by " + by.ID
		if reason = tx.Redact(orgID).String(reason); reason != "" {
			why += ": " + reason
		}
		return set(ctx, tx, row, stateDisabled, why, nil, nil, by)
	})
}

// set changes the state of a trigger whose row is locked.
func set(ctx context.Context, tx *event.Tx, row db.Trigger, state, why string, slot, next *time.Time, by event.Actor) error {
	if _, err := tx.SetTriggerState(ctx, db.SetTriggerStateParams{
		OrgID: row.OrgID, ID: row.ID, State: state, Reason: why, SlotAt: slot, NextAt: next,
	}); err != nil {
		return fmt.Errorf("set trigger %s %s: %w", row.ID, state, err)
	}
	return audit.Append(tx, audit.Entry{
		OrgID: row.OrgID, By: by, Action: "trigger." + state, ObjectKind: "trigger", ObjectID: row.ID, Reason: why,
		Before: map[string]any{"state": row.State}, After: map[string]any{"state": state},
	})
}

// Delete ends a trigger for good, and its secrets.
func (s *Service) Delete(ctx context.Context, orgID, id string, by event.Actor) error {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, row db.Trigger) error {
		if err := tx.DeleteTrigger(ctx, db.DeleteTriggerParams{OrgID: orgID, ID: id}); err != nil {
			return fmt.Errorf("delete trigger %s: %w", id, err)
		}
		s.known.Remove(id)
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "trigger.deleted", ObjectKind: "trigger", ObjectID: id,
			Before: map[string]any{"name": row.Name, "kind": row.Kind, "agent_id": row.AgentID, "state": row.State, "spec": string(row.Spec)},
		})
	})
}

// Rotate replaces a webhook's secret, and returns the new one. The previous one stays
// valid for keep.
func (s *Service) Rotate(ctx context.Context, orgID, id, given string, keep time.Duration, by event.Actor) (secret string, err error) {
	err = s.locked(ctx, orgID, id, func(tx *event.Tx, row db.Trigger) error {
		if Kind(row.Kind) != Webhook {
			return fault.New(fault.Precondition, "trigger %s has no secret: it is a %s", row.Name, row.Kind).WithObject(id)
		}
		spec, err := readSpec(row.Spec)
		if err != nil {
			return err
		}
		if secret, err = makeSecret(spec, given); err != nil {
			return err
		}
		params := db.SetTriggerSecretParams{OrgID: orgID, ID: id, Keep: keep}
		if params.Sealed, params.Hint, err = s.seal(orgID, id, secret); err != nil {
			return err
		}
		if _, err := tx.SetTriggerSecret(ctx, params); err != nil {
			return fmt.Errorf("store the secret of trigger %s: %w", id, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "trigger.secret_rotated", ObjectKind: "trigger", ObjectID: id,
			Before: map[string]any{"secret_ends_in": row.Hint}, After: map[string]any{"secret_ends_in": params.Hint, "old_counts_for": keep.String()},
		})
	})
	if err == nil {
		s.learn(orgID, id, secret)
	}
	return secret, err
}
