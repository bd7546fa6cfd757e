package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	manyReaders = 1000
	// readersGrowth is by how much the hub's memory may grow: 50 KiB for a reader, what is sent
	// to those that do not read until they are disconnected, and garbage. A hub collects it when
	// it is as large as what is in use and the 64 MiB of memtrim.Room together.
	readersGrowth = 192 << 20
	longText      = 1000
)

// A thousand programs read one task's events from one hub, and every tenth of them does not
// read. The others get all in order, and the hub's memory stays bounded. It runs in a soak.
func TestAThousandReadersOfOneTask(t *testing.T) {
	t.Parallel()
	if !soaking() {
		t.Skipf("it takes a minute: set %s", envSoak)
	}
	needRoot(t)
	const events = 2000
	r := newRig(t, 5*time.Second)
	host := fmt.Sprintf("127.%d.%d.%d", 64+syscall.Getpid()>>8&63, syscall.Getpid()&255, int(r.number)*2)
	r.startNATS(nil, host+":4222")
	r.eventually(time.Minute, "NATS to listen", func() bool { return reachable(host + ":4222") })
	hub := host + ":7800"
	r.startHub(nil, hub, host+":7801", host+":7801")
	r.connect(hub)
	r.agent("watched", "", "turns: []\n")
	submitted, err := r.client.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "watched", Goal: "be watched"})
	require.NoError(t, err)
	task := submitted.GetTask().GetId()
	var tokens []string
	for n := range manyReaders/90 + 1 { // a token has at most 100 streams
		made, err := r.client.Tokens.CreateToken(t.Context(), &deckhandv1.CreateTokenRequest{Name: fmt.Sprintf("reader-%d", n)})
		require.NoError(t, err)
		tokens = append(tokens, made.GetSecret())
	}
	before := r.hubs[0].resident(t)
	var readers sync.WaitGroup
	for n := range manyReaders {
		in := openEvents(t, hub, tokens[n/90], task, "")
		if n%10 == 0 {
			continue // it does not read
		}
		readers.Go(func() {
			readInOrder(t, n, events, in, func(after string) *bufio.Reader { return openEvents(t, hub, tokens[n/90], task, after) })
		})
	}
	idle := r.hubs[0].resident(t)
	for n := 1; n <= events; n += 20 {
		_, err := r.db.Exec(t.Context(), `SELECT append_events(t.id, t.org_id, 1, t.correlation_id, ARRAY['progress_update'], ARRAY['hub'], ARRAY['hub'],
			ARRAY[jsonb_build_object('n', n, 'text', repeat('x', $4))::text], '{}') FROM tasks t, generate_series($2::int, $3::int) AS n WHERE t.id = $1`, task, n, n+19, longText)
		require.NoError(t, err)
	}
	most, done := idle, make(chan struct{})
	go func() { readers.Wait(); close(done) }()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-time.After(time.Second):
			most = max(most, r.hubs[0].resident(t))
		}
	}
	t.Logf("resident memory: %d MiB before, %d MiB with %d idle readers, %d MiB at most", before>>20, idle>>20, manyReaders, most>>20)
	require.Less(t, most-before, int64(readersGrowth))
}

// openEvents opens a stream of a task's progress, from now on or after the event with an id.
func openEvents(t *testing.T, hub, token, task, after string) *bufio.Reader {
	t.Helper()
	c, err := net.Dial("tcp", hub)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c, "GET /v1/events?kinds=progress_update&after=now&task=%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", url.QueryEscape(task), hub, token)
	require.NoError(t, err)
	if after != "" {
		_, err = fmt.Fprintf(c, "Last-Event-ID: %s\r\n", after)
		require.NoError(t, err)
	}
	_, err = c.Write([]byte("\r\n"))
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReaderSize(c, 4096), nil) //nolint:bodyclose // its connection is closed
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	return bufio.NewReaderSize(res.Body, 4096)
}

// readInOrder reads all events, each once. On a busy machine the hub may take a reader for
// one that does not read: it goes on from the last event then, as every client does.
func readInOrder(t *testing.T, n, events int, in *bufio.Reader, again func(after string) *bufio.Reader) {
	last := ""
	for seen := 0; seen < events; {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Errorf("reader %d broke off after %d events: %v", n, seen, err)
			return
		}
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			last = strings.TrimSpace(id)
		}
		data, isData := strings.CutPrefix(line, "data: ")
		if !isData {
			continue
		}
		if strings.Contains(data, string(fault.WatchSlow)) && last != "" {
			in = again(last)
			continue
		}
		var event struct{ Payload struct{ N int } }
		if err := json.Unmarshal([]byte(data), &event); err != nil || event.Payload.N != seen+1 {
			t.Errorf("reader %d got event %d after %d: %v: %.200s", n, event.Payload.N, seen, err, line)
			return
		}
		seen++
	}
}

// process returns the id of a unit's process.
func (u *unit) process() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cmd.Process.Pid
}

// resident returns how much memory a unit's process has, in bytes.
func (u *unit) resident(t testing.TB) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", u.process()))
	require.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			require.NoError(t, err)
			return kib << 10
		}
	}
	require.Fail(t, "no resident memory is known")
	return 0
}
