package hub_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/mailtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// writer is a persona with all tools that send something, and a workspace.
const writer = `---
name: writer
description: x
provider: script
script: s.yaml
limits: {iterations: 5}
tools: [send_email, send_notification, webhook_trigger, file_write, shell_exec]
---
Go.
`

func (r *rig) destination(name string, spec *deckhandv1.DestinationSpec) (secret string) {
	r.t.Helper()
	spec.Events = []string{"none"}
	return do(r.t, r.user.Destinations.CreateDestination, &deckhandv1.CreateDestinationRequest{Name: name, Spec: spec}).GetSecret()
}

// sends is a rig whose agent writer has an account for mail, and a webhook at receiver.
func sends(t *testing.T, mails *mailtest.Server, receiver string) (r *rig, secret string) {
	t.Helper()
	cfg := hubtest.Config(t)
	cfg.NotifyAllow = "127.0.0.0/8"
	r = newRig(t, hubtest.Start(t, cfg), nil)
	r.apply("writer", writer)
	r.destination("post", &deckhandv1.DestinationSpec{
		To: &deckhandv1.DestinationSpec_Email{Email: &deckhandv1.EmailDestination{
			Host: mails.Host, Port: mails.Port, Security: "none", From: "agents@example.com", To: []string{"ops@example.com"},
		}},
		ForAgents: &deckhandv1.AgentAccess{Agents: []string{"writer"}, Recipients: []string{"ada@example.org", "@example.com"}, CallsPerHour: 3},
	})
	secret = r.destination("deploys", &deckhandv1.DestinationSpec{
		To:        &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: receiver}},
		ForAgents: &deckhandv1.AgentAccess{Agents: []string{"*"}, CallsPerHour: 2},
	})
	r.destination("closed", &deckhandv1.DestinationSpec{To: &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: receiver}}})
	return r, secret
}

// An email is sent once, after a person has seen all of it: from whom, to whom, its text
// and what is attached. What is attached is sent only as it was when they saw it.
func TestAnAgentSendsMail(t *testing.T) {
	t.Parallel()
	mails := mailtest.New(t)
	r, _ := sends(t, mails, "http://127.0.0.1:1/")
	lease := r.begin(r.submit("writer").GetId(), 1)
	task := lease.GetTaskId()
	r.turn(lease, 1)
	const report = "a;b\n1;2\n"
	written, err := r.propose(lease, 1, 0, "file_write", `{"path":"out/report.csv","content":"a;b\n1;2\n"}`)
	require.NoError(t, err)
	_, err = r.execute(lease, written.GetId())
	require.NoError(t, err)
	r.turn(lease, 2)
	step, err := r.propose(lease, 2, 0, "send_email", `{"to":["ada@example.org","Ops@Example.com"],"subject":"Report","body":"Hello,\nit is done.","attachments":["out/report.csv"]}`)
	require.NoError(t, err)
	require.Equal(t, stepWaiting, step.GetState(), step.GetObservation())
	item := r.item(task)
	sum := sha256.Sum256([]byte(report))
	for _, part := range []string{
		"to: ada@example.org, Ops@Example.com", "subject: Report", "Hello,\nit is done.", "from agents@example.com (account post)",
		"attachment out/report.csv: 8 bytes, SHA-256 " + hex.EncodeToString(sum[:]),
	} {
		require.Contains(t, item.GetPreview(), part)
	}
	require.NoError(t, r.yield(lease))
	_, err = r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)
	require.Empty(t, mails.Messages())
	lease = r.begin(task, 2)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, done.GetState(), done.GetObservation())
	again, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, again.GetState())
	require.Len(t, mails.Messages(), 1, "a step is sent once")

	sent := mails.Messages()[0]
	require.Equal(t, []string{"ada@example.org", "Ops@Example.com"}, sent.To)
	m, err := mail.ReadMessage(strings.NewReader(sent.Data))
	require.NoError(t, err)
	require.Equal(t, "<"+done.GetExecId()+"@deckhand.invalid>", m.Header.Get("Message-Id"))
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/mixed", kind)
	parts := multipart.NewReader(m.Body, params["boundary"])
	var kinds []string
	for {
		part, err := parts.NextPart()
		if err == io.EOF { //nolint:errorlint // as it is documented
			break
		}
		require.NoError(t, err)
		kinds = append(kinds, strings.Split(part.Header.Get("Content-Type"), ";")[0])
	}
	require.Equal(t, []string{"text/plain", "application/octet-stream"}, kinds)
}

// What may not be sent is refused before a person is asked, and says why.
func TestMailThatMayNotBeSent(t *testing.T) {
	t.Parallel()
	mails := mailtest.New(t)
	r, secret := sends(t, mails, "http://127.0.0.1:1/")
	lease := r.begin(r.submit("writer").GetId(), 1)
	for i, c := range []struct{ name, arguments, says string }{
		{"a stranger", `{"to":["eve@elsewhere.net"],"subject":"x","body":"y"}`, "may not send to eve@elsewhere.net"},
		{"a subdomain", `{"to":["eve@x.example.com"],"subject":"x","body":"y"}`, "may not send to"},
		{"a name beside an address", `{"to":["Ada <ada@example.org>"],"subject":"x","body":"y"}`, "not an address"},
		{"a header in an address", `{"to":["ada@example.org\r\nBcc: eve@elsewhere.net"],"subject":"x","body":"y"}`, "not an address"},
		{"a header in the subject", `{"to":["ada@example.org"],"subject":"x\r\nBcc: eve@elsewhere.net","body":"y"}`, "subject"},
		{"HTML", `{"to":["ada@example.org"],"subject":"x","body":"<html><body>hi</body></html>"}`, "contains HTML"},
		{"an HTML file", `{"to":["ada@example.org"],"subject":"x","body":"y","attachments":["a.HTML"]}`, "may open as a page"},
		{"a file that is not there", `{"to":["ada@example.org"],"subject":"x","body":"y","attachments":["nothing.txt"]}`, "nothing.txt"},
		{"a secret", `{"to":["ada@example.org"],"subject":"x","body":"` + secret + `"}`, "contains a secret"},
		{"another account", `{"to":["ada@example.org"],"subject":"x","body":"y","account":"deploys"}`, "there is no email destination"},
	} {
		r.turn(lease, int32(i+1))                                               //nolint:gosec // a few
		step, err := r.propose(lease, int32(i+1), 0, "send_email", c.arguments) //nolint:gosec // a few
		require.NoError(t, err, c.name)
		require.Equal(t, stepDenied, step.GetState(), "%s: %s", c.name, step.GetObservation())
		require.Contains(t, step.GetObservation(), c.says, c.name)
	}
	r.turn(lease, 11)
	step, err := r.propose(lease, 11, 0, "send_email", `{"to":["`+secret+`@example.com"],"subject":"x","body":"y"}`)
	require.NoError(t, err)
	require.Equal(t, stepDenied, step.GetState())
	require.Contains(t, step.GetObservation(), "to contains a secret")
	require.NotContains(t, step.GetObservation(), secret)
	require.Empty(t, mails.Messages())
}

// A mail that is being sent is what the step did, although what it was checked against has
// changed when the step is attached to again.
func TestAMailIsSentAlthoughItMayNotBeAnyMore(t *testing.T) {
	t.Parallel()
	mails, release := mailtest.NewHolding(t)
	r, _ := sends(t, mails, "http://127.0.0.1:1/")
	lease := r.begin(r.submit("writer").GetId(), 1)
	task := lease.GetTaskId()
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "send_email", `{"to":["ada@example.org"],"subject":"Report","body":"It is done."}`)
	require.NoError(t, err)
	require.Equal(t, stepWaiting, step.GetState(), step.GetObservation())
	item := r.item(task)
	require.NoError(t, r.yield(lease))
	_, err = r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)
	lease = r.begin(task, 2)
	type result struct {
		step *deckhandv1.Step
		err  error
	}
	results := make(chan result, 2)
	execute := func() {
		done, err := r.execute(lease, step.GetId())
		results <- result{done, err}
	}
	go execute()
	<-mails.Took()
	for _, d := range do(t, r.user.Destinations.ListDestinations, &deckhandv1.ListDestinationsRequest{}).GetDestinations() {
		if d.GetName() == "post" {
			d.Spec.ForAgents = nil
			do(t, r.user.Destinations.UpdateDestination, &deckhandv1.UpdateDestinationRequest{DestinationId: d.GetId(), Spec: d.GetSpec()})
		}
	}
	go execute()
	select {
	case early := <-results:
		require.Fail(t, "the call did not wait for the one that sends", "%v", early)
	case <-time.After(500 * time.Millisecond):
	}
	release()
	for range 2 {
		got := <-results
		require.NoError(t, got.err)
		require.Equal(t, stepSucceeded, got.step.GetState(), got.step.GetObservation())
		require.Contains(t, got.step.GetObservation(), "the server of account post took the mail to ada@example.org")
	}
	require.Len(t, mails.Messages(), 1)
}

// A webhook is called once, signed, with the step's id as its key, as often as its
// administrator allows; what the receiver says comes back.
func TestAnAgentCallsAWebhook(t *testing.T) {
	t.Parallel()
	type call struct {
		header http.Header
		body   []byte
	}
	calls := make(chan call, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil {
			calls <- call{req.Header, body}
		}
		if strings.Contains(string(body), "refuse") {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		_, _ = io.WriteString(w, "build 7")
	}))
	t.Cleanup(receiver.Close)
	r, secret := sends(t, mailtest.New(t), receiver.URL)
	lease := r.begin(r.submit("writer").GetId(), 1)
	turn := int32(0)
	trigger := func(arguments string) *deckhandv1.Step {
		turn++
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, "webhook_trigger", arguments)
		require.NoError(t, err)
		if step.GetState() == stepDenied {
			return step
		}
		done, err := r.execute(lease, step.GetId())
		require.NoError(t, err)
		return done
	}
	done := trigger(`{"destination":"deploys","event":"deploy.requested","data":{"version":"1.4.2"}}`)
	require.Equal(t, stepSucceeded, done.GetState(), done.GetObservation())
	require.Contains(t, done.GetObservation(), "deploys took it and answered 200: build 7")
	got := <-calls
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	require.NoError(t, verifier.Verify(got.body, got.header))
	require.Equal(t, done.GetId(), got.header.Get("Webhook-Id"))
	require.Equal(t, done.GetId(), got.header.Get("Idempotency-Key"))
	var event struct {
		Type string
		Data struct {
			Agent   struct{ Name string }
			Details map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(got.body, &event))
	require.Equal(t, "deploy.requested", event.Type)
	require.Equal(t, "writer", event.Data.Agent.Name)
	require.Equal(t, map[string]any{"version": "1.4.2"}, event.Data.Details)
	again, err := r.execute(lease, done.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, again.GetState())

	refused := trigger(`{"destination":"deploys","event":"refuse.me"}`)
	require.Equal(t, stepFailed, refused.GetState())
	require.Contains(t, refused.GetObservation(), "422")
	limited := trigger(`{"destination":"deploys","event":"deploy.requested"}`)
	require.Equal(t, stepFailed, limited.GetState())
	require.Equal(t, string(fault.RateLimited), limited.GetErrorCode())
	for _, name := range []string{"closed", "post", "nothing"} {
		closed := trigger(`{"destination":"` + name + `","event":"deploy.requested"}`)
		require.Equal(t, stepFailed, closed.GetState())
		require.Contains(t, closed.GetObservation(), "use one of: deploys")
	}
	secretive := trigger(`{"destination":"deploys","event":"deploy.requested","data":{"a":"` + secret + `"}}`)
	require.Contains(t, secretive.GetObservation(), "contains a secret")
	require.Len(t, calls, 1, "the refused one; nothing else was sent")
}

// A note is stored with the outcome of its call and sent to destinations by name. People
// without a device are named; a wrong name sends nothing to anybody.
func TestAnAgentNotifiesPeople(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil {
			bodies <- string(body)
		}
	}))
	t.Cleanup(receiver.Close)
	mails := mailtest.New(t)
	r, _ := sends(t, mails, receiver.URL)
	do(t, r.user.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "grace", Role: "viewer"})
	lease := r.begin(r.submit("writer").GetId(), 1)
	turn := int32(0)
	notify := func(arguments string) *deckhandv1.Step {
		turn++
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, "send_notification", arguments)
		require.NoError(t, err)
		done, err := r.execute(lease, step.GetId())
		require.NoError(t, err)
		return done
	}
	wrong := notify(`{"destinations":["deploys"],"people":["nobody"],"title":"Late","message":"It is late."}`)
	require.Equal(t, stepFailed, wrong.GetState())
	require.Contains(t, wrong.GetObservation(), `there is no user "nobody"`)
	done := notify(`{"destinations":["deploys","post"],"people":["grace"],"title":"Late","message":"The backup is late.\nI look."}`)
	require.Equal(t, stepSucceeded, done.GetState(), done.GetObservation())
	require.Contains(t, done.GetObservation(), "sent to deploys, post; not to grace")
	body := <-bodies
	require.Contains(t, body, `"type":"agent.message"`)
	require.Contains(t, body, `The backup is late.\nI look.`)
	<-mails.Took()
	require.Contains(t, mails.Messages()[0].Data, "The backup is late.")
	require.Contains(t, mails.Messages()[0].To, "ops@example.com", "the destination's own recipients")
	alone := notify(`{"people":["grace"],"title":"x","message":"y"}`)
	require.Equal(t, stepFailed, alone.GetState())
	refuses(t, connect.CodeInvalidArgument, r.user.Destinations.CreateDestination, &deckhandv1.CreateDestinationRequest{
		Name: "bad", Spec: &deckhandv1.DestinationSpec{
			To:        &deckhandv1.DestinationSpec_Nats{Nats: &deckhandv1.NatsDestination{}},
			ForAgents: &deckhandv1.AgentAccess{Agents: []string{"writer"}, Recipients: []string{"@example.com"}},
		},
	})
}
