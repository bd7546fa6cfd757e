package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/internal/crashpoint"
)

// holder returns the unit of the worker that holds a task.
func (r *rig) holder(taskID string) *unit {
	r.t.Helper()
	type row struct{ Name string }
	var found []row
	r.eventually(30*time.Second, "a worker to hold the task", func() bool {
		found = rows[row](r, `SELECT w.name FROM attempts a JOIN workers w ON w.id = a.worker_id
			WHERE a.task_id = $1 AND a.ended_at IS NULL`, taskID)
		return len(found) == 1
	})
	i := slices.IndexFunc(r.workers, func(u *unit) bool { return u.name == found[0].Name })
	require.GreaterOrEqual(r.t, i, 0)
	return r.workers[i]
}

// One worker at a time has a task.
func TestLeases(t *testing.T) {
	t.Parallel()
	r := newMatrixRig(t)
	r.startWorker(nil, 8)
	t.Run("wake-ups that come twice or too late claim nothing", r.wakeups)
	t.Run("a stalled worker writes nothing", r.stall)
}

// stall stops a worker for longer than its lease, and then lets it continue.
func (r *rig) stall(t *testing.T) {
	stall := 3 * r.leaseTTL
	if soaking() {
		stall = 90 * time.Second
	}
	for _, at := range []crashpoint.Point{crashpoint.AfterGrant, crashpoint.AfterSpawn} {
		counter := "counter-" + string(at)
		r.agent("counter", "", fmt.Sprintf(matrixScript, counter))
		held := r.points.arm(at, 1)
		id := r.submit("counter", r.id+counter)
		select {
		case <-held:
		case <-time.After(time.Minute):
			require.Failf(t, "the task does not come to the point", "%+v", r.tasks([]string{id}))
		}
		stalled := r.holder(id)
		stalled.signal(syscall.SIGSTOP)
		begin := time.Now()
		if at != crashpoint.AfterGrant {
			r.points.release() // another process stopped there, not the worker
		}
		require.Equal(t, "succeeded", r.settle([]string{id}, time.Minute)[0].State, "another worker goes on")
		<-time.After(time.Until(begin.Add(stall)))
		events := r.events(id)
		r.points.release()
		stalled.signal(syscall.SIGCONT)
		r.eventually(time.Minute, "the stalled worker to give up", func() bool {
			for line := range strings.Lines(tail(stalled.log.Name(), 1<<20)) {
				if strings.Contains(line, "stopped without a further write") && strings.Contains(line, id) {
					return true
				}
			}
			return false
		})
		require.Equal(t, events, r.events(id), "it wrote something")
		one := r.tasks([]string{id})[0]
		require.Equal(t, 2, one.Attempt)
		require.Equal(t, 1, r.check("stalled at "+string(at), "worker", counter, one))
		r.history([]string{id})
	}
}

// events returns how many events a task has.
func (r *rig) events(taskID string) int {
	type row struct{ N int }
	return rows[row](r, "SELECT count(*)::int FROM events WHERE task_id = $1", taskID)[0].N
}

// wakeups sends several copies of one wake-up, and some for a task that has
// ended.
func (r *rig) wakeups(t *testing.T) {
	_, url, _ := strings.Cut(r.natsEnv[1], "=")
	conn, err := nats.Connect(url, nats.RootCAs(r.natsPEM("cert")))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	const pool = "org_default-default"
	wake := func(taskID string, attempt int32) {
		data, err := json.Marshal(bus.Wakeup{TaskID: taskID, Attempt: attempt})
		require.NoError(t, err)
		_, err = js.Publish(t.Context(), "wake."+pool, data)
		require.NoError(t, err)
	}
	taken := func() {
		t.Helper()
		consumer, err := js.Consumer(t.Context(), bus.Stream, "pool-"+pool)
		require.NoError(t, err)
		r.eventually(time.Minute, "all wake-ups to be taken", func() bool {
			info, err := consumer.Info(t.Context())
			require.NoError(t, err)
			return info.NumPending == 0 && info.NumAckPending == 0
		})
	}
	r.agent("counter", "", fmt.Sprintf(matrixScript, "counter"))
	id := r.submit("counter", r.id)
	for range 20 {
		wake(id, 1)
	}
	one := r.settle([]string{id}, time.Minute)[0]
	require.Equal(t, "succeeded", one.State)
	taken()
	events := r.events(id)
	for attempt := range int32(4) {
		wake(id, attempt+1)
	}
	taken()
	require.Equal(t, events, r.events(id), "nothing more happened")
	after := r.tasks([]string{id})[0]
	require.Equal(t, 1, after.Attempt)
	require.Equal(t, 1, r.check("woken again", "NATS", "counter", after))
	r.history([]string{id})
}
