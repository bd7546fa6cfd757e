package tool

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// An agent starts a server, waits until it listens, uses it, and looks at its output; it
// types what a program asks for, and kills the job that hangs.
func TestAnAgentWorksWithJobs(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("server", `
turns:
  - text: I start a server and a program that asks.
    capture: {server: '(job_\w+) runs', asker: '(?s)job_\w+ runs.*?(job_\w+) runs'}
    calls:
      - {tool: shell_exec, arguments: {command: "echo starting; sleep 1; echo listening on 8080; until [ -e stop ]; do sleep 0.1; done; echo bye | tee last", background: true}}
      - {tool: shell_exec, arguments: {command: "echo 'go on?'; read a; echo \"you said $a\"", background: true}}
  - text: I wait for it.
    calls:
      - {tool: job_output, arguments: {job: "${server}", wait_seconds: 30, until: "listening on \\d+"}}
      - {tool: job_output, arguments: {job: "${server}"}}
      - {tool: job_input, arguments: {job: "${asker}", text: "yes"}}
      - {tool: job_output, arguments: {job: "${asker}", wait_seconds: 30}}
      - {tool: job_list, arguments: {}}
      - {tool: shell_exec, arguments: {command: "touch stop"}}
      - {tool: job_output, arguments: {job: "${server}", wait_seconds: 30}}
      - {tool: job_output, arguments: {job: job_none}}
  - text: Something that hangs.
    capture: {hung: '(job_\w+) runs'}
    calls:
      - {tool: shell_exec, arguments: {command: "echo begun; sleep 3600", timeout_seconds: 1}}
  - text: I end it.
    calls:
      - {tool: job_kill, arguments: {job: "${hung}"}}
      - {tool: shell_exec, arguments: {command: "pgrep -c sleep || true; sleep 3600", timeout_seconds: 1, on_timeout: kill}}
  - text: A command that fails, and that is all.
    calls:
      - {tool: shell_exec, arguments: {command: "echo no; exit 3"}}
      - {tool: complete_task, arguments: {summary: "served"}}
`)
	id := f.Submit("server")
	f.Ended(id)
	var steps []struct{ ID, State, Observation, ErrorCode string }
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 15)
	job := regexp.MustCompile(`^(job_\w+) runs in the background, for at most 1h\.`)
	require.Regexp(t, job, steps[0].Observation)
	server, asker := job.FindStringSubmatch(steps[0].Observation)[1], job.FindStringSubmatch(steps[1].Observation)[1]

	// Its first line may have come with the start already.
	begun := `starting\nlistening on 8080\n\[bytes 0`
	if regexp.MustCompile(`(?m)^starting$`).MatchString(steps[0].Observation) {
		begun = `listening on 8080\n\[bytes 9`
	}
	require.Regexp(t, "^"+server+` has run for \d+s; the output matches\n`+begun+` to 27 of its output\]$`, steps[2].Observation)
	require.Equal(t, "wrote 4 bytes to "+asker, steps[4].Observation)
	require.Equal(t, asker+" has ended: exit status 0\ngo on?\nyou said yes\n[bytes 0 to 20 of its output]", steps[5].Observation)
	require.Regexp(t, "(?m)^"+server+` has run for \d+s, 27 bytes of output, of which you have read up to 27: echo starting;`, steps[6].Observation)
	require.Equal(t, server+" has ended: exit status 0\nbye\n[bytes 27 to 31 of its output]", steps[8].Observation)
	require.Contains(t, steps[9].Observation, `this task has no job "job_none": use one of job_`)

	require.Regexp(t, `^not done in time: job_\w+ runs in the background, .*\nIts output so far:\nbegun\n?$`, steps[10].Observation)
	require.Regexp(t, `^job_\w+ has ended: AGENT_027: killed by the agent$`, steps[11].Observation)
	require.Equal(t, "STEP_STATE_FAILED", steps[12].State, "on_timeout: kill")
	require.Regexp(t, `^error AGENT_006: killed, because it ran longer than its time-out\n0\n?$`, steps[12].Observation, "the job that hung is gone")

	// People see that a command failed; to the agent its status is a result.
	require.Equal(t, "STEP_STATE_FAILED", steps[13].State)
	require.Equal(t, "AGENT_030", steps[13].ErrorCode)
	require.Equal(t, "exit status 3\nno\n", steps[13].Observation)

	// A person sees the jobs, and which of them changed what.
	var jobs []struct {
		ID, State string
		Outcome   struct {
			EndReason string `json:"end_reason"`
		}
	}
	f.JSON(&jobs, "task", "jobs", id)
	require.Len(t, jobs, 3)
	require.Equal(t, server, jobs[2].ID, "the newest first")
	for _, j := range jobs {
		require.Equal(t, "JOB_STATE_ENDED", j.State)
	}
	require.Equal(t, "killed", jobs[0].Outcome.EndReason)
}

// A job ends with its task, is shown with what it uses, and a person can kill one.
func TestJobsEndWithTheirTask(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("forgetful", `
turns:
  - text: Two that never end.
    calls:
      - {tool: shell_exec, arguments: {command: "while :; do :; done", background: true}}
      - {tool: shell_exec, arguments: {command: "sleep 3600 & sleep 3600", background: true}}
  - text: I wait for a person.
    calls:
      - {tool: shell_exec, arguments: {command: "until [ -e go ]; do sleep 0.1; done; exit 0"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "forgot them"}}
`)
	id := f.Submit("forgetful")
	type job struct {
		ID, State, Command string
		Usage              struct {
			CPUTime     string `json:"cpuTime"`
			MemoryBytes string
			Processes   int
		}
	}
	var jobs []job
	require.Eventually(t, func() bool {
		jobs = nil
		f.JSON(&jobs, "task", "jobs", id)
		return len(jobs) == 2 && jobs[0].Usage.Processes >= 2 && jobs[1].Usage.CPUTime > "0.5"
	}, time.Minute, 100*time.Millisecond)
	require.NotEmpty(t, jobs[0].Usage.MemoryBytes)
	f.CLI(0, "task", "kill-job", id, jobs[0].ID)
	jobs = nil
	f.JSON(&jobs, "task", "jobs", id)
	require.Equal(t, "JOB_STATE_RUNNING", jobs[0].State)
	require.Equal(t, "while :; do :; done", jobs[0].Command)
	require.Equal(t, "JOB_STATE_ENDED", jobs[1].State)

	file := filepath.Join(t.TempDir(), "go")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	f.CLI(0, "task", "files", "put", id, file, "go")
	f.Ended(id)
	require.Eventually(t, func() bool {
		jobs = nil
		f.JSON(&jobs, "task", "jobs", id)
		return jobs[0].State == "JOB_STATE_ENDED"
	}, 30*time.Second, 100*time.Millisecond)
}

// An agent waits for long without a worker's slot: until a port listens, a file is there, a
// job ends, and for a time. Another task runs meanwhile on the only slot.
func TestAnAgentWaitsWithoutASlot(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker("--slots", "1")
	f.Persona("waiter", `
turns:
  - text: A server and a job that go on.
    capture: {server: '(job_\w+) runs', job: '(?s)job_\w+ runs.*?(job_\w+) runs'}
    calls:
      - {tool: shell_exec, arguments: {command: "sleep 3; python3 -m http.server 8080 --bind 127.0.0.1", background: true}}
      - {tool: shell_exec, arguments: {command: "until [ -e done ]; do sleep 0.2; done", background: true}}
  - text: I wait for the server.
    calls: [{tool: wait, arguments: {seconds: 600, port: 8080}}]
  - text: I wait for a person's file.
    calls: [{tool: wait, arguments: {seconds: 600, file: /workspace/go}}]
  - text: I wait for the job.
    calls:
      - {tool: shell_exec, arguments: {command: "(sleep 4; touch done) >/dev/null 2>&1 & touch started", background: true}}
      - {tool: wait, arguments: {seconds: 600, job: "${job}"}}
  - text: Short and long waits for a time, and for what does not come.
    calls:
      - {tool: wait, arguments: {seconds: 1}}
      - {tool: wait, arguments: {seconds: 1, port: 9}}
      - {tool: wait, arguments: {seconds: 31, file: never}}
      - {tool: wait, arguments: {seconds: 5, job: job_none}}
  - text: All done.
    calls: [{tool: complete_task, arguments: {summary: "waited"}}]
`)
	f.Persona("other", `
turns:
  - text: Mine is short.
    calls: [{tool: complete_task, arguments: {summary: "done"}}]
`)
	id := f.Submit("waiter")
	waits := func(what string) {
		require.Eventually(t, func() bool {
			task := f.Task(id)
			return task.State == "TASK_STATE_WAITING" && strings.Contains(task.Reason, "or until "+what)
		}, time.Minute, 100*time.Millisecond, "it waits until %s", what)
	}
	waits("/workspace/go is there")
	f.Ended(f.Submit("other")) // the slot is free
	file := filepath.Join(t.TempDir(), "go")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	f.CLI(0, "task", "files", "put", id, file, "go")
	f.Ended(id)
	var said []string
	var steps []struct{ Tool, Observation string }
	f.JSON(&steps, "task", "steps", id)
	for _, s := range steps {
		if s.Tool == "wait" {
			said = append(said, s.Observation)
		}
	}
	require.Len(t, said, 7)
	require.Regexp(t, `^waited \d+s; port 8080 listens$`, said[0])
	require.Regexp(t, `^waited \d+s; /workspace/go is there$`, said[1])
	require.Regexp(t, `^waited \d+s; job_\w+ has ended$`, said[2])
	require.Equal(t, "waited 1s", said[3])
	require.Equal(t, "waited 1s, but not until port 9 listens", said[4])
	require.Regexp(t, `^waited 3\ds, but not until never is there$`, said[5])
	require.Contains(t, said[6], `this task has no job "job_none"`)
}
