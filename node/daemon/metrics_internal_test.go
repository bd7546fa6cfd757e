package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/metricsserver/scrapetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Commands are counted by how they ended, and the node's metrics keep
// Prometheus' rules and are documented.
func TestMetrics(t *testing.T) {
	t.Parallel()
	r := scrapetest.New()
	m := newMetrics(r, nodeState{dir: t.TempDir(), jails: func() int { return 1 }, reserved: func() bool { return true }, usage: func() *nodev1.TelemetrySample {
		return &nodev1.TelemetrySample{
			Host: &nodev1.Usage{
				CpuTotalUsec: proto.Int64(2_000_000), Cpus: proto.Int32(2), MemoryBytes: proto.Int64(10), MemoryLimitBytes: proto.Int64(20),
				IoPressure: &nodev1.Pressure{SomeAvg60: 12.5},
			},
			Jails: []*nodev1.Usage{{CpuMillis: proto.Int64(500), MemoryBytes: proto.Int64(3)}, {CpuMillis: proto.Int64(250), MemoryBytes: proto.Int64(4)}},
		}
	}})
	now := time.Now()
	m.ended(&nodev1.Exec{
		EndReason: nodev1.EndReason_END_REASON_OUT_OF_MEMORY, LogBytes: 12,
		StartedAt: timestamppb.New(now.Add(-time.Second)), EndedAt: timestamppb.New(now),
	})
	m.ended(&nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_NOT_STARTED})
	m.committed(time.Millisecond)
	m.linked(true)

	r.Check(t, "deckhand_node_", "../../docs/monitoring.md")
	require.InDelta(t, 1, testutil.ToFloat64(m.execs.WithLabelValues("out_of_memory")), 0)
	require.InDelta(t, 1, testutil.ToFloat64(m.execs.WithLabelValues("not_started")), 0)
	require.InDelta(t, 12, testutil.ToFloat64(m.logBytes), 0)
	require.InDelta(t, 1, testutil.ToFloat64(m.linkUp), 0)
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(`
# HELP deckhand_node_host_pressure_ratio Share of the last minute in which some process waited for cpu, memory or io.
# TYPE deckhand_node_host_pressure_ratio gauge
deckhand_node_host_pressure_ratio{resource="io"} 0.125
# HELP deckhand_node_jails_cpu_cores CPU time per second that all jails use.
# TYPE deckhand_node_jails_cpu_cores gauge
deckhand_node_jails_cpu_cores 0.75
# HELP deckhand_node_jails_memory_bytes Memory that all jails use.
# TYPE deckhand_node_jails_memory_bytes gauge
deckhand_node_jails_memory_bytes 7
`), "deckhand_node_host_pressure_ratio", "deckhand_node_jails_cpu_cores", "deckhand_node_jails_memory_bytes"))
}
