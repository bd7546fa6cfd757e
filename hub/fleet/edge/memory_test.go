package edge_test

import (
	"context"
	"sync"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/hub/fleet/enroll"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// memory keeps the authority, nodes and sessions for these tests. The hub's
// own store is PostgreSQL.
type memory struct {
	mu      sync.Mutex
	secrets map[string][]byte
	nodes   map[string]*nodeRow
	touched chan string // one id for each Touch; receiving is optional
}

type nodeRow struct {
	node    ca.Node
	revoked bool
	// unwelcome has Hello refused.
	unwelcome bool
	epoch     int64
	open      bool
	hello     *nodev1.SessionResponse_Hello
	// pressure is what SetPressure stored.
	pressure string
}

func newMemory() *memory {
	return &memory{secrets: map[string][]byte{}, nodes: map[string]*nodeRow{}, touched: make(chan string)}
}

func (m *memory) LoadSecret(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value, ok := m.secrets[name]; ok {
		return value, nil
	}
	return nil, fault.New(fault.NotFound, "no secret %s", name)
}

func (m *memory) CreateSecret(_ context.Context, name string, value []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.secrets[name]; !taken {
		m.secrets[name] = value
	}
	return m.secrets[name], nil
}

// Redeem accepts every token: package node tests tokens.
func (m *memory) Redeem(_ context.Context, r enroll.Redemption) (enroll.Node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := ident.New("node")
	m.nodes[id] = &nodeRow{node: ca.Node{ID: id, OrgID: "org_1", KeyFingerprint: r.KeyFingerprint}}
	return enroll.Node{ID: id, OrgID: "org_1"}, nil
}

func (m *memory) RecordRenewal(context.Context, ca.Node, enroll.From) error { return nil }

func (m *memory) CheckNode(_ context.Context, node ca.Node) error {
	_, err := m.row(node.ID)
	return err
}

func (m *memory) OpenSession(_ context.Context, node ca.Node, _ string) (int64, error) {
	row, err := m.row(node.ID)
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if row.node != node {
		return 0, fault.New(fault.Denied, "node %s has another key", node.ID)
	}
	row.epoch++
	row.open = true
	return row.epoch, nil
}

func (m *memory) UpdateHello(_ context.Context, nodeID string, _ int64, hello *nodev1.SessionResponse_Hello) error {
	row, err := m.row(nodeID)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if row.unwelcome {
		return fault.New(fault.Invalid, "this hub does not understand Hello")
	}
	row.hello = hello
	return nil
}

func (m *memory) Touch(_ context.Context, sessions []edge.Session) (map[string]error, error) {
	over := map[string]error{}
	for _, s := range sessions {
		row, err := m.row(s.NodeID)
		if err != nil {
			over[s.NodeID] = err
			continue
		}
		select {
		case m.touched <- s.NodeID:
		default:
		}
		m.mu.Lock()
		if row.epoch != s.Epoch {
			over[s.NodeID] = fault.New(fault.Aborted, "node %s has a newer session on another replica", s.NodeID)
		}
		m.mu.Unlock()
	}
	return over, nil
}

func (m *memory) SetPressure(_ context.Context, nodeID string, _ int64, why string) (string, error) {
	row, err := m.row(nodeID)
	if err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	row.pressure = why
	return row.node.OrgID, nil
}

func (m *memory) CloseSession(_ context.Context, nodeID string, epoch int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if row := m.nodes[nodeID]; row != nil && row.epoch == epoch {
		row.open = false
	}
	return nil
}

// row returns a node that is known and not revoked.
func (m *memory) row(nodeID string) (*nodeRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.nodes[nodeID]
	switch {
	case row == nil:
		return nil, fault.New(fault.NotFound, "node %s is not known", nodeID)
	case row.revoked:
		return nil, fault.New(fault.Denied, "node %s was revoked", nodeID)
	}
	return row, nil
}

// change edits a node's row.
func (m *memory) change(nodeID string, edit func(*nodeRow)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	edit(m.nodes[nodeID])
}
