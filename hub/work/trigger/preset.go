package trigger

import (
	"maps"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/work/trigger/sender"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// fill completes a spec with the defaults of a sender.
func fill(spec *deckhandv1.TriggerSpec, from sender.Sender) {
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&spec.Webhook.Verify, from.Proof())
	set(&spec.Filter, from.Filter)
	set(&spec.Goal, from.Goal)
	// A sender that is verified by its own name is known by it later, too.
	if !from.HasProof() && spec.GetWebhook().GetDedupeHeader() == "" && spec.GetWebhook().GetDedupeKey() == "" {
		spec.Webhook.DedupeHeader = from.ID
		if from.ID == "" {
			spec.Webhook.DedupeKey = from.Key
		}
	}
	mapping := map[string]string{}
	maps.Copy(mapping, from.Mapping)
	maps.Copy(mapping, spec.GetMapping())
	if len(mapping) > 0 {
		spec.Mapping = mapping
	}
}

// unknown is the error for a name that no sender of a kind has.
func unknown(field, name string, of func(sender.Sender) bool) error {
	return fault.New(fault.Invalid, "%s is %q, which is not known", field, name).WithFix("use one of %s", strings.Join(sender.Names(of), ", "))
}

// proof returns the sender that verifies a webhook.
func proof(w *deckhandv1.WebhookSpec) sender.Sender {
	s, _ := sender.Named(w.GetVerify())
	return s
}
