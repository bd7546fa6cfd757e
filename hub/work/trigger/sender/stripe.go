package sender

import "github.com/deckhand-sh/deckhand/hub/work/trigger/verify"

var stripe = Sender{
	Name: "stripe", Label: "Stripe", How: "`Stripe-Signature`",
	Verify: verify.Rule{Scheme: verify.Stripe},
	Key:    "payload.?id.orValue('')",
	Example: Example{
		Body:   `{"id":"evt_1","object":"event","type":"invoice.paid","data":{"object":{"id":"in_1"}}}`,
		Prompt: []string{"evt_1", "invoice.paid", "in_1"},
	},
}
