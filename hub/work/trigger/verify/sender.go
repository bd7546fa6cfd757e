package verify

import (
	"net/http"
	"strings"
)

// What the senders of each scheme call a delivery, and its event. Where they say
// it in the body there is CEL for it.
var senders = map[Scheme]struct{ id, event, key string }{
	GitHub:   {id: "X-Github-Delivery", event: "X-Github-Event"},
	GitLab:   {id: "X-Gitlab-Event-Uuid", event: "X-Gitlab-Event"},
	Standard: {id: "Webhook-Id"},
	Slack:    {key: "payload.?event_id.orValue('')"},
	Jira:     {id: "X-Atlassian-Webhook-Identifier"},
	Stripe:   {key: "payload.?id.orValue('')"},
}

// DeliveryID returns the header that has the sender's id of a delivery, and CEL
// that answers it from the body; both empty where there is none.
func (s Scheme) DeliveryID() (header, expression string) { return senders[s].id, senders[s].key }

// Event returns what the sender calls the event.
func (s Scheme) Event(h http.Header) string {
	if name := senders[s].event; name != "" {
		return h.Get(name)
	}
	return h.Get("X-Event-Type")
}

// secretHeaders prove who sends, and are never kept.
var secretHeaders = map[string]bool{
	"Authorization": true, "Proxy-Authorization": true, "Cookie": true, "Set-Cookie": true, "X-Deckhand-Token": true, "X-Gitlab-Token": true,
	"X-Hub-Signature": true, "X-Hub-Signature-256": true, "X-Slack-Signature": true, "Stripe-Signature": true, "Webhook-Signature": true,
	"X-Api-Key": true, "X-Auth-Token": true,
}

const (
	maxHeaders     = 64
	maxHeaderValue = 1000
)

// Keep returns the headers of a request that may be kept: none that proves who
// sends, the signature's own among them.
func (r Rule) Keep(h http.Header) map[string]string {
	out := map[string]string{}
	for name, values := range h {
		if secretHeaders[name] || r.Scheme == HMAC && name == r.header() || len(out) >= maxHeaders {
			continue
		}
		value := strings.ReplaceAll(strings.ToValidUTF8(strings.Join(values, ", "), "�"), "\x00", "�")
		if len(value) > maxHeaderValue {
			value = strings.ToValidUTF8(value[:maxHeaderValue], "")
		}
		out[name] = value
	}
	return out
}
