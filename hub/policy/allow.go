package policy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// Scopes of what people allow from now on.
const (
	ScopeExact    = "exact"
	ScopeCommands = "commands"
	// ScopeShape covers similar calls; see ShapeOf.
	ScopeShape = "shape"
	ScopeTool  = "tool"
)

// How long such a rule holds.
const (
	allowFor  = 30 * 24 * time.Hour
	mostAllow = 90 * 24 * time.Hour
)

// RememberRule is a request not to be asked again.
type RememberRule struct {
	Scope      string
	EveryAgent bool
	// Lasts is 0 for 30 days.
	Lasts time.Duration
}

// allowRules returns the rules of people that apply to an agent's version. A decision
// about an agent applies to the versions that its author had seen, to the author's own,
// and to those of administrators: another user's version is another program.
func allowRules(rows []db.AllowRule, agentID string, version db.AgentVersion) (out []*Rule) {
	for _, row := range rows {
		if row.AgentID != "" && (row.AgentID != agentID || !seen(row, version)) {
			continue
		}
		r := &Rule{Name: row.ID, Effect: Allow, Reason: row.Description, Tools: []Glob{{text: row.Tool}}, Until: row.ExpiresAt, Exact: row.ArgumentsDigest, Shape: row.Shape, Answered: true}
		for _, c := range row.Commands {
			var prefix []Glob
			for _, w := range strings.Fields(c) {
				prefix = append(prefix, Glob{text: w})
			}
			r.Commands = append(r.Commands, prefix)
		}
		out = append(out, r)
	}
	return out
}

func seen(row db.AllowRule, version db.AgentVersion) bool {
	return version.CreatedBy == row.CreatedBy || version.CreatedByRole == "admin" || !row.CreatedAt.Before(version.CreatedAt)
}

// DigestOf returns a digest of a call's arguments that does not depend on their spelling.
func DigestOf(arguments map[string]any) []byte {
	data, err := json.Marshal(arguments)
	if err != nil {
		return nil // came from JSON
	}
	sum := sha256.Sum256(data)
	return sum[:]
}

// Remember stores a rule that allows calls like one. What is known to be
// dangerous is asked about all the same.
func (s *Service) Remember(ctx context.Context, tx *event.Tx, t db.Task, item db.InboxItem, arguments map[string]any, w RememberRule, by event.Actor) (db.AllowRule, error) {
	c := Call{Tool: item.Tool, Arguments: arguments}
	p := db.CreateAllowRuleParams{
		ID: ident.New("rule"), OrgID: t.OrgID, AgentID: t.AgentID, Tool: item.Tool, Scope: w.Scope, ItemID: item.ID, CreatedBy: by.ID,
		Lasts: w.Lasts, Commands: []string{},
	}
	if w.EveryAgent {
		p.AgentID = ""
	}
	if p.Lasts == 0 {
		p.Lasts = allowFor
	}
	if p.Lasts < time.Minute || p.Lasts > mostAllow {
		return db.AllowRule{}, fault.New(fault.Invalid, "a rule may last from a minute to 90 days, not %s", p.Lasts).WithFix("set lasts to such a time")
	}
	script, isShell := arguments["command"].(string)
	if isShell && item.Tool == toolname.ShellExec {
		read := shell.Read(script, shell.Options{})
		c.script = &read
	}
	if found := Dangers(c); len(found) > 0 {
		return db.AllowRule{}, fault.New(fault.Precondition, "this call is known to be dangerous (%s): each is asked about", found[0].What).
			WithObject(item.ID).WithFix("approve it without always, or have an administrator change the policy")
	}
	switch w.Scope {
	case ScopeExact:
		p.ArgumentsDigest = DigestOf(arguments)
		p.Description = "these arguments of " + item.Tool
	case ScopeShape:
		if p.Shape = ShapeOf(item.Tool, arguments); p.Shape == "" {
			return db.AllowRule{}, fault.New(fault.Invalid, "the call has no shape of its own").WithObject(item.ID).WithFix("use the scope exact or commands")
		}
		p.Description = "calls that look like " + p.Shape
	case ScopeTool:
		p.Description = "any call of " + item.Tool
	case ScopeCommands:
		if c.script == nil || len(c.script.Unclear) > 0 {
			return db.AllowRule{}, fault.New(fault.Invalid, "the call is no shell script that can be understood").WithObject(item.ID).WithFix("use the scope exact")
		}
		for i := range c.script.Commands {
			cmd := &c.script.Commands[i]
			if slices.Contains(neutral, cmd.Name()) {
				continue
			}
			prefix := []string{cmd.Name()}
			if len(cmd.Args) > 1 && cmd.Args[1].Known && subcommand(cmd.Args[1].Text) && slices.Contains(nested, cmd.Name()) {
				prefix = append(prefix, cmd.Args[1].Text)
			}
			if cmd.Name() == "" || shell.Language(cmd.Name()) != "" {
				return db.AllowRule{}, fault.New(fault.Invalid, "%s runs what it is given: its first words say nothing", cmd.String()).WithObject(item.ID).WithFix("use the scope exact")
			}
			if text := strings.Join(prefix, " "); !slices.Contains(p.Commands, text) {
				p.Commands = append(p.Commands, text)
			}
		}
		if len(p.Commands) == 0 {
			return db.AllowRule{}, fault.New(fault.Invalid, "the script runs nothing").WithObject(item.ID).WithFix("use the scope exact")
		}
		p.Description = "commands that begin with " + strings.Join(p.Commands, ", ")
	default:
		return db.AllowRule{}, fault.New(fault.Invalid, "there is no scope %q", w.Scope).WithFix("use exact, commands, shape or tool")
	}
	rule, err := tx.CreateAllowRule(ctx, p)
	if err != nil {
		return rule, fmt.Errorf("store what is allowed from now on: %w", err)
	}
	tx.AfterCommit(func() { s.forget(t.OrgID) })
	return rule, audit.Append(tx, audit.Entry{
		OrgID: t.OrgID, By: by, Action: "policy.always_allowed", ObjectKind: "allow_rule", ObjectID: rule.ID, Reason: p.Description,
		After: map[string]any{"tool": rule.Tool, "scope": rule.Scope, "agent_id": rule.AgentID, "commands": rule.Commands, "shape": rule.Shape, "expires_at": rule.ExpiresAt.UTC().Format(time.RFC3339), "item_id": item.ID},
	})
}

// nested are programs whose first word is a subcommand.
var nested = []string{"git", "npm", "yarn", "pnpm", "go", "cargo", "docker", "kubectl", "make", "pip", "apt", "apt-get", "systemctl", "terraform", "helm", "gh", "aws", "brew", "mvn", "gradle", "bundle", "composer", "poetry", "uv"}

func subcommand(s string) bool {
	return s != "" && !strings.ContainsAny(s, "/=.*$ ") && s[0] != '-'
}

// exact reports whether a rule for exact arguments, or for their shape, is about a call.
func (r *Rule) exact(c *Call) bool {
	return (r.Exact == nil || bytes.Equal(r.Exact, DigestOf(c.Arguments))) && (r.Shape == "" || r.Shape == ShapeOf(c.Tool, c.Arguments))
}

// AllowRules returns a page of the rules that people created, newest first, and the next
// page's token; with past, also those that no longer apply. Unless all is set, they are
// those for agents that the user sees.
func (s *Service) AllowRules(ctx context.Context, orgID, user string, all, past bool, page string, size int32) ([]db.ListAllowRulesRow, string, error) {
	p := db.ListAllowRulesParams{OrgID: orgID, SeesAll: all, Viewer: user, Past: past, MaxRows: size + 1}
	if page != "" {
		at, id, err := store.ParsePageToken(page)
		if err != nil {
			return nil, "", err
		}
		p.BeforeTime, p.BeforeID = &at, id
	}
	rows, err := s.cfg.Store.ListAllowRules(ctx, p)
	if err != nil {
		return nil, "", fmt.Errorf("list allow rules: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.ListAllowRulesRow) string {
		return store.PageToken(last.AllowRule.CreatedAt, last.AllowRule.ID)
	})
	return rows, next, nil
}

// Revoke takes a rule back. role is that of who wants it: their own, or any as an
// administrator.
func (s *Service) Revoke(ctx context.Context, orgID, ref string, by event.Actor, role string) (db.AllowRule, error) {
	rows, err := s.cfg.Store.FindAllowRules(ctx, db.FindAllowRulesParams{OrgID: orgID, SeesAll: role == "admin", Viewer: by.ID, Ref: ref, Prefix: store.Prefix("rule", ref)})
	id, err := store.One("rule", ref, rows, err)
	if err != nil {
		return db.AllowRule{}, err
	}
	var rule db.AllowRule
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		rule, err = tx.RevokeAllowRule(ctx, db.RevokeAllowRuleParams{OrgID: orgID, ID: id, RevokedBy: by.ID})
		switch {
		case store.IsNotFound(err):
			return fault.New(fault.Precondition, "%s has been revoked", id).WithObject(id).WithFix("see: deckhand policy rules --past")
		case err != nil:
			return fmt.Errorf("revoke %s: %w", id, err)
		case role != "admin" && rule.CreatedBy != by.ID:
			return fault.New(fault.Denied, "%s is a rule of %s", id, rule.CreatedBy).WithCode(fault.PermissionDenied).WithObject(id).WithFix("ask an administrator")
		}
		tx.AfterCommit(func() { s.forget(orgID) })
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "policy.rule_revoked", ObjectKind: "allow_rule", ObjectID: id, Reason: rule.Description,
			Before: map[string]any{"tool": rule.Tool, "scope": rule.Scope, "agent_id": rule.AgentID},
		})
	})
	return rule, err
}
