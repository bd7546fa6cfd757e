package notification_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A receiver that reads a request and closes the connection, which was used before, has it
// once: it is not known what it did with it.
func TestAWebhookOfAnAgentIsNotSentAgainByItself(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	to := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if assert.NoError(t, err) {
				_ = conn.Close()
			}
		}
	})
	_, _, err := r.notify.Create(t.Context(), notification.Draft{OrgID: org, Name: "deploys", By: person, Spec: &deckhandv1.DestinationSpec{
		Events: []string{"none"}, To: &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: to.URL}},
		ForAgents: &deckhandv1.AgentAccess{Agents: []string{"one"}},
	}})
	require.NoError(t, err)
	out := notification.Outbound{Service: r.notify}
	from := notification.Sender{OrgID: org, AgentID: "agent_one", AgentName: "one", Task: db.Task{ID: "task_one"}, StepID: "step_1", ExecID: "step_1"}
	_, found, err := out.Earlier(t.Context(), from)
	require.NoError(t, err)
	require.False(t, found)
	sent, err := out.Trigger(t.Context(), from, "deploys", "deploy.requested", nil)
	require.NoError(t, err)
	require.False(t, sent.Unknown || sent.Refused != nil, "%+v", sent)

	from.StepID, from.ExecID = "step_2", "step_2"
	lost, err := out.Trigger(t.Context(), from, "deploys", "deploy.requested", nil)
	require.NoError(t, err)
	require.True(t, lost.Unknown, "%+v", lost)
	earlier, found, err := out.Earlier(t.Context(), from)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, lost, earlier)
	require.Len(t, to.got(), 2)
	require.Equal(t, notification.Actor{Kind: "agent", ID: "agent_one", Class: "agent"}, to.got()[0].event.Data.Actor)
}
