package trigger

import (
	"maps"

	"github.com/deckhand-sh/deckhand/hub/work/trigger/verify"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// preset is what suits a sender.
type preset struct {
	verify  verify.Scheme
	filter  string
	mapping map[string]string
	goal    string
	key     string
}

// first returns the first of some places in a payload that has something.
func first(places ...string) string {
	out := "''"
	for i := len(places) - 1; i >= 0; i-- {
		out = "payload" + places[i] + ".orValue(" + out + ")"
	}
	return out
}

// whenObject has an expression looked at where the payload has an object of that
// name, and something else otherwise: senders leave things out, and some are null.
func whenObject(name, then, otherwise string) string {
	return "(has(payload." + name + ") && type(payload." + name + ") == map ? " + then + " : " + otherwise + ")"
}

// words has an expression answer a text: an empty one for what is none.
func words(expression string) string {
	return "[" + expression + "].map(x, type(x) == string ? x : '')[0]"
}

var presets = map[string]preset{
	"github": {
		verify: verify.GitHub,
		filter: "event != 'ping'",
		mapping: map[string]string{
			"what": "event + (payload.?action.hasValue() ? '.' + " + words("payload.action") + " : '')",
			"repo": whenObject("repository", first(".repository.?full_name"), "''"),
			"by":   whenObject("sender", first(".sender.?login"), "''"),
			"number": whenObject("pull_request", first(".pull_request.?number"), whenObject("issue", first(".issue.?number"),
				"'-'")),
			"title": whenObject("pull_request", first(".pull_request.?title"), whenObject("issue", first(".issue.?title"),
				whenObject("workflow_run", first(".workflow_run.?display_title", ".workflow_run.?name"), whenObject("check_run", first(".check_run.?name"),
					whenObject("head_commit", first(".head_commit.?message"), "''"))))),
			"url": whenObject("pull_request", first(".pull_request.?html_url"), whenObject("issue", first(".issue.?html_url"),
				whenObject("workflow_run", first(".workflow_run.?html_url"), whenObject("check_run", first(".check_run.?html_url"),
					first(".?compare"))))),
			"state": whenObject("workflow_run", first(".workflow_run.?conclusion"), whenObject("check_run", first(".check_run.?conclusion"),
				whenObject("check_suite", first(".check_suite.?conclusion"), first(".?ref")))),
		},
		goal: `GitHub says that something happened. Act on it as your instructions say.

Event: {{ what }}
Repository: {{ repo }}
Number: {{ number }}
Title: {{ title }}
Address: {{ url }}
State or branch: {{ state }}
By: {{ by }}`,
	},
	"gitlab": {
		verify: verify.GitLab,
		mapping: map[string]string{
			"what": words(first(".?object_kind")) + " + " +
				whenObject("object_attributes", "'.' + "+words(first(".object_attributes.?action", ".object_attributes.?status")), "''"),
			"project": whenObject("project", first(".project.?path_with_namespace"), "''"),
			"by":      whenObject("user", first(".user.?username"), first(".?user_username")),
			"title":   whenObject("object_attributes", first(".object_attributes.?title", ".object_attributes.?ref"), first(".?ref")),
			"url":     whenObject("object_attributes", first(".object_attributes.?url"), "''"),
			"number":  whenObject("object_attributes", first(".object_attributes.?iid", ".object_attributes.?id"), "'-'"),
		},
		goal: `GitLab says that something happened. Act on it as your instructions say.

Event: {{ what }}
Project: {{ project }}
Number: {{ number }}
Title or branch: {{ title }}
Address: {{ url }}
By: {{ by }}`,
	},
	"slack": {
		verify: verify.Slack,
		filter: whenObject("event", "payload.event.?type.orValue('') in ['app_mention', 'message'] && !has(payload.event.bot_id)", "false"),
		mapping: map[string]string{
			"said":    whenObject("event", first(".event.?text"), "''"),
			"by":      whenObject("event", first(".event.?user"), "''"),
			"channel": whenObject("event", first(".event.?channel"), "''"),
			"thread":  whenObject("event", first(".event.?thread_ts", ".event.?ts"), "''"),
		},
		goal: `Somebody spoke to you in Slack. Answer as your instructions say.

By: {{ by }}
Channel: {{ channel }}
Thread: {{ thread }}
Said: {{ said }}`,
	},
	"alertmanager": {
		verify: verify.Token,
		filter: "payload.?status.orValue('') == 'firing'",
		mapping: map[string]string{
			"status": first(".?status"),
			"labels": first(".?commonLabels"),
			"notes":  first(".?commonAnnotations"),
			"alerts": whenList("alerts", "payload.alerts.map(a, a.?labels.orValue({}))", "[]"),
			"url":    first(".?externalURL"),
		},
		goal: `Alertmanager says that an alert is {{ status }}. Find out why, as your instructions say.

Labels: {{ labels }}
Annotations: {{ notes }}
Alerts: {{ alerts }}
Address: {{ url }}`,
		key: words(first(".?groupKey")) + " + '/' + " + words(first(".?status")) + " + '/' + " +
			whenList("alerts", "payload.alerts.map(a, "+words("a.?fingerprint.orValue('')")+" + "+words("a.?startsAt.orValue('')")+").join(',')", "''"),
	},
	"json": {verify: verify.Token, goal: "A webhook has come in. Act on it as your instructions say.\n\n{{ payload }}"},
}

func whenList(name, then, otherwise string) string {
	return "(has(payload." + name + ") && type(payload." + name + ") == list ? " + then + " : " + otherwise + ")"
}

// fill puts what a preset has where the spec has nothing.
func fill(spec *deckhandv1.TriggerSpec, name string) {
	p, ok := presets[name]
	if !ok {
		return
	}
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&spec.Webhook.Verify, string(p.verify))
	set(&spec.Filter, p.filter)
	set(&spec.Goal, p.goal)
	if spec.GetWebhook().GetDedupeHeader() == "" {
		set(&spec.Webhook.DedupeKey, p.key)
	}
	mapping := maps.Clone(p.mapping)
	maps.Copy(mapping, spec.GetMapping())
	if len(mapping) > 0 {
		spec.Mapping = mapping
	}
}
