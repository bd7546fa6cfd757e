package hub_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/pressure"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// figures are a machine's, as the test sets them.
type figures struct {
	mu  sync.Mutex
	now pressure.Figures
}

func (f *figures) set(freeMemory uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = pressure.Figures{MemoryTotal: 100, MemoryAvailable: freeMemory}
}

func (f *figures) measure(context.Context) (pressure.Figures, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, nil
}

// waitsFor waits until a task says that it waits for something, and logs how
// long that took.
func (r *rig) waitsFor(id, reason string) {
	r.t.Helper()
	began := time.Now()
	require.Eventually(r.t, func() bool { return strings.HasPrefix(r.task(id).GetReason(), reason) }, time.Minute, 20*time.Millisecond,
		"the task to say: %s", reason)
	r.t.Logf("%q showed after %s", reason, time.Since(began).Round(time.Millisecond))
}

// Nothing starts on a node under pressure, what was admitted and has not
// begun included; the reason shows, and starts resume. The figures are the
// test's, the clock is the real one.
func TestNothingStartsOnANodeUnderPressure(t *testing.T) {
	t.Parallel()
	machine := &figures{}
	machine.set(50)
	watch := pressure.New(pressure.Config{Limits: pressure.Limits{MinMemory: 10}, Measure: machine.measure})
	require.NoError(t, watch.Start(t.Context()))
	t.Cleanup(watch.Stop)
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Pressure: watch.Now})
	task := r.submit("walker").GetId()
	r.waitsFor(task, "admitted")

	machine.set(4)
	const why = "free memory is 4 %, under the limit of 10 %"
	r.waitsFor(task, "node sim is under pressure: "+why)
	res, err := r.workers.Workers.ClaimTask(t.Context(), &deckhandv1.ClaimTaskRequest{WorkerId: r.worker, TaskId: task, Attempt: 1})
	require.NoError(t, err)
	require.False(t, res.GetClaimed())
	node, err := r.user.Nodes.GetNode(t.Context(), &deckhandv1.GetNodeRequest{NodeId: "sim"})
	require.NoError(t, err)
	require.Equal(t, why, node.GetNode().GetPressure())

	machine.set(50)
	r.waitsFor(task, "admitted")
	r.finish(r.begin(task, 1))
}

// A node tells at the beginning of a session how it does, and what it told
// in an earlier one is forgotten.
func TestPressureIsThatOfTheLastSession(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	// What a node says is shown to people: in one line.
	why := strings.Repeat("a\n\x1b", 66)
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Pressure: func() (string, <-chan struct{}) {
		mu.Lock()
		defer mu.Unlock()
		return why, nil
	}})
	task := r.submit("walker").GetId()
	r.waitsFor(task, "node sim is under pressure: a  a  a")
	require.LessOrEqual(t, len(r.task(task).GetReason()), 300)

	r.node.Stop()
	r.waitsFor(task, "no node that the persona may use is connected")
	mu.Lock()
	why = ""
	mu.Unlock()
	require.NoError(t, r.node.Start(t.Context()))
	r.finish(r.begin(task, 1))
}

// Nothing starts on a worker under pressure.
func TestNothingStartsOnAWorkerUnderPressure(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	renew := func(why string) {
		_, err := r.workers.Workers.RenewLeases(t.Context(), &deckhandv1.RenewLeasesRequest{WorkerId: r.worker, Pressure: why})
		require.NoError(t, err)
	}
	task := r.submit("walker").GetId()
	r.waitsFor(task, "admitted")
	renew("free disk is 1 %")
	r.waitsFor(task, "worker "+r.worker+" takes nothing new: free disk is 1 %")
	_, err := r.workers.Workers.ClaimTask(t.Context(), &deckhandv1.ClaimTaskRequest{WorkerId: r.worker, TaskId: task, Attempt: 1})
	require.True(t, fault.Is(fault.FromConnect(err), fault.Aborted), "%v", err)
	renew("free disk is 2 %")
	r.waitsFor(task, "worker "+r.worker+" takes nothing new: free disk is 2 %")
	renew("")
	r.finish(r.begin(task, 1))
}
