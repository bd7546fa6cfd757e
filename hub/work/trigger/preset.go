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

// firstOf returns the first of some places in a payload that has something.
func firstOf(places ...string) string {
	out := "''"
	for i := len(places) - 1; i >= 0; i-- {
		out = "payload" + places[i] + ".orValue(" + out + ")"
	}
	return out
}

// ifObject has an expression looked at where the payload has an object of that
// name, and something else otherwise: senders leave things out, and some are null.
func ifObject(name, then, otherwise string) string {
	return "(has(payload." + name + ") && type(payload." + name + ") == map ? " + then + " : " + otherwise + ")"
}

// asText has an expression answer a text: an empty one for what is none.
func asText(expression string) string {
	return "[" + expression + "].map(x, type(x) == string ? x : '')[0]"
}

var presets = map[string]preset{
	"github": {
		verify: verify.GitHub,
		filter: "event != 'ping'",
		mapping: map[string]string{
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
			"what": asText(firstOf(".?object_kind")) + " + " +
				ifObject("object_attributes", "'.' + "+asText(firstOf(".object_attributes.?action", ".object_attributes.?status")), "''"),
			"project": ifObject("project", firstOf(".project.?path_with_namespace"), "''"),
			"by":      ifObject("user", firstOf(".user.?username"), firstOf(".?user_username")),
			"title":   ifObject("object_attributes", firstOf(".object_attributes.?title", ".object_attributes.?ref"), firstOf(".?ref")),
			"url":     ifObject("object_attributes", firstOf(".object_attributes.?url"), "''"),
			"number":  ifObject("object_attributes", firstOf(".object_attributes.?iid", ".object_attributes.?id"), "'-'"),
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
		filter: ifObject("event", "payload.event.?type.orValue('') in ['app_mention', 'message'] && !has(payload.event.bot_id)", "false"),
		mapping: map[string]string{
			"said":    ifObject("event", firstOf(".event.?text"), "''"),
			"by":      ifObject("event", firstOf(".event.?user"), "''"),
			"channel": ifObject("event", firstOf(".event.?channel"), "''"),
			"thread":  ifObject("event", firstOf(".event.?thread_ts", ".event.?ts"), "''"),
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
			"status": firstOf(".?status"),
			"labels": firstOf(".?commonLabels"),
			"notes":  firstOf(".?commonAnnotations"),
			"alerts": whenList("alerts", "payload.alerts.map(a, a.?labels.orValue({}))", "[]"),
			"url":    firstOf(".?externalURL"),
		},
		goal: `Alertmanager says that an alert is {{ status }}. Find out why, as your instructions say.

Labels: {{ labels }}
Annotations: {{ notes }}
Alerts: {{ alerts }}
Address: {{ url }}`,
		key: asText(firstOf(".?groupKey")) + " + '/' + " + asText(firstOf(".?status")) + " + '/' + " +
			whenList("alerts", "payload.alerts.map(a, "+asText("a.?fingerprint.orValue('')")+" + "+asText("a.?startsAt.orValue('')")+").join(',')", "''"),
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
