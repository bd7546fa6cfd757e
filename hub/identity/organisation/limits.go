package organisation

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Jail is the default size of a jail, or the largest one. In the latter 0 means no limit.
type Jail struct {
	CPUMillis, MemoryBytes, PIDs, WorkspaceBytes int64
}

// JailOf returns the most that jails of a persona may come to have.
func JailOf(p *persona.Persona) Jail {
	return Jail{
		CPUMillis: p.Jail.CPUMillis, MemoryBytes: max(p.Jail.MemoryBytes, p.Jail.MaxMemoryBytes), PIDs: p.Jail.PIDs,
		WorkspaceBytes: p.Workspace.SizeBytes,
	}
}

// Ceiling returns the most that a jail of an organisation may have.
func Ceiling(o db.Organisation) Jail {
	return Jail{CPUMillis: o.JailCpuMillis, MemoryBytes: o.JailMemoryBytes, PIDs: o.JailPids, WorkspaceBytes: o.JailWorkspaceBytes}
}

// Allows refuses a jail that is larger than a ceiling; the error has the field, the
// requested value and the limit.
func (c Jail) Allows(j Jail) error {
	cpus := func(n int64) string { return fmt.Sprintf("%g", float64(n)/1000) } //nolint:mnd // thousandths
	count := func(n int64) string { return fmt.Sprint(n) }
	for _, f := range []struct {
		name       string
		asks, most int64
		show       func(int64) string
	}{
		{"jail.cpus", j.CPUMillis, c.CPUMillis, cpus},
		{"jail.memory", j.MemoryBytes, c.MemoryBytes, bytesize.Format},
		{"jail.pids", j.PIDs, c.PIDs, count},
		{"workspace.size", j.WorkspaceBytes, c.WorkspaceBytes, bytesize.Format},
	} {
		if f.most > 0 && f.asks > f.most {
			return fault.New(fault.Denied, "%s would be %s, and this organisation's jails may have %s at most", f.name, f.show(f.asks), f.show(f.most)).
				WithCode(fault.PermissionDenied).WithFix("ask for less in the persona, or have the hub's operator raise it: deckhand organisation limit")
		}
	}
	return nil
}

// Change is a change of an organisation's limits; what is nil stays.
type Change struct {
	CPUMillis, MemoryBytes, PIDs, WorkspaceBytes *int64
	// UndoWindow of 0 is the hub's own.
	UndoWindow *time.Duration
	// CheckpointTTL is how long checkpoints are kept; 0 for a day.
	CheckpointTTL *time.Duration
}

// SetLimits changes what an organisation may have, on record in both, by's and
// the organisation's own.
func (s *Service) SetLimits(ctx context.Context, name string, c Change, byOrg string, by event.Actor) error {
	params := db.SetOrganisationLimitsParams{
		Name: name, JailCpuMillis: c.CPUMillis, JailMemoryBytes: c.MemoryBytes, JailPids: c.PIDs, JailWorkspaceBytes: c.WorkspaceBytes,
	}
	if c.UndoWindow != nil {
		seconds := int64(c.UndoWindow.Seconds())
		if seconds == 0 {
			seconds = -1 // the hub's own
		}
		params.UndoWindowSeconds = &seconds
	}
	if c.CheckpointTTL != nil {
		seconds := int64(c.CheckpointTTL.Seconds())
		if seconds == 0 {
			seconds = -1 // the default
		}
		params.CheckpointSeconds = &seconds
	}
	return s.recorder.Tx(ctx, func(tx *event.Tx) error {
		before, err := tx.OrganisationByName(ctx, name)
		if store.IsNotFound(err) {
			return fault.New(fault.NotFound, "there is no organisation %q", name).WithFix("see deckhand organisation list")
		}
		if err != nil {
			return fmt.Errorf("load organisation %s: %w", name, err)
		}
		org, err := tx.SetOrganisationLimits(ctx, params)
		if err != nil {
			return fmt.Errorf("store the limits of %s: %w", name, err)
		}
		entry := audit.Entry{
			OrgID: byOrg, By: by, Action: "organisation.limited", ObjectKind: "organisation", ObjectID: org.ID, Before: limits(before), After: limits(org),
		}
		if err := audit.Append(tx, entry); err != nil || byOrg == org.ID {
			return err
		}
		entry.OrgID, entry.By = org.ID, operator
		return audit.Append(tx, entry)
	})
}

func limits(o db.Organisation) map[string]any {
	out := map[string]any{
		"jail_cpu_millis": o.JailCpuMillis, "jail_memory_bytes": o.JailMemoryBytes, "jail_pids": o.JailPids,
		"jail_workspace_bytes": o.JailWorkspaceBytes,
	}
	if o.UndoWindowSeconds != nil {
		out["undo_window_seconds"] = *o.UndoWindowSeconds
	}
	if o.CheckpointSeconds != nil {
		out["checkpoint_ttl_seconds"] = *o.CheckpointSeconds
	}
	return out
}
