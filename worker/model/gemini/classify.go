package gemini

import (
	"errors"
	"net/http"
	"time"

	sdk "google.golang.org/genai"

	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// refusal is a prompt to which the API refuses to respond.
type refusal struct{ reason, message string }

// Error implements error.
func (r *refusal) Error() string {
	return wire.OrElse(r.message, "the prompt is blocked: "+r.reason)
}

// unreadable is a response that the API itself could not parse.
type unreadable struct {
	reason  sdk.FinishReason
	message string
}

// Error implements error.
func (u *unreadable) Error() string {
	return wire.OrElse(u.message, "the answer ended with "+string(u.reason))
}

// byStatus maps the statuses of the API's errors.
// https://ai.google.dev/gemini-api/docs/troubleshooting
var byStatus = map[string]model.ErrorKind{
	"UNAUTHENTICATED":     model.Auth,
	"PERMISSION_DENIED":   model.Auth,
	"RESOURCE_EXHAUSTED":  model.RateLimit,
	"UNAVAILABLE":         model.Overloaded,
	"INTERNAL":            model.Unavailable,
	"DEADLINE_EXCEEDED":   model.Unavailable,
	"INVALID_ARGUMENT":    model.Invalid,
	"FAILED_PRECONDITION": model.Invalid,
	"NOT_FOUND":           model.Invalid,
}

// classify returns what an error of the SDK means.
func classify(err error) *model.Error {
	out := &model.Error{Kind: model.Unavailable}
	var (
		api     sdk.APIError
		blocked *refusal
	)
	switch {
	case errors.As(err, &blocked):
		out.Kind = model.Refused
		return out
	case !errors.As(err, &api):
		return out
	}
	out.Message = wire.Excerpt(api.Message)
	if api.Code >= http.StatusBadRequest {
		out.Status = api.Code
	}
	if known, ok := byStatus[api.Status]; ok {
		out.Kind = known
	} else {
		out.Kind = wire.ByStatus(api.Code)
	}
	switch {
	case out.Kind == model.Invalid && wire.Mentions(api.Message, "api key"):
		out.Kind = model.Auth
	case out.Kind == model.Invalid && wire.Mentions(api.Message, "token count", "number of tokens", "request payload size"):
		out.Kind = model.ContextTooLong
	case out.Kind == model.RateLimit:
		details(out, api.Details)
	}
	return out
}

// details reads when to come back, and whether a day's quota is spent, which no
// wait of a few minutes mends.
func details(e *model.Error, list []map[string]any) {
	for _, detail := range list {
		if text, ok := detail["retryDelay"].(string); ok {
			if wait, err := time.ParseDuration(text); err == nil && wait > 0 {
				e.RetryAfter = wait
			}
		}
		violations, _ := detail["violations"].([]any)
		for _, v := range violations {
			violation, _ := v.(map[string]any)
			if id, ok := violation["quotaId"].(string); ok && wire.Mentions(id, "perday") {
				e.Kind = model.Quota
			}
		}
	}
}
