package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// jobLines is how many lines the background command of the test writes.
const jobLines = 240

// worksInBackground starts a command that counts its runs and writes for twelve seconds,
// waits for its last line, and ends.
var worksInBackground = fmt.Sprintf(`turns:
  - text: I start it.
    capture: {job: '(job_\w+) runs in the background'}
    calls:
      - tool: shell_exec
        arguments: {command: "echo run >> runs; for i in $(seq 1 %[1]d); do echo line $i; sleep 0.05; done; echo end >> ends", background: true}
  - text: I wait for its last line.
    calls: [{tool: job_output, arguments: {job: "${job}", wait_seconds: 30, until: "line %[1]d\n"}}]
  - text: And for its end, which a machine with other work to do reaches later.
    calls: [{tool: wait, arguments: {job: "${job}", seconds: 600}}]
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "it ran"}}]
`, jobLines)

// waitsForAJob has waited for half a minute without a worker when its job ends.
const waitsForAJob = `turns:
  - text: I start it.
    capture: {job: '(job_\w+) runs in the background'}
    calls: [{tool: shell_exec, arguments: {command: "echo run >> runs; sleep 30; echo end >> ends", background: true}}]
  - text: I wait for its end.
    calls: [{tool: wait, arguments: {job: "${job}", seconds: 600}}]
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "it ran"}}]
`

// A background command survives the deaths of worker, hub and daemon, several times each:
// it runs once, its output is whole, the agent reads it, and its end is on record. A task
// that waits for one without a worker goes on when it has ended.
func TestAJobSurvivesKills(t *testing.T) {
	t.Parallel()
	r := newMatrixRig(t)
	r.agent("job", "workspace: {scope: task}", worksInBackground)
	ids := []string{r.submit("job", "one"), r.submit("job", "two")}
	type job struct{ State, StepID, Outcome string }
	jobs := func() []job {
		return rows[job](r, "SELECT state, step_id, outcome::text FROM jobs WHERE task_id = ANY ($1) ORDER BY task_id", ids)
	}
	r.agent("waiter", "workspace: {scope: task}", waitsForAJob)
	waiter := r.submit("waiter", "three")
	r.eventually(time.Minute, "the jobs to run", func() bool { return len(jobs()) == len(ids) })
	r.eventually(time.Minute, "a task to wait for its job", func() bool {
		return rows[struct{ State string }](r, "SELECT state FROM tasks WHERE id = $1", waiter)[0].State == "waiting"
	})
	for range 2 {
		r.workers[0].kill()
		r.nodes[0].kill()
		r.hubs[0].kill()
		r.eventually(time.Minute, "the node to be connected again", func() bool {
			res, err := r.client.Nodes.GetNode(t.Context(), &deckhandv1.GetNodeRequest{NodeId: "node-1"})
			return err == nil && res.GetNode().GetStatus() == "connected"
		})
	}
	var want strings.Builder
	for i := range jobLines {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	for _, one := range r.settle(append(ids, waiter), 2*time.Minute) {
		require.Equal(t, "succeeded", one.State, "%+v", one)
		require.Equal(t, []string{"run"}, r.lines(one, "runs"), "it ran once")
		require.Equal(t, []string{"end"}, r.lines(one, "ends"), "to its end")
	}
	r.eventually(30*time.Second, "the ends of the jobs to be stored", func() bool {
		all := jobs()
		return all[0].State == "ended" && all[1].State == "ended"
	})
	for _, j := range jobs() {
		require.Contains(t, j.Outcome, `"end_reason": "exited"`)
		require.Equal(t, want.String(), r.output(j.StepID), "no output is lost or doubled")
	}
	r.history(append(ids, waiter))
	r.nothingIsLeft()
}
