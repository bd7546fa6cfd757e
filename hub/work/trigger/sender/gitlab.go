package sender

import "github.com/deckhand-sh/deckhand/hub/work/trigger/verify"

var gitlab = Sender{
	Name: "gitlab", Label: "GitLab", How: "`X-Gitlab-Token`",
	Verify: verify.Rule{Scheme: verify.GitLab},
	ID:     "X-Gitlab-Event-Uuid", Event: "X-Gitlab-Event",
	Mapping: map[string]string{
		"what": asText(firstOf(".?object_kind")) + " + " +
			ifObject("object_attributes", "'.' + "+asText(firstOf(".object_attributes.?action", ".object_attributes.?status")), "''"),
		"project": ifObject("project", firstOf(".project.?path_with_namespace"), "''"),
		"by":      ifObject("user", firstOf(".user.?username"), firstOf(".?user_username")),
		"title":   ifObject("object_attributes", firstOf(".object_attributes.?title", ".object_attributes.?ref"), firstOf(".?ref")),
		"url":     ifObject("object_attributes", firstOf(".object_attributes.?url"), "''"),
		"number":  ifObject("object_attributes", firstOf(".object_attributes.?iid", ".object_attributes.?id"), "'-'"),
	},
	Goal: `GitLab says that something happened. Act on it as your instructions say.

Event: {{ what }}
Project: {{ project }}
Number: {{ number }}
Title or branch: {{ title }}
Address: {{ url }}
By: {{ by }}`,
	Example: Example{
		Event:  "Merge Request Hook",
		Body:   `{"object_kind":"merge_request","user":{"username":"ann"},"project":{"path_with_namespace":"grp/hello"},"object_attributes":{"iid":1,"title":"Fix","action":"open","url":"https://gitlab.example/grp/hello/-/merge_requests/1"}}`,
		Prompt: []string{"merge_request.open", "grp/hello", "Fix", "ann", "/merge_requests/1"},
	},
}
