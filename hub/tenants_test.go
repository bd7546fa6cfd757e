package hub_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/hubtest/noisy"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// What one organisation stores as a secret, or tries to, is text to another: it
// changes nothing that the other sees, and tells nothing about the secret.
func TestASecretOfOneOrganisationIsTextOfAnother(t *testing.T) {
	t.Parallel()
	const key, goal = "token-9dk2-words-of-theirs", "what of token-9dk2-words-of-theirs and confidential?"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	cfg := hubtest.Config(t)
	r := newRig(t, hubtest.Start(t, cfg), nil)
	made, err := r.user.Organisations.CreateOrganisation(t.Context(), &deckhandv1.CreateOrganisationRequest{Name: "research"})
	require.NoError(t, err)
	theirs := r.Client(t, made.GetToken())
	put := func(key string) error {
		_, err := theirs.Providers.ConnectProvider(t.Context(), &deckhandv1.ConnectProviderRequest{Name: "vllm", Key: key, BaseUrl: server.URL})
		return err
	}
	require.True(t, fault.Is(put("confidential"), fault.Invalid), "a word is no secret")
	require.Equal(t, fault.CredentialInvalid, fault.As(put("wrong-0123-wrong")).Code)
	require.NoError(t, put(key))

	task := r.submit("walker")
	_, err = r.say(task.GetId(), goal, "k1")
	require.NoError(t, err)
	said := func(tasks func(string) []*deckhandv1.Event, id string) string {
		var out strings.Builder
		for _, e := range tasks(id) {
			out.WriteString(e.String())
		}
		return out.String()
	}
	require.Contains(t, said(func(id string) []*deckhandv1.Event { return r.events(id, false) }, task.GetId()), goal)
	_, err = r.user.Tasks.PauseTask(t.Context(), &deckhandv1.PauseTaskRequest{TaskId: task.GetId(), Reason: goal})
	require.NoError(t, err)
	require.Contains(t, r.audited("task.paused")[0].GetReason(), goal)

	// In its own organisation it is masked, until it is disconnected.
	org := r.sql("SELECT id FROM organisations WHERE name = 'research'")
	require.Equal(t, "what of ⟦secret⟧ and confidential?", cfg.Redact.Org(org).String(goal))
	_, err = theirs.Tasks.GetTask(t.Context(), &deckhandv1.GetTaskRequest{TaskId: key})
	require.ErrorContains(t, err, "⟦secret⟧", "errors are masked too")
	_, err = r.user.Tasks.GetTask(t.Context(), &deckhandv1.GetTaskRequest{TaskId: key})
	require.ErrorContains(t, err, key)
	require.NoError(t, r.ReviewSecrets(t.Context()))
	require.True(t, cfg.Redact.Org(org).Knows([]byte(key)))
	_, err = theirs.Providers.DisconnectProvider(t.Context(), &deckhandv1.DisconnectProviderRequest{Name: "vllm"})
	require.NoError(t, err)
	require.NoError(t, r.ReviewSecrets(t.Context()))
	require.Equal(t, goal, cfg.Redact.Org(org).String(goal))
}

// An organisation that floods the hub with ten kinds of work at once keeps none of
// another's calls from being done: those of people, of senders of webhooks, and of
// workers.
func TestANoisyOrganisationKeepsNothingFromAnother(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.APIRate, cfg.TrustedProxies, cfg.NotifyAllow = 0, "127.0.0.1", "127.0.0.0/8"
	r := &triggerRig{newRig(t, hubtest.Start(t, cfg), nil)}
	r.apply("watch", scripted("watch"))
	trigger, secret := r.webhook("ours", &deckhandv1.TriggerSpec{Goal: "look at {{ payload.n }}"})
	other, err := noisy.Make(t.Context(), r.user, "noisy")
	require.NoError(t, err)
	t.Cleanup(other.Close)
	node, err := nodetest.New(t.Context(), nodetest.Config{
		Dir: t.TempDir(), HubURL: r.URL(), JoinToken: other.JoinToken, Name: noisy.NodeName, Log: hubtest.Log(t),
	})
	require.NoError(t, err)
	require.NoError(t, node.Start(t.Context()))
	t.Cleanup(node.Stop)
	require.NoError(t, other.Prepare(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	var noise sync.WaitGroup
	noise.Go(func() { other.Run(ctx) })
	defer noise.Wait()
	defer cancel()

	const rounds = 2
	for n := range rounds {
		require.Equal(t, http.StatusAccepted, r.post(trigger, secret, fmt.Sprint("ours-", n), fmt.Sprintf(`{"n":%d}`, n)).status)
		task := r.submit("walker")
		lease := r.begin(task.GetId(), 1)
		r.turn(lease, 1)
		step, err := r.propose(lease, 1, 0, "shell_exec", command("echo ours"))
		require.NoError(t, err)
		step, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
		require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, step.GetState())
		r.finish(lease)
		require.NotEmpty(t, r.events(task.GetId(), false))
		require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, r.task(task.GetId()).GetState())
		require.Empty(t, r.items(&deckhandv1.ListInboxRequest{}))
	}
	require.Eventually(t, func() bool {
		return len(r.deliveries(trigger.GetId(), deckhandv1.DeliveryState_DELIVERY_STATE_STARTED)) == rounds
	}, time.Minute, 20*time.Millisecond, "every webhook starts its task")
	require.Eventually(t, func() bool {
		for _, count := range other.Counts() {
			if count.Done.Load()+count.Refused.Load() == 0 {
				return false
			}
		}
		return true
	}, time.Minute, 20*time.Millisecond, "there is noise of every kind")
	cancel()
	noise.Wait()
	for name, count := range other.Counts() {
		t.Logf("%s: %d done, %d refused", name, count.Done.Load(), count.Refused.Load())
		require.NotZero(t, count.Done.Load()+count.Refused.Load(), "there was no noise of %s", name)
	}
	require.Len(t, other.Counts(), 10)
}
