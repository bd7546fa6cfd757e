// Package audit records who changed what: people's changes of tasks, checkpoints, holds
// and kills, decisions in the inbox, changes of workspaces, agents, nodes, their locks
// and commands, drains of nodes and workers. Append stores an Entry in the transaction of
// the change, with secrets masked; if that fails, so does the change. The database
// refuses to change or delete an entry. A Sealer adds entries to a chain with signed
// heads (internal/auditlog).
//
// What workers and the hub do to a task in normal operation is recorded in the task's
// events only, which are append-only too: an additional entry for each would double what
// a run writes. Decisions about an agent's call are entries if the call was refused, asked
// about, dangerous, or allowed by a rule that comes from an approval; so is the end of such a
// call.
package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// Entry is one change.
type Entry struct {
	OrgID string
	By    event.Actor
	// Action is what was done, for example "task.paused".
	Action string
	// ObjectKind and ObjectID name what was changed: task, node, agent, hold.
	ObjectKind, ObjectID string
	// Before and After are the values before and after the change.
	Before, After map[string]any
	Reason        string
	// Severity replaces that of the action; empty for that.
	Severity string
}

// maxUserAgent bounds what a caller may have stored of itself.
const maxUserAgent = 500

// Append stores an entry when the transaction commits.
func Append(tx *event.Tx, e Entry) error {
	mask := tx.Redact(e.OrgID)
	p := db.AppendAuditParams{
		OrgID: e.OrgID, ActorKind: e.By.Kind, ActorID: e.By.ID, Action: e.Action, ObjectKind: e.ObjectKind, ObjectID: e.ObjectID,
		Severity: cmp.Or(e.Severity, Severity(e.Action)),
		Reason:   mask.String(e.Reason), Address: e.By.Address, UserAgent: Clean(mask.String(e.By.UserAgent)),
	}
	var err error
	if p.Before, err = encode(mask.Map(e.Before)); err == nil {
		p.After, err = encode(mask.Map(e.After))
	}
	if err != nil {
		return fmt.Errorf("encode audit entry %s of %s: %w", e.Action, e.ObjectID, err)
	}
	tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
		if err := q.AppendAudit(ctx, p); err != nil {
			return fmt.Errorf("store audit entry: %w", err)
		}
		return nil
	})
	return nil
}

// Clean replaces the characters of a caller's text that cannot be stored.
func Clean(text string) string {
	return textcut.Runes(strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", ""), maxUserAgent, "")
}

func encode(m map[string]any) (json.RawMessage, error) {
	if len(m) == 0 {
		return json.RawMessage("{}"), nil
	}
	return json.Marshal(m)
}

// Filter picks entries; empty fields pick all.
type Filter struct {
	ObjectID, ActorID, Action, Severity string
	// Contains is a text of the entry, in any case.
	Contains string
	// Since and Until bound the time: from Since on, and before Until. Nil for none.
	Since, Until *time.Time
	// Before is the id of the entry below which to continue; 0 starts at the newest.
	Before int64
	Max    int32
}

// List returns entries, newest first.
func List(ctx context.Context, s *store.Store, orgID string, f Filter) ([]db.AuditEntry, error) {
	params := db.ListAuditParams{
		OrgID: orgID, BeforeID: f.Before, ObjectID: f.ObjectID, ActorID: f.ActorID, Action: f.Action, Severity: f.Severity, MaxRows: f.Max,
		Contains: f.Contains, Since: f.Since, Until: f.Until,
	}
	s.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := params
		all.MaxRows = maxRows
		_, err := q.ListAudit(ctx, all)
		return err
	})
	rows, err := s.ListAudit(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("list audit entries: %w", err)
	}
	return rows, nil
}
