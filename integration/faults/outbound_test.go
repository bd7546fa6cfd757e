package faults

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	"github.com/deckhand-sh/deckhand/internal/mailtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// sendsOnce has one call that sends something.
const sendsOnce = `turns:
  - text: I send it.
    calls: [{tool: %s, arguments: %s}]
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "it was sent"}}]
`

// A hub is killed between sending an agent's mail, or its webhook, and storing how that went.
// Neither is sent again, and since the hub cannot know whether it arrived, a person decides.
func TestAHubKilledAfterItSentWhatAnAgentSends(t *testing.T) {
	t.Parallel()
	mails := mailtest.New(t)
	var requests atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		requests.Add(1)
	}))
	t.Cleanup(receiver.Close)
	r := newMatrixRig(t)
	for name, spec := range map[string]*deckhandv1.DestinationSpec{
		"deploys": {Events: []string{"none"}, To: &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: receiver.URL}}, ForAgents: &deckhandv1.AgentAccess{Agents: []string{"caller"}}},
		"post": {Events: []string{"none"}, ForAgents: &deckhandv1.AgentAccess{Agents: []string{"writer"}, Recipients: []string{"@example.com"}}, To: &deckhandv1.DestinationSpec_Email{Email: &deckhandv1.EmailDestination{
			Host: mails.Host, Port: mails.Port, Security: "none", From: "agents@example.com", To: []string{"ops@example.com"},
		}}},
	} {
		_, err := r.client.Destinations.CreateDestination(t.Context(), &deckhandv1.CreateDestinationRequest{Name: name, Spec: spec})
		require.NoError(t, err)
	}
	_, err := r.client.Policies.ApplyPolicy(t.Context(), &deckhandv1.ApplyPolicyRequest{
		File: "policy.yaml", Yaml: "rules:\n  - {name: mail, effect: allow, tool: send_email}\n",
	})
	require.NoError(t, err)
	var ids []string
	for name, call := range map[string][2]string{
		"caller": {"webhook_trigger", `{destination: deploys, event: deploy.requested, data: {service: web}}`},
		"writer": {"send_email", `{to: [ada@example.com], subject: Report, body: It is done.}`},
	} {
		r.retry("apply "+name, func(ctx context.Context) error {
			_, err := r.client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{
				Filename: name + ".md", Script: fmt.Sprintf(sendsOnce, call[0], call[1]),
				Markdown: fmt.Sprintf("---\nname: %[1]s\ndescription: x\nprovider: script\nscript: %[1]s.script.yaml\nlimits: {iterations: 5}\ntools: [%[2]s]\nworkspace: {scope: task}\n---\nGo.\n", name, call[0]),
			})
			return err
		})
	}
	all := r.points.arm(crashpoint.AfterOutbound, 2)
	for _, name := range []string{"caller", "writer"} {
		ids = append(ids, r.submit(name, name))
	}
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		require.Fail(t, "the calls do not come to the point")
	}
	r.hubs[0].kill()
	r.points.release()
	r.eventually(3*time.Minute, "both outcomes to be unknown", func() bool {
		return r.count("SELECT count(*) FROM inbox_items WHERE kind = 'unknown' AND state = 'open'") == 2
	})
	require.Equal(t, int32(1), requests.Load())
	require.Len(t, mails.Messages(), 1)
	// One of them is found to have arrived, and the other is sent again by a person's decision.
	items, err := r.client.Inbox.ListInbox(t.Context(), &deckhandv1.ListInboxRequest{Kinds: []deckhandv1.InboxKind{deckhandv1.InboxKind_INBOX_KIND_UNKNOWN}})
	require.NoError(t, err)
	for _, item := range items.GetItems() {
		answer := &deckhandv1.AnswerInboxItemRequest{ItemId: item.GetId(), ShownDigest: item.GetShownDigest()}
		if item.GetTool() == "webhook_trigger" {
			answer.Answer = &deckhandv1.AnswerInboxItemRequest_Retry_{Retry: &deckhandv1.AnswerInboxItemRequest_Retry{}}
		} else {
			answer.Answer = &deckhandv1.AnswerInboxItemRequest_Resolve_{Resolve: &deckhandv1.AnswerInboxItemRequest_Resolve{Succeeded: true}}
		}
		_, err := r.client.Inbox.AnswerInboxItem(t.Context(), answer)
		require.NoError(t, err)
	}
	for _, one := range r.settle(ids, 2*time.Minute) {
		require.Equal(t, "succeeded", one.State, "%+v", one)
	}
	require.Equal(t, int32(2), requests.Load())
	require.Len(t, mails.Messages(), 1)
}
