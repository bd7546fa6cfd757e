// Package notification sends notifications about events to people and other systems: to
// webhooks, to Slack, by mail, on NATS, and to users' devices by Web Push. Service stores destinations and sends to
// them.
//
// The events of tasks are in their histories already, so the code that causes them needs
// no extra step. The leader reads the histories from each destination's position in the
// commit order, and stores the notifications to send in the transaction that advances the
// position: no event is left out, and one that is read twice is stored once. For an event
// that belongs to no task, the transaction that causes it stores the notification. Any
// hub sends what is due:
//
//	pending --- the receiver accepted it ---> delivered
//	pending --- it did not, for a day, or is gone ---> dead
//	dead --- a person redrives it ---> pending
//
// Each is sent at least once, under an id that stays: if a hub dies after sending and
// before storing that, it is sent again. There is no order; events have times, and
// numbers within their task. NATS gets events as the leader reads them, in order, and
// keeps nothing for those that are not subscribed.
package notification

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/redact"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Defaults.
const (
	DefaultGiveUp    = 24 * time.Hour
	DefaultRetention = 30 * 24 * time.Hour
	defaultSweep     = 500 * time.Millisecond
	defaultTimeout   = 15 * time.Second
)

// Bus publishes events on NATS.
type Bus interface {
	// PublishLifecycle sends an event, and does not wait.
	PublishLifecycle(orgID, kind string, data []byte) error
	// FlushEvents returns when the server has all that was sent.
	FlushEvents(ctx context.Context) error
}

// Config holds the dependencies of a Service.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Vault    *vault.Vault
	Redact   *redact.Redactor
	Bus      Bus
	// PushKeys are those of Web Push, and Contact is a URL at which a push service
	// reaches the hub's operator.
	PushKeys PushKeys
	Contact  string
	// Allow are the networks, other than public ones, to which may be sent.
	Allow []netip.Prefix
	// Resolver is nil for the system's.
	Resolver *net.Resolver
	// Sweep is the interval at which events and due notifications are looked for; 0 for
	// 0.5 s.
	Sweep time.Duration
	// Timeout bounds one sending; 0 for 15 s.
	Timeout time.Duration
	// GiveUp is for how long a notification is tried; 0 for a day.
	GiveUp time.Duration
	// Retry is when a notification is sent again; the zero value for 10 s to an hour.
	Retry backoff.Policy
	// Retention is how long notifications are kept that are done with; 0 for 30 days.
	Retention time.Duration
	// Sent, if set, counts: to what kind of destination, and in which state the
	// notification is afterwards.
	OnSent func(kind, state string)
	Log    hclog.Logger
}

// Service keeps destinations and sends notifications. It is a lifecycle.Service; any
// number of hubs may run one.
type Service struct {
	lifecycle.Runner

	cfg  Config
	kick chan struct{}
	http *http.Client
	// single is for what is sent once.
	single *http.Client
	guard  dialguard.Guard

	mu sync.Mutex // guards what follows
	// flying counts the notifications of each destination that are being sent here.
	flying map[string]int
}

// New creates a Service.
func New(cfg Config) *Service {
	set := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	set(&cfg.Sweep, defaultSweep)
	set(&cfg.Timeout, defaultTimeout)
	set(&cfg.GiveUp, DefaultGiveUp)
	set(&cfg.Retention, DefaultRetention)
	set(&cfg.Retry.Base, 10*time.Second)
	set(&cfg.Retry.Max, time.Hour)
	if cfg.OnSent == nil {
		cfg.OnSent = func(string, string) {}
	}
	s := &Service{
		cfg: cfg, kick: make(chan struct{}, 1), flying: map[string]int{},
		guard: dialguard.Guard{Allow: cfg.Allow, Flag: "--notify-allow", Resolver: cfg.Resolver},
	}
	s.http, s.single = client(s, false), client(s, true)
	return s
}

// Kick has this hub look for notifications to send.
func (s *Service) Kick() {
	select {
	case s.kick <- struct{}{}:
	default: // it looks anyway
	}
}

// destination is one that is ready for use.
type destination struct {
	db.Destination

	spec *deckhandv1.DestinationSpec
	// selected are the events that it gets.
	selected eventkind.Selection
	agents   map[string]bool
	// user is whose device it is; nil for other kinds, and if they may not log in.
	user *addressee
}

func (s *Service) ready(ctx context.Context, row db.Destination) (*destination, error) {
	d := &destination{Destination: row, agents: map[string]bool{}}
	var err error
	if row.Kind == kindPush {
		if d.user, err = s.addressee(ctx, row); err != nil {
			return nil, err
		}
	}
	if d.spec, err = Spec(row); err != nil {
		return nil, err
	}
	if row.Kind == kindPush {
		d.spec.Events = d.user.wanted(d.spec.GetEvents())
	}
	if d.selected, err = selected(d.spec); err != nil {
		return nil, err
	}
	for _, name := range d.spec.GetAgents() {
		d.agents[name] = true
	}
	return d, nil
}

// Spec returns what is sent to a stored destination.
func Spec(row db.Destination) (*deckhandv1.DestinationSpec, error) {
	spec := &deckhandv1.DestinationSpec{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(row.Spec, spec); err != nil {
		return nil, fmt.Errorf("read the spec of destination %s: %w", row.ID, err)
	}
	return spec, nil
}

func selected(spec *deckhandv1.DestinationSpec) (eventkind.Selection, error) {
	patterns := spec.GetEvents()
	if len(patterns) == 0 {
		patterns = eventkind.People()
		if spec.GetNats() != nil {
			patterns = []string{"*"}
		}
	}
	if slices.Equal(patterns, []string{noEvents}) {
		return eventkind.Selection{}, nil
	}
	return eventkind.Select("spec.events", patterns)
}

// about reports whether a destination gets the events of an agent.
func (d *destination) about(agent string) bool { return len(d.agents) == 0 || d.agents[agent] }

// secret returns a destination's secret as it was sealed.
func (s *Service) secret(d db.Destination) (sealed, error) {
	var out sealed
	if d.Sealed == nil {
		return out, nil
	}
	data, err := s.cfg.Vault.Open(d.Sealed, object(d.OrgID, d.ID))
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fault.New(fault.Internal, "the secret of destination %s cannot be read", d.ID).WithFix("give it another")
	}
	if !out.Until.After(time.Now()) {
		out.Before = ""
	}
	s.learn(d.OrgID, d.ID, out.Now, out.Before)
	return out, nil
}

// Values returns what was sealed, here or by another hub.
func (s *Service) Values(row db.SealedWithinRow) ([]string, error) {
	secret, err := s.secret(db.Destination{OrgID: row.OrgID, ID: row.ID, Sealed: row.Sealed})
	return []string{secret.Now, secret.Before}, err
}

// learn has secrets masked for the organisation that has stored them.
func (s *Service) learn(orgID, id string, secrets ...string) {
	s.cfg.Redact.Org(orgID).Learn(Source(id), secrets...)
}

// Source names a destination among the sources of an organisation's secrets.
func Source(id string) string { return "destination " + id }

// sealed is what is kept of a secret.
type sealed struct {
	Now string `json:"now"`
	// Before counts too, until Until.
	Before string    `json:"before,omitempty"`
	Until  time.Time `json:"until,omitzero"`
}

// object is what a sealed secret is bound to.
func object(orgID, id string) string { return "secret of destination " + id + " of " + orgID }

// owed collects notifications of one organisation.
type owed struct{ db.OweNotificationsParams }

func (o *owed) add(destinationID string, e CloudEvent) error {
	body, err := e.encode()
	if err != nil {
		return err
	}
	o.Ids, o.Destinations = append(o.Ids, ident.New("ntc")), append(o.Destinations, destinationID)
	o.Happenings, o.Types = append(o.Happenings, e.ID), append(o.Types, e.Type)
	task := ""
	if e.Data.Task != nil {
		task = e.Data.Task.ID
	}
	o.Tasks, o.Bodies = append(o.Tasks, task), append(o.Bodies, string(body))
	return nil
}

// store has what was collected owed with the transaction's commit.
func (s *Service) owe(tx *event.Tx, orgID string, o owed) {
	if len(o.Ids) == 0 {
		return
	}
	o.OrgID, o.Keep = orgID, s.cfg.GiveUp
	tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
		return q.OweNotifications(ctx, o.OweNotificationsParams)
	})
	tx.AfterCommit(s.Kick)
}

// Event is something that happened to no task in particular.
type Event struct {
	OrgID, Kind string
	// Object is the id of the event's object.
	Object, AgentID, AgentName string
	Details                    map[string]any
	// Once, if set, is the key of an event that is announced only once, however often it
	// occurs.
	Once string
}

// Announce stores the notifications of an event, if the transaction commits.
func (s *Service) Announce(ctx context.Context, tx *event.Tx, h Event) error {
	rows, err := tx.DestinationsOf(ctx, h.OrgID)
	if err != nil {
		return fmt.Errorf("list the destinations of %s: %w", h.OrgID, err)
	}
	if len(rows) == 0 {
		return nil
	}
	details := s.cfg.Redact.Org(h.OrgID).Map(h.Details)
	e := CloudEvent{
		SpecVersion: "1.0", ID: cmp.Or(h.Once, ident.New("evt")), Source: source(h.OrgID), Type: h.Kind, Subject: h.Object, Time: time.Now().UTC(), DataContentType: "application/json",
		Data: Data{
			Summary: summary(h.Kind, h.AgentName, "", details), Actor: actor(event.Hub.Kind, event.Hub.ID),
			Agent: &Named{ID: h.AgentID, Name: h.AgentName}, Details: details,
		},
	}
	var out owed
	for _, row := range rows {
		d, err := s.ready(ctx, row)
		if err != nil {
			return err
		}
		if !d.selected[h.Kind] || !d.about(h.AgentName) || !d.concerns("") {
			continue
		}
		// One of NATS is a notification here too: only what the leader reads goes there
		// without.
		if err := out.add(d.ID, e); err != nil {
			return err
		}
	}
	s.owe(tx, h.OrgID, out)
	return nil
}

// Prune deletes notifications that were kept long enough, and ends those whose time is
// over while their destination is disabled.
func (s *Service) Prune(ctx context.Context) error {
	const batch = 1000
	for {
		n, err := s.cfg.Store.PruneNotifications(ctx, db.PruneNotificationsParams{Keep: s.cfg.Retention, MaxRows: batch})
		if err != nil {
			return fmt.Errorf("delete old notifications: %w", err)
		}
		if n < batch {
			break
		}
	}
	for {
		n, err := s.cfg.Store.ExpireNotifications(ctx, db.ExpireNotificationsParams{Error: "its destination is disabled", MaxRows: batch})
		if err != nil {
			return fmt.Errorf("end notifications of disabled destinations: %w", err)
		}
		if n < batch {
			break
		}
	}
	for {
		n, err := s.cfg.Store.PruneOutboundCalls(ctx, db.PruneOutboundCallsParams{Keep: s.cfg.Retention, MaxRows: batch})
		if err != nil || n < batch {
			return err
		}
	}
}
