package faults

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// outageTTL is a lease's length where something is away for outageLasts.
var outageTTL = waittest.Limit(30 * time.Second)

const (
	outageLasts = 10 * time.Second
	outageSoak  = time.Minute
	// maxCalls is how many calls a second a worker may make of a hub without its
	// database, and maxDials how often that hub may try to reach it: several
	// loops, each with its own pace.
	maxCalls, maxDials = 10.0, 40.0
	// maxCPU is the part of one processor that a process may use during the outage.
	maxCPU = 0.5
)

// restScript is a command that takes six seconds and must not run twice.
const restScript = `turns:
  - text: I count, print and rest.
    calls:
      - tool: shell_exec
        arguments: {command: "echo ran >> %[1]s; for i in $(seq 1500); do echo line $i of the output; done; sleep 6; echo end"}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: rested}}
`

// meter counts what passes it.
type meter struct {
	count atomic.Int64
	from  int64
	since time.Time
}

func (m *meter) reset() { m.from, m.since = m.count.Load(), time.Now() }

// rate returns how many there were a second since the last reset.
func (m *meter) rate() float64 { return float64(m.count.Load()-m.from) / time.Since(m.since).Seconds() }

// outageRig is one of each, with meters between worker and hub, and between hub
// and database.
type outageRig struct {
	*rig
	calls, dials meter
}

func newOutageRig(t testing.TB) *outageRig {
	r := &outageRig{rig: newRig(t, outageTTL)}
	ip := fmt.Sprintf("127.%d.%d.%d", 64+syscall.Getpid()>>8&63, syscall.Getpid()&255, r.number)
	r.startNATS(nil, ip+":4222")
	r.eventually(time.Minute, "NATS to listen", func() bool { return reachable(ip + ":4222") })
	r.meterDatabase()
	r.startHub(nil, ip+":7800", ip+":7801", ip+":7801")
	r.connect(ip + ":7800")
	direct := r.api
	r.api = r.meterCalls(direct)
	r.startWorker(nil, 8)
	r.api = direct
	r.startNode(nil)
	return r
}

// meterDatabase puts a meter of connections before the database.
func (r *outageRig) meterDatabase() {
	where, err := url.Parse(r.database)
	require.NoError(r.t, err)
	query := where.Query()
	socket := filepath.Join(query.Get("host"), ".s.PGSQL.5432")
	if port := query.Get("port"); port != "" {
		socket = filepath.Join(query.Get("host"), ".s.PGSQL."+port)
	}
	dir := filepath.Join(r.dir, "metered")
	require.NoError(r.t, os.Mkdir(dir, 0o700))
	l, err := net.Listen("unix", filepath.Join(dir, filepath.Base(socket)))
	require.NoError(r.t, err)
	query.Set("host", dir)
	where.RawQuery = query.Encode()
	r.database = where.String()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			r.dials.count.Add(1)
			serving.Go(func() {
				defer near.Close()
				far, err := net.Dial("unix", socket)
				if err != nil {
					return
				}
				defer far.Close()
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = io.Copy(far, near) // ends when either side does
					_ = far.Close()
				}()
				_, _ = io.Copy(near, far)
				_ = near.Close()
				<-done
			})
		}
	})
	r.t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
}

// meterCalls puts a meter of requests in front of the hub, and returns its URL.
func (r *outageRig) meterCalls(hub string) string {
	target, err := url.Parse(hub)
	require.NoError(r.t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(target) },
		Transport: transport, FlushInterval: -1,
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.calls.count.Add(1)
		proxy.ServeHTTP(w, req)
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	r.t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
		transport.CloseIdleConnections()
	})
	return "http://" + l.Addr().String()
}

// rest submits tasks, each in a workspace of its own, whose command takes a
// while.
func (r *rig) rest(n int, counter string) (ids []string) {
	r.agent("rester", "workspace: {scope: task}", fmt.Sprintf(restScript, counter))
	for i := range n {
		ids = append(ids, r.submit("rester", fmt.Sprintf("%s-%s-%d", r.id, counter, i)))
	}
	return ids
}

// run waits until the commands of all those tasks run.
func (r *rig) run(ids []string, counter string) {
	r.eventually(time.Minute, "the commands to run", func() bool {
		for _, one := range r.tasks(ids) {
			if r.counter(one, counter) != 1 {
				return false
			}
		}
		return true
	})
}

// rested holds that all tasks succeeded and each command ran once.
func (r *rig) rested(what string, ids []string, counter string) []task {
	r.t.Helper()
	settled := r.settle(ids, calm)
	for _, one := range settled {
		require.Equal(r.t, "succeeded", one.State, "%s: %+v", what, one)
		require.Equal(r.t, 1, r.check(what, "outage", counter, one))
	}
	r.history(ids)
	return settled
}

// quiet waits, and verifies that no process is busy with the missing service.
func (r *outageRig) quiet(what string, during time.Duration) {
	r.t.Helper()
	r.calls.reset()
	r.dials.reset()
	units := []*unit{r.hubs[0], r.workers[0], r.nodes[0]}
	var before []time.Duration
	for _, u := range units {
		before = append(before, u.cpu(r.t))
	}
	<-time.After(during)
	for i, u := range units {
		used := float64(u.cpu(r.t)-before[i]) / float64(during)
		r.t.Logf("%s: %s uses %.2f of a processor", what, u.name, used)
		require.Less(r.t, used, maxCPU, "%s is busy while %s", u.name, what)
	}
	r.t.Logf("%s: the worker makes %.1f calls a second, the hub %.1f connections", what, r.calls.rate(), r.dials.rate())
	require.Less(r.t, r.calls.rate(), maxCalls, "the worker's calls")
	require.Less(r.t, r.dials.rate(), maxDials, "the hub's connections")
}

func outage() time.Duration {
	if soaking() {
		return outageSoak
	}
	return outageLasts
}

// What is away for a while costs nothing but the time.
func TestOutages(t *testing.T) {
	t.Parallel()
	r := newOutageRig(t)

	// Tasks continue without NATS; new ones begin when it is back.
	before := r.rest(3, "before")
	r.run(before, "before")
	over := r.nats.outage(syscall.SIGKILL)
	meanwhile := r.rest(3, "meanwhile")
	r.quiet("NATS is away", outage())
	for _, one := range r.rested("NATS away", before, "before") {
		require.Equal(t, 1, one.Attempt, "it went on where it was")
	}
	for _, one := range r.tasks(meanwhile) {
		require.Equal(t, "queued", one.State)
	}
	over()
	back := time.Now()
	r.rested("NATS back", meanwhile, "meanwhile")
	t.Logf("what came without NATS was done %s after it was back", time.Since(back).Round(time.Millisecond))

	// Without PostgreSQL workers hold, and nothing is lost.
	held := r.rest(3, "held")
	r.run(held, "held")
	over = r.pg.outage(r.pg.term)
	r.quiet("PostgreSQL is away", outage())
	over()
	for _, one := range r.rested("PostgreSQL away", held, "held") {
		if outage() < outageTTL/2 {
			require.Equal(t, 1, one.Attempt, "its worker held it")
		}
	}
}
