package rollout_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/nodeinstall"
	"github.com/deckhand-sh/deckhand/hub/fleet/rollout"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	org           = "org_1"
	before, after = "1.0.0", "1.1.0"
)

// rig is a database with nodes, whose sessions the tests write, and what these nodes answer.
type rig struct {
	*rollout.Service

	t    *testing.T
	conn *pgx.Conn

	mu sync.Mutex
	// answers are what nodes answer to Upgrade; nil for an upgrade that begins.
	answers map[string]func(context.Context) error
	// gone are nodes without a link.
	gone map[string]bool
	// told counts the calls to each node.
	told map[string]int
}

func newRig(t *testing.T, nodes int) *rig {
	t.Helper()
	url := storetest.Database(t)
	s, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	r := &rig{t: t, conn: conn, answers: map[string]func(context.Context) error{}, gone: map[string]bool{}, told: map[string]int{}}
	masks := &redact.Redactor{}
	r.Service = rollout.New(rollout.Config{
		Store: s, Redact: masks, Recorder: event.NewRecorder(event.RecorderConfig{Store: s, Redact: masks, Notify: func(string, string) {}}),
		Node: r.node, StaleAfter: time.Hour, Log: hclog.NewNullLogger(),
		Release: func() (nodeinstall.Release, error) {
			return nodeinstall.Release{Version: after, Digests: map[string]string{"amd64": "00"}}, nil
		},
	})
	t.Cleanup(r.Close)
	r.exec(`INSERT INTO organisations (id, name) VALUES ($1, $1)`, org)
	r.enrol(1, nodes, "eu")
	return r
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	_, err := r.conn.Exec(r.t.Context(), sql, args...)
	require.NoError(r.t, err)
}

// enrol adds connected nodes n<first> to n<last>.
func (r *rig) enrol(first, last int, zone string) {
	r.t.Helper()
	r.exec(`INSERT INTO nodes (id, org_id, name, key_fingerprint, labels, version, capability)
		SELECT 'n' || n, $1, 'n' || n, 'k' || n, jsonb_build_object('zone', $2::text), $3, $4 FROM generate_series($5::int, $6::int) AS n`,
		org, zone, before, nodelink.Capability, first, last)
	r.exec(`INSERT INTO node_sessions (node_id, org_id, epoch, replica, connected) SELECT 'n' || n, $1, 1, 'hub', true FROM generate_series($2::int, $3::int) AS n`, org, first, last)
}

// node is the link to a node.
func (r *rig) node(id string) (machine.Link, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone[id] {
		return nil, fault.New(fault.Unavailable, "%s is not connected", id).WithCode(fault.NodeUnavailable)
	}
	return simulated{r: r, id: id}, nil
}

// simulated is a node: of its services a rollout calls two.
type simulated struct {
	machine.Link
	nodev1.NodeServiceClient

	r  *rig
	id string
}

func (s simulated) Node() nodev1.NodeServiceClient { return s }

func (s simulated) GetMachine(context.Context, *nodev1.GetMachineRequest, ...grpc.CallOption) (*nodev1.GetMachineResponse, error) {
	return &nodev1.GetMachineResponse{Machine: &nodev1.MachineInfo{Architecture: "amd64"}}, nil
}

func (s simulated) Upgrade(ctx context.Context, _ *nodev1.UpgradeRequest, _ ...grpc.CallOption) (*nodev1.UpgradeResponse, error) {
	s.r.mu.Lock()
	s.r.told[s.id]++
	answer := s.r.answers[s.id]
	s.r.mu.Unlock()
	if answer == nil {
		return &nodev1.UpgradeResponse{}, nil
	}
	if err := answer(ctx); err != nil {
		return nil, fault.ToGRPC(err)
	}
	return &nodev1.UpgradeResponse{}, nil
}

func (r *rig) answer(id string, answer func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[id] = answer
}

func (r *rig) calls(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told[id]
}

func (r *rig) start(req rollout.Request) rollout.Record {
	r.t.Helper()
	if req.Percent == 0 {
		req.Percent = 100
	}
	out, err := r.Start(r.t.Context(), org, req, event.Hub)
	require.NoError(r.t, err)
	return out
}

// sweep sweeps once, and returns the newest rollout.
func (r *rig) sweep() rollout.Record {
	r.t.Helper()
	require.NoError(r.t, r.Sweep(r.t.Context()))
	return r.newest()
}

func (r *rig) newest() rollout.Record {
	r.t.Helper()
	all, _, err := r.List(r.t.Context(), org, "", 10)
	require.NoError(r.t, err)
	return all[0]
}

// until sweeps until a node was told so many times.
func (r *rig) until(id string, calls int) {
	r.t.Helper()
	waittest.Until(r.t, 20*time.Second, fmt.Sprintf("%s to be told %d times", id, calls), func() bool {
		r.sweep()
		return r.calls(id) == calls
	})
}

func in(record rollout.Record, state string) (ids []string) {
	for _, n := range record.Nodes {
		if n.State == state {
			ids = append(ids, n.NodeID)
		}
	}
	return ids
}

// upgraded has nodes come back with the new release.
func (r *rig) upgraded(ids ...string) {
	r.t.Helper()
	r.exec(`UPDATE nodes SET version = $1, upgrade_state = 'installed' WHERE id = ANY($2)`, after, ids)
	r.exec(`UPDATE node_sessions SET epoch = epoch + 1 WHERE node_id = ANY($1)`, ids)
}

// stands has the sessions of nodes with the new release stand for long.
func (r *rig) stands() {
	r.t.Helper()
	r.exec(`UPDATE node_rollout_nodes SET standing_since = standing_since - interval '1 minute'`)
}

// Some nodes upgrade at a time, of a share of those with the labels. They count when a session
// with the release has stood, and go on to count when nodes are added.
func TestARolloutTakesSomeNodesAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t, 60)
	r.enrol(101, 110, "us")
	r.start(rollout.Request{Labels: map[string]string{"zone": "eu"}, Percent: 50})
	first := r.sweep()
	require.EqualValues(t, 3, first.Counts[rollout.Upgrading])
	require.Equal(t, 27, first.Waiting)
	require.EqualValues(t, 3, r.sweep().Counts[rollout.Upgrading], "no more until one has ended")
	told := in(first, rollout.Upgrading)

	r.exec(`UPDATE nodes SET version = $1, upgrade_state = 'trial' WHERE id = ANY($2)`, after, told)
	r.sweep()
	r.stands()
	require.EqualValues(t, 3, r.sweep().Counts[rollout.Upgrading], "a trial is not the end")
	r.upgraded(told...)
	require.EqualValues(t, 3, r.sweep().Counts[rollout.Upgrading], "it was seen once")
	r.stands()
	r.upgraded(told[0]) // it ended, and is back
	next := r.sweep()
	require.ElementsMatch(t, told[1:], in(next, rollout.Installed))
	require.Contains(t, in(next, rollout.Upgrading), told[0])
	require.EqualValues(t, 3, next.Counts[rollout.Upgrading])
	require.Equal(t, 25, next.Waiting)

	r.enrol(201, 300, "eu")
	more := r.sweep()
	require.EqualValues(t, 80, int(more.Counts[rollout.Installed]+more.Counts[rollout.Upgrading])+more.Waiting)
	require.ElementsMatch(t, told[1:], in(more, rollout.Installed))
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, calls := range r.told {
		require.Equal(t, 1, calls)
		require.NotContains(t, []string{"n101", "n110"}, id, "it has other labels")
	}
}

// A rollout stops when more nodes have failed than it allows, and says the last problem. A node
// that has failed does not come back in another share.
func TestARolloutStopsWhenNodesFail(t *testing.T) {
	t.Parallel()
	r := newRig(t, 5)
	for n := range 5 {
		r.answer(fmt.Sprintf("n%d", n+1), func(context.Context) error { return fault.New(fault.Denied, "the signature is wrong") })
	}
	begun := r.start(rollout.Request{MaxFailures: 1})
	r.sweep()
	waittest.Until(t, 20*time.Second, "the first to fail", func() bool { return r.newest().Counts[rollout.Failed] == 1 })
	first := in(r.newest(), rollout.Failed)[0]
	r.exec(`UPDATE nodes SET labels = '{}', revoked_at = now() WHERE id = $1`, first) // it counts still
	for n := range 5 {
		r.answer(fmt.Sprintf("n%d", n+1), nil)
	}
	second := in(r.sweep(), rollout.Upgrading)
	require.Len(t, second, 1)
	r.exec(`UPDATE nodes SET upgrade_id = $1, upgrade_state = 'failed', upgrade_problem = 'it had no session' WHERE id = $2`, begun.ID, second[0])
	ended := r.sweep()
	require.Equal(t, rollout.Stopped, ended.State)
	require.Contains(t, ended.Reason, "2 nodes failed; the last is n")
	require.EqualValues(t, 2, ended.Counts[rollout.Failed])
	problems := map[string]string{}
	for _, n := range ended.Nodes {
		problems[n.NodeID] = n.Problem
	}
	require.Contains(t, problems[first], "the signature is wrong")
	require.Equal(t, "it had no session", problems[second[0]])
	require.Zero(t, r.sweep().Counts[rollout.Upgrading])
}

// After a rollout was stopped, what its nodes become is still learned.
func TestAStoppedRolloutLearnsWhatBecameOfItsNodes(t *testing.T) {
	t.Parallel()
	r := newRig(t, 20)
	r.start(rollout.Request{})
	told := in(r.sweep(), rollout.Upgrading)
	require.Len(t, told, 2)
	_, err := r.Stop(t.Context(), org, "wait", event.Hub)
	require.NoError(t, err)
	r.upgraded(told[0])
	r.sweep()
	r.stands()
	r.exec(`UPDATE node_rollout_nodes SET told_at = told_at - interval '20 minutes'`)
	ended := r.sweep()
	require.Equal(t, rollout.Stopped, ended.State)
	require.Equal(t, told[:1], in(ended, rollout.Installed))
	require.Equal(t, told[1:], in(ended, rollout.Failed))
	require.Contains(t, ended.Nodes[0].Problem, "did not come back")
	require.Len(t, ended.Nodes, 2)
}

// A node that cannot have heard it is told again; one that may have heard it is not.
func TestANodeIsToldAgainOnlyIfItHasNotHeard(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.exec(`UPDATE node_sessions SET connected = false`)
	r.start(rollout.Request{})
	require.Equal(t, 1, r.sweep().Waiting, "it is told when it is back")
	require.Empty(t, r.newest().Nodes)

	r.gone["n1"] = true
	r.exec(`UPDATE node_sessions SET connected = true`)
	r.sweep()
	waittest.Until(t, 20*time.Second, "it to be forgotten", func() bool { return len(r.newest().Nodes) == 0 })
	require.Zero(t, r.calls("n1"))

	r.mu.Lock()
	delete(r.gone, "n1")
	r.mu.Unlock()
	r.answer("n1", func(context.Context) error { return fault.New(fault.Aborted, "it prepares another") })
	r.until("n1", 1)
	r.answer("n1", func(context.Context) error {
		return fault.New(fault.Unavailable, "the link ended").WithCode(fault.NodeUnavailable)
	})
	r.until("n1", 2)
	for range 3 {
		require.Equal(t, []string{"n1"}, in(r.sweep(), rollout.Upgrading))
	}
	require.Equal(t, 2, r.calls("n1"))

	// It had heard it. When it is gone for long afterwards, it has failed.
	r.upgraded("n1")
	r.exec(`UPDATE node_sessions SET connected = false, touched_at = now() - interval '10 minutes'`)
	ended := r.sweep()
	require.Equal(t, rollout.Stopped, ended.State)
	require.Contains(t, ended.Reason, "has not been connected for 5m")
}

// A hub that stops gives up its calls, and another one makes them again.
func TestAHubThatStopsLeavesItsCallsToAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.answer("n1", func(ctx context.Context) error {
		<-ctx.Done()
		return fault.New(fault.Unavailable, "the call ended").WithCode(fault.NodeUnavailable)
	})
	r.start(rollout.Request{})
	r.until("n1", 1)
	// Another rollout is not held up by the call.
	r.start(rollout.Request{})
	r.until("n1", 2)
	require.Len(t, in(r.newest(), rollout.Upgrading), 1)
	r.Close()
	require.Empty(t, r.newest().Nodes)
	require.Equal(t, rollout.Running, r.newest().State)
}

// A list has the first nodes only, and counts all.
func TestAListOfRolloutsIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, 70)
	begun := r.start(rollout.Request{})
	r.exec(`INSERT INTO node_rollout_nodes (rollout_id, node_id, org_id, state) SELECT $1, id, org_id, CASE id WHEN 'n70' THEN 'failed' ELSE 'installed' END FROM nodes`, begun.ID)
	got := r.newest()
	require.Len(t, got.Nodes, 50)
	require.Equal(t, "n70", got.Nodes[0].NodeID)
	require.EqualValues(t, 69, got.Counts[rollout.Installed])
	require.EqualValues(t, 1, got.Counts[rollout.Failed])
}
