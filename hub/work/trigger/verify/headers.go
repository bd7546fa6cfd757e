package verify

import (
	"net/http"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/textcut"
)

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
		out[name] = textcut.Bytes(value, maxHeaderValue, "")
	}
	return out
}
