package notification_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/redact"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// TestMain allows for what pgx was once seen to leave of a call that was cancelled
// as its connection closed.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/jackc/pgx/v5/pgconn/ctxwatch.(*ContextWatcher).Watch.func1"))
}

const (
	org = "org_default"
	// patience is for a machine that does much else.
	patience = time.Minute
)

var (
	person   = event.Actor{Kind: event.User, ID: "ada"}
	loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
)

// rig is a database with an agent and tasks that no worker runs, and the services that
// send notifications about them.
type rig struct {
	*store.Store

	t        *testing.T
	url      string
	vault    *vault.Vault
	redact   *redact.Redactor
	recorder *event.Recorder
	config   notification.Config
	notify   *notification.Service
	// stop ends the newest follower.
	stop func()
}

// newRig makes one; change is of the service's configuration.
func newRig(t *testing.T, change func(*notification.Config)) *rig {
	t.Helper()
	r := &rig{t: t, url: storetest.Database(t), redact: &redact.Redactor{}}
	var err error
	r.Store, err = store.Open(t.Context(), r.url)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	r.vault, err = vault.Open(filepath.Join(t.TempDir(), "keyset.json"))
	require.NoError(t, err)
	r.recorder = event.NewRecorder(event.RecorderConfig{Store: r.Store, Redact: r.redact, Notify: func(string, string) {}})
	r.exec(`INSERT INTO organisations (id, name) VALUES ($1, 'o')`, org)
	for _, name := range []string{"one", "two"} {
		r.exec(`INSERT INTO agents (id, org_id, name) VALUES ($1, $2, $3)`, "agent_"+name, org, name)
		r.exec(`INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, reason, workspace_scope, jail_id, created_by,
			created_by_role, correlation_id, lineage_id) VALUES ($1, $2, $3, 1, 'Look at it', 'g', 'r', 'task', $1, 'u', 'admin', 'corr_1', $1)`,
			"task_"+name, org, "agent_"+name)
	}
	r.config = notification.Config{
		Store: r.Store, Recorder: r.recorder, Vault: r.vault, Redact: r.redact, Allow: loopback, Sweep: 20 * time.Millisecond,
		Timeout: 10 * time.Second, Retry: backoff.Policy{Base: 5 * time.Millisecond, Max: 20 * time.Millisecond},
		Log: hclog.New(&hclog.LoggerOptions{Name: "notify", Level: hclog.Error, Output: t.Output()}),
	}
	if change != nil {
		change(&r.config)
	}
	r.notify = r.service()
	return r
}

// service runs a sender and a follower, as a hub that leads.
func (r *rig) service() *notification.Service {
	r.t.Helper()
	s := notification.New(r.config)
	follower := s.Follower()
	require.NoError(r.t, s.Start(context.WithoutCancel(r.t.Context())))
	require.NoError(r.t, follower.Start(context.WithoutCancel(r.t.Context())))
	r.t.Cleanup(s.Stop)
	r.t.Cleanup(follower.Stop)
	r.stop = follower.Stop
	return s
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.url)
	require.NoError(r.t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(r.t.Context(), sql, args...)
	require.NoError(r.t, err)
}

// happen appends an event to a task's history.
func (r *rig) happen(task, kind string, payload map[string]any) {
	r.t.Helper()
	require.NoError(r.t, r.recorder.Tx(r.t.Context(), func(tx *event.Tx) error {
		return tx.Append(org, task, event.Hub, event.Draft{Type: eventkind.Kind(kind), Payload: payload})
	}))
}

// webhook creates a destination, and returns its secret.
func (r *rig) webhook(name, url string, events ...string) (db.Destination, string) {
	r.t.Helper()
	row, secret, err := r.notify.Create(r.t.Context(), notification.Draft{OrgID: org, Name: name, By: person, Spec: &deckhandv1.DestinationSpec{
		Events: events, To: &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: url}},
	}})
	require.NoError(r.t, err)
	return row, secret
}

func (r *rig) notifications(destination string, states ...string) []db.ListNotificationsRow {
	r.t.Helper()
	rows, _, err := r.notify.Notifications(r.t.Context(), org, notification.Filter{DestinationID: destination, States: states, PageSize: 500})
	require.NoError(r.t, err)
	return rows
}

// settled waits until so many notifications of a destination are in a state, and returns
// them, newest first.
func (r *rig) settled(destination, state string, n int) []db.ListNotificationsRow {
	r.t.Helper()
	var rows []db.ListNotificationsRow
	require.Eventually(r.t, func() bool {
		rows = r.notifications(destination, state)
		return len(rows) >= n
	}, patience, 10*time.Millisecond, "%d notifications to be %s", n, state)
	require.Len(r.t, rows, n)
	return rows
}

// tries returns how the sendings of a notification went.
func tries(t *testing.T, n db.ListNotificationsRow) (out []struct {
	Status int
	Error  string
}) {
	t.Helper()
	require.NoError(t, json.Unmarshal(n.Tries, &out))
	return out
}

// got is a request that a receiver was sent.
type got struct {
	header http.Header
	body   []byte
	event  notification.CloudEvent
}

// receiver is an HTTP server that responds to requests by their number from 0.
type receiver struct {
	*httptest.Server

	mu  sync.Mutex
	all []got
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	rec := &receiver{}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		g := got{header: r.Header, body: body}
		_ = json.Unmarshal(body, &g.event) // Slack gets no CloudEvent
		rec.mu.Lock()
		n := len(rec.all)
		rec.all = append(rec.all, g)
		rec.mu.Unlock()
		if answer != nil {
			answer(n, w, r)
		}
	}))
	t.Cleanup(rec.Close)
	return rec
}

func (r *receiver) got() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]got(nil), r.all...)
}

func (g got) id() string { return g.header.Get("Webhook-Id") }

// kinds returns how often each type was received.
func (r *receiver) kinds() map[string]int {
	out := map[string]int{}
	for _, g := range r.got() {
		out[g.event.Type]++
	}
	return out
}

func seqOf(i int) string { return fmt.Sprintf("task_one.%d", i) }
