package faults

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// envSeed repeats a chaos: the same order of faults, at the same pace.
const envSeed = "DECKHAND_CHAOS_SEED"

// storm is how much chaos there is.
type storm struct {
	tasks   int
	lasts   time.Duration
	cutters int // links that may be cut at once
}

const (
	// killEvery is the pause between two kills.
	killEvery = 2 * time.Second
	// minCut and maxCut bound how long a link is cut.
	minCut, maxCut = time.Second, 20 * time.Second
	// commands is how many each task runs.
	commands = 5
	// calm is how long everything may take to settle afterwards.
	calm = 3 * time.Minute
)

// chaosTurn is one command of a task: it counts itself and prints what is
// known.
const chaosTurn = `  - text: Command %[2]d.
    calls:
      - tool: shell_exec
        arguments: {command: "echo %[2]d >> ran-%[1]s; for i in $(seq 200); do echo %[1]s %[2]d line $i; done; sleep 0.3; echo end"}
`

func chaosScript(ticket string) string {
	var b strings.Builder
	b.WriteString("turns:\n")
	for n := 1; n <= commands; n++ {
		fmt.Fprintf(&b, chaosTurn, ticket, n)
	}
	b.WriteString("  - text: Done.\n    calls:\n      - {tool: complete_task, arguments: {summary: done}}\n")
	return b.String()
}

func chaosOutput(ticket string, n int) string {
	var b strings.Builder
	for i := 1; i <= 200; i++ {
		fmt.Fprintf(&b, "%s %d line %d\n", ticket, n, i)
	}
	return b.String() + "end\n"
}

// fleet is a rig whose hosts have links that can be cut.
type fleet struct {
	*rig
	links []*host
}

// newFleet starts two hubs behind a balancer, three workers with so many slots
// each, and three nodes, all on hosts of their own.
func newFleet(t testing.TB, slots int) *fleet {
	r := newRig(t, 5*time.Second)
	n := newNetwork(t)
	core := n.host()
	r.operator = core
	r.startNATS(core, core.address("4222"))
	hubs := []*host{n.host(), n.host()}
	for _, h := range hubs {
		r.startHub(h, h.address("7800"), h.address("7801"), core.address("7801"))
	}
	newBalancer(t, core, hubs, "7800", "7801")
	r.connect(core.address("7800"))
	f := &fleet{rig: r, links: hubs}
	for range 3 {
		h := n.host()
		r.startWorker(h, slots)
		f.links = append(f.links, h)
	}
	for range 3 {
		h := n.host()
		r.startNode(h, "--idle-stop", "5s")
		f.links = append(f.links, h)
	}
	return f
}

// Processes die every two seconds and links are cut, at
// random; every task ends right all the same, and nothing is left behind.
func TestChaos(t *testing.T) {
	t.Parallel()
	s := storm{tasks: 20, lasts: 26 * time.Second, cutters: 1}
	if soaking() {
		s = storm{tasks: 300, lasts: 5 * time.Minute, cutters: 2}
	}
	f := newFleet(t, 8)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(envSeed); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("%s=%d repeats it", envSeed, seed)

	over := make(chan struct{})
	time.AfterFunc(s.lasts, func() { close(over) })
	var faults sync.WaitGroup
	var jailsKilled atomic.Int32
	faults.Go(func() { f.killAtRandom(rand.New(rand.NewPCG(seed, 0)), over, &jailsKilled) })
	for i := range s.cutters {
		faults.Go(func() { f.cutAtRandom(rand.New(rand.NewPCG(seed, uint64(i)+1)), over) })
	}
	tickets := map[string]string{}
	var ids []string
	pace := time.NewTicker(s.lasts * 9 / 10 / time.Duration(s.tasks))
	defer pace.Stop()
	for i := range s.tasks {
		ticket := fmt.Sprintf("t%d", i)
		name := fmt.Sprintf("agent-%d", i%12)
		front := fmt.Sprintf("nodes: {names: [node-%d]}", i%3+1)
		if i%4 == 0 {
			front += "\nworkspace: {scope: task}"
		}
		f.agent(name, front, chaosScript(ticket))
		id := f.submit(name, f.id+ticket)
		tickets[id] = ticket
		ids = append(ids, id)
		<-pace.C
		f.attend(ids)
	}
	t.Logf("all %d tasks are submitted", len(ids))
	for stormy := true; stormy; {
		select {
		case <-over:
			stormy = false
		case <-pace.C:
			f.attend(ids)
		}
	}
	faults.Wait()
	quiet := time.Now()
	t.Logf("%d of them are open at the end of the storm", len(f.attend(ids)))
	settled := f.settle(ids, calm)
	t.Logf("all have settled %s after the last fault; %d jails were killed", time.Since(quiet).Round(time.Millisecond), jailsKilled.Load())

	states, ran, unknown := map[string]int{}, 0, 0
	for _, one := range settled {
		states[one.State]++
		n, open := f.checkChaos(tickets[one.ID], one)
		ran += n
		unknown += open
	}
	t.Logf("states %v; %d commands ran, of %d the end is not known", states, ran, unknown)
	require.LessOrEqual(t, unknown, int(jailsKilled.Load()), "only a jail's death hides a command's end")
	f.history(ids)
	f.nothingIsLeft()
}

// killAtRandom kills a process every two seconds.
func (f *fleet) killAtRandom(random *rand.Rand, over <-chan struct{}, jails *atomic.Int32) {
	units := slices.Concat(f.hubs, f.workers, f.nodes, []*unit{f.pg, f.nats, f.containerd})
	tick := time.NewTicker(killEvery)
	defer tick.Stop()
	for {
		// What is drawn does not depend on what is there.
		choice := random.IntN(len(units) + 1)
		which := random.IntN(1 << 20)
		select {
		case <-over:
			return
		case <-tick.C:
		}
		if choice < len(units) {
			f.note("kill %s", units[choice].name)
			units[choice].kill()
			continue
		}
		if inits := f.inits(); len(inits) > 0 {
			pid := inits[which%len(inits)]
			f.note("kill the init of a jail, %d", pid)
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				jails.Add(1)
			}
		}
	}
}

// cutAtRandom cuts one link after the other.
func (f *fleet) cutAtRandom(random *rand.Rand, over <-chan struct{}) {
	for {
		link := f.links[random.IntN(len(f.links))]
		lasts := minCut + time.Duration(random.Int64N(int64(maxCut-minCut)))
		pause := minCut + time.Duration(random.Int64N(int64(3*time.Second)))
		select {
		case <-over:
			return
		case <-time.After(pause):
		}
		f.note("cut %s for %s", link.ip, lasts.Round(time.Millisecond))
		link.cut(true)
		select {
		case <-over:
		case <-time.After(lasts):
		}
		link.cut(false)
	}
}

// note keeps what was done, to be shown should the test fail.
func (r *rig) note(format string, args ...any) {
	r.notesMu.Lock()
	defer r.notesMu.Unlock()
	r.notes = append(r.notes, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// checkChaos checks one task's commands, and returns how many ran, and how many have an
// unknown end.
func (f *fleet) checkChaos(ticket string, one task) (ran, unknown int) {
	t := f.t
	require.True(t, one.State == "succeeded" || one.waits(), "%+v %+v", one, f.steps(one.ID))
	if one.waits() {
		require.NotEmpty(t, one.Reason)
	}
	times := map[string]int{}
	for _, line := range f.lines(one, "ran-"+ticket) {
		times[line]++
		ran++
	}
	for n, s := range f.steps(one.ID) {
		if s.Tool != "shell_exec" {
			continue
		}
		number := n + 1
		count := times[strconv.Itoa(number)]
		require.LessOrEqual(t, count, 1, "command %d of %s ran more than once", number, one.ID)
		switch s.End {
		case "exited":
			require.Equal(t, 1, count, "command %d of %s has ended and did not run", number, one.ID)
			require.Equal(t, digest(chaosOutput(ticket, number)), digest(f.output(s.ID)), "the output of %s is not whole", s.ID)
		case "not_started":
			require.Zero(t, count, "command %d of %s was not started and ran", number, one.ID)
		default:
			unknown++
			require.True(t, one.waits(), "%+v %+v", one, s)
		}
	}
	if one.State == "succeeded" {
		require.GreaterOrEqual(t, len(f.steps(one.ID)), commands)
	}
	return ran, unknown
}

// address returns where a port of the host is.
func (h *host) address(port string) string { return net.JoinHostPort(h.ip, port) }
