package sender

import "github.com/deckhand-sh/deckhand/hub/work/trigger/verify"

var jira = Sender{
	Name: "jira", Label: "Jira", How: "`X-Hub-Signature`",
	Verify: verify.Rule{Scheme: verify.Jira},
	ID:     "X-Atlassian-Webhook-Identifier",
	Example: Example{
		Body:   `{"webhookEvent":"jira:issue_created","issue":{"key":"OPS-1","fields":{"summary":"Crash"}}}`,
		Prompt: []string{"jira:issue_created", "OPS-1", "Crash"},
	},
}
