package hub

import (
	"fmt"
	"net"

	"github.com/deckhand-sh/deckhand/hub/fleet/replica"
)

// EdgeAddress is what nodes are told to dial.
func (h *Hub) EdgeAddress() string {
	if h.cfg.EdgeAddress != "" {
		return h.cfg.EdgeAddress
	}
	return reachable(h.edgeListener.Addr())
}

// LocalEdgeAddress is where a node on this machine reaches the edge, whatever other
// nodes are told.
func LocalEdgeAddress(h *Hub) string { return reachable(h.edgeListener.Addr()) }

// peerAddress is where other replicas reach this one's edge.
func (h *Hub) peerAddress() string {
	if h.cfg.PeerAddress != "" {
		return h.cfg.PeerAddress
	}
	return replica.Reachable(h.edgeListener.Addr())
}

// reachable returns an address that can be dialled: one that listens on every
// interface is named by loopback.
func reachable(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return a.String()
	}
	ip := tcp.IP
	if ip.IsUnspecified() {
		ip = net.IPv4(127, 0, 0, 1)
	}
	return net.JoinHostPort(ip.String(), fmt.Sprint(tcp.Port))
}
