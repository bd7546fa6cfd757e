package faults

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A hub is killed between the commit of a delivery and its answer. The
// sender, who was not answered, sends again: one delivery, one task.
func TestAHubKilledBeforeItAnswersAWebhook(t *testing.T) {
	t.Parallel()
	needRoot(t)
	r := newRig(t, 2*time.Second)
	ip := fmt.Sprintf("127.%d.%d.%d", 64+syscall.Getpid()>>8&63, syscall.Getpid()&255, r.number)
	r.startNATS(nil, ip+":4222")
	r.eventually(time.Minute, "NATS to listen", func() bool { return reachable(ip + ":4222") })
	r.startHub(nil, ip+":7800", ip+":7801", ip+":7801")
	r.connect(ip + ":7800")
	r.agent("hooked", "", "turns: []\n")
	made, err := r.client.Triggers.CreateTrigger(t.Context(), &deckhandv1.CreateTriggerRequest{
		Name: "hook", AgentId: "hooked", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK, Preset: "github", Spec: &deckhandv1.TriggerSpec{},
	})
	require.NoError(t, err)
	const body = `{"action":"opened"}`
	m := hmac.New(sha256.New, []byte(made.GetSecret()))
	m.Write([]byte(body))
	signature := "sha256=" + hex.EncodeToString(m.Sum(nil))
	send := func() (int, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.api+made.GetTrigger().GetPath(), strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("X-GitHub-Event", "pull_request")
		req.Header.Set("X-GitHub-Delivery", "gh-1")
		req.Header.Set("X-Hub-Signature-256", signature)
		res, err := r.client.HTTPClient().Do(req)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return res.StatusCode, err
	}

	all := r.points.arm(crashpoint.AfterDelivery, 1)
	answered := make(chan error, 1)
	go func() {
		_, err := send()
		answered <- err
	}()
	select {
	case <-all:
	case <-time.After(time.Minute):
		require.Fail(t, "the webhook does not come to the point")
	}
	r.hubs[0].kill()
	r.points.release()
	require.Error(t, <-answered, "nobody answered")

	var status int
	r.eventually(time.Minute, "the hub to answer the sender that sends again", func() bool {
		status, err = send()
		return err == nil
	})
	require.Equal(t, http.StatusOK, status, "it had been stored")
	r.eventually(time.Minute, "its task", func() bool { return r.count("SELECT count(*) FROM tasks WHERE trigger_id <> 'manual'") == 1 })
	require.Equal(t, 1, r.count("SELECT count(*) FROM deliveries WHERE state = 'started'"))
	require.Equal(t, 1, r.count("SELECT count(*) FROM deliveries WHERE state = 'duplicate'"))
}

// count asks the database for a number.
func (r *rig) count(query string) int {
	r.t.Helper()
	var n int
	require.NoError(r.t, r.db.QueryRow(r.t.Context(), query).Scan(&n))
	return n
}
