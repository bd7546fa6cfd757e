package trigger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/mapping"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/schedule"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/sender"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/verify"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Kind is what a trigger waits for.
type Kind string

// The kinds: those that a persona can declare, which are all.
const (
	Webhook Kind = persona.Webhook
	Cron    Kind = persona.Cron
	Loop    Kind = persona.Loop
	Manual  Kind = persona.Manual
)

// What a trigger does while its previous run has not ended.
const (
	overlapAllow   = "allow"
	overlapSkip    = "skip"
	overlapQueue   = "queue"
	overlapReplace = "replace"
)

// Defaults of a spec.
const (
	defaultMaxBytes     = 1 << 20
	defaultRate         = 600
	defaultDedupeWindow = 5 * time.Minute
	defaultPause        = time.Minute
	defaultLeastPause   = 10 * time.Second
	defaultMostPause    = 24 * time.Hour
	defaultLoopBudget   = 10_000_000
	defaultBreakerRuns  = 10
	defaultBreakerCost  = 1_000_000
	defaultMaxMissed    = 10
	// RetentionDays is how long deliveries are kept.
	RetentionDays = 30
)

// payloadGoal is the default goal of a webhook trigger.
const payloadGoal = "A webhook has come in. Act on it as your instructions say.\n\n{{ payload }}"

// compiled is a trigger ready for use. It does not change.
type compiled struct {
	row  db.Trigger
	spec *deckhandv1.TriggerSpec
	// secrets are in clear, the newest first; the second only until before.
	secrets []string
	before  time.Time
	// every is a schedule's.
	every *schedule.Schedule

	once    sync.Once
	program *mapping.Program
	err     error
}

func readSpec(data json.RawMessage) (*deckhandv1.TriggerSpec, error) {
	spec := &deckhandv1.TriggerSpec{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, spec); err != nil {
		return nil, fmt.Errorf("read a trigger's spec: %w", err)
	}
	return spec, nil
}

// mapper compiles the trigger's expressions, at first use.
func (c *compiled) mapper() (*mapping.Program, error) {
	c.once.Do(func() { c.program, c.err = mapping.Compile(source(Kind(c.row.Kind), c.spec)) })
	return c.program, c.err
}

func source(kind Kind, spec *deckhandv1.TriggerSpec) mapping.Source {
	s := mapping.Source{Filter: spec.GetFilter(), Mapping: spec.GetMapping(), Goal: spec.GetGoal(), Flight: spec.GetSingleFlight(),
		Key: spec.GetWebhook().GetDedupeKey()}
	if kind != Webhook {
		return s
	}
	if strings.TrimSpace(s.Goal) == "" {
		s.Goal = payloadGoal
	}
	if s.Key == "" && spec.GetWebhook().GetDedupeHeader() == "" {
		s.Key = proof(spec.GetWebhook()).Key
	}
	return s
}

func (c *compiled) rule() verify.Rule {
	w := c.spec.GetWebhook()
	rule := proof(w).Verify
	if w.GetVerify() == string(verify.HMAC) {
		rule.Header, rule.Prefix, rule.Encoding, rule.Hash = w.GetSignatureHeader(), w.GetSignaturePrefix(), w.GetSignatureEncoding(), w.GetSignatureHash()
	}
	rule.Tolerance = w.GetTolerance().AsDuration()
	return rule
}

// current returns the secrets that count now.
func (c *compiled) current(now time.Time) []string {
	if len(c.secrets) > 1 && !now.Before(c.before) {
		return c.secrets[:1]
	}
	return c.secrets
}

func overlap(kind Kind, spec *deckhandv1.TriggerSpec) string {
	standard := overlapAllow
	if kind == Cron {
		standard = overlapSkip
	}
	return cmp.Or(spec.GetOverlap(), standard)
}

// orDefault returns a field that is unset as what it means then.
func orDefault[T any](field *T, standard T) T {
	if field == nil {
		return standard
	}
	return *field
}

func (c *compiled) pause() time.Duration {
	if p := c.spec.GetLoop().GetPause(); p != nil {
		return p.AsDuration()
	}
	return defaultPause
}

// pauses returns the limits within which a run may choose the time until the next one.
func (c *compiled) pauses() (least, most time.Duration) {
	l := c.spec.GetLoop()
	least, most = min(defaultLeastPause, c.pause()), max(defaultMostPause, c.pause())
	if d := l.GetLeastPause(); d != nil {
		least = d.AsDuration()
	}
	if d := l.GetMostPause(); d != nil {
		most = d.AsDuration()
	}
	return least, max(least, most)
}

// check refuses a spec that does not go with a kind, or cannot be used.
func check(kind Kind, spec *deckhandv1.TriggerSpec) (*schedule.Schedule, error) {
	for _, part := range []struct {
		of  Kind
		has bool
	}{{Webhook, spec.GetWebhook() != nil}, {Cron, spec.GetCron() != nil}, {Loop, spec.GetLoop() != nil}} {
		if part.has && part.of != kind {
			return nil, fault.New(fault.Invalid, "spec.%s does nothing for a trigger of kind %s", part.of, kind).WithFix("leave it out")
		}
	}
	if kind == Loop && spec.GetOverlap() != "" {
		return nil, fault.New(fault.Invalid, "spec.overlap does nothing for a loop: its runs come one after the other").WithFix("leave it out")
	}
	if least, most := spec.GetLoop().GetLeastPause(), spec.GetLoop().GetMostPause(); least != nil && most != nil && least.AsDuration() > most.AsDuration() {
		return nil, fault.New(fault.Invalid, "spec.loop.least_pause is %s, and most_pause %s", least.AsDuration(), most.AsDuration()).WithFix("give the greater one as most_pause")
	}
	if err := checkWebhook(kind, spec); err != nil {
		return nil, err
	}
	if _, err := mapping.Compile(source(kind, spec)); err != nil {
		return nil, fault.New(fault.Invalid, "spec.%s", err.Error()).WithCode(fault.TaskParsing)
	}
	if kind != Cron {
		return nil, nil
	}
	if spec.GetCron() == nil {
		return nil, fault.New(fault.Invalid, "spec.cron is missing").WithFix("give a schedule such as 0 7 * * 1-5")
	}
	every, err := schedule.Parse(spec.GetCron().GetSchedule(), spec.GetCron().GetTimeZone())
	if err != nil {
		return nil, fault.New(fault.Invalid, "spec.cron.schedule %q %s", spec.GetCron().GetSchedule(), err.Error()).WithCode(fault.TaskParsing)
	}
	return every, nil
}

func checkWebhook(kind Kind, spec *deckhandv1.TriggerSpec) error {
	w := spec.GetWebhook()
	switch {
	case kind != Webhook:
		return nil
	case w == nil || w.GetVerify() == "":
		return fault.New(fault.Invalid, "spec.webhook.verify is missing").
			WithFix("say how senders prove themselves: use one of %s", strings.Join(sender.Names(sender.Sender.HasProof), ", "))
	case !proof(w).HasProof() || proof(w).Name == "":
		return unknown("spec.webhook.verify", w.GetVerify(), sender.Sender.HasProof)
	case w.GetDedupeHeader() != "" && w.GetDedupeKey() != "":
		return fault.New(fault.Invalid, "spec.webhook has dedupe_header and dedupe_key").WithFix("give one of them")
	case w.GetVerify() != string(verify.HMAC) && w.GetSignatureHeader()+w.GetSignaturePrefix()+w.GetSignatureEncoding()+w.GetSignatureHash() != "":
		return fault.New(fault.Invalid, "spec.webhook.signature_header and the like go with verify hmac only").WithFix("leave them out, or set verify to hmac")
	}
	return nil
}

// lint refuses an agent that could wait for a person without limit.
//
// Approvals and questions always have a timeout, and an action then (see
// persona.Approvals); a run that pauses at a limit until an administrator raises it has
// none.
func lint(p *persona.Persona, spec *deckhandv1.TriggerSpec) error {
	if spec.GetAttended() {
		return nil
	}
	var why []string
	if p.Limits.OnLimit == persona.PauseAtLimit {
		why = append(why, "limits.on_limit is pause: at a limit its runs wait for an administrator without end")
	}
	if p.Mode == persona.Review {
		why = append(why, "mode is review: its runs wait for a person to accept them without end")
	}
	if len(why) == 0 {
		return nil
	}
	return fault.New(fault.Precondition, "agent %s cannot run unattended: %s", p.Name, strings.Join(why, "; ")).
		WithFix("write limits: {on_limit: stop} in its persona, or say with --attended that somebody watches the inbox")
}

// encode returns a spec as it is stored.
func encode(spec *deckhandv1.TriggerSpec) (json.RawMessage, error) {
	data, err := protojson.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode a trigger's spec: %w", err)
	}
	return data, nil
}

func clone(spec *deckhandv1.TriggerSpec) *deckhandv1.TriggerSpec {
	out, ok := proto.Clone(spec).(*deckhandv1.TriggerSpec)
	if !ok || out == nil {
		return &deckhandv1.TriggerSpec{}
	}
	return out
}
