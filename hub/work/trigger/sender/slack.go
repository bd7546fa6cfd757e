package sender

import (
	"encoding/json"

	"github.com/deckhand-sh/deckhand/hub/work/trigger/verify"
)

var slack = Sender{
	Name: "slack", Label: "Slack", How: "`X-Slack-Signature` v0; the URL verification challenge is handled",
	Verify: verify.Rule{Scheme: verify.Slack},
	Key:    "payload.?event_id.orValue('')", Challenge: slackChallenge,
	Filter: ifObject("event", "payload.event.?type.orValue('') in ['app_mention', 'message'] && !has(payload.event.bot_id)", "false"),
	Mapping: map[string]string{
		"said":    ifObject("event", firstOf(".event.?text"), "''"),
		"by":      ifObject("event", firstOf(".event.?user"), "''"),
		"channel": ifObject("event", firstOf(".event.?channel"), "''"),
		"thread":  ifObject("event", firstOf(".event.?thread_ts", ".event.?ts"), "''"),
	},
	Goal: `Somebody spoke to you in Slack. Answer as your instructions say.

By: {{ by }}
Channel: {{ channel }}
Thread: {{ thread }}
Said: {{ said }}`,
	Example: Example{
		Body:   `{"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention","user":"U1","text":"help me","channel":"C1","ts":"1.2"}}`,
		Prompt: []string{"help me", "U1", "C1", "1.2"},
	},
}

// slackChallenge returns what Slack sends to make sure that a URL is a webhook's.
func slackChallenge(body []byte) (string, bool) {
	var m struct{ Type, Challenge string }
	if json.Unmarshal(body, &m) != nil || m.Type != "url_verification" {
		return "", false
	}
	return m.Challenge, true
}
