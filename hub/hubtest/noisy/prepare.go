package noisy

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const persona = `---
name: %s
description: Makes noise.
provider: script
script: %[1]s.script.yaml
%s
limits: {iterations: 20}
workspace: {scope: task}
tools: [shell_exec, complete_task]
---
Make noise.
`

const talker = `---
name: talker
description: Talks to its model.
provider: anthropic
model: claude-sonnet-5-5
limits: {iterations: 5}
workspace: {scope: task}
tools: [complete_task]
---
Talk.
`

// costlyFilter takes nearly all the steps that an expression may have, for a list
// of costlyItems numbers.
const (
	costlyFilter = "payload.l.all(a, payload.l.all(b, a + b >= 0)) && false"
	costlyItems  = 300
)

// connected waits for the node.
func (n *Neighbour) connected(ctx context.Context) error {
	return wait(ctx, "the node to be connected", func() (bool, error) {
		_, err := n.admin.Files.ListFiles(ctx, &deckhandv1.ListFilesRequest{
			Workspace: &deckhandv1.ListFilesRequest_Jail{Jail: &deckhandv1.JailRef{NodeId: NodeName, JailId: "none"}},
		})
		return err == nil, err
	})
}

func (n *Neighbour) agents(ctx context.Context) error {
	for name, keys := range map[string]string{
		"asker": "approvals: {tools: [shell_exec]}", "nowhere": "nodes: {names: [absent]}",
	} {
		if _, err := n.admin.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{
			Filename: name + ".md", Markdown: fmt.Sprintf(persona, name, keys), Script: "turns: []\n",
		}); err != nil {
			return err
		}
	}
	_, err := n.admin.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{Filename: "talker.md", Markdown: talker})
	return err
}

// hooks makes a webhook whose events cost much, and one whose cost nothing.
func (n *Neighbour) hooks(ctx context.Context) error {
	for name, of := range map[string]struct {
		to     *hook
		filter string
	}{"costly": {&n.costly, costlyFilter}, "cheap": {&n.cheap, "false"}} {
		res, err := n.admin.Triggers.CreateTrigger(ctx, &deckhandv1.CreateTriggerRequest{
			Name: name, AgentId: "nowhere", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK, Spec: &deckhandv1.TriggerSpec{
				Filter: of.filter, Goal: "noise", Webhook: &deckhandv1.WebhookSpec{Verify: "token", RatePerMinute: 1_000_000},
			},
		})
		if err != nil {
			return err
		}
		*of.to = hook{res.GetTrigger().GetPath(), res.GetSecret()}
	}
	return nil
}

func (n *Neighbour) register(ctx context.Context) error {
	res, err := n.workers.Workers.RegisterWorker(ctx, &deckhandv1.RegisterWorkerRequest{Name: "noisy", Slots: 1000})
	if err == nil {
		n.worker = res.GetWorkerId()
	}
	return err
}

// logged creates a command that ended on the node, whose log is searched.
func (n *Neighbour) logged(ctx context.Context) error {
	res, err := n.admin.NodeExecs.StartNodeExec(ctx, &deckhandv1.StartNodeExecRequest{
		NodeId: NodeName, Target: &deckhandv1.StartNodeExecRequest_Host{Host: true}, Argv: []string{"echo", "noise"}, Reason: "noise",
	})
	if err == nil {
		n.exec = res.GetExec().GetId()
	}
	return err
}

// talking creates a running task, with a model that answers slowly.
func (n *Neighbour) talking(ctx context.Context) error {
	n.model = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return // a test of the key
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		fmt.Fprint(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n")
		for range 50 {
			fmt.Fprint(w, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"piece\"}}\n\n")
			_ = flush.Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		fmt.Fprint(w, "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	}))
	if _, err := n.admin.Providers.ConnectProvider(ctx, &deckhandv1.ConnectProviderRequest{
		Name: "anthropic", Key: "sk-ant-noisy-5h2k-noisy", BaseUrl: n.model.URL,
	}); err != nil {
		return err
	}
	for _, every := range []string{"day", "month"} {
		if _, err := n.admin.Budgets.SetBudget(ctx, &deckhandv1.SetBudgetRequest{
			Scope: "organisation", Every: every, Limit: &deckhandv1.SetBudgetRequest_Unlimited{Unlimited: true},
		}); err != nil {
			return err
		}
	}
	var err error
	n.lease, err = n.begin(ctx, "talker")
	return err
}

// begin submits a task and starts it, as its worker does.
func (n *Neighbour) begin(ctx context.Context, agent string) (lease *deckhandv1.Lease, err error) {
	task, err := n.admin.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: agent, Goal: "noise"})
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, "the task to be admitted", func() (bool, error) {
		res, err := n.workers.Workers.ClaimTask(ctx, &deckhandv1.ClaimTaskRequest{
			WorkerId: n.worker, TaskId: task.GetTask().GetId(), Attempt: 1,
		})
		if err != nil {
			return false, err
		}
		lease = res.GetLease()
		return res.GetClaimed(), nil
	}); err != nil {
		return nil, err
	}
	_, err = n.workers.Workers.StartTask(ctx, &deckhandv1.StartTaskRequest{Lease: lease})
	return lease, err
}

// notified creates a destination that answers slowly.
func (n *Neighbour) notified(ctx context.Context) error {
	res, err := n.admin.Destinations.CreateDestination(ctx, &deckhandv1.CreateDestinationRequest{
		Name: "slow", Spec: &deckhandv1.DestinationSpec{
			Events: []string{"*"}, To: &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: n.model.URL}},
		},
	})
	if err == nil {
		n.destination = res.GetDestination().GetId()
	}
	return err
}
