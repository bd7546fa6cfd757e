// Package node stores the hub's nodes: their identity, which replica has their link,
// their locks and drains, and the join tokens that enrol them. Nodes is its service; it
// implements the stores of packages edge and enroll. The machines themselves run package
// node/daemon.
package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/hub/fleet/enroll"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Nodes keeps the records.
type Nodes struct {
	store    *store.Store
	recorder *event.Recorder
	redact   *redact.Redactor
	// staleAfter is how long a session counts as live after it was touched.
	staleAfter time.Duration
}

var (
	_ edge.NodeStore   = (*Nodes)(nil)
	_ enroll.JoinStore = (*Nodes)(nil)
)

// New creates Nodes. staleAfter is how long a link counts as live after its last
// heartbeat: its replica may have died without closing it. Texts that nodes report are
// redacted.
func New(s *store.Store, recorder *event.Recorder, mask *redact.Redactor, staleAfter time.Duration) *Nodes {
	return &Nodes{store: s, recorder: recorder, redact: mask, staleAfter: staleAfter}
}

// CreateJoinToken creates a single-use token for the hub whose CA has that fingerprint.
func (n *Nodes) CreateJoinToken(
	ctx context.Context, orgID string, by User, caFingerprint string, ttl time.Duration, labels map[string]string,
) (jointoken.Token, time.Time, error) {
	token := jointoken.New(caFingerprint)
	expires := time.Now().Add(ttl)
	if labels == nil {
		labels = map[string]string{}
	}
	data, err := json.Marshal(labels)
	if err != nil {
		return token, expires, fmt.Errorf("encode labels: %w", err)
	}
	id := ident.New("join")
	err = n.recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.CreateJoinToken(ctx, db.CreateJoinTokenParams{
			ID: id, OrgID: orgID, Hash: token.Hash(), Labels: data, CreatedBy: by.Name, ExpiresAt: expires,
		}); err != nil {
			return fmt.Errorf("store join token: %w", err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by.Actor(), Action: "node.token_made", ObjectKind: "join_token", ObjectID: id,
			After: map[string]any{"expires_at": expires.UTC().Format(time.RFC3339)},
		})
	})
	return token, expires, err
}

// Redeem spends a join token; see enroll.JoinStore.
func (n *Nodes) Redeem(ctx context.Context, r enroll.Redemption) (enroll.Node, error) {
	var out enroll.Node
	err := n.recorder.Tx(ctx, func(tx *event.Tx) error {
		token, err := tx.LockJoinToken(ctx, r.TokenHash)
		if store.IsNotFound(err) {
			return fault.New(fault.Denied, "the join token is not known").WithFix("make one: deckhand node token")
		}
		if err != nil {
			return fmt.Errorf("load join token: %w", err)
		}
		if token.UsedAt != nil && *token.KeyFingerprint != r.KeyFingerprint {
			return fault.New(fault.Denied, "the join token was already used by another machine").
				WithFix("a token enrols one node; make another: deckhand node token")
		}
		if token.UsedAt == nil && token.Expired {
			return fault.New(fault.Denied, "the join token expired at %s", token.ExpiresAt.UTC().Format(time.RFC3339)).
				WithFix("make another: deckhand node token")
		}
		before, err := nodeOfKey(ctx, tx.Queries, token.OrgID, r.KeyFingerprint)
		if err != nil {
			return err
		}
		if token.UsedAt != nil {
			// The machine did not get the first answer. A spent token changes nothing.
			out = enroll.Node{ID: before.ID, OrgID: before.OrgID}
			return nil
		}
		row, err := register(ctx, tx.Queries, token, before, r)
		if err != nil {
			return err
		}
		out = enroll.Node{ID: row.ID, OrgID: row.OrgID}
		if err := tx.UseJoinToken(ctx, db.UseJoinTokenParams{ID: token.ID, KeyFingerprint: r.KeyFingerprint, NodeID: row.ID}); err != nil {
			return fmt.Errorf("spend join token: %w", err)
		}
		return recordEnrolment(tx, token, before, row, r.From)
	})
	return out, err
}

// recordEnrolment writes down who joined the fleet, with whose token and from
// where.
func recordEnrolment(tx *event.Tx, token db.LockJoinTokenRow, before, row db.Node, from enroll.From) error {
	by := event.Actor{Kind: "node", ID: row.ID, Address: from.Address, UserAgent: from.UserAgent}
	if before.ID != "" && before.Name != row.Name {
		if err := audit.Append(tx, audit.Entry{
			OrgID: row.OrgID, By: by, Action: "node.renamed", ObjectKind: "node", ObjectID: row.ID,
			Before: map[string]any{"name": before.Name}, After: map[string]any{"name": row.Name},
		}); err != nil {
			return err
		}
	}
	return audit.Append(tx, audit.Entry{
		OrgID: row.OrgID, By: by, Action: "node.enrolled", ObjectKind: "node", ObjectID: row.ID,
		After: map[string]any{
			"name": row.Name, "labels": string(row.Labels), "key_fingerprint": row.KeyFingerprint,
			"join_token": token.ID, "token_made_by": token.CreatedBy,
		},
	})
}

// nodeOfKey returns the node with a key, the zero value if there is none.
func nodeOfKey(ctx context.Context, q *db.Queries, orgID, fingerprint string) (db.Node, error) {
	row, err := q.NodeByFingerprint(ctx, fingerprint)
	switch {
	case store.IsNotFound(err):
		return db.Node{}, nil
	case err != nil:
		return row, fmt.Errorf("load the node of a key: %w", err)
	case row.OrgID != orgID || row.RevokedAt != nil:
		return row, fault.New(fault.Denied, "this machine's key was revoked or belongs to another organisation").
			WithFix("remove the node's identity folder, so that it makes a new key, and enrol again")
	}
	return row, nil
}

// register creates the node of a key, or updates the existing one with what it reports.
// The token's settings take precedence over the machine's report.
func register(ctx context.Context, q *db.Queries, token db.LockJoinTokenRow, before db.Node, r enroll.Redemption) (db.Node, error) {
	labels := r.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	data, err := json.Marshal(labels)
	if err != nil {
		return db.Node{}, fmt.Errorf("encode labels: %w", err)
	}
	var row db.Node
	if before.ID == "" {
		row, err = q.CreateNode(ctx, db.CreateNodeParams{
			ID: ident.New("node"), OrgID: token.OrgID, Name: r.Name, KeyFingerprint: r.KeyFingerprint,
			Labels: data, PinnedLabels: token.Labels, Version: r.Version,
		})
	} else {
		row, err = q.UpdateNodeEnrolment(ctx, db.UpdateNodeEnrolmentParams{
			ID: before.ID, Name: r.Name, Labels: data, PinnedLabels: token.Labels, Version: r.Version,
		})
	}
	if store.Violates(err, "nodes_name") {
		return row, fault.New(fault.Exists, "another node is named %q", r.Name).
			WithFix("give this one another name (--name), or revoke the other: deckhand node revoke %s", r.Name)
	}
	if err != nil {
		return row, fmt.Errorf("register node: %w", err)
	}
	return row, nil
}

// RecordRenewal audits that a node's certificate was renewed after it had expired; see
// enroll.JoinStore.
func (n *Nodes) RecordRenewal(ctx context.Context, node ca.Node, from enroll.From) error {
	return n.recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: node.OrgID, By: event.Actor{Kind: "node", ID: node.ID, Address: from.Address, UserAgent: from.UserAgent},
			Action: "node.certificate_renewed", ObjectKind: "node", ObjectID: node.ID,
			Reason: "the certificate had lapsed", After: map[string]any{"key_fingerprint": node.KeyFingerprint},
		})
	})
}

// CheckNode reports whether a node may have a certificate.
func (n *Nodes) CheckNode(ctx context.Context, node ca.Node) error {
	row, err := n.store.NodeByID(ctx, node.ID)
	switch {
	case store.IsNotFound(err) || (err == nil && row.OrgID != node.OrgID):
		return fault.New(fault.NotFound, "node %s is not known to this hub", node.ID).
			WithFix("enrol it again with a new join token").WithObject(node.ID)
	case err != nil:
		return fmt.Errorf("load node %s: %w", node.ID, err)
	case row.RevokedAt != nil:
		return fault.New(fault.Denied, "node %s was revoked", node.ID).
			WithFix("enrol it again with a new key and join token").WithObject(node.ID)
	case row.KeyFingerprint != node.KeyFingerprint:
		return fault.New(fault.Denied, "node %s has another key", node.ID).
			WithFix("enrol this machine with a join token of its own").WithObject(node.ID)
	}
	return nil
}

// OpenSession records that a replica holds the node's link.
func (n *Nodes) OpenSession(ctx context.Context, node ca.Node, replica string) (int64, error) {
	epoch, err := n.store.OpenNodeSession(ctx, db.OpenNodeSessionParams{
		NodeID: node.ID, OrgID: node.OrgID, KeyFingerprint: node.KeyFingerprint, Replica: replica,
	})
	if store.IsNotFound(err) {
		err = cmp.Or(n.CheckNode(ctx, node), err)
	}
	return epoch, err
}

// upgradeStates are the states of an upgrade as they are stored.
var upgradeStates = map[nodev1.SessionResponse_Upgrade_State]string{
	nodev1.SessionResponse_Upgrade_STATE_TRIED: "trial", nodev1.SessionResponse_Upgrade_STATE_INSTALLED: "installed", nodev1.SessionResponse_Upgrade_STATE_FAILED: "failed",
}

// UpdateHello stores what the node reported about itself.
func (n *Nodes) UpdateHello(ctx context.Context, nodeID string, _ int64, hello *nodev1.SessionResponse_Hello) error {
	labels := hello.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	data, err := json.Marshal(labels)
	if err != nil {
		return fmt.Errorf("encode labels: %w", err)
	}
	runtimes := hello.GetRuntimes()
	if runtimes == nil {
		runtimes = []string{}
	}
	row, err := n.store.NodeByID(ctx, nodeID)
	if err != nil {
		return fmt.Errorf("load node %s: %w", nodeID, err)
	}
	mask := n.redact.Org(row.OrgID)
	skills, err := encodeSkills(mask, hello.GetSkills())
	if err != nil {
		return err
	}
	upgrade := hello.GetUpgrade()
	return n.store.UpdateNodeHello(ctx, db.UpdateNodeHelloParams{
		UpgradeID: upgrade.GetId(), UpgradeVersion: upgrade.GetVersion(), UpgradeState: upgradeStates[upgrade.GetState()], UpgradeProblem: words(mask, upgrade.GetProblem(), maxWords),
		ID: nodeID, Version: hello.GetVersion(), Capability: hello.GetCapability(), Runtimes: runtimes, Labels: data, Skills: skills,
		Pressure: words(mask, hello.GetPressure(), maxWords),
	})
}

// Touch records a heartbeat of the nodes of these sessions; see edge.NodeStore.
func (n *Nodes) Touch(ctx context.Context, sessions []edge.Session) (map[string]error, error) {
	params := db.TouchNodeSessionsParams{NodeIds: make([]string, len(sessions)), Epochs: make([]int64, len(sessions))}
	for i, s := range sessions {
		params.NodeIds[i], params.Epochs[i] = s.NodeID, s.Epoch
	}
	rows, err := n.store.TouchNodeSessions(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("touch the sessions of %d nodes: %w", len(sessions), err)
	}
	over := make(map[string]error, len(rows))
	for _, row := range rows {
		switch {
		case !row.Known:
			over[row.NodeID] = fault.New(fault.NotFound, "node %s was removed", row.NodeID).WithObject(row.NodeID)
		case row.Revoked:
			over[row.NodeID] = fault.New(fault.Denied, "node %s was revoked", row.NodeID).WithObject(row.NodeID)
		default:
			over[row.NodeID] = fault.New(fault.Aborted, "a later session of node %s has taken over", row.NodeID).WithObject(row.NodeID)
		}
	}
	return over, nil
}

// SetPressure stores why nothing new may start on the node, "" for nothing, and returns
// the organisation whose tasks may be affected, "" if nothing has changed. Tasks that
// were admitted to it and have not begun go back to the queue.
func (n *Nodes) SetPressure(ctx context.Context, nodeID string, epoch int64, why string) (orgID string, err error) {
	err = n.store.Tx(ctx, func(q *db.Queries) error {
		row, err := q.NodeByID(ctx, nodeID)
		if err != nil {
			return fmt.Errorf("load node %s: %w", nodeID, err)
		}
		why = words(n.redact.Org(row.OrgID), why, maxWords)
		// Nothing is admitted to it until the commit.
		if err := q.LockAdmission(ctx, row.OrgID); err != nil {
			return fmt.Errorf("lock admission: %w", err)
		}
		orgID, err = q.SetNodePressure(ctx, db.SetNodePressureParams{ID: nodeID, Epoch: epoch, Pressure: why})
		if store.IsNotFound(err) {
			orgID = ""
			return nil
		}
		if err != nil {
			return fmt.Errorf("store the pressure of node %s: %w", nodeID, err)
		}
		if why == "" {
			return nil
		}
		row.Pressure = why
		return takeBack(ctx, q, row, underPressure(row))
	})
	return orgID, err
}

// maxWords is the longest text in characters that a node may report about itself.
const (
	maxWords = 200
	// maxDescription is the longest description of a skill.
	maxDescription = 1024
)

// words redacts and cuts a text that a node reports, so that it can be stored and shown.
func words(mask *redact.Redactor, text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(mask.String(text), ""))
	return textcut.Runes(text, limit, "")
}

// CloseSession records that the link is gone.
func (n *Nodes) CloseSession(ctx context.Context, nodeID string, epoch int64) error {
	_, err := n.store.CloseNodeSession(ctx, db.CloseNodeSessionParams{NodeID: nodeID, Epoch: epoch})
	return err
}

// Record is a node, whether its link is up, and who holds it.
type Record struct {
	Node      db.Node
	Connected bool
	// Lock is the current lock; nil for none.
	Lock *db.NodeLock
}

// List returns a page of an organisation's nodes by name, and the next page's
// token.
func (n *Nodes) List(ctx context.Context, orgID, token string, size int32) (out []Record, next string, err error) {
	name, id, err := store.ParseNameToken(token)
	if err != nil {
		return nil, "", err
	}
	params := db.ListNodesParams{OrgID: orgID, StaleAfter: n.staleAfter, AfterName: name, AfterID: id, MaxRows: size + 1}
	n.store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := params
		all.MaxRows = maxRows
		_, err := q.ListNodes(ctx, all)
		return err
	})
	rows, err := n.store.ListNodes(ctx, params)
	if err != nil {
		return nil, "", fmt.Errorf("list nodes: %w", err)
	}
	if len(rows) > int(size) {
		rows = rows[:size]
		last := rows[size-1].Node
		next = store.NameToken(last.Name, last.ID)
	}
	locks, err := HeldLocks(ctx, n.store.Queries, orgID)
	if err != nil {
		return nil, "", err
	}
	out = make([]Record, len(rows))
	for i, row := range rows {
		out[i] = Record{Node: row.Node, Connected: row.Connected, Lock: locks[row.Node.ID]}
	}
	return out, next, nil
}

// Find returns the id of the node that ref names: a name, an id or a unique
// prefix of one.
func (n *Nodes) Find(ctx context.Context, orgID, ref string) (string, error) {
	rows, err := n.store.FindNodes(ctx, db.FindNodesParams{OrgID: orgID, Ref: ref, Prefix: store.Prefix("node", ref)})
	return store.One("node", ref, rows, err)
}

// Get returns a node by its id.
func (n *Nodes) Get(ctx context.Context, orgID, id string) (Record, error) {
	row, err := n.store.GetNode(ctx, db.GetNodeParams{OrgID: orgID, ID: id, StaleAfter: n.staleAfter})
	if store.IsNotFound(err) {
		return Record{}, fault.New(fault.NotFound, "there is no node %q", id).WithObject(id)
	}
	if err != nil {
		return Record{}, fmt.Errorf("load node %s: %w", id, err)
	}
	lock, err := heldLock(ctx, n.store.Queries, orgID, id)
	return Record{Node: row.Node, Connected: row.Connected, Lock: lock}, err
}

// Revoke ends a node's right to connect. The caller drops its link.
func (n *Nodes) Revoke(ctx context.Context, node db.Node, by User) error {
	return n.recorder.Tx(ctx, func(tx *event.Tx) error {
		rows, err := tx.RevokeNode(ctx, db.RevokeNodeParams{OrgID: node.OrgID, ID: node.ID})
		if err != nil {
			return fmt.Errorf("revoke node %s: %w", node.ID, err)
		}
		if rows == 0 {
			return nil
		}
		return record(tx, node, by, "node.revoked", "", map[string]any{"name": node.Name})
	})
}

// Labels returns a node row's labels.
func Labels(row db.Node) map[string]string {
	labels := map[string]string{}
	// The column is written from a map[string]string only.
	_ = json.Unmarshal(row.Labels, &labels)
	return labels
}

// Fits reports whether a persona that wants those nodes may use a node.
func Fits(want persona.Nodes, row db.Node) bool {
	if len(want.Names) > 0 && !slices.Contains(want.Names, row.Name) {
		return false
	}
	labels := Labels(row)
	for k, v := range want.Labels {
		if labels[k] != v {
			return false
		}
	}
	return true
}
