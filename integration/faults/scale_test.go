package faults

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// envScale changes the size: DECKHAND_SCALE=hubs=2,workers=2,nodes=20,tasks=100,commands=3,seconds=2
const envScale = "DECKHAND_SCALE"

// scaleSize is how much there is.
type scaleSize struct {
	hubs, workers, nodes, processes int
	// tasks run at once, each with so many commands of so many seconds.
	tasks, commands, seconds int
	// calm is how many tasks without such commands are measured before.
	calm int
}

func sizeOfScale(t testing.TB) scaleSize {
	s := scaleSize{hubs: 2, workers: 2, nodes: 6, processes: 3, tasks: 12, commands: 3, seconds: 3, calm: 6}
	if soaking() {
		s = scaleSize{hubs: 3, workers: 4, nodes: 200, processes: 10, tasks: 600, commands: 3, seconds: 20, calm: 200}
	}
	fields := map[string]*int{
		"hubs": &s.hubs, "workers": &s.workers, "nodes": &s.nodes, "processes": &s.processes, "tasks": &s.tasks, "commands": &s.commands,
		"seconds": &s.seconds, "calm": &s.calm,
	}
	for pair := range strings.SplitSeq(os.Getenv(envScale), ",") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		require.Contains(t, fields, key, envScale)
		_, err := fmt.Sscan(value, fields[key])
		require.NoError(t, err, pair)
	}
	return s
}

// metricsPort is where each hub and worker serves its metrics, on a host of its own.
const metricsPort = "9464"

// scale is a Deckhand on several hosts, with more than one of everything.
type scale struct {
	*rig
	size      scaleSize
	standby   *standby
	natsHosts []*host
	natsUnits []*unit
	fleet     []*unit // processes with simulated nodes
	measured  []*host // of hubs and workers
	report    []string
}

func newScale(t testing.TB, size scaleSize) *scale {
	s := &scale{rig: newBareRig(t, hub.DefaultLeaseTTL), size: size}
	s.leaseTTL = hub.DefaultLeaseTTL // also on a slow machine: it is measured
	s.hubArgs = []string{"--max-active", "10000", "--max-active-per-user", "10000", "--api-rate", "-1", "--metrics-listen", "0.0.0.0:" + metricsPort}
	s.workerArgs = []string{"--metrics-listen", "0.0.0.0:" + metricsPort}
	s.standby = s.startStandby(true)
	n := newNetwork(t)
	core := n.host()
	s.operator = core
	var addresses []string
	for range 3 {
		h := n.host()
		s.natsHosts, addresses = append(s.natsHosts, h), append(addresses, h.address("4222"))
	}
	s.natsUnits = s.startNATSCluster(s.natsHosts, addresses...)
	var hubs []*host
	for range size.hubs {
		hubs = append(hubs, n.host())
	}
	for _, h := range hubs {
		s.startHub(h, h.address("7800"), h.address("7801"), core.address("7801"))
	}
	newBalancer(t, core, hubs, "7800", "7801")
	s.connect(core.address("7800"))
	s.measureNodes(n.host())
	for range size.workers {
		h := n.host()
		s.startWorker(h, 10000)
		hubs = append(hubs, h)
	}
	s.measured = hubs
	s.eventually(time.Minute, "the workers to be ready", func() bool {
		return len(rows[struct{ ID string }](s.rig, "SELECT id FROM workers")) == size.workers
	})
	return s
}

// say adds a line to the report.
func (s *scale) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.note("%s", line)
	s.report = append(s.report, line)
}

// measureNodes starts the nodes, and reports what one costs its hub.
func (s *scale) measureNodes(on *host) {
	before, began := s.memory(s.hubs), time.Now()
	s.fleet = s.startNodes(on, s.size.nodes, s.size.processes)
	s.say("%d nodes enrolled and linked in %.1f s; %.0f KiB of hub for each", s.size.nodes, time.Since(began).Seconds(),
		(s.memory(s.hubs)-before)*1024/float64(s.size.nodes))
}

// memory returns the resident memory of units together, in MiB.
func (s *scale) memory(units []*unit) (mib float64) {
	for _, u := range units {
		mib += float64(u.resident(s.t)) / (1 << 20)
	}
	return mib
}

func (s *scale) processor(units []*unit) (used time.Duration) {
	for _, u := range units {
		used += u.cpu(s.t)
	}
	return used
}

// submitMany submits tasks from several callers at once.
func (s *scale) submitMany(agent, key string, n int) []string {
	const callers = 16
	ids := make([]string, n)
	next := make(chan int)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := range next {
				ids[i] = s.submit(agent, fmt.Sprintf("%s-%s-%d", s.id, key, i))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	return ids
}

// effector applies an agent with so many commands that each take so long.
func (s *scale) effector(name string, commands, seconds int) {
	s.agent(name, "workspace: {scope: task}", effectScript(commands, seconds))
}

// effectScript is the script of an agent with so many commands that each take so long.
func effectScript(commands, seconds int) string {
	var b strings.Builder
	b.WriteString("turns:\n")
	for n := range commands {
		fmt.Fprintf(&b, "  - text: Command %[1]d.\n    calls:\n      - {tool: shell_exec, arguments: {command: effect %[1]d %[2]ds}}\n", n+1, seconds)
	}
	b.WriteString("  - text: Done.\n    calls:\n      - {tool: complete_task, arguments: {summary: done}}\n")
	return b.String()
}

// done waits until so many of the tasks have ended.
func (s *scale) done(ids []string, within time.Duration) {
	s.t.Helper()
	s.eventually(within, fmt.Sprintf("%d tasks to end", len(ids)), func() bool { return s.openOf(ids) == 0 })
}

func (s *scale) openOf(ids []string) int {
	type row struct{ N int }
	return rows[row](s.rig, "SELECT count(*)::int FROM tasks WHERE id = ANY($1) AND finished_at IS NULL AND state <> ALL($2)", ids, forPerson)[0].N
}

// calm runs tasks with nothing else going on, and reports what one costs.
func (s *scale) calm() {
	const commands = 2
	s.effector("calm", commands, 0)
	s.done([]string{s.submit("calm", s.id+"first")}, time.Minute)
	type size struct{ Bytes, Rows, Commits, WAL int64 }
	measure := func() size {
		return rows[size](s.rig, `SELECT pg_database_size(current_database()),
			(SELECT sum(n_tup_ins)::bigint FROM pg_stat_user_tables), (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
			(pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint`)[0]
	}
	tables := s.tables()
	before, hubs, workers, began := measure(), s.processor(s.hubs), s.processor(s.workers), time.Now()
	ids := s.submitMany("calm", "calm", s.size.calm)
	s.done(ids, 5*time.Minute)
	took, n := time.Since(began), float64(len(ids))
	<-time.After(1500 * time.Millisecond) // PostgreSQL's statistics come a second late
	after := measure()
	s.say("calm: %d tasks of %d commands in %.1f s, %.1f a second; for each %.1f ms of hub, %.1f ms of worker, %.0f rows, %.1f KiB of database, %.1f KiB of WAL, %.0f transactions",
		len(ids), commands, took.Seconds(), n/took.Seconds(), milliseconds(s.processor(s.hubs)-hubs)/n, milliseconds(s.processor(s.workers)-workers)/n,
		float64(after.Rows-before.Rows)/n, float64(after.Bytes-before.Bytes)/1024/n, float64(after.WAL-before.WAL)/1024/n, float64(after.Commits-before.Commits)/n)
	var largest []string
	for _, now := range s.tables() {
		i := slices.IndexFunc(tables, func(was tableSize) bool { return was.Name == now.Name })
		if rows := float64(now.Rows-tables[i].Rows) / n; rows >= 1 {
			largest = append(largest, fmt.Sprintf("%s %.0f (%.1f KiB)", now.Name, rows, float64(now.Bytes-tables[i].Bytes)/1024/n))
		}
	}
	s.say("rows of a task: %s", strings.Join(largest, ", "))
	s.counted(ids, commands)
}

// tableSize is how many rows a table has got, and how large it is with its indexes.
type tableSize struct {
	Name        string
	Rows, Bytes int64
}

func (s *scale) tables() []tableSize {
	return rows[tableSize](s.rig, "SELECT relname::text, n_tup_ins, pg_total_relation_size(relid) FROM pg_stat_user_tables ORDER BY n_tup_ins DESC")
}

// figures prints the key figures of what has run, beside their targets.
func (s *scale) figures() {
	s.t.Helper()
	args := []string{"eval", "figures", "--limit", "1000"}
	for _, h := range s.measured {
		args = append(args, "--metrics", "http://"+h.address(metricsPort)+"/metrics")
	}
	cmd := s.operator.command(bin(s.t, "deckhand"), args...)
	cmd.Env = s.env("DECKHAND_HUB_URL="+s.api, "DECKHAND_TOKEN="+s.token("admin-token"))
	out, err := cmd.CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	s.say("the key figures:\n%s", out)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// running waits until all tasks have a worker, and reports what one costs in memory.
func (s *scale) running(ids []string, idle [2]float64) {
	s.eventually(5*time.Minute, "all tasks to run at once", func() bool { return s.held(ids) == len(ids) })
	n := float64(len(ids))
	s.say("%d tasks at once: the hubs have %.0f MiB and the workers %.0f MiB, %.0f and %.0f KiB for each task", len(ids), s.memory(s.hubs), s.memory(s.workers),
		(s.memory(s.hubs)-idle[0])*1024/n, (s.memory(s.workers)-idle[1])*1024/n)
}

// held returns how many of the tasks a worker has now.
func (s *scale) held(ids []string) int {
	type row struct{ N int }
	return rows[row](s.rig, "SELECT count(*)::int FROM tasks WHERE id = ANY($1) AND lease_hash IS NOT NULL", ids)[0].N
}

// probe submits a task that does nothing else, and returns how long it took.
func (s *scale) probe(name string) time.Duration {
	began := time.Now()
	s.done([]string{s.submit("calm", s.id+"probe-"+name)}, 3*time.Minute)
	return time.Since(began)
}

// recovered reports how long it took from a fault until a new task had gone its whole way.
func (s *scale) recovered(what string, since time.Time) {
	s.probe(what)
	s.say("%s: a new task was done %.1f s after it", what, time.Since(since).Seconds())
}

// Processes, links and the database's server fail while many tasks run. Nothing is lost, and no
// command takes effect twice.
func TestScale(t *testing.T) {
	if !soaking() && os.Getenv(envScale) == "" {
		t.Skip("it takes minutes: make soak runs it, and " + envScale + "=tasks=20 a small one")
	}
	size := sizeOfScale(t)
	s := newScale(t, size)
	t.Cleanup(func() { t.Logf("%+v\n%s", size, strings.Join(s.report, "\n")) })
	s.calm()
	s.say("undisturbed: a task of two commands takes %.1f s", s.probe("undisturbed").Seconds())

	s.figures()

	idle := [2]float64{s.memory(s.hubs), s.memory(s.workers)}
	s.effector("storm", size.commands, size.seconds)
	began := time.Now()
	ids := s.submitMany("storm", "storm", size.tasks)
	s.say("%d tasks submitted in %.1f s", len(ids), time.Since(began).Seconds())
	s.running(ids, idle)

	s.killHub()
	s.killWorker()

	at := time.Now()
	s.natsUnits[s.streamLeader()].kill()
	s.recovered("the NATS server that leads is killed", at)

	at = time.Now()
	cut := s.natsHosts[s.streamLeader()]
	cut.cut(true)
	s.recovered("the NATS server that leads is cut off", at)
	cut.cut(false)

	at = time.Now()
	s.fleet[0].kill()
	s.eventually(time.Minute, "the hub to notice", func() bool { return s.connected() < size.nodes })
	s.linked(size.nodes)
	s.say("%d nodes are killed: all were linked again %.1f s after it", len(s.nodesOf(0)), time.Since(at).Seconds())

	at = time.Now()
	s.pg.outage(syscall.SIGKILL)
	s.standby.promote()
	promoted := time.Since(at)
	s.recovered("PostgreSQL is killed and its standby promoted", at)
	s.say("of that, the promotion took %.1f s", promoted.Seconds())

	settled := s.settle(ids, calm+time.Duration(size.commands*size.seconds)*time.Second)
	for _, one := range settled {
		require.Equal(t, "succeeded", one.State, "%+v", one)
	}
	s.counted(ids, size.commands)
	s.history(ids)
	s.say("%d tasks ended %.0f s after they were submitted; %d attempts", len(ids), time.Since(began).Seconds(), s.attempts(ids))
}

func (s *scale) attempts(ids []string) int {
	type row struct{ N int }
	return rows[row](s.rig, "SELECT count(*)::int FROM attempts WHERE task_id = ANY($1)", ids)[0].N
}

// nodesOf returns the names of the nodes of a process.
func (s *scale) nodesOf(process int) (names []string) {
	for i := process; i < s.size.nodes; i += s.size.processes {
		names = append(names, fmt.Sprintf("node-%d", i+1))
	}
	return names
}

// killHub kills a hub, and reports when its nodes were linked to one again.
func (s *scale) killHub() {
	s.t.Helper()
	victim := s.hubs[1]
	type link struct {
		NodeID string
		Epoch  int64
	}
	// A hub's name among hubs has its process id.
	links := rows[link](s.rig, "SELECT node_id, epoch FROM node_sessions WHERE connected AND replica LIKE $1", fmt.Sprintf("%%-%d-%%", victim.process()))
	require.NotEmpty(s.t, links)
	var ids []string
	highest := map[string]int64{}
	for _, l := range links {
		ids = append(ids, l.NodeID)
		highest[l.NodeID] = l.Epoch
	}
	at := time.Now()
	victim.kill()
	s.recovered("a hub is killed", at)
	s.eventually(2*time.Minute, "its nodes to be linked to a hub again", func() bool {
		return !slices.ContainsFunc(rows[link](s.rig, "SELECT node_id, epoch FROM node_sessions WHERE node_id = ANY($1)", ids), func(l link) bool {
			return l.Epoch <= highest[l.NodeID]
		})
	})
	s.say("a hub is killed: its %d nodes were linked again %.1f s after it", len(ids), time.Since(at).Seconds())
}

// takeoverWithin is how long the tasks of a dead worker may rest.
const takeoverWithin = 10 * time.Second

// killWorker kills a worker, and reports when others had all of its tasks.
func (s *scale) killWorker() {
	s.t.Helper()
	at := time.Now()
	n, first, last, back := s.takeOver(s.workers[0])
	s.say("a worker with %d tasks is killed: others had the first %.1f s and the last %.1f s after it", n, first.Seconds(), last.Seconds())
	back()
	s.recovered("a worker is killed", at)
}

// takeOver kills a worker, and waits until others have all of its tasks: how many there were, and
// after how long others had the first and the last. The worker is restarted once back is called.
func (r *rig) takeOver(victim *unit) (n int, first, last time.Duration, back func()) {
	r.t.Helper()
	type row struct{ ID string }
	var ids []string
	for _, one := range rows[row](r, "SELECT a.task_id FROM attempts a JOIN workers w ON w.id = a.worker_id WHERE w.name = $1 AND a.ended_at IS NULL", victim.name) {
		ids = append(ids, one.ID)
	}
	require.NotEmpty(r.t, ids)
	at := time.Now()
	back = victim.outage(syscall.SIGKILL)
	type taken struct {
		First, Last time.Time
		N           int
	}
	var got taken
	r.eventually(2*time.Minute, "others to take the tasks over", func() bool {
		got = rows[taken](r, `SELECT coalesce(min(c), now()), coalesce(max(c), now()), count(*)::int FROM
			(SELECT min(a.claimed_at) AS c FROM attempts a WHERE a.task_id = ANY($1) AND a.claimed_at > $2 GROUP BY a.task_id) AS f`, ids, at)[0]
		return got.N == len(ids)
	})
	return len(ids), got.First.Sub(at), got.Last.Sub(at), back
}

// Of two workers one dies. The other one has its tasks soon, with the leases that a hub gives by
// default, and no command runs twice.
func TestTheTasksOfADeadWorkerContinueElsewhereSoon(t *testing.T) {
	t.Parallel()
	const tasks = 4
	r := newSmallRig(t, 2, func(r *rig) { r.leaseTTL = hub.DefaultLeaseTTL })
	r.startWorker(nil, 100)
	r.agent("steady", "workspace: {scope: task}", effectScript(2, 5))
	var ids []string
	for i := range tasks {
		ids = append(ids, r.submit("steady", fmt.Sprintf("%s-%d", r.id, i)))
	}
	r.effected(tasks)
	_, _, last, _ := r.takeOver(r.holder(ids[0]))
	require.Less(t, last, waittest.Limit(takeoverWithin))
	for _, one := range r.settle(ids, time.Minute) {
		require.Equal(t, "succeeded", one.State, "%+v", one)
	}
	r.effected(2 * tasks)
	r.history(ids)
}

// streamLeader returns the number of the NATS server that leads the stream of wake-ups.
func (s *scale) streamLeader() int {
	name := ""
	s.eventually(time.Minute, "the stream to have a leader", func() bool {
		name = s.askStream()
		return name != ""
	})
	i := slices.IndexFunc(s.natsUnits, func(u *unit) bool { return u.name == name })
	require.GreaterOrEqual(s.t, i, 0, name)
	return i
}

// counted verifies that each command of the tasks took effect once.
func (s *scale) counted(ids []string, commands int) {
	s.t.Helper()
	type of struct{ Jail, Number string }
	found := map[of]int{}
	for _, e := range s.effects() {
		found[of{e.Jail, e.Number}]++
	}
	lost, doubled := 0, 0
	for _, one := range s.tasks(ids) {
		for n := range commands {
			switch have := found[of{one.JailID, fmt.Sprint(n + 1)}]; {
			case have == 0:
				lost++
			case have > 1:
				doubled += have - 1
			}
		}
	}
	s.say("%d effects expected: lost %d, doubled %d", len(ids)*commands, lost, doubled)
	require.Zero(s.t, lost+doubled)
}

// askStream returns the name of the NATS server that leads the stream of wake-ups, as a member
// says that is reached; empty if none does.
func (s *scale) askStream() (leader string) {
	_, urls, _ := strings.Cut(s.natsEnv[1], "=")
	conn, err := nats.Connect(urls, nats.RootCAs(s.natsPEM("cert")), nats.Timeout(time.Second), nats.SetCustomDialer(onHost{s.operator}))
	if err != nil {
		return ""
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), callTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, bus.Stream)
	if err != nil || stream.CachedInfo().Cluster == nil {
		return ""
	}
	return stream.CachedInfo().Cluster.Leader
}

// onHost dials from a host.
type onHost struct{ *host }

// Dial implements nats.CustomDialer.
func (h onHost) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return h.dial(ctx, network, address)
}
