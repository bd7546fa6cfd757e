package sender

import "github.com/deckhand-sh/deckhand/hub/work/trigger/verify"

var token = Sender{
	Name: "token", Label: "Anything, with a token", How: "`?token=` in the URL, or `X-Deckhand-Token`",
	Verify: verify.Rule{Scheme: verify.Token},
	Example: Example{
		Body:   `{"done":true}`,
		Prompt: []string{"{\"done\":true}"},
	},
}
