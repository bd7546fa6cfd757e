// Package trigger starts agents without a person. Service stores triggers and their
// deliveries; Clock fires schedules and loops. Each firing is a delivery: a row that is
// committed before its sender gets a response, and that any hub turns into a task, in one
// transaction with the row.
//
//	accepted --- filter, overlap or missed-run policy ---> filtered
//	accepted --- mapping or creation of the task fails ---> failed
//	accepted --- its task is created ---> started
//	(sent again) ---> duplicate
//
// A webhook's delivery is unique by its sender's id, a schedule's by its slot, so that
// senders may repeat requests and hubs may replace each other. A cached trigger is used
// only while its revision is the database's: the statement that stores a delivery
// verifies that.
//
// If a hub dies between commit and response, the sender sends again and is told of a
// duplicate. If it dies between commit and task, another hub creates the task at most a
// second later. If it dies as the leader, the next leader fires the slots that were not
// fired.
package trigger

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/hold"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/schedule"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/sender"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/verify"
	"github.com/deckhand-sh/deckhand/internal/fair"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/secretcheck"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Config holds the dependencies of a Service.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Agents   *agent.Service
	Tasks    *task.Service
	Vault    *vault.Vault
	Redact   *redact.Redactor
	// Failures bounds how often an address may name webhooks that there are not;
	// nil for as often as it likes.
	Failures *auth.Rates
	// Turns are those that organisations take at the processors.
	Turns *fair.Turns
	// Sweep is how often deliveries are looked for without a cause.
	Sweep time.Duration
	// Announce sends a notification to destinations if the transaction commits.
	Announce func(ctx context.Context, tx *event.Tx, h notification.Event) error
	// OnDelivery and Answered, if set, count: what became of a delivery, and with
	// what status a sender was answered.
	OnDelivery func(source, state string)
	OnResponse func(status int, took time.Duration)
	Log        hclog.Logger
}

// Service keeps triggers and handles their deliveries. It is a
// lifecycle.Service; any number of hubs may run one.
type Service struct {
	lifecycle.Runner

	cfg  Config
	kick chan struct{}
	// known are triggers as they were last read, by id.
	known *lru.Cache[string, *compiled]
	// rates are what each webhook may still take, by id.
	rates *lru.Cache[string, *rate.Limiter]
	// room is for bodies in progress, and lanes for expressions that a caller waits
	// for, by organisation.
	room  *fair.Room
	lanes *fair.Lanes
	// restUntil are organisations whose expressions took long, and until when they
	// rest.
	restUntil *lru.Cache[string, time.Time]
}

const knownTriggers = 16_384

// New creates a Service.
func New(cfg Config) *Service {
	if cfg.OnDelivery == nil {
		cfg.OnDelivery = func(string, string) {}
	}
	if cfg.Announce == nil {
		cfg.Announce = func(context.Context, *event.Tx, notification.Event) error { return nil }
	}
	if cfg.OnResponse == nil {
		cfg.OnResponse = func(int, time.Duration) {}
	}
	if cfg.Turns == nil {
		cfg.Turns = fair.NewTurns()
	}
	known, err := lru.New[string, *compiled](knownTriggers)
	if err != nil {
		panic(err) // only for a size below one
	}
	rates, err := lru.New[string, *rate.Limiter](knownTriggers)
	if err != nil {
		panic(err)
	}
	restUntil, err := lru.New[string, time.Time](knownTriggers)
	if err != nil {
		panic(err)
	}
	return &Service{
		cfg: cfg, kick: make(chan struct{}, 1), known: known, rates: rates, restUntil: restUntil,
		room: fair.NewRoom(maxRoom, eachRoom), lanes: fair.NewLanes(1, maxWaiting),
	}
}

// compile returns a trigger ready for use, from the cache if it has the same revision.
func (s *Service) compile(row db.Trigger) (*compiled, error) {
	if c, ok := s.known.Get(row.ID); ok && c.row.Revision == row.Revision {
		return c, nil
	}
	c := &compiled{row: row}
	var err error
	if c.spec, err = readSpec(row.Spec); err != nil {
		return nil, err
	}
	if Kind(row.Kind) == Cron {
		if c.every, err = schedule.Parse(c.spec.GetCron().GetSchedule(), c.spec.GetCron().GetTimeZone()); err != nil {
			return nil, fmt.Errorf("the schedule of trigger %s %w", row.ID, err)
		}
	}
	for _, sealed := range [][]byte{row.Sealed, row.SealedBefore} {
		if sealed == nil {
			break
		}
		secret, err := s.cfg.Vault.Open(sealed, object(row.OrgID, row.ID))
		if err != nil {
			return nil, err
		}
		s.learn(row.OrgID, row.ID, string(secret))
		c.secrets = append(c.secrets, string(secret))
	}
	if row.BeforeUntil != nil {
		c.before = *row.BeforeUntil
	}
	s.known.Add(row.ID, c)
	return c, nil
}

// learn registers a secret for redaction in the organisation that has stored it.
func (s *Service) learn(orgID, id, secret string) { s.cfg.Redact.Org(orgID).Learn(Source(id), secret) }

// Source names a trigger among the sources of an organisation's secrets.
func Source(id string) string { return "trigger " + id }

// Values returns what was sealed, here or by another hub.
func (s *Service) Values(row db.SealedWithinRow) ([]string, error) {
	secret, err := s.cfg.Vault.Open(row.Sealed, object(row.OrgID, row.ID))
	return []string{string(secret)}, err
}

// object is what a sealed secret is bound to.
func object(orgID, id string) string { return "secret of trigger " + id + " of " + orgID }

// Draft is a trigger as it is asked for.
type Draft struct {
	OrgID, Name, AgentID string
	Kind                 Kind
	Spec                 *deckhandv1.TriggerSpec
	// Preset provides what Spec leaves out; empty for none.
	Preset string
	// Secret is empty for one that is made here.
	Secret   string
	Disabled bool
	// Declared reports that a persona declares the trigger.
	Declared bool
	By       event.Actor
}

// Create stores a trigger, and returns the secret for its senders.
func (s *Service) Create(ctx context.Context, d Draft) (row db.GetTriggerRow, secret string, err error) {
	spec, every, err := draftSpec(d.Kind, d.Preset, d.Spec)
	if err != nil {
		return row, "", err
	}
	if d.Secret != "" && d.Kind != Webhook {
		return row, "", fault.New(fault.Invalid, "secret is for webhooks").WithFix("leave it out")
	}
	params := db.CreateTriggerParams{
		ID: ident.New("trig"), OrgID: d.OrgID, AgentID: d.AgentID, Name: d.Name, Kind: string(d.Kind), State: stateEnabled, Declared: d.Declared, CreatedBy: d.By.ID,
	}
	if params.Spec, err = encode(spec); err != nil {
		return row, "", err
	}
	if d.Kind == Webhook {
		if secret, err = makeSecret(spec, d.Secret); err != nil {
			return row, "", err
		}
		if params.Sealed, params.Hint, err = s.seal(d.OrgID, params.ID, secret); err != nil {
			return row, "", err
		}
	}
	if d.Disabled {
		params.State, params.Reason = stateDisabled, "it was made disabled"
	} else {
		if err := s.unattended(ctx, d.OrgID, d.AgentID, spec); err != nil {
			return row, "", err
		}
		params.SlotAt, params.NextAt = begin(d.Kind, params.ID, spec, every, time.Now())
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		made, err := tx.CreateTrigger(ctx, params)
		if store.IsNotFound(err) {
			return fault.New(fault.Exists, "there is a trigger %q already", d.Name).WithFix("choose another name, or change it with: deckhand trigger update %s", d.Name)
		}
		if err != nil {
			return fmt.Errorf("store trigger %s: %w", d.Name, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: d.OrgID, By: d.By, Action: "trigger.created", ObjectKind: "trigger", ObjectID: made.ID,
			After: map[string]any{"name": made.Name, "kind": made.Kind, "agent_id": made.AgentID, "state": made.State, "spec": string(made.Spec)},
		})
	})
	if err != nil {
		return row, "", err
	}
	s.learn(d.OrgID, params.ID, secret)
	row, err = s.Get(ctx, d.OrgID, params.ID)
	return row, secret, err
}

// draftSpec returns the checked spec of a trigger that is to be made: what was given, completed by
// a preset.
func draftSpec(kind Kind, preset string, given *deckhandv1.TriggerSpec) (*deckhandv1.TriggerSpec, *schedule.Schedule, error) {
	spec := clone(given)
	if kind == Webhook && spec.Webhook == nil {
		spec.Webhook = &deckhandv1.WebhookSpec{}
	}
	if preset != "" {
		if kind != Webhook {
			return nil, nil, fault.New(fault.Invalid, "preset %s is for webhooks", preset).WithFix("leave it out")
		}
		from, ok := sender.Named(preset)
		if !ok || !from.HasPreset() {
			return nil, nil, unknown("preset", preset, sender.Sender.HasPreset)
		}
		fill(spec, from)
	}
	every, err := check(kind, spec)
	return spec, every, err
}

// The states.
const (
	stateEnabled  = "enabled"
	stateDisabled = "disabled"
	stateTripped  = "tripped"
)

// begin returns when a trigger that is armed now fires first.
func begin(kind Kind, id string, spec *deckhandv1.TriggerSpec, every *schedule.Schedule, now time.Time) (slot, next *time.Time) {
	switch kind {
	case Cron:
		first := every.Next(now)
		return &first, new(first.Add(schedule.Jitter(id, first, spec.GetCron().GetJitter().AsDuration())))
	case Loop:
		return nil, &now
	case Webhook, Manual:
	}
	return nil, nil
}

const (
	leastSecret = 16
	// Random bytes of a Standard Webhooks secret.
	standardBytes = 32
)

// makeSecret returns the secret that was given, checked, or one that is made.
func makeSecret(spec *deckhandv1.TriggerSpec, given string) (string, error) {
	standard := spec.GetWebhook().GetVerify() == string(verify.Standard)
	switch {
	case given == "" && standard:
		return standardSecret(), nil
	case given == "":
		return ident.Secret("dhk"), nil
	case standard:
		if key, err := verify.StandardKey(given); err != nil || len(key) < leastSecret {
			return "", fault.New(fault.Invalid, "secret is not one of Standard Webhooks").WithFix("give whsec_ and base64 of at least %d bytes, or leave it out", leastSecret)
		}
	case len(given) < leastSecret:
		return "", fault.New(fault.Invalid, "secret has fewer than %d characters", leastSecret).WithFix("give a longer one, or leave it out")
	}
	if strings.ContainsFunc(given, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fault.New(fault.Invalid, "secret holds spaces, line ends or characters that none has").WithFix("copy it again, whole and alone")
	}
	if weak := secretcheck.Weak(given); weak != "" {
		return "", fault.New(fault.Invalid, "secret %s", weak).WithFix("leave it out and take the one that is made, or give the output of: openssl rand -base64 32")
	}
	return given, nil
}

func standardSecret() string {
	return "whsec_" + base64.StdEncoding.EncodeToString(ident.Hash(ident.Secret("dhk"))[:standardBytes])
}

func (s *Service) seal(orgID, id, secret string) (sealed []byte, hint string, err error) {
	sealed, err = s.cfg.Vault.Seal([]byte(secret), object(orgID, id))
	const shown = 4
	return sealed, secret[len(secret)-shown:], err
}

// unattended refuses an agent that could wait for ever.
func (s *Service) unattended(ctx context.Context, orgID, agentID string, spec *deckhandv1.TriggerSpec) error {
	a, err := s.cfg.Agents.Get(ctx, orgID, agentID)
	if err != nil {
		return err
	}
	p, err := s.cfg.Agents.PersonaOf(ctx, s.cfg.Store.Queries, orgID, agentID, a.Agent.CurrentVersion)
	if err != nil {
		return err
	}
	return lint(p, spec)
}

// Find returns the id of the trigger that ref names among those of agents that v sees: a
// name, an id or a unique prefix of one.
func (s *Service) Find(ctx context.Context, v visibility.Viewer, ref string) (string, error) {
	rows, err := s.cfg.Store.FindTriggers(ctx, db.FindTriggersParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Ref: ref, Prefix: store.Prefix("trig", ref)})
	return store.One("trigger", ref, rows, err)
}

// Get returns a trigger by its id.
func (s *Service) Get(ctx context.Context, orgID, id string) (db.GetTriggerRow, error) {
	row, err := s.cfg.Store.GetTrigger(ctx, db.GetTriggerParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, fault.New(fault.NotFound, "there is no trigger %q", id).WithObject(id)
	}
	return row, err
}

// List returns the triggers of agents that v sees by name, after a name; agentID is empty
// for all.
func (s *Service) List(ctx context.Context, v visibility.Viewer, agentID, after string, limit int32) ([]db.ListTriggersRow, error) {
	params := db.ListTriggersParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, AfterName: after, MaxRows: limit}
	if agentID != "" {
		params.AgentID = &agentID
	}
	s.cfg.Store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := params
		all.MaxRows = maxRows
		_, err := q.ListTriggers(ctx, all)
		return err
	})
	rows, err := s.cfg.Store.ListTriggers(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("list triggers: %w", err)
	}
	return rows, nil
}

// NextRuns returns when a trigger fires next: so many times of a schedule, one
// of a loop; nothing while it does not.
func (s *Service) NextRuns(row db.Trigger, many int) []time.Time {
	if row.State != stateEnabled || row.NextAt == nil {
		return nil
	}
	c, err := s.compile(row)
	if err != nil || c.every == nil || row.SlotAt == nil {
		return []time.Time{*row.NextAt}
	}
	var out []time.Time
	for slot := *row.SlotAt; len(out) < many && !slot.IsZero(); slot = c.every.Next(slot) {
		out = append(out, slot.Add(schedule.Jitter(row.ID, slot, c.spec.GetCron().GetJitter().AsDuration())))
	}
	return out
}

// Spec returns what a stored trigger does.
func Spec(row db.Trigger) (*deckhandv1.TriggerSpec, error) { return readSpec(row.Spec) }

// Held returns the description of the hold that keeps a trigger from firing; empty for
// none.
func Held(standing hold.Set, row db.Trigger) string {
	if h := standing.Task(hold.Task{AgentID: row.AgentID, TriggerID: row.ID}); h != nil {
		return hold.Describe(h)
	}
	return ""
}
