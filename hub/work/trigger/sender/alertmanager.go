package sender

var alertmanager = Sender{
	Name: "alertmanager", Label: "Alertmanager", How: "as `token`",
	As:     "token",
	Filter: "payload.?status.orValue('') == 'firing'",
	Mapping: map[string]string{
		"status": firstOf(".?status"),
		"labels": firstOf(".?commonLabels"),
		"notes":  firstOf(".?commonAnnotations"),
		"alerts": whenList("alerts", "payload.alerts.map(a, a.?labels.orValue({}))", "[]"),
		"url":    firstOf(".?externalURL"),
	},
	Goal: `Alertmanager says that an alert is {{ status }}. Find out why, as your instructions say.

Labels: {{ labels }}
Annotations: {{ notes }}
Alerts: {{ alerts }}
Address: {{ url }}`,
	Key: asText(firstOf(".?groupKey")) + " + '/' + " + asText(firstOf(".?status")) + " + '/' + " +
		whenList("alerts", "payload.alerts.map(a, "+asText("a.?fingerprint.orValue('')")+" + "+asText("a.?startsAt.orValue('')")+").join(',')", "''"),
	Example: Example{
		Body:   `{"status":"firing","groupKey":"g","commonLabels":{"alertname":"Disk"},"commonAnnotations":{},"externalURL":"http://alerts.example","alerts":[{"labels":{"instance":"web-1"}}]}`,
		Prompt: []string{"firing", "Disk", "web-1", "http://alerts.example"},
	},
}
