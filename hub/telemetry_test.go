package hub_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The figures of a task's own jail have the name of its agent, as those of an agent's jail have.
func TestTheJailOfATaskHasItsAgentsName(t *testing.T) {
	t.Parallel()
	var jail atomic.Value
	jail.Store("none")
	millis := int64(700)
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Telemetry: func() *nodev1.TelemetrySample {
		id, _ := jail.Load().(string)
		return &nodev1.TelemetrySample{Time: &timestamppb.Timestamp{Seconds: 1}, Host: &nodev1.Usage{}, Jails: []*nodev1.Usage{{JailId: id, CpuMillis: &millis}}}
	}})
	r.apply("each", strings.Replace(scripted("each"), "limits:", "workspace: {scope: task}\nlimits:", 1))
	task := r.submit("each")
	r.begin(task.GetId(), 1)
	jail.Store(r.sql("SELECT jail_id FROM tasks WHERE id = $1", task.GetId()))
	stream, err := r.user.Telemetry.WatchNodeTelemetry(t.Context(), &deckhandv1.WatchNodeTelemetryRequest{NodeId: "sim"})
	require.NoError(t, err)
	defer func() { _ = stream.Close() }()
	require.True(t, stream.Receive(), "%v", stream.Err())
	require.Len(t, stream.Msg().GetJails(), 1)
	require.Equal(t, "each", stream.Msg().GetJails()[0].GetAgentName())
	require.EqualValues(t, 700, stream.Msg().GetJails()[0].GetCpuMillis())
}
