package tool

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// job is a background command as `task jobs` shows it.
type job struct {
	ID, State string
	Outcome   struct {
		EndReason   string `json:"end_reason"`
		MembersLeft int    `json:"members_left"`
	}
}

func jobsOf(f *harness.Fleet, task string) (out []job) {
	f.T.Helper()
	f.JSON(&out, "task", "jobs", task)
	return out
}

// A job that its persona keeps goes on when its task ends. The agent's next task finds,
// reads and uses it, and the kill switch ends it although its task has ended.
func TestAKeptJobGoesOn(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	const keep = "workspace: {keep_jobs: true}"
	f.Persona("keeper", `
turns:
  - text: I start a server.
    calls:
      - {tool: shell_exec, arguments: {command: "echo up; until [ -e stop ]; do sleep 0.1; done; echo saw it | tee seen; sleep 3600", background: true}}
      - {tool: complete_task, arguments: {summary: "it runs"}}
`, keep)
	first := f.Submit("keeper")
	f.Ended(first)
	f.Persona("keeper", `
turns:
  - text: What runs?
    capture: {job: '(job_\w+) of an earlier task has run'}
    calls:
      - {tool: job_list, arguments: {}}
  - text: I use it.
    calls:
      - {tool: shell_exec, arguments: {command: "touch stop"}}
      - {tool: job_output, arguments: {job: "${job}", wait_seconds: 30, until: saw it}}
      - {tool: shell_exec, arguments: {command: "cat seen; sleep 3600", background: true}}
      - {tool: complete_task, arguments: {summary: "used it"}}
`, keep)
	second := f.Submit("keeper")
	f.Ended(second)
	var steps []struct{ Observation string }
	f.JSON(&steps, "task", "steps", second)
	require.Regexp(t, `^job_\w+ of an earlier task has run for .*: echo up;`, steps[0].Observation)
	require.Regexp(t, `of an earlier task has run for \d+s; the output matches\n(up\n)?saw it\n`, steps[2].Observation)

	for _, id := range []string{first, second} {
		require.Len(t, jobsOf(f, id), 1, "each task's page has its own")
		require.Equal(t, "JOB_STATE_RUNNING", jobsOf(f, id)[0].State)
	}
	killed := f.CLI(0, "kill", "agent", "keeper", "--yes").Out
	for _, id := range []string{first, second} {
		require.Regexp(t, regexp.QuoteMeta(id)+`.*confirmed`, killed)
		waittest.Until(t, 30*time.Second, "the end of the job to be stored", func() bool { return jobsOf(f, id)[0].State == "JOB_STATE_ENDED" })
		require.Equal(t, "killed", jobsOf(f, id)[0].Outcome.EndReason)
	}
}

// A task is killed, and its job with it, with the proof that no process is left. One whose
// node was away while its task was cancelled is ended when the node returns.
func TestAJobOfAKilledTask(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	node := f.StartNode()
	f.StartWorker()
	f.Persona("worker", `
turns:
  - text: I start it and wait.
    calls:
      - {tool: shell_exec, arguments: {command: "echo x > made; sleep 3600 & sleep 3600", background: true}}
      - {tool: wait, arguments: {seconds: 600}}
      - {tool: complete_task, arguments: {summary: "done"}}
`, "workspace: {scope: task}")
	running := func() string {
		t.Helper()
		id := f.Submit("worker")
		waittest.Until(t, time.Minute, "the task to wait", func() bool { return f.Task(id).State == "TASK_STATE_WAITING" })
		require.Equal(t, "JOB_STATE_RUNNING", jobsOf(f, id)[0].State)
		return id
	}
	ended := func(id string) {
		t.Helper()
		waittest.Until(t, time.Minute, "the end of the job to be stored", func() bool { return jobsOf(f, id)[0].State == "JOB_STATE_ENDED" })
		require.Equal(t, "killed", jobsOf(f, id)[0].Outcome.EndReason)
		require.Zero(t, jobsOf(f, id)[0].Outcome.MembersLeft)
	}
	id := running()
	require.Regexp(t, regexp.QuoteMeta(id)+`.*confirmed`, f.CLI(0, "kill", "task", id, "--yes").Out)
	ended(id)

	id = running()
	node.Kill()
	waittest.Until(t, time.Minute, "the node to be gone", func() bool {
		var nodes []struct{ Connected bool }
		f.JSON(&nodes, "node", "list")
		return len(nodes) == 1 && !nodes[0].Connected
	})
	f.CLI(0, "task", "cancel", id)
	require.Equal(t, "JOB_STATE_RUNNING", jobsOf(f, id)[0].State, "nobody can know")
	f.StartNodeIn(f.NodeDir)
	ended(id)
}

// What a job changes while no command runs is listed as the job's, and undone only when it is
// asked for: not with the step that started it.
func TestWhatAJobChanged(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("builder", `
turns:
  - text: I start it.
    capture: {job: '(job_\w+) runs'}
    calls:
      - {tool: file_write, arguments: {path: kept, content: "by a step\n"}}
      - {tool: shell_exec, arguments: {command: "sleep 2; echo by a job > made", background: true}}
  - text: I wait for it.
    calls:
      - {tool: wait, arguments: {job: "${job}", seconds: 60}}
      - {tool: complete_task, arguments: {summary: "built"}}
`, "workspace: {scope: task}")
	id := f.Submit("builder")
	f.Ended(id)
	var changes []struct {
		StepID, JobID, Tool string
		Changes             []struct{ Path string }
		UndoneAt            string
	}
	list := func() {
		changes = nil
		f.JSON(&changes, "task", "diff", id, "--steps")
	}
	waittest.Until(t, time.Minute, "the end of the job to be stored", func() bool { list(); return len(changes) == 2 })
	require.Equal(t, "kept", changes[0].Changes[0].Path)
	job := changes[1]
	require.Regexp(t, `^job_`, job.JobID)
	require.Equal(t, "made", job.Changes[0].Path)
	require.Contains(t, f.CLI(0, "task", "diff", id).Out, "+by a job")
	require.NotContains(t, f.CLI(0, "task", "diff", id, "--job", job.JobID).Out, "by a step")

	require.Contains(t, f.CLI(3, "task", "undo", id, "--step", job.StepID, "--yes").Err, "has no such step that changed files")
	f.CLI(0, "task", "undo", id, "--last", "1", "--yes")
	require.Equal(t, "by a job\n", f.CLI(0, "task", "files", "cat", id, "made").Out, "the last step is not the job")
	f.CLI(0, "task", "undo", id, "--job", job.JobID, "--yes")
	list()
	require.NotEmpty(t, changes[0].UndoneAt)
	require.NotEmpty(t, changes[1].UndoneAt)
	require.NotContains(t, f.CLI(0, "task", "files", "ls", id).Out, "made")
}
