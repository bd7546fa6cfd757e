package sender

import "github.com/deckhand-sh/deckhand/hub/work/trigger/verify"

var signed = Sender{
	Name: "hmac", Label: "Anything, with an HMAC in a header", How: "any header: `--signature-header`, `--signature-prefix`, `--signature-encoding`, `--signature-hash`",
	Verify: verify.Rule{Scheme: verify.HMAC},
	Example: Example{
		Body:   `{"done":true}`,
		Prompt: []string{"{\"done\":true}"},
	},
}
