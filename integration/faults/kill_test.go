package faults

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// sleepers is a task that has four processes: one that its shell waits for, one
// in the background, and two that have left its session and its parents. Its time
// limit is one that fifty jails do not reach while they start on a busy machine.
const sleepers = `turns:
  - text: I stay.
    calls:
      - tool: shell_exec
        arguments: {command: "sleep %[1]s & for i in 1 2; do (setsid sleep %[1]s &) ; done; sleep %[1]s", timeout_seconds: 3600}
`

// alive returns how many processes of this machine have an argument, as the
// host's own /proc has it. One that has ended and was not reaped yet has none.
func alive(t testing.TB, argument string) (n int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended by now
		}
		for arg := range bytes.SplitSeq(line, []byte{0}) {
			if string(arg) == argument {
				n++
			}
		}
	}
	return n
}

// One order ends fifty tasks in jails of their own: each is confirmed, and
// the machine has none of their processes left. Those of a node that is cut off
// stop by the time that the answer names, and what ran there is confirmed once
// it is back.
func TestTheKillSwitch(t *testing.T) {
	t.Parallel()
	const tasks, far, each = 50, 2, 4
	r := newRig(t, 10*time.Second)
	n := newNetwork(t)
	core, near, cut := n.host(), n.host(), n.host()
	r.operator = core
	r.startNATS(core, core.address("4222"))
	r.startHub(core, core.address("7800"), core.address("7801"), core.address("7801"))
	r.connect(core.address("7800"))
	r.startWorker(core, tasks+far)
	r.startNode(near)
	r.startNode(cut)
	marks := map[string]string{}
	for i, agent := range []string{"near", "far"} {
		marks[agent] = strconv.Itoa(1_000_000_000 + 10*os.Getpid() + i)
		// Only the node that is cut off is to stop anything by itself: the other may hear
		// nothing for a while just because fifty jails start beside it.
		grace := map[string]string{"near": "10m", "far": "20s"}[agent]
		r.agent(agent, fmt.Sprintf("nodes: {names: [node-%d]}\nworkspace: {scope: task}\noffline_grace: %s", i+1, grace), fmt.Sprintf(sleepers, marks[agent]))
	}
	var ids []string
	for i := range tasks {
		ids = append(ids, r.submit("near", fmt.Sprint("near", i)))
	}
	for i := range far {
		r.submit("far", fmt.Sprint("far", i))
	}
	// To look is to read all of /proc, so not too often while they start.
	waittest.Until(t, 5*time.Minute, "all commands to run", func() bool {
		return alive(t, marks["near"]) == tasks*each && alive(t, marks["far"]) == far*each
	})

	ordered := time.Now()
	killed := r.kill(deckhandv1.KillScope_KILL_SCOPE_AGENT, "near")
	answered := time.Since(ordered)
	require.Zero(t, alive(t, marks["near"]), "processes are left though all is confirmed")
	t.Logf("%d tasks of %d processes were confirmed to run no more %s after the order", tasks, each, answered.Round(time.Millisecond))
	require.Len(t, killed, tasks)
	for _, k := range killed {
		require.Equal(t, deckhandv1.KillOutcome_KILL_OUTCOME_CONFIRMED, k.GetOutcome(), k)
	}
	for _, one := range r.tasks(ids) {
		require.Equal(t, "cancelled", one.State, "%+v", one)
	}
	require.Equal(t, far*each, alive(t, marks["far"]), "the other agent's go on")

	// At once: the hub does not know yet that the node is gone.
	cut.cut(true)
	require.Equal(t, "connected", r.status("node-2"))
	ordered = time.Now()
	killed = r.kill(deckhandv1.KillScope_KILL_SCOPE_ORGANISATION, "")
	t.Logf("what a node does that was cut off just now was told %s after the order", time.Since(ordered).Round(time.Millisecond))
	require.Len(t, killed, far)
	for _, k := range killed {
		require.Equal(t, deckhandv1.KillOutcome_KILL_OUTCOME_STOPS_BY, k.GetOutcome(), k)
		require.Less(t, time.Until(k.GetStopsBy().AsTime()), 21*time.Second, "the persona's grace from now at the latest")
	}
	r.eventually(time.Minute, "the hub to miss the node", func() bool { return r.status("node-2") == "disconnected" })
	missed := r.kill(deckhandv1.KillScope_KILL_SCOPE_ORGANISATION, "")
	require.Len(t, missed, far)
	for _, k := range missed {
		require.Equal(t, deckhandv1.KillOutcome_KILL_OUTCOME_STOPS_BY, k.GetOutcome(), k)
		require.Less(t, time.Until(k.GetStopsBy().AsTime()), 20*time.Second, "the last contact and the persona's grace")
	}
	r.eventually(time.Minute, "the node that is cut off to stop them by itself", func() bool { return alive(t, marks["far"]) == 0 })
	t.Logf("what the cut off node ran was gone %s after the time that was named (negative: before)",
		time.Since(killed[0].GetStopsBy().AsTime()).Round(time.Millisecond))
	cut.cut(false)
	r.eventually(time.Minute, "all kill orders to be confirmed", func() bool {
		return rows[struct{ N int }](r, "SELECT count(*)::int FROM kill_orders WHERE confirmed_at IS NULL")[0].N == 0
	})
}

// kill gives an order to kill.
func (r *rig) kill(scope deckhandv1.KillScope, id string) []*deckhandv1.KilledTask {
	r.t.Helper()
	res, err := r.client.Control.Kill(r.t.Context(), &deckhandv1.KillRequest{Scope: scope, ObjectId: id, Reason: "a test"})
	require.NoError(r.t, err)
	return res.GetTasks()
}

// status returns a node's.
func (r *rig) status(node string) string {
	r.t.Helper()
	res, err := r.client.Nodes.GetNode(r.t.Context(), &deckhandv1.GetNodeRequest{NodeId: node})
	require.NoError(r.t, err)
	return res.GetNode().GetStatus()
}
