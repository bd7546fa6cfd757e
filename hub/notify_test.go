package hub_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A webhook's delivery that cannot be mapped is told, signed, to who asked
// for failures; the secret is in one answer only.
func TestAFailedDeliveryIsTold(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var bodies [][]byte
	var headers []http.Header
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		bodies, headers = append(bodies, body), append(headers, req.Header)
	}))
	t.Cleanup(receiver.Close)
	cfg := hubtest.Config(t)
	cfg.NotifyAllow = "127.0.0.1/32"
	r := &triggerRig{newRig(t, hubtest.Start(t, cfg), nil)}
	r.apply("watch", scripted("watch"))
	made, err := r.user.Destinations.CreateDestination(t.Context(), &deckhandv1.CreateDestinationRequest{
		Name: "hook", Spec: &deckhandv1.DestinationSpec{
			Agents: []string{"watch"}, To: &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: receiver.URL}},
		},
	})
	require.NoError(t, err)
	trigger, secret := r.webhook("reviews", &deckhandv1.TriggerSpec{Goal: "{{ payload.nothing.here }}"})
	for _, id := range []string{"gh-1", "gh-2"} {
		require.Equal(t, failed, r.handled(r.post(trigger, secret, id, `{}`).body.DeliveryID).GetState())
	}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(bodies) > 0
	}, patience, 10*time.Millisecond)
	w, err := standardwebhooks.NewWebhook(made.GetSecret())
	require.NoError(t, err)
	require.NoError(t, w.Verify(bodies[0], headers[0]))
	require.Contains(t, string(bodies[0]), "delivery.failed")

	list := func() []*deckhandv1.Notification {
		res, err := r.user.Destinations.ListNotifications(t.Context(), &deckhandv1.ListNotificationsRequest{DestinationId: "hook"})
		require.NoError(t, err)
		return res.GetNotifications()
	}
	require.Eventually(t, func() bool {
		all := list()
		return len(all) > 0 && all[0].GetState() == deckhandv1.NotificationState_NOTIFICATION_STATE_DELIVERED
	}, patience, 10*time.Millisecond)
	require.LessOrEqual(t, len(list()), 2, "once an hour, which may turn while this runs")
	one, err := r.user.Destinations.GetNotification(t.Context(), &deckhandv1.GetNotificationRequest{NotificationId: list()[0].GetId()})
	require.NoError(t, err)
	require.Equal(t, "delivery.failed", one.GetNotification().GetEvent().GetFields()["type"].GetStringValue())
	require.Len(t, one.GetNotification().GetTries(), 1)
	all, err := r.user.Destinations.ListDestinations(t.Context(), &deckhandv1.ListDestinationsRequest{})
	require.NoError(t, err)
	require.NotContains(t, all.String(), made.GetSecret())

	_, err = r.user.Destinations.CreateDestination(t.Context(), &deckhandv1.CreateDestinationRequest{
		Name: "wrong", Spec: &deckhandv1.DestinationSpec{Agents: []string{"nobody"}, To: &deckhandv1.DestinationSpec_Nats{Nats: &deckhandv1.NatsDestination{}}},
	})
	require.Equal(t, connect.CodeNotFound, connect.CodeOf(err))
	_, err = r.user.Destinations.CreateDestination(t.Context(), &deckhandv1.CreateDestinationRequest{Name: "wrong", Spec: &deckhandv1.DestinationSpec{}})
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
}

// A destination on the hub's own NATS is tried.
func TestADestinationIsTried(t *testing.T) {
	t.Parallel()
	r := &triggerRig{newRig(t, hubtest.Shared(t), nil)}
	r.apply("watch", scripted("watch"))
	_, err := r.user.Destinations.CreateDestination(t.Context(), &deckhandv1.CreateDestinationRequest{
		Name: "bus", Spec: &deckhandv1.DestinationSpec{To: &deckhandv1.DestinationSpec_Nats{Nats: &deckhandv1.NatsDestination{}}},
	})
	require.NoError(t, err)
	res, err := r.user.Destinations.TestDestination(t.Context(), &deckhandv1.TestDestinationRequest{DestinationId: "bus"})
	require.NoError(t, err)
	require.Equal(t, deckhandv1.NotificationState_NOTIFICATION_STATE_DELIVERED, res.GetNotification().GetState(), res.GetNotification().GetError())
	require.Equal(t, "deckhand.test", res.GetNotification().GetType())
}
