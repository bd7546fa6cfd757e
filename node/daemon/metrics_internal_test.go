package daemon

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/metricsserver/scrapetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Commands are counted by how they ended, and the node's metrics keep
// Prometheus' rules and are documented.
func TestMetrics(t *testing.T) {
	t.Parallel()
	r := scrapetest.New()
	m := newMetrics(r, nodeState{dir: t.TempDir(), jails: func() int { return 1 }, reserved: func() bool { return true }})
	now := time.Now()
	m.ended(&nodev1.Exec{
		EndReason: nodev1.EndReason_END_REASON_OUT_OF_MEMORY, LogBytes: 12,
		StartedAt: timestamppb.New(now.Add(-time.Second)), EndedAt: timestamppb.New(now),
	})
	m.ended(&nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_NOT_STARTED})
	m.committed(time.Millisecond)
	m.linked(true)

	r.Check(t, "deckhand_node_", "../../docs/operations.md")
	require.InDelta(t, 1, testutil.ToFloat64(m.execs.WithLabelValues("out_of_memory")), 0)
	require.InDelta(t, 1, testutil.ToFloat64(m.execs.WithLabelValues("not_started")), 0)
	require.InDelta(t, 12, testutil.ToFloat64(m.logBytes), 0)
	require.InDelta(t, 1, testutil.ToFloat64(m.linkUp), 0)
}
