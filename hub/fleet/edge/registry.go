package edge

import (
	"context"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Local returns the live link to a node that is held here; fault.Unavailable
// (AGENT_018) when this replica has none.
func (e *Edge) Local(nodeID string) (*Link, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if link := e.links[nodeID]; link != nil && link.alive() {
		return link, nil
	}
	return nil, unavailable(nodeID, "is not connected")
}

// Connected returns the ids of the nodes with a live link, in order.
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

// Drop ends a node's link, here or at the replica that has it, and sends the node the
// reason. From then on no call can be made over it. A replica that cannot be reached
// learns of a revocation by its next Touch.
func (e *Edge) Drop(nodeID, reason string) {
	e.mu.Lock()
	link := e.links[nodeID]
	e.mu.Unlock()
	if link != nil {
		link.end(goodbye(reason))
		return
	}
	if way, err := e.Node(nodeID); err == nil {
		if r, ok := way.calls.(*remote); ok {
			r.tell(dropMethod, reason)
		}
	}
}

// Recorded acknowledges to a node that the end of a step or exec is stored, wherever its
// link is. It does not block. A node without the acknowledgement keeps the end for longer
// than necessary.
func (e *Edge) Recorded(nodeID, id string) {
	if link, err := e.Local(nodeID); err == nil {
		link.Recorded(id)
		return
	}
	e.peers.soon(func() {
		if way, err := e.Node(nodeID); err == nil {
			if r, ok := way.calls.(*remote); ok {
				r.tell(recordedMethod, id)
			}
		}
	})
}

// touch records once per interval, for all nodes together, which are connected, and drops
// those that may not stay. A store that is down drops no link.
func (e *Edge) touch(ctx context.Context) {
	tick := time.NewTicker(e.cfg.HeartbeatInterval)
	defer tick.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		held := e.held()
		if len(held) == 0 {
			continue
		}
		sessions := make([]Session, 0, len(held))
		for _, link := range held {
			sessions = append(sessions, Session{NodeID: link.node.ID, Epoch: link.epoch})
		}
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		over, err := e.cfg.Nodes.Touch(ctx, sessions)
		cancel()
		if err != nil && !failing {
			e.cfg.Log.Warn("cannot record which nodes are alive", "nodes", len(sessions), "error", err)
		}
		failing = err != nil
		for nodeID, why := range over {
			held[nodeID].end(goodbye(refusal(why)))
		}
	}
}

// held returns the live links by node.
func (e *Edge) held() map[string]*Link {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := make(map[string]*Link, len(e.links))
	for id, link := range e.links {
		if link.alive() {
			held[id] = link
		}
	}
	return held
}

// register makes a link the node's current one and ends the previous one. It returns
// false if the current one belongs to a later session.
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

// unavailable returns the error for a node that cannot be reached, with what to do.
func unavailable(nodeID, what string) *fault.Error {
	return fault.New(fault.Unavailable, "node %s %s", nodeID, what).
		WithCode(fault.NodeUnavailable).WithObject(nodeID).
		WithFix("check that deckhand-node runs on that machine and reaches the hub's edge (systemctl status deckhand-node)")
}
