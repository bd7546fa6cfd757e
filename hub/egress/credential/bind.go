package credential

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const usualPort = 443

// Bindings returns which requests of an agent's commands the credentials that its persona
// lists are for, in the order of the persona.
//
// If some cannot be used, the error is a *fault.Error about the first of them, and the
// bindings are those of the others: a task that begins needs all of them, one that runs goes
// on without those that were deleted meanwhile. Two that could be for the same request are
// such an error, which names both, and neither of them has a binding.
func (c *Credentials) Bindings(ctx context.Context, orgID, agentName string, want []persona.Credential) ([]*nodev1.Egress_Binding, error) {
	if len(want) == 0 {
		return nil, nil
	}
	names := make([]string, len(want))
	for i, w := range want {
		names[i] = w.Name
	}
	rows, err := c.cfg.Store.EgressCredentials(ctx, db.EgressCredentialsParams{OrgID: orgID, Names: names})
	if err != nil {
		return nil, fmt.Errorf("load the credentials of agent %s: %w", agentName, err)
	}
	var out []*nodev1.Egress_Binding
	var first error
	failed := func(err error) {
		if first == nil {
			first = err
		}
	}
	for _, w := range want {
		at := slices.IndexFunc(rows, func(row db.EgressCredential) bool { return row.Name == w.Name })
		if at < 0 {
			failed(gone(w.Name))
			continue
		}
		if err := usable(rows[at], agentName, w); err != nil {
			failed(err)
			continue
		}
		if Kind(rows[at].Kind) == Password {
			continue
		}
		b, err := binding(rows[at], w)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	ambiguous := map[string]bool{}
	for i, a := range out {
		for _, b := range out[:i] {
			if err := conflict(b, a); err != nil {
				ambiguous[a.GetCredential()], ambiguous[b.GetCredential()] = true, true
				failed(err)
			}
		}
	}
	return slices.DeleteFunc(out, func(b *nodev1.Egress_Binding) bool { return ambiguous[b.GetCredential()] }), first
}

// gone returns the error for a credential that there is not, or not any more.
func gone(name string) error {
	return fault.New(fault.NotFound, "there is no credential %s: it was deleted, or never created", name).WithCode(fault.CredentialRefused).WithObject(name).
		WithFix("an administrator creates it (deckhand credential create %s), or remove it from the persona", name)
}

// usable refuses a credential that an agent may not use, or not now, or not as its persona
// wants to.
func usable(row db.EgressCredential, agentName string, want persona.Credential) error {
	if !slices.Contains(row.Agents, agentName) && !slices.Contains(row.Agents, AllAgents) {
		return fault.New(fault.Denied, "agent %s may not use credential %s", agentName, row.Name).WithCode(fault.CredentialRefused).WithObject(row.Name).
			// The other agents that may are not named: readers of this error may not see them.
			WithFix("an administrator adds %s to the agents of the credential (deckhand credential update %s --agent NAMES replaces the list), or remove it from the persona", agentName, row.Name)
	}
	return allows(row, want)
}

// allows refuses a credential that nobody can use now, or not as is wanted.
func allows(row db.EgressCredential, want persona.Credential) error {
	if row.ExpiresAt != nil && !row.ExpiresAt.After(time.Now()) {
		return fault.New(fault.Precondition, "credential %s has expired, on %s", row.Name, row.ExpiresAt.UTC().Format(time.RFC3339)).WithCode(fault.CredentialRefused).WithObject(row.Name).
			WithFix("an administrator stores a new value: deckhand credential rotate %s", row.Name)
	}
	settings, err := settingsOf(row)
	if err != nil {
		return fmt.Errorf("read the settings of credential %s: %w", row.Name, err)
	}
	_, err = narrow(row, settings, want)
	return err
}

// binding returns the binding of a credential.
func binding(row db.EgressCredential, want persona.Credential) (*nodev1.Egress_Binding, error) {
	version := row.Version
	if Kind(row.Kind) == GitHubApp {
		// A token is of what the persona wants: one for more is not to be used any more.
		settings, err := settingsOf(row)
		if err != nil {
			return nil, fmt.Errorf("read the settings of credential %s: %w", row.Name, err)
		}
		scope, err := narrow(row, settings, want)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256([]byte(scope.text()))
		version += "." + hex.EncodeToString(sum[:8])
	}
	b := &nodev1.Egress_Binding{
		Credential: row.Name, Hosts: row.Hosts, Methods: row.Methods, Paths: row.Paths, Private: row.Private, Held: Kind(row.Kind).Held(),
		Variable: row.Variable, Roots: row.Roots, Pushes: want.Pushes, Version: version,
	}
	for _, port := range row.Ports {
		b.Ports = append(b.Ports, uint32(port)) //nolint:gosec // it was one before
	}
	if b.GetVariable() != "" {
		b.Placeholder = "deckhand-inserts-" + row.Name
	}
	return b, nil
}

// conflict refuses two bindings that could be for one request, or that set one variable.
func conflict(a, b *nodev1.Egress_Binding) error {
	if v := a.GetVariable(); v != "" && v == b.GetVariable() {
		return fault.New(fault.Precondition, "credentials %s and %s both set the variable %s", a.GetCredential(), b.GetCredential(), v).WithCode(fault.CredentialRefused).
			WithFix("list one of them in the persona, or change one: deckhand credential update %s --variable ''", a.GetCredential())
	}
	host := common(a.GetHosts(), b.GetHosts())
	if host == nil || common(portsOf(a), portsOf(b)) == nil || len(a.GetMethods()) > 0 && len(b.GetMethods()) > 0 && common(a.GetMethods(), b.GetMethods()) == nil {
		return nil
	}
	if !meet(a.GetPaths(), b.GetPaths()) {
		return nil
	}
	return fault.New(fault.Precondition, "credentials %s and %s are both for requests to %s", a.GetCredential(), b.GetCredential(), *host).WithCode(fault.CredentialRefused).
		WithFix("list one of them in the persona, or give them methods or paths that do not overlap: deckhand credential update %s --path …", a.GetCredential())
}

func portsOf(b *nodev1.Egress_Binding) []uint32 {
	if len(b.GetPorts()) == 0 {
		return []uint32{usualPort}
	}
	return b.GetPorts()
}

// common returns an element that both lists have, or nil.
func common[E comparable](a, b []E) *E {
	for _, x := range a {
		if slices.Contains(b, x) {
			return &x
		}
	}
	return nil
}

// narrowed is what tokens of a credential are made for.
type narrowed struct {
	owner        string
	repositories []string // names
	permissions  map[string]string
}

var levels = []string{"read", "write", "admin"}

// narrow returns what tokens of a credential are made for: what the persona wants of what the
// credential allows.
func narrow(row db.EgressCredential, settings interface {
	GetRepositories() []string
	GetPermissions() map[string]string
}, want persona.Credential) (out narrowed, err error) {
	refuse := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Denied, format, args...).WithCode(fault.CredentialRefused).WithObject(row.Name)
	}
	if Kind(row.Kind) != GitHubApp {
		if len(want.Repositories) > 0 || len(want.Permissions) > 0 {
			return out, refuse("credential %s is of the kind %s, whose use cannot be narrowed to repositories and permissions", row.Name, row.Kind).
				WithFix("remove repositories and permissions from credentials in the persona, or use a credential of the kind github_app")
		}
		return out, nil
	}
	out.permissions = settings.GetPermissions()
	if len(want.Permissions) > 0 {
		out.permissions = want.Permissions
		for name, level := range want.Permissions {
			if most := settings.GetPermissions()[name]; slices.Index(levels, level) > slices.Index(levels, most) {
				return out, refuse("credential %s does not allow %s: %s", row.Name, name, level).
					WithFix("ask for less in credentials of the persona; deckhand credential show %s has what it allows", row.Name)
			}
		}
	}
	wanted := want.Repositories
	if len(wanted) == 0 {
		wanted = settings.GetRepositories()
	}
	everything := false
	for _, text := range wanted {
		owner, name, _ := strings.Cut(text, "/")
		if !slices.ContainsFunc(settings.GetRepositories(), func(allowed string) bool { return covers(allowed, text) }) {
			return out, refuse("credential %s does not allow repository %s", row.Name, text).
				WithFix("remove it from credentials of the persona; deckhand credential show %s has what it allows", row.Name)
		}
		if out.owner != "" && !strings.EqualFold(out.owner, owner) {
			return out, refuse("a token of credential %s is for repositories of one owner, and there are %s and %s", row.Name, out.owner, owner).
				WithFix("name repositories of one owner in credentials of the persona, and use another credential for the other owner's")
		}
		out.owner = owner
		if name == "*" {
			everything = true
			continue
		}
		out.repositories = append(out.repositories, name)
	}
	if everything {
		out.repositories = nil
	}
	slices.Sort(out.repositories)
	return out, nil
}

// covers reports whether an allowed repository, or all of an owner, is or has another one.
// GitHub's names differ in more than case.
func covers(allowed, repository string) bool {
	if strings.EqualFold(allowed, repository) {
		return true
	}
	owner, name, _ := strings.Cut(allowed, "/")
	of, _, _ := strings.Cut(repository, "/")
	return name == "*" && strings.EqualFold(owner, of)
}
