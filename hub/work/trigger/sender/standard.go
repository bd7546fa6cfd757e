package sender

import "github.com/deckhand-sh/deckhand/hub/work/trigger/verify"

var standard = Sender{
	Name: "standard", Label: "Standard Webhooks", How: "[Standard Webhooks](https://www.standardwebhooks.com)",
	Verify: verify.Rule{Scheme: verify.Standard},
	ID:     "Webhook-Id",
	Example: Example{
		Body:   `{"type":"invoice.paid","timestamp":"2026-01-02T03:04:05Z","data":{"id":"in_1"}}`,
		Prompt: []string{"invoice.paid", "in_1"},
	},
}
