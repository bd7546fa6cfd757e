package hub_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// beginIn is begin that answers the jail as well.
func (r *rig) beginIn(id string, attempt int32) (*deckhandv1.Lease, string) {
	r.t.Helper()
	lease := r.claim(id, attempt).GetLease()
	res, err := r.workers.Workers.StartTask(r.t.Context(), &deckhandv1.StartTaskRequest{Lease: lease})
	require.NoError(r.t, err)
	return lease, res.GetJailId()
}

// A task whose command was killed for memory goes on with half as much
// again, up to the persona's maximum. The command is not run again; its outcome
// stays what it was, and the model is told.
func TestATaskThatIsKilledForMemoryGetsMore(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	r := newRig(t, hubtest.Shared(t), func(context.Context, *nodev1.ExecSpec) (string, *nodev1.Exec) {
		runs.Add(1)
		return "", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_OUT_OF_MEMORY}
	})
	r.apply("hog", strings.Replace(scripted("hog"), "limits:", "jail: {memory: 64MiB, max_memory: 128MiB}\nlimits:", 1))
	task := r.submit("hog").GetId()

	jailID := ""
	begin := func(attempt int32) *deckhandv1.Lease {
		var lease *deckhandv1.Lease
		lease, jailID = r.beginIn(task, attempt)
		return lease
	}
	jail := func() int64 { return r.node.Jail(jailID).GetMemoryBytes() }
	// hog runs a command that is killed, and answers what the model is told.
	hog := func(attempt, turn int32) string {
		lease := begin(attempt)
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, "shell_exec", `{"command":"hog"}`)
		require.NoError(t, err)
		step, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
		require.Equal(t, deckhandv1.StepState_STEP_STATE_FAILED, step.GetState())
		require.Equal(t, "out_of_memory", step.GetOutcome().AsMap()["end_reason"])
		return step.GetObservation()
	}
	require.Contains(t, hog(1, 1), "The jail had 64 MiB and has 96 MiB now; the persona allows up to 128 MiB.")
	require.EqualValues(t, 64<<20, jail())
	r.waitsFor(task, "admitted")
	lease := begin(2)
	require.EqualValues(t, 96<<20, jail())
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"hog"}`)
	require.NoError(t, err)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_FAILED, step.GetState(), "the step of before, as it ended")
	require.EqualValues(t, 1, runs.Load(), "nothing is run again by itself")

	r.turn(lease, 2)
	step, err = r.propose(lease, 2, 0, "shell_exec", `{"command":"hog"}`)
	require.NoError(t, err)
	_, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Contains(t, hog(3, 3), "The jail has 128 MiB, and the persona allows no more (jail.max_memory): use less.")
	require.EqualValues(t, 128<<20, jail())
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_RUNNING, r.task(task).GetState(), "there is no more to be had: the model goes on")

	var raised []map[string]any
	for _, e := range r.events(task, false) {
		if e.GetType() == "task.memory_raised" {
			payload := e.GetPayload().AsMap()
			require.NotEmpty(t, payload["step_id"])
			delete(payload, "step_id")
			raised = append(raised, payload)
		}
	}
	const mib = float64(1 << 20)
	require.Equal(t, []map[string]any{
		{"from_bytes": 64 * mib, "to_bytes": 96 * mib, "max_bytes": 128 * mib},
		{"from_bytes": 96 * mib, "to_bytes": 128 * mib, "max_bytes": 128 * mib},
	}, raised)
}

// Calls that ran side by side under the limit that was too low raise it
// once.
func TestTwoCommandsKilledTogetherRaiseTheMemoryOnce(t *testing.T) {
	t.Parallel()
	both := make(chan struct{})
	var started atomic.Int32
	r := newRig(t, hubtest.Shared(t), func(ctx context.Context, _ *nodev1.ExecSpec) (string, *nodev1.Exec) {
		if started.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
		case <-ctx.Done():
		}
		return "", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_OUT_OF_MEMORY}
	})
	r.apply("hog", strings.Replace(scripted("hog"), "limits:", "jail: {memory: 64MiB, max_memory: 1GiB}\nlimits:", 1))
	task := r.submit("hog").GetId()
	lease := r.begin(task, 1)
	r.turn(lease, 1)
	var ids []string
	for i := range int32(2) {
		step, err := r.propose(lease, 1, i, "shell_exec", `{"command":"hog"}`)
		require.NoError(t, err)
		ids = append(ids, step.GetId())
	}
	seen := make(chan string, len(ids))
	for _, id := range ids {
		go func() {
			step, err := r.execute(lease, id)
			if err != nil {
				seen <- err.Error()
				return
			}
			seen <- step.GetObservation()
		}()
	}
	notes := <-seen + <-seen
	require.Equal(t, 1, strings.Count(notes, "The jail had 64 MiB and has 96 MiB now"), notes)
	require.Equal(t, 1, strings.Count(notes, "The jail has got more memory since: 96 MiB."), notes)
	_, jailID := r.beginIn(task, 2)
	require.EqualValues(t, 96<<20, r.node.Jail(jailID).GetMemoryBytes())
}
