package exec_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// A jail gets more memory as it runs, and with it what was killed before fits.
// What runs in it continues, the other limits stay, and so it is for the daemon
// after this one.
func TestAJailGetsMoreMemoryAsItRuns(t *testing.T) {
	jailtest.Differs(t, jail.DifferRaise)
	oneCommand(t)
	t.Parallel()
	n := newNode(t)
	spec := jailtest.Spec(ident.New("jail"))
	spec.MemoryBytes = 64 << 20
	made, err := n.jail.EnsureJail(t.Context(), &nodev1.EnsureJailRequest{Spec: spec})
	require.NoError(t, err)
	id := spec.GetJailId()
	bystander := shell(id, "echo here; sleep 3333")
	n.startExec(bystander)
	n.until(bystander.GetExecId(), "here\n")
	hog := func() nodev1.EndReason {
		out, _ := n.run(command(id, "python3", "-c", "x = bytearray(160 << 20)"))
		return out.GetEndReason()
	}
	require.Equal(t, nodev1.EndReason_END_REASON_OUT_OF_MEMORY, hog())
	before := n.limits(id)

	spec.MemoryBytes = 384 << 20
	raised, err := n.jail.EnsureJail(t.Context(), &nodev1.EnsureJailRequest{Spec: spec})
	require.NoError(t, err)
	require.Equal(t, made.GetJail().GetPid(), raised.GetJail().GetPid(), "it is the same jail")
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, hog())
	after := n.limits(id)
	require.EqualValues(t, 384<<20, after["memory"])
	delete(before, "memory")
	delete(after, "memory")
	require.Equal(t, before, after)

	n.stop()
	n.start()
	again, err := n.jail.EnsureJail(t.Context(), &nodev1.EnsureJailRequest{Spec: spec})
	require.NoError(t, err)
	require.Equal(t, made.GetJail().GetPid(), again.GetJail().GetPid())
	resp, err := n.api.GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: bystander.GetExecId()})
	require.NoError(t, err)
	require.Equal(t, nodev1.ExecState_EXEC_STATE_RUNNING, resp.GetExec().GetState())

	// Less is not taken from what runs.
	spec.MemoryBytes = 64 << 20
	_, err = n.jail.EnsureJail(t.Context(), &nodev1.EnsureJailRequest{Spec: spec})
	require.ErrorContains(t, err, "runs with another spec")
	_, err = n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: bystander.GetExecId(), By: "the test"})
	require.NoError(t, err)
	_, err = n.jail.EnsureJail(t.Context(), &nodev1.EnsureJailRequest{Spec: spec})
	require.NoError(t, err)
	require.EqualValues(t, 64<<20, n.limits(id)["memory"])
	require.Equal(t, nodev1.EndReason_END_REASON_OUT_OF_MEMORY, hog())
}

// limits reads what the kernel holds a jail to.
func (n *node) limits(jailID string) map[string]int64 {
	n.tb.Helper()
	cg, err := n.jails.Cgroup(n.tb.Context(), jailID)
	require.NoError(n.tb, err)
	out := map[string]int64{}
	for controller, files := range map[string][2]string{
		"memory": {"memory.limit_in_bytes", "memory.max"}, "pids": {"pids.max", "pids.max"}, "cpu": {"cpu.cfs_quota_us", "cpu.max"},
	} {
		dir, version := cg.Dir(controller)
		require.NotZero(n.tb, version, controller)
		raw, err := os.ReadFile(filepath.Join(dir, files[version-1]))
		require.NoError(n.tb, err)
		out[controller], err = strconv.ParseInt(strings.Fields(string(raw))[0], 10, 64)
		require.NoError(n.tb, err, "%s: %s", controller, raw)
	}
	return out
}
