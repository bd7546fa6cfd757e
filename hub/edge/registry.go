package edge

import (
	"slices"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Node answers the live link to a node; fault.Unavailable (AGENT_018) when
// this replica has none.
func (e *Edge) Node(nodeID string) (*Link, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if link := e.links[nodeID]; link != nil && link.alive() {
		return link, nil
	}
	return nil, unavailable(nodeID, "is not connected")
}

// Connected answers the ids of the nodes with a live link, in order.
func (e *Edge) Connected() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	ids := make([]string, 0, len(e.links))
	for id, link := range e.links {
		if link.alive() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Drop ends a node's link, if there is one here, and tells the node why. From
// then on no call can be made over it. Other replicas learn of a revocation by
// their next Touch.
func (e *Edge) Drop(nodeID, reason string) {
	e.mu.Lock()
	link := e.links[nodeID]
	e.mu.Unlock()
	if link != nil {
		link.end(goodbye(reason))
	}
}

// register makes a link the node's current one and ends the one before. It
// answers false when the current one is of a later session.
func (e *Edge) register(link *Link) bool {
	e.changing.Lock()
	defer e.changing.Unlock()
	e.mu.Lock()
	before := e.links[link.node.ID]
	if before != nil && before.epoch > link.epoch {
		e.mu.Unlock()
		return false
	}
	e.links[link.node.ID] = link
	e.mu.Unlock()
	if before == nil {
		e.cfg.OnChange(link.node.ID, true)
		return true
	}
	if before.alive() {
		// A node whose connection broke comes back before the hub has noticed;
		// two machines with a copied identity take the link from each other.
		e.cfg.Log.Warn("a newer session of the node replaces the older one",
			"node_id", link.node.ID, "older_remote", before.remote, "newer_remote", link.remote)
		before.end(goodbye("a newer session of this node has taken over"))
	}
	return true
}

// unregister forgets a link, unless a newer one has taken its place.
func (e *Edge) unregister(link *Link) {
	e.changing.Lock()
	defer e.changing.Unlock()
	e.mu.Lock()
	current := e.links[link.node.ID] == link
	if current {
		delete(e.links, link.node.ID)
	}
	e.mu.Unlock()
	if current {
		e.cfg.OnChange(link.node.ID, false)
	}
}

// unavailable says that a node cannot be reached, and what to do.
func unavailable(nodeID, what string) *fault.Error {
	return fault.New(fault.Unavailable, "node %s %s", nodeID, what).
		WithCode(fault.NodeUnavailable).WithObject(nodeID).
		WithFix("check that deckhand-node runs on that machine and reaches the hub's edge (systemctl status deckhand-node)")
}
