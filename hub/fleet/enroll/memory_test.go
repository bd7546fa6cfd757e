package enroll_test

import (
	"context"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/hub/fleet/enroll"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
)

// memory keeps join tokens and nodes for these tests, by the rules that
// JoinStore states. The hub's own store is PostgreSQL.
type memory struct {
	mu      sync.Mutex
	secret  []byte
	tokens  map[string]*tokenRow // by hash
	nodes   map[string]*nodeRow  // by id
	crashes int                  // responses to lose after the transaction
}

type tokenRow struct {
	expires time.Time
	usedBy  string // key fingerprint
}

type nodeRow struct {
	enroll.Node

	name, key string
	labels    map[string]string
	revoked   bool
}

func newMemory() *memory {
	return &memory{tokens: map[string]*tokenRow{}, nodes: map[string]*nodeRow{}}
}

func (m *memory) LoadSecret(context.Context, string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.secret == nil {
		return nil, fault.New(fault.NotFound, "no secret")
	}
	return m.secret, nil
}

func (m *memory) CreateSecret(_ context.Context, _ string, value []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.secret == nil {
		m.secret = value
	}
	return m.secret, nil
}

// add creates a join token.
func (m *memory) add(authority *ca.CA, ttl time.Duration) string {
	token := jointoken.New(authority.Fingerprint())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tokens[string(token.Hash())] = &tokenRow{expires: time.Now().Add(ttl)}
	return token.Reveal()
}

func (m *memory) Redeem(_ context.Context, r enroll.Redemption) (enroll.Node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.redeem(r)
	if err == nil && m.crashes > 0 {
		m.crashes--
		return enroll.Node{}, fault.New(fault.Unavailable, "the hub died before it could answer")
	}
	return node, err
}

func (m *memory) redeem(r enroll.Redemption) (enroll.Node, error) {
	token := m.tokens[string(r.TokenHash)]
	var own *nodeRow
	for _, node := range m.nodes {
		if node.key == r.KeyFingerprint {
			own = node
		}
	}
	switch {
	case token == nil:
		return enroll.Node{}, fault.New(fault.Denied, "the join token is not known").WithFix("make another: deckhand node token")
	case token.usedBy != "" && token.usedBy != r.KeyFingerprint:
		return enroll.Node{}, fault.New(fault.Denied, "the join token was used by another machine").WithFix("make another: deckhand node token")
	case token.usedBy == "" && time.Now().After(token.expires):
		return enroll.Node{}, fault.New(fault.Denied, "the join token has expired").WithFix("make another: deckhand node token")
	case own != nil && own.revoked:
		return enroll.Node{}, fault.New(fault.Denied, "node %s was revoked", own.ID)
	}
	for _, node := range m.nodes {
		if node != own && node.name == r.Name {
			return enroll.Node{}, fault.New(fault.Exists, "there is a node named %q already", r.Name).WithFix("give this one another name: --name")
		}
	}
	if own == nil {
		own = &nodeRow{Node: enroll.Node{ID: ident.New("node"), OrgID: "org_1"}, key: r.KeyFingerprint}
		m.nodes[own.ID] = own
	}
	own.name, own.labels = r.Name, r.Labels
	token.usedBy = r.KeyFingerprint
	return own.Node, nil
}

func (m *memory) RecordRenewal(context.Context, ca.Node, enroll.From) error { return nil }

func (m *memory) CheckNode(_ context.Context, node ca.Node) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.nodes[node.ID]
	switch {
	case row == nil || row.OrgID != node.OrgID:
		return fault.New(fault.NotFound, "node %s is not known", node.ID)
	case row.revoked || row.key != node.KeyFingerprint:
		return fault.New(fault.Denied, "node %s was revoked", node.ID)
	}
	return nil
}
