package exec_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func inBackground(spec *nodev1.ExecSpec, after time.Duration) *nodev1.ExecSpec {
	spec.BackgroundAfter = durationpb.New(after)
	return spec
}

// job starts a command and waits until it has become a job or has ended.
func (n *node) job(spec *nodev1.ExecSpec) *nodev1.Exec {
	n.tb.Helper()
	resp, err := n.api.StartExec(n.tb.Context(), &nodev1.StartExecRequest{Spec: spec, Wait: durationpb.New(time.Minute)})
	require.NoError(n.tb, err)
	return resp.GetExec()
}

func (n *node) end(id string) *nodev1.Exec {
	n.tb.Helper()
	resp, err := n.api.WaitExec(n.tb.Context(), &nodev1.WaitExecRequest{ExecId: id, UntilEnd: true, Timeout: durationpb.New(time.Minute)})
	require.NoError(n.tb, err)
	require.Equal(n.tb, nodev1.ExecState_EXEC_STATE_ENDED, resp.GetExec().GetState())
	return resp.GetExec()
}

func paths(c *nodev1.WorkspaceChange) []string {
	out := []string{}
	for _, one := range c.GetChanges() {
		out = append(out, string(one.GetPath()))
	}
	return out
}

// A command that takes too long to be waited for goes on as a job, also under the next
// daemon, with its output whole. What it changed before is the command's, and what it
// changes later is the job's.
func TestACommandBecomesAJob(t *testing.T) { onRuntimes(t, testACommandBecomesAJob) }

func testACommandBecomesAJob(t *testing.T, runtime string) {
	t.Parallel()
	n := prepared(t).on(runtime)
	s := recorded(n)
	n.start()
	id := n.ensure()
	spec := inBackground(recordedShell(id, "echo one | tee a; until [ -e go ]; do sleep 0.05; done; echo two | tee b"), 500*time.Millisecond)
	spec.Timeout = durationpb.New(time.Hour)
	job := n.job(spec)
	require.Equal(t, nodev1.ExecState_EXEC_STATE_RUNNING, job.GetState())
	require.NotNil(t, job.GetJobSince())
	require.GreaterOrEqual(t, job.GetJobSince().AsTime().Sub(job.GetStartedAt().AsTime()), 490*time.Millisecond)
	require.Equal(t, []string{"a"}, paths(job.GetWorkspace()))

	n.stop()
	n.start()
	again := n.job(spec)
	require.Equal(t, job.GetJobSince().AsTime(), again.GetJobSince().AsTime(), "it became a job once")
	require.Equal(t, []string{"a"}, paths(again.GetWorkspace()))
	n.touch(id, "go")
	ended := n.end(spec.GetExecId())
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, ended.GetEndReason())
	require.Equal(t, []string{"a"}, paths(ended.GetWorkspace()))
	require.Equal(t, []string{"b", "go"}, paths(ended.GetJobWorkspace()), "all that changed while nothing else was recorded")
	require.Equal(t, "one\ntwo\n", string(n.log(spec.GetExecId(), false)[0]))

	undone, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{
		JailId: id, OperationId: "undo_1", Range: &nodev1.ChangeRange{By: []string{nodelink.JobID(spec.GetExecId())}},
	})
	require.NoError(t, err)
	require.True(t, undone.GetApplied(), "%v", undone)
	_, left := n.sh(id, "echo *")
	require.Equal(t, "a\n", left, "the command's own change stays")
}

// A command that ends in time is no job.
func TestACommandThatEndsInTimeIsNoJob(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	ended := n.job(inBackground(shell(id, "echo done"), time.Hour))
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, ended.GetEndReason())
	require.Nil(t, ended.GetJobSince())
}

// What a job changes between commands is found when the next one begins, and is the
// job's; what changes while a command runs is that command's.
func TestAJobsChangesAreItsOwn(t *testing.T) {
	t.Parallel()
	n := prepared(t)
	recorded(n)
	n.start()
	id := n.ensure()
	spec := inBackground(recordedShell(id, "touch early; until [ -e stop ]; do sleep 0.05; done"), 0)
	job := n.job(spec)
	require.NotNil(t, job.GetJobSince())
	require.Zero(t, job.GetWorkspace().GetFiles())
	n.eventually(func() bool { _, out := n.sh(id, "ls"); return out == "early\n" }, "files of the job")
	command, _ := n.run(recordedShell(id, "touch mine"))
	require.Equal(t, []string{"mine"}, changed(command))
	require.Empty(t, command.GetWorkspace().GetSharedWith())
	n.touch(id, "stop")
	ended := n.end(spec.GetExecId())
	require.Equal(t, []string{"early", "stop"}, paths(ended.GetJobWorkspace()))
}

// A job is killed like any command: its whole tree is gone.
func TestAJobIsKilled(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := inBackground(shell(id, "sleep 1000 & (setsid sleep 1000 &); wait"), 0)
	require.NotNil(t, n.job(spec).GetJobSince())
	killed, err := n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: spec.GetExecId(), By: "a person"})
	require.NoError(t, err)
	require.Equal(t, nodev1.EndReason_END_REASON_KILLED, killed.GetExec().GetEndReason())
	require.Zero(t, killed.GetExec().GetMembersLeft())
	require.NotNil(t, killed.GetExec().GetJobSince())
}
