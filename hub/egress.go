package hub

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/persona"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// endCredentialTimeout bounds how long a node may take to forget a credential.
const endCredentialTimeout = 5 * time.Second

// providerGuard says where organisations may have the servers that the hub itself asks:
// of models, of search, and those that issue tokens.
func (c *Config) providerGuard() dialguard.Guard {
	return dialguard.Guard{Allow: c.providerAllow, Flag: "--provider-allow"}
}

// personaOf returns the persona of a task with the task's overrides, and with the name that
// its agent has now: that is whom a credential is given to.
func (h *Hub) personaOf(ctx context.Context, t db.Task) (*persona.Persona, error) {
	p, err := h.agents.PersonaOf(ctx, h.store.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	if p, err = task.EffectivePersona(t, p); err != nil {
		return nil, err
	}
	now := *p
	if now.Name, err = h.agents.NameOf(ctx, h.store.Queries, t.OrgID, t.AgentID); err != nil {
		return nil, err
	}
	return &now, nil
}

// endCredential has the connected nodes of an organisation forget what they have of a
// credential. One that cannot be reached keeps it until it expires there: it is cut off from
// the hub, and so are its proxy's requests for more.
func (h *Hub) endCredential(ctx context.Context, orgID, name string) {
	rows, err := h.store.AllNodes(ctx, db.AllNodesParams{OrgID: orgID, StaleAfter: nodeStaleIntervals * heartbeatInterval})
	if err != nil {
		h.cfg.Log.Error("cannot have nodes forget a credential", "org_id", orgID, "credential", name, "error", err)
		return
	}
	byNode := map[string][]struct{}{}
	for _, row := range rows {
		if row.Connected {
			byNode[row.Node.ID] = nil
		}
	}
	machine.Each(ctx, byNode, h.node, endCredentialTimeout, func(ctx context.Context, node machine.Link, _ []struct{}) {
		_, err := node.Egress().EndCredential(ctx, &nodev1.EndCredentialRequest{Credential: name})
		// A daemon from before there were credentials has none.
		if err != nil && status.Code(err) != codes.Unimplemented {
			h.cfg.Log.Warn("a node has not forgotten a credential; what it has expires by itself", "org_id", orgID, "credential", name, "error", err)
		}
	})
}

// endCredentialsOf has a task's node forget what it has for the task's credentials, and end
// the requests with them, once no other task in that jail may use them.
func (h *Hub) endCredentialsOf(ctx context.Context, t db.Task) {
	p, err := h.personaOf(ctx, t)
	if err != nil || len(p.Credentials) == 0 || t.NodeID == nil {
		return // a persona that is gone had its credentials ended with its agent
	}
	left := map[string]bool{}
	for _, c := range p.Credentials {
		left[c.Name] = true
	}
	others, err := h.store.TasksInJail(ctx, db.TasksInJailParams{OrgID: t.OrgID, JailID: t.JailID})
	if err != nil {
		h.cfg.Log.Error("cannot have a node forget the credentials of a task", "task_id", t.ID, "error", err)
		return
	}
	for _, other := range others {
		if p, err := h.personaOf(ctx, other); err == nil {
			for _, c := range p.Credentials {
				delete(left, c.Name)
			}
		}
	}
	node, err := h.node(*t.NodeID)
	if err != nil {
		return // cut off from the hub: what it has expires
	}
	for name := range left {
		ctx, cancel := context.WithTimeout(ctx, endCredentialTimeout)
		_, err := node.Egress().EndCredential(ctx, &nodev1.EndCredentialRequest{JailId: t.JailID, Credential: name})
		cancel()
		if err != nil && status.Code(err) != codes.Unimplemented {
			h.cfg.Log.Warn("a node has not forgotten the credential of a task that ended; what it has expires by itself", "task_id", t.ID, "credential", name, "error", err)
		}
	}
}
