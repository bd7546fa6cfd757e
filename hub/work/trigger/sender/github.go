package sender

import "github.com/deckhand-sh/deckhand/hub/work/trigger/verify"

var github = Sender{
	Name: "github", Label: "GitHub", How: "`X-Hub-Signature-256`",
	Verify: verify.Rule{Scheme: verify.GitHub},
	ID:     "X-Github-Delivery", Event: "X-Github-Event",
	Filter: "event != 'ping'",
	Mapping: map[string]string{
		"what": "event + (payload.?action.hasValue() ? '.' + " + asText("payload.action") + " : '')",
		"repo": ifObject("repository", firstOf(".repository.?full_name"), "''"),
		"by":   ifObject("sender", firstOf(".sender.?login"), "''"),
		"number": ifObject("pull_request", firstOf(".pull_request.?number"), ifObject("issue", firstOf(".issue.?number"),
			"'-'")),
		"title": ifObject("pull_request", firstOf(".pull_request.?title"), ifObject("issue", firstOf(".issue.?title"),
			ifObject("workflow_run", firstOf(".workflow_run.?display_title", ".workflow_run.?name"), ifObject("check_run", firstOf(".check_run.?name"),
				ifObject("head_commit", firstOf(".head_commit.?message"), "''"))))),
		"url": ifObject("pull_request", firstOf(".pull_request.?html_url"), ifObject("issue", firstOf(".issue.?html_url"),
			ifObject("workflow_run", firstOf(".workflow_run.?html_url"), ifObject("check_run", firstOf(".check_run.?html_url"),
				firstOf(".?compare"))))),
		"state": ifObject("workflow_run", firstOf(".workflow_run.?conclusion"), ifObject("check_run", firstOf(".check_run.?conclusion"),
			ifObject("check_suite", firstOf(".check_suite.?conclusion"), firstOf(".?ref")))),
	},
	Goal: `GitHub says that something happened. Act on it as your instructions say.

Event: {{ what }}
Repository: {{ repo }}
Number: {{ number }}
Title: {{ title }}
Address: {{ url }}
State or branch: {{ state }}
By: {{ by }}`,
	Example: Example{
		Event:  "pull_request",
		Body:   `{"action":"opened","number":7,"pull_request":{"number":7,"title":"Fix the flag","html_url":"https://github.com/octo-org/hello/pull/7"},"repository":{"full_name":"octo-org/hello"},"sender":{"login":"octocat"}}`,
		Prompt: []string{"pull_request.opened", "octo-org/hello", "Fix the flag", "/pull/7", "octocat"},
	},
}
