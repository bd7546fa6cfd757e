package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A program reads a task's events as server-sent events from one of two hubs, which is
// killed. It continues at the other with its last id: nothing is missing, nothing comes
// twice, and all is in order.
func TestAReaderOfEventsWhoseHubIsKilled(t *testing.T) {
	t.Parallel()
	needRoot(t)
	events, batch := 2000, 25
	if soaking() {
		events, batch = 10_000, 50
	}
	r := newRig(t, 5*time.Second)
	host := func(n int) string {
		return fmt.Sprintf("127.%d.%d.%d", 64+syscall.Getpid()>>8&63, syscall.Getpid()&255, int(r.number)*2+n)
	}
	core := host(0)
	r.startNATS(nil, core+":4222")
	r.eventually(time.Minute, "NATS to listen", func() bool { return reachable(core + ":4222") })
	hubs := []string{host(0) + ":7800", host(1) + ":7800"}
	r.startHub(nil, hubs[0], host(0)+":7801", host(0)+":7801")
	r.connect(hubs[0])
	r.agent("watched", "", "turns: []\n")
	submitted, err := r.client.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "watched", Goal: "be watched"})
	require.NoError(t, err)
	task := submitted.GetTask().GetId()
	r.startHub(nil, hubs[1], host(1)+":7801", host(1)+":7801")
	token := r.token("admin-token")

	writing, stop := context.WithCancel(t.Context())
	defer stop()
	written := make(chan error, 1)
	go func() {
		for n := 1; n <= events; n += batch {
			if _, err := r.db.Exec(writing, `SELECT append_events(t.id, t.org_id, 1, t.correlation_id, ARRAY['progress_update'], ARRAY['hub'], ARRAY['hub'],
				ARRAY[jsonb_build_object('n', n)::text], '{}') FROM tasks t, generate_series($2::int, $3::int) AS n WHERE t.id = $1`, task, n, n+batch-1); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()

	seen, connections, last, killed := 0, 0, "", false
	limit := time.Now().Add(3 * time.Minute)
	read := func(hub string) {
		connections++
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+hub+"/v1/events?kinds=progress_update&task="+task, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		if last != "" {
			req.Header.Set("Last-Event-Id", last)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			time.Sleep(100 * time.Millisecond) // the hub is dead: a browser waits, too
			return
		}
		defer res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
		in := bufio.NewReader(res.Body)
		var id, data string
		for seen < events {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); name {
			case "id":
				id = value
			case "data":
				data = value
			case "":
				if id != "" {
					last = id
				}
				if data == "" {
					continue
				}
				var event struct{ Payload struct{ N int } }
				require.NoError(t, json.Unmarshal([]byte(data), &event), "%s", data)
				seen++
				require.Equal(t, seen, event.Payload.N, "in order, no gap, no repeat")
				id, data = "", ""
				if seen == events/3 && !killed {
					killed = true
					r.hubs[0].kill()
				}
			}
		}
	}
	for n := 0; seen < events; n++ {
		require.True(t, time.Now().Before(limit), "%d of %d events after %d connections", seen, events, connections)
		read(hubs[n%2])
	}
	require.NoError(t, <-written)
	require.True(t, killed)
	require.Greater(t, connections, 1)
	t.Logf("%d events over %d connections", seen, connections)
}
