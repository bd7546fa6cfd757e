package faults

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/mailtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A hub is killed when the mail server has a message and the hub has no response yet. The
// mail is not sent again: its outcome is unknown, and a person decides.
func TestAHubKilledWhileItSendsAnAgentsMail(t *testing.T) {
	t.Parallel()
	needRoot(t)
	mails, _ := mailtest.NewHolding(t)
	r := newRig(t, 2*time.Second)
	ip := fmt.Sprintf("127.%d.%d.%d", 64+syscall.Getpid()>>8&63, syscall.Getpid()&255, r.number)
	r.startNATS(nil, ip+":4222")
	r.eventually(time.Minute, "NATS to listen", func() bool { return reachable(ip + ":4222") })
	r.startHub(nil, ip+":7800", ip+":7801", ip+":7801")
	r.connect(ip + ":7800")
	r.startWorker(nil, 1)
	r.retry("apply the policy", func(ctx context.Context) error {
		_, err := r.client.Policies.ApplyPolicy(ctx, connect.NewRequest(&deckhandv1.ApplyPolicyRequest{File: "policy.yaml", Yaml: "rules:\n  - {name: mail, effect: allow, tool: send_email}\n"}))
		return err
	})
	_, err := r.client.Destinations.CreateDestination(t.Context(), connect.NewRequest(&deckhandv1.CreateDestinationRequest{
		Name: "post", Spec: &deckhandv1.DestinationSpec{
			Events: []string{"none"},
			To: &deckhandv1.DestinationSpec_Email{Email: &deckhandv1.EmailDestination{
				Host: mails.Host, Port: mails.Port, Security: "none", From: "agents@example.com", To: []string{"ops@example.com"},
			}},
			ForAgents: &deckhandv1.AgentAccess{Agents: []string{"writer"}, Recipients: []string{"@example.com"}},
		},
	}))
	require.NoError(t, err)
	_, err = r.client.Agents.ApplyAgent(t.Context(), connect.NewRequest(&deckhandv1.ApplyAgentRequest{
		Filename: "writer.md", Markdown: "---\nname: writer\ndescription: x\nprovider: script\nscript: s.yaml\nlimits: {iterations: 5}\ntools: [send_email]\n---\nGo.\n",
		Script: `turns:
  - text: I write.
    calls:
      - tool: send_email
        arguments: {to: [ops@example.com], subject: Hello, body: Once.}
`,
	}))
	require.NoError(t, err)
	id := r.submit("writer", "one")
	select {
	case <-mails.Took():
	case <-time.After(time.Minute):
		require.Fail(t, "the mail does not come")
	}
	r.hubs[0].kill()
	r.eventually(3*time.Minute, "the outcome to be unknown", func() bool {
		return r.count("SELECT count(*) FROM steps WHERE task_id = '"+id+"' AND tool = 'send_email' AND state = 'unknown'") == 1
	})
	require.Len(t, mails.Messages(), 1)
	r.eventually(time.Minute, "a person to be asked", func() bool {
		return r.count("SELECT count(*) FROM inbox_items WHERE task_id = '"+id+"' AND state = 'open'") == 1
	})
}
