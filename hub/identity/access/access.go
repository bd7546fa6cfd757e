// Package access restricts the networks from which an organisation's calls may come.
// Lists stores the rules and checks calls. A call has to satisfy every rule that applies
// to it, and so has a login. An administrator who has locked everyone out uses the hub's
// own machine: a call over loopback with a token of the data folder, through no proxy, is
// never refused.
package access

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ttlcache"
)

const (
	// rememberFor is how long a rule that another hub took is not known here.
	rememberFor = 2 * time.Second
	remembered  = 1024
)

// rule is one, read.
type rule struct {
	what     string
	networks []netip.Prefix
}

// Lists keeps the rules. It implements auth.Access.
type Lists struct {
	store    *store.Store
	recorder *event.Recorder
	found    *ttlcache.Cache[string, []rule]
}

// New creates Lists.
func New(s *store.Store, recorder *event.Recorder) *Lists {
	return &Lists{s, recorder, ttlcache.New[string, []rule](remembered, rememberFor)}
}

func (l *Lists) rules(ctx context.Context, orgID string) ([]rule, error) {
	if found, ok := l.found.Get(orgID); ok {
		return found, nil
	}
	rows, err := l.store.ListAccessRules(ctx, orgID)
	if err != nil {
		return nil, fmt.Errorf("read the access rules: %w", err)
	}
	out := make([]rule, len(rows))
	for i, row := range rows {
		networks, err := auth.ParseNetworks("networks", row.Networks)
		if err != nil {
			return nil, fmt.Errorf("access rule %s: %w", row.What, err)
		}
		out[i] = rule{row.What, networks}
	}
	l.found.Add(orgID, out)
	return out, nil
}

// covers reports whether a rule is about a caller's call of a procedure.
func (r rule) covers(id auth.Identity, procedure string) bool {
	full, method, _ := strings.Cut(strings.TrimPrefix(procedure, "/"), "/")
	service := full[strings.LastIndex(full, ".")+1:]
	switch r.what {
	case "*":
		return id.Kind == auth.User
	case "admin":
		needs, _ := auth.RuleOf(procedure)
		return needs.Role == "admin"
	default:
		return r.what == service || r.what == service+"/"+method
	}
}

// Check refuses a call from a network that its organisation does not have it
// come from.
func (l *Lists) Check(ctx context.Context, id auth.Identity, procedure string, from netip.Addr) error {
	rules, err := l.rules(ctx, id.OrgID)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if r.covers(id, procedure) && !slices.ContainsFunc(r.networks, func(p netip.Prefix) bool { return p.Contains(from) }) {
			return fault.New(fault.Denied, "%s may not be called from %s: the access rule %q does not have it", procedure, from, r.what).
				WithCode(fault.PermissionDenied).WithFix("call from a network of the rule, or change it on the hub's own machine: deckhand access list")
		}
	}
	return nil
}

// loginProcedure is what a login is checked as, however it is made.
const loginProcedure = "/deckhand.v1.SessionService/CreateSession"

// Login is Check for a user who logs in.
func (l *Lists) Login(ctx context.Context, id auth.Identity, address string) error {
	return l.Check(ctx, id, loginProcedure, auth.AddressOf(address))
}

// List returns a page of the rules, ordered by their objects, and the next page's token.
func (l *Lists) List(ctx context.Context, orgID, page string, size int32) ([]db.AccessRule, string, error) {
	after, _, err := store.ParseNameToken(page)
	if err != nil {
		return nil, "", err
	}
	rows, err := l.store.PageAccessRules(ctx, db.PageAccessRulesParams{OrgID: orgID, AfterWhat: after, MaxRows: size + 1})
	if err != nil {
		return nil, "", fmt.Errorf("list the access rules: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.AccessRule) string { return store.NameToken(last.What, "") })
	return rows, next, nil
}

// setter is the procedure that changes a rule: a caller who may call it is not locked
// out.
const setter = "/deckhand.v1.AccessService/SetAccessRule"

// Set restricts the calls that what names to some networks.
func (l *Lists) Set(ctx context.Context, id auth.Identity, what string, networks []string, force bool, by event.Actor) error {
	if !known(what) {
		return fault.New(fault.Invalid, "what is %q, which is no procedure of users", what).
			WithFix("use *, admin, a service (%s) or SERVICE/METHOD", strings.Join(auth.Services(), ", "))
	}
	read, err := auth.ParseNetworks("networks", networks)
	if err != nil {
		return err
	}
	r := rule{what, read}
	from := auth.AddressOf(id.Address)
	if !force && r.covers(id, setter) && !slices.ContainsFunc(read, func(p netip.Prefix) bool { return p.Contains(from) }) {
		return fault.New(fault.Precondition, "networks do not have %s, from where you call: you could not take it back", from).
			WithFix("add it, or set force")
	}
	texts := make([]string, len(read))
	for i, p := range read {
		texts[i] = p.String()
	}
	defer l.found.Purge()
	return l.recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.SetAccessRule(ctx, db.SetAccessRuleParams{OrgID: id.OrgID, What: what, Networks: texts, ChangedBy: by.ID}); err != nil {
			return fmt.Errorf("store access rule %s: %w", what, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: id.OrgID, By: by, Action: "access.set", ObjectKind: "access_rule", ObjectID: what,
			After: map[string]any{"networks": strings.Join(texts, ", ")},
		})
	})
}

// Delete takes a rule away.
func (l *Lists) Delete(ctx context.Context, orgID, what string, by event.Actor) error {
	defer l.found.Purge()
	return l.recorder.Tx(ctx, func(tx *event.Tx) error {
		n, err := tx.DeleteAccessRule(ctx, db.DeleteAccessRuleParams{OrgID: orgID, What: what})
		if err != nil {
			return fmt.Errorf("delete access rule %s: %w", what, err)
		}
		if n == 0 {
			return fault.New(fault.NotFound, "there is no access rule %q", what).WithFix("list what there is with: deckhand access list").WithObject(what)
		}
		return audit.Append(tx, audit.Entry{OrgID: orgID, By: by, Action: "access.deleted", ObjectKind: "access_rule", ObjectID: what})
	})
}

func known(what string) bool {
	if what == "*" || what == "admin" {
		return true
	}
	service, method, one := strings.Cut(what, "/")
	if !one {
		return slices.Contains(auth.Services(), service)
	}
	_, ok := auth.RuleOf("/deckhand.v1." + service + "/" + method)
	return ok
}
