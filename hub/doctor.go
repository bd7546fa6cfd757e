package hub

import "github.com/deckhand-sh/deckhand/hub/maintenance/diagnose"

// doctor returns what makes the checks of deckhand doctor.
func (h *Hub) doctor() *diagnose.Doctor {
	return diagnose.New(diagnose.Config{
		Store: h.store, Bus: h.bus, Nodes: h.nodes, Node: h.node, Credentials: h.credentials, Plans: h.plans,
		Replica: h.edge.CheckReplica, DataDir: h.cfg.DataDir, TLSCert: h.cfg.TLSCert, CAExpires: h.ca.NotAfter,
	})
}
