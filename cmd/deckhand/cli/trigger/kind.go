package trigger

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// kindFlags say what a trigger that is to be made waits for; --cron is one of specFlags.
type kindFlags struct {
	webhook      string
	loop, manual bool
}

func (k *kindFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.webhook, "webhook", "", "take webhooks of this sender, or verified like this")
	cmd.Flags().BoolVar(&k.loop, "loop", false, "run again and again")
	cmd.Flags().BoolVar(&k.manual, "manual", false, "run by hand only")
}

// given reports whether one of the flags is set.
func (k *kindFlags) given(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"webhook", "loop", "manual"}, cmd.Flags().Changed)
}

// read returns the kind, and the preset of a sender that has one. How any other sender proves
// itself goes into the spec.
func (k *kindFlags) read(cmd *cobra.Command, flags *specFlags, spec *deckhandv1.TriggerSpec) (kind deckhandv1.TriggerKind, preset string, err error) {
	kinds := 0
	for _, of := range []struct {
		is   bool
		kind deckhandv1.TriggerKind
	}{
		{k.webhook != "", deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK}, {cmd.Flags().Changed("cron"), deckhandv1.TriggerKind_TRIGGER_KIND_CRON},
		{k.loop, deckhandv1.TriggerKind_TRIGGER_KIND_LOOP}, {k.manual, deckhandv1.TriggerKind_TRIGGER_KIND_MANUAL},
	} {
		if of.is {
			kinds++
			kind = of.kind
		}
	}
	if kinds != 1 {
		return kind, "", env.Usage(cmd, "give one of --webhook SENDER, --cron SCHEDULE, --loop and --manual")
	}
	switch {
	case k.webhook == "":
	case slices.Contains(presets, k.webhook):
		preset = k.webhook
	case slices.Contains(verifications, k.webhook):
		flags.webhook(spec).Verify = k.webhook
	default:
		return kind, "", env.Usage(cmd, "--webhook is %q, use one of %s", k.webhook, strings.Join(slices.Compact(slices.Sorted(slices.Values(slices.Concat(presets, verifications)))), ", "))
	}
	return kind, preset, nil
}
