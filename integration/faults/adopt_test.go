package faults

import (
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// newSmallRig starts one hub and one worker, and so many simulated nodes, on this machine itself.
func newSmallRig(t testing.TB, nodes int, before func(r *rig)) *rig {
	r := newBareRig(t, 5*time.Second)
	before(r)
	ip := fmt.Sprintf("127.%d.%d.%d", 64+syscall.Getpid()>>8&63, syscall.Getpid()&255, r.number)
	r.startNATS(nil, ip+":4222")
	r.eventually(time.Minute, "NATS to listen", func() bool { return reachable(ip + ":4222") })
	r.startHub(nil, ip+":7800", ip+":7801", ip+":7801")
	r.connect(ip + ":7800")
	r.startNodes(nil, nodes, 1)
	r.startWorker(nil, 100)
	return r
}

// effected waits until so many of the nodes' commands of tasks have taken effect.
func (r *rig) effected(n int) {
	r.t.Helper()
	r.eventually(time.Minute, fmt.Sprintf("%d effects", n), func() bool { return len(r.effects()) >= n })
	require.Len(r.t, r.effects(), n)
}

// A standby that had not received the last commits is promoted. What it lacks is lost to the
// hub, and yet nothing runs again by itself: the nodes' ledgers say what ran.
func TestAPromotedStandbyThatLacksCommitsIsAdopted(t *testing.T) {
	t.Parallel()
	const tasks = 3
	var s *standby
	r := newSmallRig(t, 2, func(r *rig) {
		s = r.startStandby(false)
		r.database = s.primary // an operator decides when hubs go over to a standby that may lack commits
	})
	const front = "workspace: {scope: task}"
	r.agent("long", front, effectScript(1, 4))
	r.agent("two", front, effectScript(2, 4))
	r.agent("later", front, effectScript(1, 0))
	submit := func(agent string) (ids []string) {
		for i := range tasks {
			ids = append(ids, r.submit(agent, fmt.Sprintf("%s-%s-%d", r.id, agent, i)))
		}
		return ids
	}
	long, two := submit("long"), submit("two")
	known := slices.Concat(long, two)
	r.eventually(time.Minute, "their first commands to run", func() bool {
		type row struct{ N int }
		return rows[row](r, "SELECT count(*)::int FROM steps WHERE state = 'started' AND task_id = ANY($1)", known)[0].N == len(known)
	})
	r.effected(len(known))
	r.caughtUp(s)
	follow := s.unit.outage(syscall.SIGINT)
	lost := submit("later")
	for _, one := range r.settle(slices.Concat(known, lost), time.Minute) {
		require.Equal(t, "succeeded", one.State, "%+v", one)
	}
	all := len(known) + len(two) + len(lost)
	r.effected(all)
	type epochs struct{ Highest int64 }
	before := rows[epochs](r, "SELECT max(epoch) FROM node_sessions")[0].Highest

	adopt := func() (string, error) {
		cmd := exec.Command(bin(t, "deckhand"), "backup", "adopt")
		cmd.Env = r.env("DECKHAND_DATABASE_URL=" + r.database)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := adopt()
	require.Error(t, err)
	require.Contains(t, out, "a hub runs on this database")

	start := r.hubs[0].outage(syscall.SIGTERM)
	r.pg.outage(syscall.SIGKILL)
	follow()
	s.promote()
	r.database = s.cluster.URL("deckhand")
	r.db.Close()
	r.db, err = pgxpool.New(t.Context(), r.database)
	require.NoError(t, err)
	out, err = adopt()
	require.NoError(t, err, out)
	require.Contains(t, out, fmt.Sprintf("%d tasks had not ended", len(known)))
	start()
	r.linked(2)
	require.Greater(t, rows[epochs](r, "SELECT min(epoch) FROM node_sessions WHERE connected")[0].Highest, before, "the nodes refuse every hub from before")

	type judged struct{ TaskID, Verdict string }
	r.eventually(time.Minute, "the nodes to be compared", func() bool {
		return len(rows[judged](r, "SELECT task_id, verdict FROM restored_tasks WHERE verdict <> 'pending'")) == len(known)
	})
	for _, one := range rows[judged](r, "SELECT task_id, verdict FROM restored_tasks") {
		if slices.Contains(two, one.TaskID) {
			require.Equal(t, "recovered", one.Verdict, "its second command is on a node's ledger only")
		}
	}
	require.Empty(t, r.tasks(lost), "the hub never heard of them")
	r.effected(all)

	// A person has those continue of which the database knows all that began.
	for _, id := range long {
		_, err := r.client.Tasks.ResumeTask(t.Context(), &deckhandv1.ResumeTaskRequest{TaskId: id})
		require.NoError(t, err)
	}
	r.eventually(time.Minute, "the resumed tasks to succeed", func() bool {
		return !slices.ContainsFunc(r.tasks(long), func(one task) bool { return one.State != "succeeded" })
	})
	r.effected(all)
	seen := map[effect]bool{}
	for _, e := range r.effects() {
		key := effect{Jail: e.Jail, Number: e.Number}
		require.False(t, seen[key], "%+v ran twice", e)
		seen[key] = true
	}
	t.Logf("lost: %d tasks and what %d others did after the standby was cut off; doubled: 0 of %d effects", len(lost), len(two), all)
}

// caughtUp waits until the standby has all that was committed.
func (r *rig) caughtUp(s *standby) {
	r.t.Helper()
	type row struct{ LSN string }
	at := rows[row](r, "SELECT pg_current_wal_lsn()::text")[0].LSN
	r.eventually(time.Minute, "the standby to have everything", func() bool {
		return s.has(at)
	})
}
