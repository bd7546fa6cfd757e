package policy

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// Similar calls: when people have approved many calls with the same agent, tool and shape
// and rejected none, a rule that always allows them is offered. It is offered once, and a
// later rejection revokes it.

const (
	// offerAfter approvals, and no rejection, within offerWithin.
	offerAfter  = 10
	offerWithin = 30 * 24 * time.Hour
	maxShape    = 500
)

// shapeless are the tools that run commands, type into a program, or change many files.
var shapeless = []string{toolname.ShellExec, toolname.JobInput, toolname.TerminalOpen, toolname.TerminalWrite, toolname.ApplyPatch, toolname.HostExec, toolname.NodeExecMany, toolname.NodeLock}

// scopeTools are the tools whose argument scope says for whom a call has effects.
var scopeTools = []string{toolname.MemoryStore, toolname.MemoryForget}

// ShapeOf returns what a call has in common with others that do the like: which
// arguments it has, the folder of each path, the host of each address, what is switched on or
// off, and the scope of what is remembered. What a shell runs has no shape: see commands. Neither has what is
// typed into a program.
func ShapeOf(tool string, arguments map[string]any) string {
	if slices.Contains(shapeless, tool) {
		return ""
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(arguments)) {
		texts := stringsOf(arguments[key])
		switch value := arguments[key].(type) {
		case bool:
			parts = append(parts, fmt.Sprintf("%s=%t", key, value))
			continue
		case string, []any:
		default:
			parts = append(parts, key)
			continue
		}
		var shown []string
		for _, text := range texts {
			switch {
			case slices.Contains(scopeTools, tool) && (key == "scope" || key == "team"):
				shown = append(shown, text)
			case slices.Contains(pathKeys, key):
				shown = append(shown, path.Join(path.Dir(Abs(text)), "*"))
			case slices.Contains(hostKeys, key):
				host := shell.HostOf(text)
				if u, err := url.Parse(text); err == nil && u.Host != "" {
					host = u.Scheme + "://" + strings.ToLower(u.Host)
				}
				shown = append(shown, host+"/*")
			}
		}
		slices.Sort(shown)
		if shown = slices.Compact(shown); len(shown) > 0 {
			key += "=" + strings.Join(shown, " ")
		}
		parts = append(parts, key)
	}
	shape := tool + "(" + strings.Join(parts, ", ") + ")"
	if len(shape) > maxShape {
		return "" // not used
	}
	return shape
}

// Offer returns how many similar calls were approved, if a rule that always allows them
// is to be offered with a call's approval; otherwise 0.
func (s *Service) Offer(ctx context.Context, tx *event.Tx, t db.Task, tool, shape, itemID string) (int32, error) {
	if shape == "" {
		return 0, nil
	}
	n, err := tx.CountApprovals(ctx, db.CountApprovalsParams{OrgID: t.OrgID, AgentID: t.AgentID, Tool: tool, Shape: shape, Since: offerWithin})
	if err != nil {
		return 0, fmt.Errorf("count what was approved of %s: %w", tool, err)
	}
	if n.Approved < offerAfter || n.Rejected > 0 {
		return 0, nil
	}
	fresh, err := tx.OfferOnce(ctx, db.OfferOnceParams{OrgID: t.OrgID, AgentID: t.AgentID, Tool: tool, Shape: shape, ItemID: itemID})
	if err != nil {
		return 0, fmt.Errorf("offer to approve %s: %w", tool, err)
	}
	if fresh == 0 {
		return 0, nil
	}
	return n.Approved, nil
}

// Rejected takes back what was allowed of calls that look like one that a person
// rejects.
func (s *Service) Rejected(ctx context.Context, tx *event.Tx, t db.Task, item db.InboxItem, by event.Actor) error {
	if item.Shape == "" {
		return nil
	}
	rules, err := tx.RevokeShape(ctx, db.RevokeShapeParams{OrgID: t.OrgID, AgentID: t.AgentID, Tool: item.Tool, Shape: item.Shape, RevokedBy: by.ID})
	if err != nil {
		return fmt.Errorf("revoke the allow rules of %s: %w", item.Tool, err)
	}
	for _, rule := range rules {
		tx.AfterCommit(func() { s.forget(t.OrgID) })
		if err := audit.Append(tx, audit.Entry{
			OrgID: t.OrgID, By: by, Action: "policy.rule_revoked", ObjectKind: "allow_rule", ObjectID: rule.ID,
			Reason: "a call like it was rejected: " + item.ID,
			Before: map[string]any{"tool": rule.Tool, "scope": rule.Scope, "agent_id": rule.AgentID, "shape": rule.Shape},
		}); err != nil {
			return err
		}
	}
	return nil
}
