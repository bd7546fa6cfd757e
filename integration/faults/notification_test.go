package faults

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A hub is killed between sending a notification and storing that it did. The
// receiver gets it once more, under the same id.
func TestAHubKilledAfterItSentANotification(t *testing.T) {
	t.Parallel()
	needRoot(t)
	var mu sync.Mutex
	var ids []string
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, req.Header.Get("Webhook-Id"))
	}))
	t.Cleanup(receiver.Close)
	r := newRig(t, 2*time.Second)
	ip := fmt.Sprintf("127.%d.%d.%d", 64+syscall.Getpid()>>8&63, syscall.Getpid()&255, r.number)
	r.startNATS(nil, ip+":4222")
	r.eventually(time.Minute, "NATS to listen", func() bool { return reachable(ip + ":4222") })
	r.startHub(nil, ip+":7800", ip+":7801", ip+":7801")
	r.connect(ip + ":7800")
	r.agent("told", "", "turns: []\n")
	_, err := r.client.Destinations.CreateDestination(t.Context(), &deckhandv1.CreateDestinationRequest{
		Name: "hook", Spec: &deckhandv1.DestinationSpec{
			Events: []string{"task.submitted"}, To: &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: receiver.URL}},
		},
	})
	require.NoError(t, err)
	all := r.points.arm(crashpoint.AfterNotification, 1)
	_, err = r.client.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "told", Goal: "be told of"})
	require.NoError(t, err)
	select {
	case <-all:
	case <-time.After(time.Minute):
		require.Fail(t, "the notification does not come to the point")
	}
	r.hubs[0].kill()
	r.points.release()
	r.eventually(3*time.Minute, "the notification to be on record as delivered", func() bool {
		return r.count("SELECT count(*) FROM notifications WHERE state = 'delivered' AND attempts = 2") == 1
	})
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, ids, 2)
	require.Equal(t, ids[0], ids[1])
}
