package faults

import (
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// takeover is how long leader work may rest when its hub dies.
const takeover = 15 * time.Second

// Of two hubs the one that leads is killed, and a worker with it. The
// other one leads, the node comes to it, and a watch misses nothing.
func TestTheHubThatLeadsIsKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, 5*time.Second)
	n := newNetwork(t)
	core := n.host()
	r.operator = core
	r.startNATS(core, core.address("4222"))
	hosts := []*host{n.host(), n.host()}
	hub := func(h *host) { r.startHub(h, h.address("7800"), h.address("7801"), core.address("7801")) }
	hub(hosts[0])
	newBalancer(t, core, hosts, "7800", "7801")
	r.connect(core.address("7800"))
	r.startNode(core) // there is one hub yet to hold it
	hub(hosts[1])
	balanced := r.api
	for _, h := range hosts {
		r.api = "http://" + h.address("7800")
		r.startWorker(h, 2)
	}
	r.api = balanced

	ids := r.rest(4, "counter")
	var watching sync.WaitGroup
	seen := make([][]int64, len(ids))
	for i, id := range ids {
		watching.Go(func() {
			for res, err := range r.client.Watch(t.Context(), &deckhandv1.WatchRequest{TaskIds: []string{id}, Follow: true}) {
				if err != nil {
					t.Error("watch", id, err)
					return
				}
				if e := res.GetEvent(); e != nil {
					seen[i] = append(seen[i], e.GetSeq())
				}
			}
		})
	}
	r.run(ids, "counter")
	type held struct {
		TaskID string
		Worker string
	}
	leases := rows[held](r, `SELECT a.task_id, w.name FROM attempts a JOIN workers w ON w.id = a.worker_id
		WHERE a.task_id = ANY($1) AND a.ended_at IS NULL ORDER BY a.task_id`, ids)
	require.Len(t, leases, 4)
	var lapsing []string
	for _, l := range leases {
		if l.Worker == r.workers[0].name {
			lapsing = append(lapsing, l.TaskID)
		}
	}
	require.Len(t, lapsing, 2, "each worker has two: %v", leases)

	begin := time.Now()
	overHub := r.hubs[0].outage(syscall.SIGKILL)
	overWorker := r.workers[0].outage(syscall.SIGKILL)
	defer overHub()
	defer overWorker()
	// Only the leader sweeps the leases that are not renewed.
	type open struct{ N int }
	r.eventually(takeover, "the other hub to lead", func() bool {
		return rows[open](r, "SELECT count(*)::int FROM attempts WHERE task_id = ANY($1) AND attempt = 1 AND ended_at IS NULL", lapsing)[0].N == 0
	})
	t.Logf("the leases of %s were swept %s after the leader's death", r.workers[0].name, time.Since(begin).Round(time.Millisecond))
	settled := r.rested("the leader killed", ids, "counter")
	t.Logf("all tasks had ended %s after it", time.Since(begin).Round(time.Millisecond))
	for _, one := range settled {
		want := 1
		if slices.Contains(lapsing, one.ID) {
			want = 2
		}
		require.Equal(t, want, one.Attempt, "%+v", one)
	}
	watching.Wait()
	for i, id := range ids {
		require.Len(t, seen[i], r.events(id), "the watch of %s", id)
		for k, seq := range seen[i] {
			require.EqualValues(t, k+1, seq, "in order, no gap, no repeat")
		}
	}
}
