package trigger

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// specFlags are what a trigger can be told to do: those that are given change
// a spec.
type specFlags struct{ set []specFlag }

type specFlag struct {
	name  string
	apply func(*deckhandv1.TriggerSpec) error
}

// register adds the flags to a command.
func (f *specFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.text(flags, "goal", "what the agent is to do; {{ }} holds CEL", func(s *deckhandv1.TriggerSpec, v string) { s.Goal = v })
	f.text(flags, "filter", "CEL that says whether a payload starts anything", func(s *deckhandv1.TriggerSpec, v string) { s.Filter = v })
	mapping := flags.StringArray("map", nil, "a name for CEL, as NAME=EXPRESSION; NAME= removes it")
	f.set = append(f.set, specFlag{"map", func(s *deckhandv1.TriggerSpec) error {
		if s.GetMapping() == nil {
			s.Mapping = map[string]string{}
		}
		for _, m := range *mapping {
			name, value, ok := strings.Cut(m, "=")
			switch {
			case !ok:
				return fmt.Errorf("%q: give NAME=EXPRESSION", m)
			case value == "":
				delete(s.GetMapping(), name)
			default:
				s.Mapping[name] = value
			}
		}
		return nil
	}})
	f.text(flags, "overlap", "while the run before goes on: allow, skip, queue or replace", func(s *deckhandv1.TriggerSpec, v string) { s.Overlap = v })
	f.text(flags, "single-flight", "a key, with {{ }}: triggers with the same one run one at a time", func(s *deckhandv1.TriggerSpec, v string) { s.SingleFlight = v })
	f.number(flags, "priority", "of the tasks, 1 to 10", func(s *deckhandv1.TriggerSpec, v int32) { s.Priority = v })
	f.number(flags, "breaker-runs", "so many dear runs within an hour stop the trigger", func(s *deckhandv1.TriggerSpec, v int32) { s.BreakerRuns = v })
	f.dollars(flags, "breaker-cost", "US dollars from which on a run is dear; 0 for none", func(s *deckhandv1.TriggerSpec, v *int64) { s.BreakerCostMicros = v })
	f.number(flags, "retention-days", "how long deliveries are kept", func(s *deckhandv1.TriggerSpec, v int32) { s.RetentionDays = &v })
	attended := flags.Bool("attended", false, "somebody watches the inbox: the agent may wait for a person")
	f.set = append(f.set, specFlag{"attended", func(s *deckhandv1.TriggerSpec) error { s.Attended = *attended; return nil }})

	hook := func(fn func(*deckhandv1.WebhookSpec, string)) func(*deckhandv1.TriggerSpec, string) {
		return func(s *deckhandv1.TriggerSpec, v string) { fn(f.webhook(s), v) }
	}
	f.text(flags, "verify", "how senders prove themselves: "+strings.Join(verifications, ", "), hook(func(w *deckhandv1.WebhookSpec, v string) { w.Verify = v }))
	f.text(flags, "signature-header", "with hmac: the header of the signature", hook(func(w *deckhandv1.WebhookSpec, v string) { w.SignatureHeader = v }))
	f.text(flags, "signature-prefix", "with hmac: what stands before it, such as sha256=", hook(func(w *deckhandv1.WebhookSpec, v string) { w.SignaturePrefix = v }))
	f.text(flags, "signature-encoding", "with hmac: hex or base64", hook(func(w *deckhandv1.WebhookSpec, v string) { w.SignatureEncoding = v }))
	f.text(flags, "signature-hash", "with hmac: sha256, sha1 or sha512", hook(func(w *deckhandv1.WebhookSpec, v string) { w.SignatureHash = v }))
	f.text(flags, "dedupe-header", "the header that has the sender's id of a delivery", hook(func(w *deckhandv1.WebhookSpec, v string) { w.DedupeHeader = v }))
	f.text(flags, "dedupe-key", "CEL that answers what tells deliveries apart", hook(func(w *deckhandv1.WebhookSpec, v string) { w.DedupeKey = v }))
	f.time(flags, "dedupe-window", "how long the same body is the same delivery, without either", func(s *deckhandv1.TriggerSpec, v *durationpb.Duration) { f.webhook(s).DedupeWindow = v })
	f.time(flags, "tolerance", "how old a signature with a time may be", func(s *deckhandv1.TriggerSpec, v *durationpb.Duration) { f.webhook(s).Tolerance = v })
	f.number(flags, "max-bytes", "the largest body", func(s *deckhandv1.TriggerSpec, v int32) { f.webhook(s).MaxBytes = int64(v) })
	f.number(flags, "rate", "deliveries a minute that each hub takes", func(s *deckhandv1.TriggerSpec, v int32) { f.webhook(s).RatePerMinute = v })

	clock := func(s *deckhandv1.TriggerSpec) *deckhandv1.CronSpec {
		if s.GetCron() == nil {
			s.Cron = &deckhandv1.CronSpec{}
		}
		return s.GetCron()
	}
	f.text(flags, "cron", "run on a schedule of five fields, or @daily and friends", func(s *deckhandv1.TriggerSpec, v string) { clock(s).Schedule = v })
	f.text(flags, "time-zone", "of the schedule, such as Europe/Berlin", func(s *deckhandv1.TriggerSpec, v string) { clock(s).TimeZone = v })
	f.text(flags, "missed", "runs that no hub was there for: skip, once or all", func(s *deckhandv1.TriggerSpec, v string) { clock(s).Missed = v })
	f.number(flags, "max-missed", "with --missed all: the most that are caught up on", func(s *deckhandv1.TriggerSpec, v int32) { clock(s).MaxMissed = v })
	f.time(flags, "jitter", "each run begins later by up to so much", func(s *deckhandv1.TriggerSpec, v *durationpb.Duration) { clock(s).Jitter = v })

	round := func(s *deckhandv1.TriggerSpec) *deckhandv1.LoopSpec {
		if s.GetLoop() == nil {
			s.Loop = &deckhandv1.LoopSpec{}
		}
		return s.GetLoop()
	}
	f.time(flags, "pause", "between a loop's runs", func(s *deckhandv1.TriggerSpec, v *durationpb.Duration) { round(s).Pause = v })
	f.time(flags, "least-pause", "the least that a run may ask for until the next one", func(s *deckhandv1.TriggerSpec, v *durationpb.Duration) { round(s).LeastPause = v })
	f.time(flags, "most-pause", "the most that a run may ask for until the next one", func(s *deckhandv1.TriggerSpec, v *durationpb.Duration) { round(s).MostPause = v })
	f.number(flags, "max-runs", "a loop stops after so many runs", func(s *deckhandv1.TriggerSpec, v int32) { round(s).MaxRuns = int64(v) })
	f.dollars(flags, "loop-budget", "a loop stops when its runs have cost so many US dollars", func(s *deckhandv1.TriggerSpec, v *int64) { round(s).BudgetMicros = v })
}

// webhook returns a spec's part for webhooks, made if need be.
func (*specFlags) webhook(s *deckhandv1.TriggerSpec) *deckhandv1.WebhookSpec {
	if s.GetWebhook() == nil {
		s.Webhook = &deckhandv1.WebhookSpec{}
	}
	return s.GetWebhook()
}

func (f *specFlags) text(flags *pflag.FlagSet, name, help string, apply func(*deckhandv1.TriggerSpec, string)) {
	v := flags.String(name, "", help)
	f.set = append(f.set, specFlag{name, func(s *deckhandv1.TriggerSpec) error { apply(s, *v); return nil }})
}

func (f *specFlags) number(flags *pflag.FlagSet, name, help string, apply func(*deckhandv1.TriggerSpec, int32)) {
	v := flags.Int32(name, 0, help)
	f.set = append(f.set, specFlag{name, func(s *deckhandv1.TriggerSpec) error { apply(s, *v); return nil }})
}

func (f *specFlags) time(flags *pflag.FlagSet, name, help string, apply func(*deckhandv1.TriggerSpec, *durationpb.Duration)) {
	v := flags.Duration(name, time.Duration(0), help)
	f.set = append(f.set, specFlag{name, func(s *deckhandv1.TriggerSpec) error { apply(s, durationpb.New(*v)); return nil }})
}

func (f *specFlags) dollars(flags *pflag.FlagSet, name, help string, apply func(*deckhandv1.TriggerSpec, *int64)) {
	v := flags.Float64(name, 0, help)
	f.set = append(f.set, specFlag{name, func(s *deckhandv1.TriggerSpec) error {
		if !(*v >= 0 && *v <= 1e6) {
			return fmt.Errorf("%g is no amount: give US dollars", *v)
		}
		apply(s, new(int64(math.Round(*v*1e6))))
		return nil
	}})
}

// changed reports whether one of the flags was given.
func (f *specFlags) changed(cmd *cobra.Command) bool {
	for _, flag := range f.set {
		if cmd.Flags().Changed(flag.name) {
			return true
		}
	}
	return false
}

// apply puts what was given into a spec.
func (f *specFlags) apply(cmd *cobra.Command, spec *deckhandv1.TriggerSpec) error {
	for _, flag := range f.set {
		if !cmd.Flags().Changed(flag.name) {
			continue
		}
		if err := flag.apply(spec); err != nil {
			return env.Usage(cmd, "--%s: %s", flag.name, err)
		}
	}
	return nil
}
