package notification_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/mail"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (r *rig) create(d notification.Draft) db.Destination {
	r.t.Helper()
	d.OrgID, d.By = org, person
	row, secret, err := r.notify.Create(r.t.Context(), d)
	require.NoError(r.t, err)
	require.Empty(r.t, secret)
	return row
}

// tested sends a notification, and returns its result.
func (r *rig) tested(id string) db.Notification {
	r.t.Helper()
	sent, err := r.notify.Test(r.t.Context(), org, id, person)
	require.NoError(r.t, err)
	row, err := r.notify.Notification(r.t.Context(), org, sent)
	require.NoError(r.t, err)
	return row.Notification
}

// A hub does not connect to its own network for others, unless it is configured to, and
// follows no redirect.
func TestNobodyIsSentIntoTheHubsNetwork(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *notification.Config) { c.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")} })
	inside := newReceiver(t, nil)
	for i, url := range []string{inside.URL, strings.Replace(inside.URL, "127.0.0.1", "localhost", 1), "http://169.254.169.254/latest/meta-data/", "https://[::1]/", "https://10.0.0.1/"} {
		d, _ := r.webhook(fmt.Sprintf("hook-%d", i), url)
		n := r.tested(d.ID)
		require.Equal(t, "dead", n.State, url)
		require.Contains(t, n.Error, "not a public address", url)
	}
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	require.NoError(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, inside.URL, http.StatusTemporaryRedirect)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	d, _ := r.webhook("redirect", "http://"+listener.Addr().String())
	n := r.tested(d.ID)
	require.Equal(t, "dead", n.State)
	require.Contains(t, n.Error, "redirects are not followed")
	require.Empty(t, inside.got())

	mailed := r.create(notification.Draft{Name: "mail", Spec: &deckhandv1.DestinationSpec{To: &deckhandv1.DestinationSpec_Email{Email: &deckhandv1.EmailDestination{
		Host: "127.0.0.1", Port: 25, From: "a@example.com", To: []string{"b@example.com"},
	}}}})
	require.Contains(t, r.tested(mailed.ID).Error, "not a public address")
}

// What cannot be a destination is refused with a word about what is wrong.
func TestWrongDestinationsAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	webhook := func(url string) *deckhandv1.DestinationSpec {
		return &deckhandv1.DestinationSpec{To: &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: url}}}
	}
	email := func(change func(*deckhandv1.EmailDestination)) *deckhandv1.DestinationSpec {
		m := &deckhandv1.EmailDestination{Host: "smtp.example.com", From: "a@example.com", To: []string{"b@example.com"}}
		change(m)
		return &deckhandv1.DestinationSpec{To: &deckhandv1.DestinationSpec_Email{Email: m}}
	}
	slack := &deckhandv1.DestinationSpec{To: &deckhandv1.DestinationSpec_Slack{Slack: &deckhandv1.SlackDestination{}}}
	for name, d := range map[string]notification.Draft{
		"spec.webhook.url is not":       {Spec: webhook("ftp://example.com/")},
		"spec.webhook.url has a user":   {Spec: webhook("https://a:b@example.com/")},
		"spec.webhook.url has a frag":   {Spec: webhook("https://example.com/#x")},
		"secret is not one of Standard": {Spec: webhook("https://example.com/"), Secret: "whsec_c2hvcnQ="},
		"secret is not the URL":         {Spec: slack},
		"secret holds line ends":        {Spec: slack, Secret: "https://example.com/\r\nX: y"},
		"spec.email.host":               {Spec: email(func(m *deckhandv1.EmailDestination) { m.Host = "unix:///run/x" })},
		"spec.email.host is":            {Spec: email(func(m *deckhandv1.EmailDestination) { m.Host = "smtp.example.com:25" })},
		"has the address":               {Spec: email(func(m *deckhandv1.EmailDestination) { m.To = []string{"b@example.com\r\nBcc: c@example.com"} })},
		"has the address \"nobody":      {Spec: email(func(m *deckhandv1.EmailDestination) { m.From = "nobody" })},
		"username and secret":           {Spec: email(func(m *deckhandv1.EmailDestination) { m.Username = "u" })},
		"password would not be":         {Spec: email(func(m *deckhandv1.EmailDestination) { m.Username, m.Security = "u", "none" }), Secret: "a password"},
		"nats has no secret":            {Spec: &deckhandv1.DestinationSpec{To: &deckhandv1.DestinationSpec_Nats{}}, Secret: "x"},
	} {
		d.OrgID, d.Name, d.By = org, "wrong", person
		_, _, err := r.notify.Create(t.Context(), d)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		require.ErrorContains(t, err, name)
	}
	d, _ := r.webhook("hook", "https://example.com/")
	_, _, err := r.notify.Create(t.Context(), notification.Draft{OrgID: org, Name: "hook", By: person, Spec: webhook("https://example.com/")})
	require.True(t, fault.Is(err, fault.Exists))
	require.True(t, fault.Is(r.notify.Change(t.Context(), org, d.ID, to(slack), "", person), fault.Invalid), "its kind stays")
	require.True(t, fault.Is(r.notify.Disable(t.Context(), "org_other", d.ID, "", person), fault.NotFound))
}

// Slack gets a text in which nothing is mark-up that strangers wrote, and its
// URL, which is a secret, is on no record.
func TestSlackGetsEscapedText(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rec := newReceiver(t, func(n int, w http.ResponseWriter, req *http.Request) {
		if n == 0 {
			http.Error(w, "no service at http://"+req.Host+req.URL.Path, http.StatusBadRequest)
		}
	})
	url := rec.URL + "/services/T0/B0/verysecret"
	d := r.create(notification.Draft{Name: "chat", Secret: url, Spec: &deckhandv1.DestinationSpec{To: &deckhandv1.DestinationSpec_Slack{Slack: &deckhandv1.SlackDestination{}}}})
	require.Equal(t, "cret", d.Hint)
	r.happen("task_one", "input_required", map[string]any{"item_id": "inbox_1", "question": "<!channel> & <https://evil.example|click>\nforged: line\x1b[2J"})
	n := r.settled(d.ID, "delivered", 1)[0]
	require.NotContains(t, string(n.Tries), "verysecret")
	require.Contains(t, tries(t, n)[0].Error, "400")
	var m map[string]any
	require.NoError(t, json.Unmarshal(rec.got()[1].body, &m))
	require.Equal(t, "Agent one asks: &lt;!channel&gt; &amp; &lt;https://evil.example|click&gt; forged: line [2J\ntask task_one: Look at it\ndeckhand inbox show inbox_1", m["text"])
	row, err := r.notify.Get(t.Context(), org, d.ID)
	require.NoError(t, err)
	require.NotContains(t, string(row.Spec), "verysecret")
}

// mailbox is an SMTP server that accepts all mail, after it has responded to some with an
// error.
type mailbox struct {
	net.Listener

	mu    sync.Mutex
	mails []string
	tos   []string
	busy  int
}

func newMailbox(t *testing.T, busy int) *mailbox {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := &mailbox{Listener: listener, busy: busy}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { m.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return m
}

func (m *mailbox) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	say("220 mail.example.com ESMTP")
	var tos []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(strings.TrimSpace(line)); {
		case strings.HasPrefix(verb, "EHLO"):
			say("250-mail.example.com\r\n250 8BITMIME")
		case strings.HasPrefix(verb, "RCPT"):
			tos = append(tos, strings.TrimSpace(line))
			say("250 ok")
		case verb == "DATA":
			m.mu.Lock()
			m.busy--
			busy := m.busy >= 0
			m.mu.Unlock()
			if busy {
				say("451 4.7.1 greylisted")
				continue
			}
			say("354 go on")
			var text strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(line)
			}
			m.mu.Lock()
			m.mails, m.tos = append(m.mails, text.String()), append(m.tos, tos...)
			m.mu.Unlock()
			say("250 taken")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (m *mailbox) spec(t *testing.T) *deckhandv1.EmailDestination {
	t.Helper()
	host, port, err := net.SplitHostPort(m.Addr().String())
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	return &deckhandv1.EmailDestination{
		Host: host, Port: int32(n), Security: "none", From: "Deckhand <deckhand@example.com>", To: []string{"ops@example.com", "dev@example.com"}, //nolint:gosec // a port
	}
}

// Mail has the headers that it is to have and no others, whatever an agent
// wrote, and is sent again under its id while the server refuses it.
func TestMailHasNoHeaderOfStrangers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	box := newMailbox(t, 2)
	d := r.create(notification.Draft{Name: "mail", Spec: &deckhandv1.DestinationSpec{To: &deckhandv1.DestinationSpec_Email{Email: box.spec(t)}}})
	r.exec(`UPDATE tasks SET title = E'x\r\nX-Title: y' WHERE id = 'task_one'`)
	r.happen("task_one", "input_required", map[string]any{
		"item_id": "inbox_1", "question": "Ä\r\nBcc: evil@example.com\r\n\r\n<script>\r\n.\r\nMAIL FROM:<evil@example.com>\x00\u2028X-Evil: 1",
	})
	n := r.settled(d.ID, "delivered", 1)[0]
	require.Equal(t, 451, tries(t, n)[0].Status, "%s", n.Tries)
	require.EqualValues(t, 3, n.Attempts)
	require.Len(t, box.mails, 1)
	require.Equal(t, []string{"RCPT TO:<ops@example.com>", "RCPT TO:<dev@example.com>"}, box.tos[len(box.tos)-2:])
	m, err := mail.ReadMessage(strings.NewReader(box.mails[0]))
	require.NoError(t, err)
	for _, name := range []string{"Bcc", "X-Evil", "X-Title", "Cc"} {
		require.Empty(t, m.Header.Get(name), name)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(subject, "[Deckhand] Agent one asks: Ä Bcc: evil@example.com"), subject)
	require.Equal(t, "<"+n.ID+"@deckhand.invalid>", m.Header.Get("Message-Id"))
	require.Equal(t, "auto-generated", m.Header.Get("Auto-Submitted"))
	body, err := io.ReadAll(m.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), "deckhand inbox show inbox_1")

	// A password is sent to no server without encryption.
	spec := box.spec(t)
	spec.Security, spec.Username = "", "deckhand"
	safe := r.create(notification.Draft{Name: "safe", Secret: "a password", Spec: &deckhandv1.DestinationSpec{To: &deckhandv1.DestinationSpec_Email{Email: spec}}})
	refused := r.tested(safe.ID)
	require.Equal(t, "dead", refused.State)
	require.Contains(t, refused.Error, "STARTTLS")
	moved := box.spec(t)
	moved.Security, moved.Username, moved.Host = "", "deckhand", "elsewhere.example.com"
	err = r.notify.Change(t.Context(), org, safe.ID, to(&deckhandv1.DestinationSpec{To: &deckhandv1.DestinationSpec_Email{Email: moved}}), "", person)
	require.ErrorContains(t, err, "give the password again", "a password is for its server")
	require.Len(t, box.mails, 1)
}

// A silent server delays no one.
func TestASilentMailServerHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *notification.Config) { c.Timeout = 300 * time.Millisecond })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	box := &mailbox{Listener: listener}
	d := r.create(notification.Draft{Name: "mail", Spec: &deckhandv1.DestinationSpec{To: &deckhandv1.DestinationSpec_Email{Email: box.spec(t)}}})
	rec := newReceiver(t, nil)
	hook, _ := r.webhook("hook", rec.URL)
	for range 10 {
		r.happen("task_one", "input_required", nil)
	}
	r.settled(hook.ID, "delivered", 10)
	require.Equal(t, "dead", r.tested(d.ID).State)
}

// Lifecycle events on NATS: in order, for those who may listen and nothing
// else, and none left out while NATS was away.
func TestEventsAreOnNATS(t *testing.T) {
	t.Parallel()
	server, err := bus.NewServer(bus.ServerConfig{
		Listen: "127.0.0.1:0", HubPassword: "hub-password", EventsPassword: "events-password", WorkerSecret: "worker-secret", LifecyclePassword: "listen-password",
	})
	require.NoError(t, err)
	require.NoError(t, server.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(server.Stop)
	hub, err := bus.Connect(context.WithoutCancel(t.Context()), bus.Config{Server: server})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	away := &awayBus{Bus: hub}
	r := newRig(t, func(c *notification.Config) { c.Bus = away })

	_, err = nats.Connect(server.URL(), nats.UserInfo("lifecycle", "wrong"))
	require.Error(t, err)
	refused := make(chan error, 10)
	conn, err := nats.Connect(server.URL(), nats.UserInfo("lifecycle", "listen-password"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	sub, err := conn.SubscribeSync("lifecycle." + org + ".>")
	require.NoError(t, err)
	_, err = conn.SubscribeSync("events.>")
	require.NoError(t, err)
	require.NoError(t, conn.Publish("lifecycle."+org+".agent.failed", []byte("forged")))
	require.NoError(t, conn.Flush())
	for range 2 {
		select {
		case err := <-refused:
			require.ErrorIs(t, err, nats.ErrPermissionViolation)
		case <-time.After(patience):
			require.Fail(t, "a listener may do more than listen")
		}
	}

	d := r.create(notification.Draft{Name: "bus", Spec: &deckhandv1.DestinationSpec{
		Events: []string{"agent.*", "thinking"}, To: &deckhandv1.DestinationSpec_Nats{Nats: &deckhandv1.NatsDestination{}},
	}})
	next := func() (string, notification.CloudEvent) {
		m, err := sub.NextMsg(patience)
		require.NoError(t, err)
		var e notification.CloudEvent
		require.NoError(t, json.Unmarshal(m.Data, &e))
		return m.Subject, e
	}
	r.happen("task_one", "thinking", map[string]any{"text": "hm"})
	r.happen("task_one", "tool_executing", map[string]any{"tool": "file_list"})
	subject, e := next()
	require.Equal(t, "lifecycle."+org+".thinking", subject)
	require.Equal(t, "hm", e.Data.Details["text"])
	subject, e = next()
	require.Equal(t, "lifecycle."+org+".agent.tool.called", subject)
	require.Equal(t, "task_one.2.agent.tool.called", e.ID)

	away.set(true)
	for range 3 {
		r.happen("task_one", "thinking", nil)
	}
	require.Error(t, r.notify.Follow(t.Context()))
	away.set(false)
	for i := range 3 {
		_, e = next()
		require.Equal(t, seqOf(3+i), e.ID)
	}
	require.Empty(t, r.notifications(d.ID), "nothing is stored for NATS")
	require.Equal(t, "delivered", r.tested(d.ID).State)
	require.NoError(t, r.recorder.Tx(t.Context(), func(tx *event.Tx) error {
		return r.notify.Announce(t.Context(), tx, notification.Event{OrgID: org, Kind: string(eventkind.TriggerTripped), Object: "trig_1"})
	}))
	require.Len(t, r.notifications(d.ID), 1, "it did not ask for triggers")
}

// awayBus behaves like a bus whose server cannot be reached.
type awayBus struct {
	*bus.Bus

	mu   sync.Mutex
	away bool
}

func (b *awayBus) set(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

func (b *awayBus) PublishLifecycle(orgID, kind string, data []byte) error {
	b.mu.Lock()
	away := b.away
	b.mu.Unlock()
	if away {
		return nats.ErrConnectionClosed
	}
	return b.Bus.PublishLifecycle(orgID, kind, data)
}

// to returns a change of a destination's spec to another one.
func to(spec *deckhandv1.DestinationSpec) func(*deckhandv1.DestinationSpec) (*deckhandv1.DestinationSpec, error) {
	return func(*deckhandv1.DestinationSpec) (*deckhandv1.DestinationSpec, error) { return spec, nil }
}
