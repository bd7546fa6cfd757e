package credential

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/httprule"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// use is a credential that the tasks in a jail may use now.
type use struct {
	row      db.EgressCredential
	settings *deckhandv1.CredentialSettings
	// want is what all of the tasks want of it.
	want persona.Credential
	// readOnly says that one of the tasks may change nothing outside of its workspace.
	readOnly bool
	// clones is the only repository whose clone it is for; nil for tasks.
	clones *url.URL
}

// use returns a credential for a jail, or an error that says why it cannot be used there and
// who can change that. If several tasks run in the jail, the strictest of them decides. nodeID
// is the node that asks, where one of them must be; empty for the hub itself.
func (c *Credentials) use(ctx context.Context, orgID, nodeID, jailID, name string) (use, error) {
	if !identifier.MatchString(jailID) || !agentName.MatchString(name) {
		return use{}, fault.New(fault.Invalid, "%.128q is not a jail, or %.63q not the name of a credential", jailID, name).WithCode(fault.CredentialRefused).
			WithFix("upgrade the node")
	}
	tasks, err := c.cfg.Store.TasksInJail(ctx, db.TasksInJailParams{OrgID: orgID, JailID: jailID})
	if err != nil {
		return use{}, unavailable(fmt.Errorf("look for tasks in jail %s: %w", jailID, err))
	}
	if len(tasks) == 0 {
		if u, ok, err := useOfSync(ctx, c, orgID, nodeID, jailID, name); ok || err != nil {
			return u, err
		}
	}
	switch {
	case len(tasks) == 0:
		return use{}, fault.New(fault.Denied, "no task is running in jail %s, and credentials are for commands of tasks", jailID).WithCode(fault.CredentialRefused).
			WithFix("run a task of the agent; commands that a person runs in the jail get no credentials")
	case nodeID != "" && !slices.ContainsFunc(tasks, func(t db.Task) bool { return t.NodeID != nil && *t.NodeID == nodeID }):
		return use{}, fault.New(fault.Denied, "no task is running in jail %s on the node that asks for credential %s", jailID, name).WithCode(fault.CredentialRefused).
			WithFix("give the agent a task on that node")
	}
	row, err := c.cfg.Store.GetEgressCredential(ctx, db.GetEgressCredentialParams{OrgID: orgID, Name: name})
	if store.IsNotFound(err) {
		return use{}, gone(name)
	}
	if err != nil {
		return use{}, unavailable(fmt.Errorf("load credential %s: %w", name, err))
	}
	settings, err := settingsOf(row)
	if err != nil {
		return use{}, fmt.Errorf("read the settings of credential %s: %w", name, err)
	}
	u := use{row: row, settings: settings}
	for i, t := range tasks {
		p, err := c.cfg.Persona(ctx, t)
		if err != nil {
			return use{}, err
		}
		want := p.CredentialOf(name)
		if want == nil {
			return use{}, unlisted(jailID, name, t.ID, len(tasks))
		}
		if err := usable(row, p.Name, *want); err != nil {
			return use{}, err
		}
		if i == 0 {
			u.want = *want
		} else if u.want, err = strictest(u.want, *want); err != nil {
			return use{}, err
		}
		// A run in review mode is released, call by call, once a person has accepted it.
		u.readOnly = u.readOnly || p.Mode == persona.Review && task.State(t.State) != task.ReviewNeeded
	}
	return u, nil
}

// unavailable returns the error for a database that does not respond, of which a node is told no
// more.
func unavailable(cause error) error {
	return fault.New(fault.Unavailable, "the hub's database does not respond").WithFix("try again in a moment").WithCause(cause)
}

// unlisted returns the error for a credential that the persona of a task in a jail does not
// list; tasks is how many there are.
func unlisted(jailID, name, taskID string, tasks int) error {
	e := fault.New(fault.Denied, "the persona of the agent in jail %s does not list credential %s", jailID, name).WithCode(fault.CredentialRefused).WithObject(name)
	if tasks > 1 {
		e = fault.New(fault.Denied, "jail %s is shared by %d tasks, and the persona of one of them, %s, does not list credential %s", jailID, tasks, taskID, name).WithCode(fault.CredentialRefused).WithObject(name)
		return e.WithFix("wait until that task has ended, or add the credential to its persona")
	}
	return e.WithFix("add it to credentials of the persona, and apply it")
}

// fits refuses a request that a credential is not for. It also refuses one that names another
// host than it goes to, since a server may have several.
func fits(row db.EgressCredential, req *http.Request, anyMethod bool) error {
	wrong := func(format string, args ...any) error {
		return fault.New(fault.Denied, "credential %s is not for this request: "+format, append([]any{row.Name}, args...)...).WithCode(fault.CredentialRefused).WithObject(row.Name).
			WithFix("deckhand credential show %s has the requests that it is for; an administrator changes that: deckhand credential update %s", row.Name, row.Name)
	}
	if req.URL.Scheme != "https" {
		return wrong("it would not be encrypted")
	}
	to, err := allowlist.ParseTarget(req.URL.Host, usualPort)
	if err != nil {
		return wrong("it goes to %.100q", req.URL.Host)
	}
	if req.Host != "" {
		if named, err := allowlist.ParseTarget(req.Host, usualPort); err != nil || named != to {
			return wrong("it goes to %s and names %.100q", to, req.Host)
		}
	}
	ports := row.Ports
	if len(ports) == 0 {
		ports = []int32{usualPort}
	}
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	scope, err := httprule.ParseScope(row.Methods, row.Paths)
	if err != nil {
		return wrong("its paths cannot be read: %v", err)
	}
	path, err := httprule.Canonical(req.URL.EscapedPath())
	switch {
	case !slices.Contains(row.Hosts, to.Host):
		return wrong("it goes to %s", to.Host)
	case !slices.Contains(ports, int32(to.Port)):
		return wrong("it goes to port %d", to.Port)
	case !anyMethod && !scope.CoversMethod(method):
		return wrong("its method is %.32s", method)
	case scope.ByPath() && (err != nil || !scope.CoversPath(method, path)):
		return wrong("its path is %.200s", req.URL.EscapedPath())
	}
	// Servers are asked for the host as it was checked.
	req.Host = hostHeader(to)
	return nil
}

// goesTo refuses a host and port that a credential is not for.
func goesTo(row db.EgressCredential, target string) error {
	to, err := allowlist.ParseTarget(target, 0)
	if err != nil {
		return fault.New(fault.Invalid, "%.100q is not a host and port", target).WithCode(fault.CredentialRefused).WithFix("upgrade the node")
	}
	ports := row.Ports
	if len(ports) == 0 {
		ports = []int32{usualPort}
	}
	if !slices.Contains(row.Hosts, to.Host) || !slices.Contains(ports, int32(to.Port)) {
		return fault.New(fault.Denied, "credential %s is not for requests to %s, or not any more", row.Name, to).WithCode(fault.CredentialRefused).WithObject(row.Name).
			WithFix("deckhand credential show %s has what it is for; an administrator changes it: deckhand credential update %s", row.Name, row.Name)
	}
	return nil
}

// hostHeader returns a target as HTTP names it: without the usual port.
func hostHeader(t allowlist.Target) string {
	if t.Port != usualPort {
		return t.String()
	}
	if addr, err := netip.ParseAddr(t.Host); err == nil && addr.Is6() {
		return "[" + t.Host + "]"
	}
	return t.Host
}

// gitLabUser is the name with which GitLab takes a token as a password.
const gitLabUser = "oauth2"

// below returns what a path has behind that of a base URL, and whether it is below it.
func below(base, path string) (string, bool) {
	if base == "" {
		return path, true
	}
	rest, ok := strings.CutPrefix(path, base)
	return rest, ok && strings.HasPrefix(rest, "/")
}
