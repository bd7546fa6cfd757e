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
func (h *Hub) providerGuard() dialguard.Guard {
	return dialguard.Guard{Allow: h.cfg.providerAllow, Flag: "--provider-allow"}
}

// personaOf returns the persona of a task with the task's overrides.
func (h *Hub) personaOf(ctx context.Context, t db.Task) (*persona.Persona, error) {
	p, err := h.agents.PersonaOf(ctx, h.store.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	return task.EffectivePersona(t, p)
}

// endCredential has the connected nodes of an organisation forget what they have of a
// credential. One that cannot be reached keeps it until it expires there: it is cut off from
// the hub, and so are its proxy's requests for more.
func (h *Hub) endCredential(ctx context.Context, orgID, name string) {
	rows, err := h.store.AllNodes(ctx, db.AllNodesParams{OrgID: orgID, StaleAfter: nodeStaleIntervals * heartbeatInterval})
	if err != nil {
		h.cfg.Log.Error("cannot have nodes forget a credential", "organisation", orgID, "credential", name, "error", err)
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
			h.cfg.Log.Warn("a node has not forgotten a credential; what it has expires by itself", "organisation", orgID, "credential", name, "error", err)
		}
	})
}
