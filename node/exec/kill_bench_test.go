package exec_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// BenchmarkKillTree measures from the order to the proof that none of a tree of
// 50 is left; half of it left session and parent.
func BenchmarkKillTree(b *testing.B) {
	n := newNode(b)
	id := n.ensure()
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		spec := shell(id, `for i in $(seq 25); do sleep 7777 & (setsid sh -c 'setsid sleep 7777 & exit' &) ; done; echo ready; wait`)
		n.startExec(spec)
		n.until(spec.GetExecId(), "ready\n")
		n.eventually(func() bool { return n.processes(id, "sleep 7777") == 50 }, "50 processes")
		b.StartTimer()
		began := time.Now()
		resp, err := n.api.KillExec(b.Context(), &nodev1.KillExecRequest{ExecId: spec.GetExecId(), By: "bench"})
		took = append(took, time.Since(began))
		require.NoError(b, err)
		require.Equal(b, nodev1.EndReason_END_REASON_KILLED, resp.GetExec().GetEndReason())
		require.Zero(b, resp.GetExec().GetMembersLeft())
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(took[len(took)*95/100])/1e6, "p95-ms")
}
