package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/pressure"
	"github.com/deckhand-sh/deckhand/worker"
	"github.com/deckhand-sh/deckhand/worker/hubtest"
)

// A worker tells its hub of pressure at once, the first time and later, takes
// nothing new in the meantime, and says when it is over. Renewals are minutes
// apart here: none of this waits for one.
func TestAWorkerUnderPressureTakesNothingNew(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(3)
	hub := hubtest.New(t, hubtest.Config{LeaseTTL: 10 * time.Minute})
	start(t, hub, func(c *worker.Config) {
		c.Pressure = pressure.Limits{MinDisk: 5}
		c.Measure = func(context.Context) (pressure.Figures, error) {
			return pressure.Figures{DiskTotal: 100, DiskFree: free.Load()}, nil
		}
	})
	says := func(want string) {
		t.Helper()
		began := time.Now()
		require.Eventually(t, func() bool { return hub.Pressure() == want }, time.Minute, 10*time.Millisecond)
		t.Logf("the hub heard %q after %s", want, time.Since(began).Round(time.Millisecond))
	}
	says("free disk is 3 %, under the limit of 5 %")
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	free.Store(50)
	says("")
	hub.WaitState(t, "task_1", succeeded)
	require.Equal(t, 1, hub.Calls("ClaimTask"))

	free.Store(4)
	says("free disk is 4 %, under the limit of 5 %")
	submit(t, hub, "task_2", twoTurns)
	hub.Wake(t, "task_2")
	require.EqualValues(t, 1, hub.Pending(t), "the wake-up is left to others")
	free.Store(50)
	hub.WaitState(t, "task_2", succeeded)
}
