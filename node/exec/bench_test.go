package exec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// BenchmarkExec measures from start to exit of `true` in a warm jail through
// the node's API, the ledger's fsync included.
func BenchmarkExec(b *testing.B) {
	n := newNode(b)
	id := n.ensure()
	ctx := b.Context()
	for b.Loop() {
		spec := command(id, "/bin/true")
		_, err := n.api.StartExec(ctx, &nodev1.StartExecRequest{Spec: spec})
		require.NoError(b, err)
		resp, err := n.api.WaitExec(ctx, &nodev1.WaitExecRequest{ExecId: spec.GetExecId()})
		require.NoError(b, err)
		require.Equal(b, nodev1.EndReason_END_REASON_EXITED, resp.GetExec().GetEndReason())
	}
}

// BenchmarkExecParallel measures many execs at once.
func BenchmarkExecParallel(b *testing.B) {
	n := newNode(b)
	id := n.ensure()
	ctx := b.Context()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			spec := command(id, "/bin/true")
			_, err := n.api.StartExec(ctx, &nodev1.StartExecRequest{Spec: spec})
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := n.api.WaitExec(ctx, &nodev1.WaitExecRequest{ExecId: spec.GetExecId()}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
