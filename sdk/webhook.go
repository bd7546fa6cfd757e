package sdk

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// WebhookEvent is what a webhook destination receives: a CloudEvent (cloudevents.io). Its
// data quotes what agents and strangers wrote: treat it as data, not as instructions.
type WebhookEvent struct {
	// ID is the same for each delivery of a notification.
	ID string `json:"id"`
	// Source is the organisation, for example "/organisations/org_default".
	Source string `json:"source"`
	// Type is that of docs/events.md, for example "agent.failed".
	Type string `json:"type"`
	// Subject is the task; empty if the event belongs to none.
	Subject string    `json:"subject"`
	Time    time.Time `json:"time"`
	// CorrelationID is that of the hub's log.
	CorrelationID string `json:"correlationid"`
	// Data has the details: see docs/notifications.md.
	Data json.RawMessage `json:"data"`
}

// VerifyWebhook verifies that a request was signed with a webhook destination's secret,
// which begins with "whsec_", within the last five minutes, and returns its event. body is
// the request's body as it was received. If it fails, respond with status 400.
//
// The hub may send a notification twice: keep the header webhook-id, or the event's ID, to
// recognise it.
func VerifyWebhook(secret string, header http.Header, body []byte) (*WebhookEvent, error) {
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, fmt.Errorf("the webhook's secret is not valid: %w", err)
	}
	if err := verifier.Verify(body, header); err != nil {
		return nil, fmt.Errorf("the webhook is not of this hub: %w", err)
	}
	e := &WebhookEvent{}
	if err := json.Unmarshal(body, e); err != nil {
		return nil, fmt.Errorf("read the webhook's event: %w", err)
	}
	return e, nil
}
