package noisy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// action is one kind of noise, made by so many at once.
type action struct {
	name string
	at   int
	do   func(ctx context.Context) error
}

const (
	watching = "watches"
	watches  = 100
	bodySize = 8 << 20
	// regexpSubject is how long a text is that a pattern looks through.
	regexpSubject = 300_000
)

// actions are the ten kinds.
func (n *Neighbour) actions() []action {
	// Each event is different: a repeated one is ignored.
	number := func() int64 { return n.events.Add(1) }
	costly := "\"l\":[" + strings.TrimSuffix(strings.Repeat("1,", costlyItems), ",") + "]}"
	subject := []byte(`{"s":"` + strings.Repeat("a", regexpSubject) + `"}`)
	large := strings.Repeat("x", bodySize)
	return []action{
		{"costly events", 4, func(ctx context.Context) error {
			return n.post(ctx, n.costly, fmt.Sprintf(`{"n":%d,%s`, number(), costly))
		}},
		{"webhooks", 8, func(ctx context.Context) error { return n.post(ctx, n.cheap, fmt.Sprintf(`{"n":%d}`, number())) }},
		{"log searches", 4, n.searchLog},
		{watching, watches, n.watch},
		{"relay streams", 16, n.talk},
		{"large bodies", 2, func(ctx context.Context) error {
			_, err := n.admin.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "nowhere", Goal: large})
			return err
		}},
		{"inbox items", 2, n.ask},
		{"regular expressions", 4, func(ctx context.Context) error {
			_, err := n.admin.Triggers.TestTrigger(ctx, &deckhandv1.TestTriggerRequest{
				TriggerId: "cheap", Body: subject, Spec: &deckhandv1.TriggerSpec{
					Filter: `payload.s.matches("(a|b|c){0,90}z$")`, Goal: "noise", Webhook: &deckhandv1.WebhookSpec{Verify: "token"},
				},
			})
			return err
		}},
		{"notifications", 4, func(ctx context.Context) error {
			_, err := n.admin.Destinations.TestDestination(ctx, &deckhandv1.TestDestinationRequest{DestinationId: n.destination})
			return err
		}},
		{"admissions", 4, n.submit},
	}
}

func (n *Neighbour) post(ctx context.Context, to hook, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+to.path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Deckhand-Token", to.secret)
	return n.send(req)
}

// send sends a request and reads all that comes.
func (n *Neighbour) send(req *http.Request) error {
	res, err := n.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("HTTP %d", res.StatusCode)
	}
	return nil
}

func (n *Neighbour) searchLog(ctx context.Context) error {
	_, err := n.admin.NodeExecs.SearchNodeLog(ctx, &deckhandv1.SearchNodeLogRequest{
		ExecId: n.exec, Pattern: "(?i)([a-y]*){10}z", Regexp: true,
	})
	return err
}

// watch opens a stream of all events, and reads what comes for as long as it is
// let.
func (n *Neighbour) watch(ctx context.Context) error {
	stream, err := n.admin.Events.Watch(ctx, &deckhandv1.WatchRequest{Follow: true, FromNow: true})
	if err != nil {
		return err
	}
	defer stream.Close()
	if stream.Receive() {
		n.counts[watching].Done.Add(1)
	}
	for stream.Receive() {
	}
	return stream.Err()
}

func (n *Neighbour) talk(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+"/relay/anthropic/v1/messages",
		strings.NewReader(`{"model":"claude-sonnet-5-5","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"more"}]}`))
	if err != nil {
		return err
	}
	req.Header.Set("X-Api-Key", fmt.Sprintf("%s:%d:%s", n.lease.GetTaskId(), n.lease.GetAttempt(), n.lease.GetToken()))
	return n.send(req)
}

// ask makes a task wait for a person.
func (n *Neighbour) ask(ctx context.Context) error {
	lease, err := n.begin(ctx, "asker")
	if err != nil {
		return err
	}
	if _, err := n.workers.Workers.RecordTurn(ctx, &deckhandv1.RecordTurnRequest{
		Lease: lease, Turn: &deckhandv1.Turn{
			Turn: 1, Provider: "script", Model: "scripted", StopReason: "tool_use", Usage: &deckhandv1.Usage{InputTokens: 1, OutputTokens: 1},
			Blocks: []*deckhandv1.Block{{Kind: &deckhandv1.Block_Text_{Text: &deckhandv1.Block_Text{Text: "noise"}}}},
		},
	}); err != nil {
		return err
	}
	if _, err := n.workers.Workers.ProposeStep(ctx, &deckhandv1.ProposeStepRequest{
		Lease: lease, Turn: 1, CallId: "c", Tool: toolname.ShellExec, ArgumentsJson: `{"command":"make noise"}`,
	}); err != nil {
		return err
	}
	_, err = n.workers.Workers.YieldTask(ctx, &deckhandv1.YieldTaskRequest{Lease: lease})
	return err
}

// submit makes admission consider a task that no node can take, and cancels every other
// one.
func (n *Neighbour) submit(ctx context.Context) error {
	res, err := n.admin.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "nowhere", Goal: "noise"})
	if err != nil || n.submissions.Add(1)%2 == 0 {
		return err
	}
	_, err = n.admin.Tasks.CancelTask(ctx, &deckhandv1.CancelTaskRequest{TaskId: res.GetTask().GetId()})
	return err
}
