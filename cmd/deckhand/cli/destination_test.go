package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (*testHub) CreateDestination(_ context.Context, req *deckhandv1.CreateDestinationRequest) (*deckhandv1.CreateDestinationResponse, error) {
	res := &deckhandv1.CreateDestinationResponse{Destination: &deckhandv1.Destination{Name: req.GetName(), Spec: req.GetSpec(), SecretEndsIn: "cret"}}
	if req.GetSpec().GetWebhook() != nil {
		res.Secret = "whsec_made"
	}
	return res, nil
}

func (*testHub) GetDestination(context.Context, *deckhandv1.GetDestinationRequest) (*deckhandv1.GetDestinationResponse, error) {
	return &deckhandv1.GetDestinationResponse{Destination: &deckhandv1.Destination{Id: "dest_1", Name: "mail", Spec: &deckhandv1.DestinationSpec{
		Events: []string{"failures"}, To: &deckhandv1.DestinationSpec_Email{Email: &deckhandv1.EmailDestination{
			Host: "smtp.example.com", From: "a@example.com", To: []string{"b@example.com"},
		}},
	}}}, nil
}

func (*testHub) UpdateDestination(_ context.Context, req *deckhandv1.UpdateDestinationRequest) (*deckhandv1.UpdateDestinationResponse, error) {
	return &deckhandv1.UpdateDestinationResponse{Destination: &deckhandv1.Destination{Name: "mail", Spec: req.GetSpec()}}, nil
}

func (*testHub) TestDestination(context.Context, *deckhandv1.TestDestinationRequest) (*deckhandv1.TestDestinationResponse, error) {
	return &deckhandv1.TestDestinationResponse{Notification: &deckhandv1.Notification{
		Id: "ntc_1", State: deckhandv1.NotificationState_NOTIFICATION_STATE_DEAD, Error: "it answered 404", Tries: []*deckhandv1.NotificationTry{{Status: 404}},
	}}, nil
}

func (*testHub) RedriveNotifications(context.Context, *deckhandv1.RedriveNotificationsRequest) (*deckhandv1.RedriveNotificationsResponse, error) {
	return &deckhandv1.RedriveNotificationsResponse{Redriven: 3}, nil
}

// What is typed is what is asked for, and secrets are on no command line.
func TestDestinationsAreMade(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	res := h.run(t, "destination", "create", "hooks", "--webhook", "https://hooks.example.com/x", "--events", "lifecycle,thinking", "--agent", "watch")
	require.Zero(t, res.code, res.stderr)
	require.Contains(t, res.stderr, "whsec_made")
	require.NotContains(t, res.stdout, "whsec_made")
	got, ok := h.lastRequest("CreateDestinationRequest").(*deckhandv1.CreateDestinationRequest)
	require.True(t, ok)
	require.Equal(t, []string{"lifecycle", "thinking"}, got.GetSpec().GetEvents())
	require.Equal(t, []string{"watch"}, got.GetSpec().GetAgents())

	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("https://hooks.slack.com/services/secret\n"), 0o600))
	res = h.run(t, "destination", "create", "chat", "--slack", "--secret-file", file)
	require.Zero(t, res.code, res.stderr)
	require.NotContains(t, res.stdout+res.stderr, "services/secret")
	got, _ = h.lastRequest("CreateDestinationRequest").(*deckhandv1.CreateDestinationRequest)
	require.Equal(t, "https://hooks.slack.com/services/secret", got.GetSecret())

	for _, args := range [][]string{
		{"a"}, {"a", "--slack", "--nats"}, {"a", "--nats", "--from", "x@example.com"}, {"A", "--nats"}, {"a", "--nats", "--events", "Thinking"},
		{"a", "--email", "x@example.com"},
	} {
		require.Equal(t, 2, h.run(t, append([]string{"destination", "create"}, args...)...).code, "%v", args)
	}

	require.Zero(t, h.run(t, "destination", "update", "mail", "--smtp-port", "2525").code)
	changed, ok := h.lastRequest("UpdateDestinationRequest").(*deckhandv1.UpdateDestinationRequest)
	require.True(t, ok)
	require.EqualValues(t, 2525, changed.GetSpec().GetEmail().GetPort())
	require.Equal(t, "smtp.example.com", changed.GetSpec().GetEmail().GetHost())
	require.Equal(t, []string{"failures"}, changed.GetSpec().GetEvents())

	res = h.run(t, "destination", "test", "mail")
	require.Equal(t, 1, res.code)
	require.Contains(t, res.stderr, "it answered 404")
	require.Equal(t, 2, h.run(t, "destination", "redrive").code)
	require.Equal(t, 2, h.run(t, "destination", "redrive", "ntc_1", "--all", "mail").code)
	require.Contains(t, h.run(t, "destination", "redrive", "--all", "mail").stderr, "3 notifications")
	require.Equal(t, 2, h.run(t, "destination", "notifications", "--state", "lost").code)
}
