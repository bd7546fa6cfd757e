package exec_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/exec"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Many jails at once, 50 in the soak, each with a command of its own; the
// next daemon finds every one, and each can be killed.
func TestManyJailsAtOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	specs := make([]*nodev1.ExecSpec, jailtest.Sized(8, 50))
	var making sync.WaitGroup
	errs := make([]error, len(specs))
	few := make(chan struct{}, 8)
	for i := range specs {
		making.Go(func() {
			few <- struct{}{}
			defer func() { <-few }()
			spec := jailtest.Spec(ident.New("jail"))
			spec.WorkspaceBytes = 16 << 20
			if _, errs[i] = n.jail.EnsureJail(t.Context(), &nodev1.EnsureJailRequest{Spec: spec}); errs[i] != nil {
				return
			}
			specs[i] = shell(spec.GetJailId(), "hostname > /workspace/who; echo begun; sleep 3456")
			_, errs[i] = n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: specs[i]})
		})
	}
	making.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	n.stop()
	n.start()
	live, err := n.api.ListExecs(t.Context(), &nodev1.ListExecsRequest{LiveOnly: true})
	require.NoError(t, err)
	require.Len(t, live.GetExecs(), len(specs))
	for _, spec := range specs {
		n.until(spec.GetExecId(), "begun\n")
		killed, err := n.jail.KillJail(t.Context(), &nodev1.KillJailRequest{JailId: spec.GetJailId(), By: "operator"})
		require.NoError(t, err)
		require.Zero(t, killed.GetMembersLeft())
		require.Equal(t, "operator", n.wait(spec.GetExecId()).GetKilledBy())
	}
}

// A clock of the machine that jumps by a year, either way, ends no command
// before its time, and loses no result that the hub may not have: time-outs run
// on the monotonic clock. It is the daemon's clock that is set here, and not
// the machine's, which others use.
func TestAClockThatJumps(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	var mu sync.Mutex
	var jump time.Duration
	n := prepared(t)
	n.now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(jump).Round(0)
	}
	n.change = func(c *exec.Config) { c.Now, c.CollectEvery = n.now, 20*time.Millisecond }
	n.start()
	id := n.ensure()
	ended := shell(id, "echo kept")
	n.startExec(ended)
	n.wait(ended.GetExecId())
	running := shell(id, counting)
	n.startExec(running)
	n.until(running.GetExecId(), "begun")
	for _, by := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour} {
		mu.Lock()
		jump = by
		mu.Unlock()
		for range 2 {
			n.goesOn(running.GetExecId())
			_, text := n.sh(id, "echo new")
			require.Equal(t, "new\n", text)
		}
		require.Equal(t, nodev1.ExecState_EXEC_STATE_RUNNING, n.get(running.GetExecId()).GetState())
		require.Zero(t, n.get(ended.GetExecId()).GetExitCode())
		n.stop()
		n.start()
	}
	out, err := n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: running.GetExecId(), By: "operator"})
	require.NoError(t, err)
	require.Equal(t, nodev1.EndReason_END_REASON_KILLED, out.GetExec().GetEndReason())
	rec, err := n.ledger.GetExec(t.Context(), ended.GetExecId())
	require.NoError(t, err)
	require.NotNil(t, rec.GetResult())
}
