// Package rollout brings a release of deckhand-node to the nodes of an organisation. Service
// starts, lists and stops rollouts; the leader's hub calls Sweep, which tells nodes to upgrade,
// some at a time, and learns from their sessions what became of it.
//
// The hub names a version and a digest. Nodes verify the release with a key of their own and
// return to the program before if the new one does not work (node/upgrade), so a rollout can
// neither give a node another program than a release nor lose a node. When more nodes have
// failed than a rollout allows, it stops and tells no more.
//
// A node counts as upgrading before it is told: a hub that dies in between leaves it so, and it
// counts as failed when it has said nothing for [replyTime]. A node that is not connected is told
// when it is back, as long as the rollout runs. It is told again only if it cannot have heard it.
// A node has the release when a session with it has stood for [standTime]; one that is gone for
// [goneTime] with it has failed.
package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/mod/semver"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/nodeinstall"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// SweepEvery is how often the leader looks at the rollouts that run.
	SweepEvery = 2 * time.Second
	// replyTime is how long a node may take to download, try and install a release.
	replyTime = 15 * time.Minute
	// tellTime bounds the call, in which the node downloads and verifies it.
	tellTime = 11 * time.Minute
	// standTime is how long a session with the new release must stand until its node counts.
	standTime = 15 * time.Second
	// goneTime is how long a node with the new release may be away.
	goneTime = 5 * time.Minute
	// storeTime bounds what is stored of a call that has ended.
	storeTime = 5 * time.Second
	// share is the part of the nodes that upgrade at the same time, and atOnce bounds it.
	share  = 10
	atOnce = 20

	maxProblem = 500
	// maxNodes is how many nodes of a rollout are listed.
	maxNodes = 50
)

// The states of a rollout and of its nodes.
const (
	Running = "running"
	Done    = "done"
	Stopped = "stopped"

	Upgrading = "upgrading"
	Installed = "installed"
	Failed    = "failed"
)

// Config holds the dependencies of a Service. All are required.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Redact   *redact.Redactor
	// Node returns the link to a node, wherever it is.
	Node func(nodeID string) (machine.Link, error)
	// Release returns the release that the hub serves to nodes.
	Release func() (nodeinstall.Release, error)
	// StaleAfter is how long a session counts as live after its last heartbeat.
	StaleAfter time.Duration
	Log        hclog.Logger
}

// Service keeps the rollouts.
type Service struct {
	cfg Config

	// stopping ends the calls.
	stopping context.Context //nolint:containedctx // the calls outlive those who begin them
	stop     context.CancelFunc

	mu sync.Mutex
	// telling are the calls that this hub makes now: each lasts as long as a download.
	telling map[call]bool
	calls   sync.WaitGroup
}

// call is that to a node for a rollout.
type call struct{ rolloutID, nodeID string }

// New creates a Service.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, telling: map[call]bool{}}
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s
}

// Request is what a person wants upgraded.
type Request struct {
	// Version is the release; empty for the one that the hub has.
	Version string
	Labels  map[string]string
	// Percent of the nodes with the labels: 1 to 100.
	Percent, MaxFailures int32
}

// Record is a rollout with its nodes.
type Record struct {
	db.NodeRollout

	// Nodes are at most maxNodes, those that failed first.
	Nodes []db.NodeRolloutNodesRow
	// Counts are the numbers of nodes by state.
	Counts map[string]int32
	// Waiting are nodes that it will tell.
	Waiting int
}

// Start begins a rollout in place of the one that runs.
func (s *Service) Start(ctx context.Context, orgID string, r Request, by event.Actor) (Record, error) {
	release, err := s.cfg.Release()
	if err != nil {
		return Record{}, err
	}
	if r.Version != "" && r.Version != release.Version {
		return Record{}, fault.New(fault.Precondition, "version: this hub has release %s for nodes, and not %s", release.Version, r.Version).
			WithFix("put release %s into the hub's folder node-programs, or leave the version out", r.Version)
	}
	digests, err := json.Marshal(release.Digests)
	if err != nil {
		return Record{}, fmt.Errorf("encode digests: %w", err)
	}
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	labels, err := json.Marshal(r.Labels)
	if err != nil {
		return Record{}, fmt.Errorf("encode labels: %w", err)
	}
	var row db.NodeRollout
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.ReplaceNodeRollout(ctx, orgID); err != nil {
			return fmt.Errorf("end the rollout that runs: %w", err)
		}
		row, err = tx.CreateNodeRollout(ctx, db.CreateNodeRolloutParams{
			ID: ident.New("rollout"), OrgID: orgID, Version: release.Version, Digests: digests, Labels: labels,
			Percent: r.Percent, MaxFailures: r.MaxFailures, CreatedBy: by.ID,
		})
		if store.Violates(err, "node_rollouts_running") {
			return fault.New(fault.Aborted, "another rollout was begun at the same time").WithFix("look at it: deckhand node rollouts")
		}
		if err != nil {
			return fmt.Errorf("store the rollout: %w", err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "node.rollout_started", ObjectKind: "node_rollout", ObjectID: row.ID,
			After: map[string]any{"version": row.Version, "labels": string(labels), "percent": row.Percent, "max_failures": row.MaxFailures},
		})
	})
	if err != nil {
		return Record{}, err
	}
	return s.record(ctx, row)
}

// Stop ends the rollout that runs.
func (s *Service) Stop(ctx context.Context, orgID, reason string, by event.Actor) (Record, error) {
	row, err := s.end(ctx, orgID, "", Stopped, reason, by)
	if store.IsNotFound(err) {
		return Record{}, fault.New(fault.Precondition, "no rollout runs")
	}
	if err != nil {
		return Record{}, err
	}
	return s.record(ctx, row)
}

// end ends the rollout that runs, if it is that one; id is empty for any.
func (s *Service) end(ctx context.Context, orgID, id, state, reason string, by event.Actor) (row db.NodeRollout, err error) {
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		reason = tx.Redact(orgID).String(reason)
		if row, err = tx.EndNodeRollout(ctx, db.EndNodeRolloutParams{OrgID: orgID, ID: id, State: state, Reason: reason}); err != nil {
			return fmt.Errorf("end a rollout: %w", err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "node.rollout_" + state, ObjectKind: "node_rollout", ObjectID: row.ID, Reason: reason,
			After: map[string]any{"version": row.Version},
		})
	})
	return row, err
}

// List returns a page of an organisation's rollouts, the newest first.
func (s *Service) List(ctx context.Context, orgID, token string, size int32) (out []Record, next string, err error) {
	params := db.ListNodeRolloutsParams{OrgID: orgID, MaxRows: size + 1}
	if token != "" {
		at, id, err := store.ParsePageToken(token)
		if err != nil {
			return nil, "", err
		}
		params.BeforeTime, params.BeforeID = &at, id
	}
	rows, err := s.cfg.Store.ListNodeRollouts(ctx, params)
	if err != nil {
		return nil, "", fmt.Errorf("list rollouts: %w", err)
	}
	if len(rows) > int(size) {
		rows = rows[:size]
		last := rows[size-1]
		next = store.PageToken(last.CreatedAt, last.ID)
	}
	out, err = s.records(ctx, orgID, rows)
	return out, next, err
}

func (s *Service) record(ctx context.Context, row db.NodeRollout) (Record, error) {
	out, err := s.records(ctx, row.OrgID, []db.NodeRollout{row})
	if err != nil {
		return Record{}, err
	}
	return out[0], nil
}

func (s *Service) records(ctx context.Context, orgID string, rows []db.NodeRollout) ([]Record, error) {
	ids, at := make([]string, len(rows)), map[string]int{}
	out := make([]Record, len(rows))
	for i, row := range rows {
		ids[i], at[row.ID], out[i] = row.ID, i, Record{NodeRollout: row, Counts: map[string]int32{}}
	}
	nodes, err := s.cfg.Store.NodeRolloutNodes(ctx, db.NodeRolloutNodesParams{OrgID: orgID, Rollouts: ids, MaxNodes: maxNodes})
	if err != nil {
		return nil, fmt.Errorf("list the nodes of rollouts: %w", err)
	}
	for _, n := range nodes {
		out[at[n.RolloutID]].Nodes = append(out[at[n.RolloutID]].Nodes, n)
	}
	counts, err := s.cfg.Store.NodeRolloutCounts(ctx, db.NodeRolloutCountsParams{OrgID: orgID, Rollouts: ids})
	if err != nil {
		return nil, fmt.Errorf("count the nodes of rollouts: %w", err)
	}
	for _, n := range counts {
		out[at[n.RolloutID]].Counts[n.State] = n.Nodes
	}
	for i := range out {
		if out[i].State != Running {
			continue
		}
		chosen, err := s.chosen(ctx, out[i].NodeRollout)
		if err != nil {
			return nil, err
		}
		for _, n := range chosen {
			if n.State == "" && !has(n, out[i].Version) {
				out[i].Waiting++
			}
		}
	}
	return out, nil
}

// Labels returns the labels of a rollout.
func Labels(r db.NodeRollout) map[string]string {
	labels := map[string]string{}
	// The column is written from a map[string]string only.
	_ = json.Unmarshal(r.Labels, &labels)
	return labels
}

// has reports whether a node runs that version or a newer one, for good.
func has(n db.NodesOfRolloutRow, version string) bool {
	return semver.Compare("v"+n.Version, "v"+version) >= 0 && semver.IsValid("v"+n.Version) && n.UpgradeState != "trial"
}

// chosen returns the nodes that a rollout upgrades: its share of those with its labels. Those
// that have the release already count, and those that were told stay whatever nodes are added.
func (s *Service) chosen(ctx context.Context, r db.NodeRollout) ([]db.NodesOfRolloutRow, error) {
	nodes, err := s.cfg.Store.NodesOfRollout(ctx, db.NodesOfRolloutParams{OrgID: r.OrgID, RolloutID: r.ID, Labels: r.Labels, StaleAfter: s.cfg.StaleAfter})
	if err != nil {
		return nil, fmt.Errorf("find the nodes of rollout %s: %w", r.ID, err)
	}
	eligible, told := 0, 0
	for _, n := range nodes {
		if n.Eligible {
			eligible++
		}
		if n.State != "" {
			told++
		}
	}
	more := (eligible*int(r.Percent)+99)/100 - told
	out := nodes[:0]
	for _, n := range nodes {
		if n.State == "" {
			if more--; more < 0 {
				continue
			}
		}
		out = append(out, n)
	}
	return out, nil
}

// Sweep takes every rollout that runs a bit further, and judges the nodes that upgrade for one
// that has ended.
func (s *Service) Sweep(ctx context.Context) error {
	rows, err := s.cfg.Store.OpenNodeRollouts(ctx)
	if err != nil {
		return fmt.Errorf("find the rollouts that run: %w", err)
	}
	var errs []error
	for _, row := range rows {
		errs = append(errs, s.advance(ctx, row))
	}
	return errors.Join(errs...)
}

// advance judges the nodes that were told, and tells the next ones.
func (s *Service) advance(ctx context.Context, r db.NodeRollout) error {
	nodes, err := s.chosen(ctx, r)
	if err != nil {
		return err
	}
	failed, open, busy := 0, 0, 0
	why := ""
	for i := range nodes {
		n := &nodes[i]
		if err := s.judge(ctx, r, n); err != nil {
			return err
		}
		switch n.State {
		case Failed:
			failed++
			why = n.Name + ": " + n.Problem
		case Upgrading:
			busy++
			open++
		case "":
			if !has(*n, r.Version) {
				open++
			}
		}
	}
	if r.State != Running {
		return nil
	}
	if failed > int(r.MaxFailures) {
		_, err := s.end(ctx, r.OrgID, r.ID, Stopped, textcut.Runes(fmt.Sprintf("%d nodes failed; the last is %s", failed, why), maxProblem, "…"), event.Hub)
		return ignoreNotFound(err)
	}
	if open == 0 {
		if len(nodes) == 0 {
			_, err = s.end(ctx, r.OrgID, r.ID, Stopped, "no node has these labels", event.Hub)
		} else {
			_, err = s.end(ctx, r.OrgID, r.ID, Done, "", event.Hub)
		}
		return ignoreNotFound(err)
	}
	room := min(max(1, len(nodes)/share), atOnce) - busy
	for _, n := range nodes {
		if room <= 0 {
			break
		}
		if n.State != "" || !n.Connected || has(n, r.Version) || s.tells(r, n) {
			continue
		}
		told, err := s.cfg.Store.TellRolloutNode(ctx, db.TellRolloutNodeParams{RolloutID: r.ID, NodeID: n.ID})
		if err != nil {
			return fmt.Errorf("tell node %s to upgrade: %w", n.ID, err)
		}
		if told > 0 {
			room--
			s.tell(r, n)
		}
	}
	return nil
}

func ignoreNotFound(err error) error {
	if store.IsNotFound(err) {
		return nil // a person ended it meanwhile
	}
	return err
}

// judge stores what has become of a node that was told, and sets it in n.
func (s *Service) judge(ctx context.Context, r db.NodeRollout, n *db.NodesOfRolloutRow) error {
	fresh := has(*n, r.Version)
	state, problem := "", ""
	switch {
	case n.State != Upgrading && n.State != Installed:
	case n.State == Upgrading && n.UpgradeID == r.ID && n.UpgradeState == "failed":
		state, problem = Failed, n.UpgradeProblem
	case fresh && !n.Connected && time.Duration(n.SilentSeconds)*time.Second > goneTime:
		state, problem = Failed, fmt.Sprintf("it installed the release, and has not been connected for %s", goneTime)
	case n.State == Installed:
	case fresh && n.Connected && time.Duration(n.StandingSeconds)*time.Second >= standTime:
		state = Installed
	case fresh && n.Connected && n.StandingSeconds < 0:
		// Each session counts for itself: one program that ends again and again has many.
		if err := s.cfg.Store.StandRolloutNode(ctx, db.StandRolloutNodeParams{RolloutID: r.ID, NodeID: n.ID, Epoch: n.Epoch}); err != nil {
			return fmt.Errorf("store the session of node %s: %w", n.ID, err)
		}
	case time.Duration(n.ToldSeconds)*time.Second > replyTime:
		state, problem = Failed, fmt.Sprintf("it did not come back with the new release within %s", replyTime)
	}
	if state == "" {
		return nil
	}
	err := s.set(ctx, r, n.ID, n.State, state, problem)
	n.State, n.Problem = state, problem
	return err
}

func (s *Service) set(ctx context.Context, r db.NodeRollout, nodeID, was, state, problem string) error {
	if err := s.cfg.Store.SetRolloutNode(ctx, db.SetRolloutNodeParams{
		RolloutID: r.ID, NodeID: nodeID, Was: was, State: state, Problem: textcut.Runes(s.cfg.Redact.Org(r.OrgID).String(problem), maxProblem, "…"),
	}); err != nil {
		return fmt.Errorf("store what became of node %s: %w", nodeID, err)
	}
	return nil
}

// tells reports whether this hub tells the node now.
func (s *Service) tells(r db.NodeRollout, n db.NodesOfRolloutRow) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.telling[call{r.ID, n.ID}]
}

// tell tells a node to upgrade, without waiting until it has downloaded the release.
func (s *Service) tell(r db.NodeRollout, n db.NodesOfRolloutRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := call{r.ID, n.ID}
	s.telling[key] = true
	s.calls.Go(func() {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.telling, key)
		}()
		ctx, cancel := context.WithTimeout(s.stopping, tellTime)
		defer cancel()
		sent, err := s.order(ctx, r, n)
		if err == nil {
			return
		}
		storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
		defer cancel()
		f := fault.As(err)
		switch {
		// It cannot have heard it, does something else, or gives it up with the call: it is told
		// again, by another hub if this one stops.
		case s.stopping.Err() != nil, fault.Is(err, fault.Aborted), !sent && fault.Is(err, fault.Unavailable):
			err = s.cfg.Store.ForgetRolloutNode(storing, db.ForgetRolloutNodeParams{RolloutID: r.ID, NodeID: n.ID})
		// It may have heard it, and says so in its next session.
		case ctx.Err() != nil, f != nil && f.Code == fault.NodeUnavailable:
			return
		default:
			err = s.set(storing, r, n.ID, Upgrading, Failed, err.Error())
		}
		if err != nil {
			s.cfg.Log.Warn("cannot store what became of an upgrade", "node_id", n.ID, "error", err)
		}
	})
}

// order makes the call, and reports whether it was sent.
func (s *Service) order(ctx context.Context, r db.NodeRollout, n db.NodesOfRolloutRow) (sent bool, err error) {
	if n.Capability < nodelink.Upgrades {
		return false, fault.New(fault.Precondition, "its release cannot upgrade itself").WithFix("upgrade it once with the package, or with the command that enrolled it")
	}
	link, err := s.cfg.Node(n.ID)
	if err != nil {
		return false, err
	}
	res, err := link.Node().GetMachine(ctx, &nodev1.GetMachineRequest{})
	if err != nil {
		return false, fault.FromGRPC(err)
	}
	digests := map[string]string{}
	if err := json.Unmarshal(r.Digests, &digests); err != nil {
		return false, fmt.Errorf("read the digests of rollout %s: %w", r.ID, err)
	}
	digest, found := digests[res.GetMachine().GetArchitecture()]
	if !found {
		return false, fault.New(fault.Precondition, "the hub has no deckhand-node for linux/%s", res.GetMachine().GetArchitecture())
	}
	_, err = link.Node().Upgrade(ctx, &nodev1.UpgradeRequest{Id: r.ID, Version: r.Version, Digest: digest})
	return true, fault.FromGRPC(err)
}

// Close ends the calls that run. Their nodes may go on.
func (s *Service) Close() {
	s.stop()
	s.calls.Wait()
}
