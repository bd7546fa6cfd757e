package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/httprule"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/persona"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// jailOf returns the specification of a task's jail as it is while the task runs. Whoever
// creates the jail or looks at it takes it from here.
func (s *Steps) jailOf(ctx context.Context, t db.Task, p *persona.Persona) (*nodev1.JailSpec, error) {
	spec, readOnly, err := specOf(t, p)
	if err != nil {
		return nil, err
	}
	spec.Egress, err = s.egressOf(ctx, t, p, readOnly)
	return spec, err
}

// egressOf returns where the commands of a task may connect to, and with which credentials;
// readOnly leaves only what changes nothing there. A credential that cannot be used any more is
// left out: commands that need it get an error then, and others run.
func (s *Steps) egressOf(ctx context.Context, t db.Task, p *persona.Persona, readOnly bool) (*nodev1.Egress, error) {
	shared, err := s.strictest(ctx, t, p)
	if err != nil {
		return nil, err
	}
	readOnly = readOnly || shared.readOnly
	credentials := shared.credentials
	allowed := p.Egress
	if readOnly {
		allowed = allowed.ReadOnly()
		if tool.HasBrowser(p) {
			// What a page's scripts send is not the agent's to decide.
			allowed = allowed.Reading()
		}
	}
	egress := machine.EgressOf(allowed)
	if shared.hubAccess {
		if egress == nil {
			egress = &nodev1.Egress{}
		}
		egress.Bindings = []*nodev1.Egress_Binding{{
			Credential: egresslink.HubCredential, Hosts: []string{egresslink.HubHost}, Held: true,
			Variable: egresslink.HubVariable, Placeholder: egresslink.HubURL,
		}}
	}
	if len(credentials) == 0 {
		return egress, s.authorize(ctx, t, egress)
	}
	name, err := s.cfg.Agents.NameOf(ctx, s.cfg.Store.Queries, t.OrgID, t.AgentID)
	if err != nil {
		return nil, err
	}
	bindings, err := s.cfg.Bindings(ctx, t.OrgID, name, credentials)
	if err != nil && fault.As(err) == nil {
		return nil, fmt.Errorf("bind the credentials of task %s: %w", t.ID, err)
	}
	if readOnly {
		bindings = reading(bindings)
	}
	if len(bindings) == 0 {
		return egress, s.authorize(ctx, t, egress)
	}
	if egress == nil {
		egress = &nodev1.Egress{}
	}
	egress.Bindings = append(egress.Bindings, bindings...)
	return egress, s.authorize(ctx, t, egress)
}

// common is what the tasks that share a jail may all do: commands of one could say that they
// are of another.
type common struct {
	credentials []persona.Credential
	// readOnly says that one of the other tasks may change nothing outside of the workspace.
	readOnly bool
	// hubAccess says that programs may call the hub.
	hubAccess bool
}

// strictest returns what a task and those that share its jail may all do.
func (s *Steps) strictest(ctx context.Context, t db.Task, p *persona.Persona) (common, error) {
	out := common{credentials: p.Credentials, hubAccess: p.HubAccess}
	if t.WorkspaceScope != string(persona.ScopeAgent) {
		return out, nil
	}
	tasks, err := s.cfg.Store.TasksInJail(ctx, db.TasksInJailParams{OrgID: t.OrgID, JailID: t.JailID})
	if err != nil {
		return out, fmt.Errorf("look for tasks in jail %s: %w", t.JailID, err)
	}
	all := [][]persona.Credential{p.Credentials}
	for _, other := range tasks {
		if other.ID == t.ID {
			continue
		}
		of, err := s.persona(ctx, other)
		if err != nil {
			return out, err
		}
		all = append(all, of.Credentials)
		out.hubAccess = out.hubAccess && of.HubAccess
		out.readOnly = out.readOnly || of.Mode == persona.Review && task.State(other.State) != task.ReviewNeeded
	}
	out.credentials = credential.Strictest(all...)
	return out, nil
}

// knowsEgress refuses a task whose node is too old for its egress: one that does not know rules
// by method and path would allow what they deny.
func (s *Steps) knowsEgress(ctx context.Context, t db.Task, egress *nodev1.Egress) error {
	if len(egress.GetAuthorities()) == 0 {
		return nil
	}
	row, err := s.cfg.Store.NodeByID(ctx, *t.NodeID)
	if err != nil {
		return fmt.Errorf("load node %s: %w", *t.NodeID, err)
	}
	if slices.ContainsFunc(egress.GetBindings(), leavesPathsOut) {
		return node.Require(row, nodelink.LeftOutPaths, "leave paths out of a credential")
	}
	return node.Require(row, nodelink.Credentials, "insert credentials, or decide about requests by method and path")
}

func leavesPathsOut(b *nodev1.Egress_Binding) bool {
	return slices.ContainsFunc(b.GetPaths(), func(path string) bool { return strings.HasPrefix(path, httprule.DeniedMark) })
}

// authorize adds the authorities by which the node's proxy stands for the hosts whose TLS it
// terminates.
func (s *Steps) authorize(ctx context.Context, t db.Task, egress *nodev1.Egress) (err error) {
	var hosts []string
	for _, r := range egress.GetRules() {
		if len(r.GetHttp()) > 0 {
			hosts = append(hosts, r.GetHost())
		}
	}
	for _, b := range egress.GetBindings() {
		hosts = append(hosts, b.GetHosts()...)
	}
	if len(hosts) == 0 {
		return nil
	}
	egress.Authorities, err = s.cfg.Authorities(ctx, t.OrgID, t.JailID, hosts)
	return err
}

// reading returns what of bindings changes nothing.
func reading(bindings []*nodev1.Egress_Binding) (out []*nodev1.Egress_Binding) {
	for _, b := range bindings {
		if b.Methods = allowlist.SafeOf(b.GetMethods()); len(b.GetMethods()) > 0 {
			out = append(out, b)
		}
	}
	return out
}
