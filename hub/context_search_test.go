package hub_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const recaller = `---
name: recaller
description: Looks things up
provider: script
script: recaller.script.yaml
tools: [shell_exec, file_write, context_search, pin_fact]
limits: {iterations: 5}
workspace: {scope: task}
---
Look.
`

// Every word of a task's past is found again, and of that task's only.
func TestContextSearchFindsExactWordsOfThisTask(t *testing.T) {
	t.Parallel()
	out := "booting\nrelease-key=RK-77 in /etc/App.conf\nthe rest\n"
	r := newRig(t, hubtest.Shared(t), func(context.Context, *nodev1.ExecSpec) (string, *nodev1.Exec) {
		return out, &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	})
	r.apply("recaller", recaller)
	run := func(lease *deckhandv1.Lease, turn int32, tool, arguments string) *deckhandv1.Step {
		t.Helper()
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, tool, arguments)
		require.NoError(t, err)
		step, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
		require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, step.GetState(), step.GetObservation())
		return step
	}
	other := r.begin(r.submit("recaller").GetId(), 1)
	run(other, 1, "shell_exec", `{"command":"cat secret-of-the-other"}`)
	lease := r.begin(r.submit("recaller").GetId(), 1)
	run(lease, 1, "shell_exec", `{"command":"cat log"}`)
	run(lease, 2, "pin_fact", `{"key":"release","fact":"RK-77"}`)
	found := run(lease, 3, "context_search", `{"query":"release-key app.conf"}`)
	require.Equal(t, "turn 1, step 1: shell_exec, succeeded\n  release-key=RK-77 in /etc/App.conf", found.GetObservation())
	none := run(lease, 4, "context_search", `{"query":"secret-of-the-other"}`)
	require.Contains(t, none.GetObservation(), "nothing in this task")
}

// A workspace's AGENTS.md and its skills reach the task.
func TestStartTellsOfAGENTSAndSkills(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("recaller", recaller)
	id := r.submit("recaller").GetId()
	lease := r.begin(id, 1)
	for i, write := range []string{
		`{"path":"AGENTS.md","content":"Run make test."}`,
		`{"path":".agents/skills/release/SKILL.md","content":"---\nname: release\ndescription: How to cut a release\n---\nFirst, ..."}`,
		`{"path":".agents/skills/broken/SKILL.md","content":"no front matter"}`,
	} {
		r.turn(lease, int32(i+1))
		step, err := r.propose(lease, int32(i+1), 0, "file_write", write)
		require.NoError(t, err)
		step, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
		require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, step.GetState(), step.GetObservation())
	}
	res, err := r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: lease})
	require.NoError(t, err)
	require.Equal(t, "Run make test.", res.GetInstructions())
	require.Len(t, res.GetSkills(), 1)
	require.Equal(t, "How to cut a release", res.GetSkills()[0].GetDescription())
	require.Equal(t, ".agents/skills/release/SKILL.md", res.GetSkills()[0].GetPath())
}
