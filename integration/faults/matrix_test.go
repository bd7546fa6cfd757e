package faults

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/crashpoint"
)

// order is that in which a step comes to the points.
var order = []crashpoint.Point{
	crashpoint.BeforeIntent, crashpoint.AfterIntent, crashpoint.AfterGrant, crashpoint.AfterStart, crashpoint.AfterLedger,
	crashpoint.AfterSpawn, crashpoint.AfterExit, crashpoint.BeforeOutcome, crashpoint.AfterOutcome,
}

// victims are the rows of the matrix, in groups that share a rig. Nodes reconnect with
// growing pauses to hubs that die within seconds of one another, so another victim comes
// in between.
var victims = [][]string{{"hub", "worker", "PostgreSQL"}, {"node daemon", "deckhand-init", "containerd", "NATS"}}

const (
	// sideBySide is how many tasks are at the point when the process dies.
	sideBySide = 2
	// kills is how often each cell is run in the full form.
	kills = 10
)

// matrixScript is a command that must not run twice, and prints what is known.
const matrixScript = `turns:
  - text: I count, print and rest.
    calls:
      - tool: shell_exec
        arguments: {command: "echo ran >> %[1]s; for i in $(seq 1500); do echo line $i of the output; done; sleep 0.2; echo end"}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: counted}}
`

func matrixOutput() string {
	var b strings.Builder
	for i := 1; i <= 1500; i++ {
		fmt.Fprintf(&b, "line %d of the output\n", i)
	}
	return b.String() + "end\n"
}

// cell is the result of the tasks of one cell.
type cell struct{ kills, tasks, succeeded, waiting, ended, ran int }

func (c cell) String() string {
	return fmt.Sprintf("%d: %d = %d+%d+%d, %d", c.kills, c.tasks, c.succeeded, c.waiting, c.ended, c.ran)
}

// matrix collects the cells.
type matrix struct {
	mu    sync.Mutex
	cells map[string]map[crashpoint.Point]cell
}

func (m *matrix) add(victim string, at crashpoint.Point, c cell) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cells[victim] == nil {
		m.cells[victim] = map[crashpoint.Point]cell{}
	}
	sum := m.cells[victim][at]
	m.cells[victim][at] = cell{
		sum.kills + c.kills, sum.tasks + c.tasks, sum.succeeded + c.succeeded,
		sum.waiting + c.waiting, sum.ended + c.ended, sum.ran + c.ran,
	}
}

func (m *matrix) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	const width = 20
	var b strings.Builder
	b.WriteString("kills: tasks = succeeded + waiting for a person + ended otherwise, commands that ran\n")
	fmt.Fprintf(&b, "%-14s", "")
	for _, at := range order {
		fmt.Fprintf(&b, " %-*s", width, strings.TrimPrefix(string(at), "crash-"))
	}
	for _, group := range victims {
		for _, victim := range group {
			fmt.Fprintf(&b, "\n%-14s", victim)
			for _, at := range order {
				fmt.Fprintf(&b, " %-*s", width, m.cells[victim][at])
			}
		}
	}
	return b.String()
}

// Whichever process dies at whichever moment of a step, its command never runs twice, its
// output is complete, and the task ends or waits for a person with a reason.
//
// Without a soak it kills each process once or more and somebody at each moment; a soak
// kills each process at each moment, several times.
func TestTheCrashMatrix(t *testing.T) {
	t.Parallel()
	needRoot(t)
	m := &matrix{cells: map[string]map[crashpoint.Point]cell{}}
	t.Cleanup(func() { t.Logf("the crash matrix\n%s", m) })
	kill := func(t *testing.T, r *rig, victim string, at crashpoint.Point) {
		begin := time.Now()
		m.add(victim, at, r.round(victim, at))
		t.Logf("%s killed at %s: %s", victim, at, time.Since(begin).Round(time.Millisecond))
	}
	if !soaking() {
		r := newMatrixRig(t)
		all := slices.Concat(victims...)
		for i := range max(len(all), len(order)) {
			kill(t, r, all[i%len(all)], order[i%len(order)])
		}
		return
	}
	for _, group := range victims {
		t.Run(strings.Join(group, ", "), func(t *testing.T) {
			t.Parallel()
			r := newMatrixRig(t)
			for range kills {
				for _, at := range order {
					for _, victim := range group {
						kill(t, r, victim, at)
					}
				}
			}
		})
	}
}

// newMatrixRig starts one of each.
func newMatrixRig(t testing.TB) *rig {
	begin := time.Now()
	defer func() { t.Logf("all is up after %s", time.Since(begin).Round(time.Millisecond)) }()
	r := newRig(t, 2*time.Second)
	// An address of this machine that no other process uses.
	ip := fmt.Sprintf("127.%d.%d.%d", 64+syscall.Getpid()>>8&63, syscall.Getpid()&255, r.number)
	r.startNATS(nil, ip+":4222")
	r.eventually(time.Minute, "NATS to listen", func() bool { return reachable(ip + ":4222") })
	r.startHub(nil, ip+":7800", ip+":7801", ip+":7801")
	r.connect(ip + ":7800")
	r.startWorker(nil, 8)
	r.startNode(nil)
	return r
}

// round lets tasks come to a point, kills the victim there, and checks the tasks
// afterwards.
func (r *rig) round(victim string, at crashpoint.Point) cell {
	r.t.Helper()
	round := serial.Add(1)
	counter := fmt.Sprintf("counter-%d", round)
	all := r.points.arm(at, sideBySide)
	var ids []string
	for i := range sideBySide {
		name := fmt.Sprintf("agent-%d", i)
		r.agent(name, "", fmt.Sprintf(matrixScript, counter))
		ids = append(ids, r.submit(name, fmt.Sprintf("%s-%d-%d", r.id, round, i)))
	}
	what := fmt.Sprintf("%s killed at %s", victim, at)
	select {
	case <-all:
	case <-time.After(time.Minute):
		require.Failf(r.t, "tasks do not come to the point", "%s: %+v", what, r.tasks(ids))
	}
	for _, one := range r.tasks(ids) {
		if victim == "deckhand-init" {
			pid := r.initOf(1, one.JailID)
			require.NotZero(r.t, pid, "%s: no init of %s", what, one.JailID)
			require.NoError(r.t, syscall.Kill(pid, syscall.SIGKILL))
			r.eventually(10*time.Second, "init to be gone", func() bool { return r.initOf(1, one.JailID) != pid })
		}
	}
	if u := r.victim(victim); u != nil {
		u.kill()
	}
	require.ElementsMatch(r.t, ids, r.points.release(), what)

	settled := r.settle(ids, 90*time.Second)
	c := cell{kills: 1}
	for _, one := range settled {
		c.tasks++
		switch {
		case one.waits():
			c.waiting++
			require.NotEmpty(r.t, one.Reason, what)
		case one.State == "succeeded":
			c.succeeded++
		default:
			c.ended++
		}
		c.ran += r.check(what, victim, counter, one)
	}
	r.history(ids)
	return c
}

func (r *rig) victim(name string) *unit {
	switch name {
	case "hub":
		return r.hubs[0]
	case "worker":
		return r.workers[0]
	case "node daemon":
		return r.nodes[0]
	case "containerd":
		return r.containerd
	case "PostgreSQL":
		return r.pg
	case "NATS":
		return r.nats
	}
	return nil // an init: there are several
}

// check checks one task's command, and returns how often it ran.
func (r *rig) check(what, victim, counter string, one task) int {
	r.t.Helper()
	ran := r.counter(one, counter)
	require.LessOrEqual(r.t, ran, 1, "%s: the command of %s ran more than once", what, one.ID)
	steps := r.steps(one.ID)
	require.NotEmpty(r.t, steps, "%s: %+v", what, one)
	command := steps[0]
	require.Equal(r.t, "shell_exec", command.Tool)
	for _, later := range steps[1:] {
		require.Equal(r.t, "complete_task", later.Tool, "%s: the command was proposed again", what)
	}
	output, want := r.output(command.ID), matrixOutput()
	if victim != "deckhand-init" {
		// Only the death of a jail may cost a command its end.
		require.Equal(r.t, "succeeded", one.State, "%s: %+v %+v", what, one, steps)
		require.Equal(r.t, "exited", command.End, what)
	}
	switch command.End {
	case "exited":
		require.Equal(r.t, 1, ran, "%s: the command has ended and did not run", what)
		require.Equal(r.t, digest(want), digest(output), "%s: the output of %s is not whole", what, command.ID)
	case "not_started":
		require.Zero(r.t, ran, "%s: the command was not started and ran", what)
		require.Empty(r.t, output)
	default:
		// The outcome is unknown: a person decides.
		require.True(r.t, one.waits(), "%s: %+v %+v", what, one, command)
		require.True(r.t, strings.HasPrefix(want, output), "%s: the output is none of the command's: %.200q", what, output)
	}
	return ran
}
