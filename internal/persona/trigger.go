package persona

import (
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Trigger has the agent start without a person.
type Trigger struct {
	// Line is its line in the file.
	Line int
	Name string
	// Kind is webhook, cron, loop or manual.
	Kind string
	// Sender is what a webhook names: a ready-made mapping, or how senders prove
	// themselves.
	Sender string
	// Spec is what the rest says, not yet filled in by Sender. It must not be
	// changed.
	Spec *deckhandv1.TriggerSpec
}

const (
	maxTriggers   = 20
	maxExpression = 4000
	maxGoal       = 8000
	maxMicros     = 1e6
)

// The kinds of triggers: what starts a run.
const (
	Webhook = "webhook" // a request to its URL
	Cron    = "cron"    // a time
	Loop    = "loop"    // the end of its own last run
	Manual  = "manual"  // a person
)

// triggerKinds is the table of the kinds: the name, which is also the key that makes a
// trigger one of the kind, and the keys that go with it only. The API's enum, the
// database's check, the hub's specs and docs/triggers.md are compared with it.
var triggerKinds = []struct {
	name string
	keys []string
}{
	{Webhook, []string{
		"signature_header", "signature_prefix", "signature_encoding", "signature_hash",
		"dedupe_header", "dedupe_key", "dedupe_window", "tolerance", "max_body", "rate",
	}},
	{Cron, []string{"time_zone", "missed", "jitter", "max_missed"}},
	{Loop, []string{"pause", "least_pause", "most_pause", "max_runs", "budget_usd"}},
	{Manual, nil},
}

// TriggerKinds returns the names of the kinds of triggers.
func TriggerKinds() []string {
	out := make([]string, len(triggerKinds))
	for i, kind := range triggerKinds {
		out[i] = kind.name
	}
	return out
}

// triggerDecoder reads the triggers of a persona.
type triggerDecoder struct{ *reader }

// triggers reads what starts the agent.
func (d triggerDecoder) triggers(n *yaml.Node) []Trigger {
	if n.Kind != yaml.SequenceNode || len(n.Content) > maxTriggers {
		d.problems.add(n.Line, "triggers must be a list of at most %d, such as [{name: nightly, cron: 30 2 * * *}]", maxTriggers)
		return nil
	}
	var out []Trigger
	lines := map[string]int{}
	for _, item := range n.Content {
		t := d.trigger(item)
		if before, twice := lines[t.Name]; twice && t.Name != "" {
			d.problems.add(item.Line, "triggers has two of the name %s (the first in line %d): choose another", quote(t.Name), before)
		}
		lines[t.Name] = item.Line
		out = append(out, t)
	}
	return out
}

func (d triggerDecoder) trigger(n *yaml.Node) Trigger {
	t := Trigger{Line: n.Line, Spec: &deckhandv1.TriggerSpec{}}
	s, hook, clock, round := t.Spec, &deckhandv1.WebhookSpec{}, &deckhandv1.CronSpec{}, &deckhandv1.LoopSpec{}
	text := func(key string, most int, to *string) field {
		return field{key, func(n *yaml.Node) { *to = d.text(n, "triggers."+key, most) }}
	}
	block := func(key string, most int, to *string) field {
		return field{key, func(n *yaml.Node) { *to = d.block(n, "triggers."+key, most) }}
	}
	number := func(key string, most int64, to func(int64)) field {
		return field{key, func(n *yaml.Node) { to(d.integer(n, "triggers."+key, 0, most)) }}
	}
	period := func(key string, to **durationpb.Duration) field {
		return field{key, func(n *yaml.Node) { *to = durationpb.New(d.pause(n, "triggers."+key)) }}
	}
	dollars := func(key string, to **int64) field {
		return field{key, func(n *yaml.Node) { *to = new(int64(math.Round(d.decimal(n, "triggers."+key, 0, maxMicros) * 1e6))) }}
	}
	flag := func(key string, to *bool) field {
		return field{key, func(n *yaml.Node) { *to = d.flag(n, "triggers."+key) }}
	}
	var loop, manual bool
	met := d.mapping(n, "triggers", []field{
		{"name", func(n *yaml.Node) {
			t.Name = d.text(n, "triggers.name", 63)
			if t.Name != "" && !agentName.MatchString(t.Name) {
				d.problems.add(n.Line, "triggers.name is %s: use lower-case letters, digits and dashes, beginning with a letter, at most 63", quote(t.Name))
			}
		}},
		text("webhook", 20, &t.Sender), text("cron", 200, &clock.Schedule), flag("loop", &loop), flag("manual", &manual),
		block("goal", maxGoal, &s.Goal), block("filter", maxExpression, &s.Filter), text("overlap", 20, &s.Overlap), text("single_flight", 500, &s.SingleFlight),
		{"map", func(n *yaml.Node) { s.Mapping = d.expressions(n, "triggers.map") }},
		number("priority", 10, func(v int64) { s.Priority = int32(v) }),          //nolint:gosec // bounded
		number("breaker_runs", 1000, func(v int64) { s.BreakerRuns = int32(v) }), //nolint:gosec // bounded
		dollars("breaker_cost_usd", &s.BreakerCostMicros), flag("attended", &s.Attended),
		number("retention_days", 3650, func(v int64) { s.RetentionDays = new(int32(v)) }), //nolint:gosec // bounded

		text("signature_header", 100, &hook.SignatureHeader), text("signature_prefix", 50, &hook.SignaturePrefix),
		text("signature_encoding", 20, &hook.SignatureEncoding), text("signature_hash", 20, &hook.SignatureHash),
		text("dedupe_header", 100, &hook.DedupeHeader), block("dedupe_key", maxExpression, &hook.DedupeKey),
		period("dedupe_window", &hook.DedupeWindow), period("tolerance", &hook.Tolerance),
		{"max_body", func(n *yaml.Node) { hook.MaxBytes = d.size(n, "triggers.max_body", 1) }},
		number("rate", 1_000_000, func(v int64) { hook.RatePerMinute = int32(v) }), //nolint:gosec // bounded

		text("time_zone", 64, &clock.TimeZone), text("missed", 20, &clock.Missed), period("jitter", &clock.Jitter),
		number("max_missed", 100, func(v int64) { clock.MaxMissed = int32(v) }), //nolint:gosec // bounded

		period("pause", &round.Pause), period("least_pause", &round.LeastPause), period("most_pause", &round.MostPause), number("max_runs", math.MaxInt32, func(v int64) { round.MaxRuns = v }), dollars("budget_usd", &round.BudgetMicros),
	})
	if n.Kind != yaml.MappingNode {
		return t
	}
	d.require(n, met, map[string]string{"name": "name: and a name such as nightly"})
	var kinds []string
	for _, kind := range TriggerKinds() {
		if met[kind] != 0 {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) != 1 || loop != (met["loop"] != 0) || manual != (met["manual"] != 0) {
		d.problems.add(n.Line, "a trigger is one thing: write webhook: and a sender, cron: and a schedule, loop: true, or manual: true")
		return t
	}
	t.Kind = kinds[0]
	for _, kind := range triggerKinds {
		for _, key := range kind.keys {
			if t.Kind != kind.name && met[key] != 0 {
				d.problems.add(met[key], "triggers.%s goes with %s only: remove it", key, kind.name)
			}
		}
	}
	switch t.Kind {
	case Webhook:
		s.Webhook = hook
	case Cron:
		s.Cron = clock
	case Loop:
		s.Loop = round
	}
	return t
}

// block reads a text that may have several lines.
func (d triggerDecoder) block(n *yaml.Node, key string, most int) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || strings.TrimSpace(n.Value) == "" || len(n.Value) > most || strings.Contains(n.Value, "\x00") {
		d.problems.add(n.Line, "%s must be a text of at most %d bytes", key, most)
		return ""
	}
	return strings.TrimRight(n.Value, "\n")
}

// pause reads a time that may be none.
func (d triggerDecoder) pause(n *yaml.Node, key string) time.Duration {
	if n.Kind == yaml.ScalarNode && (n.Value == "0" || n.Value == "0s") {
		return 0
	}
	return d.duration(n, key)
}

// expressions reads names for CEL.
func (d triggerDecoder) expressions(n *yaml.Node, key string) map[string]string {
	if n.Kind != yaml.MappingNode || len(n.Content) > 2*50 {
		d.problems.add(n.Line, "%s must be at most 50 names and expressions, such as title: payload.pull_request.title", key)
		return nil
	}
	out := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := d.text(n.Content[i], key, 40)
		if _, twice := out[name]; twice {
			d.problems.add(n.Content[i].Line, "%s.%s is given twice: keep one", key, name)
		}
		out[name] = d.block(n.Content[i+1], key+"."+name, maxExpression)
	}
	return out
}
