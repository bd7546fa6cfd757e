package anthropic

import (
	"encoding/json"
	"errors"
	"regexp"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// byType maps the error types of the API, which also come in the middle of a
// stream under status 200.
// https://docs.anthropic.com/en/api/errors
var byType = map[string]model.ErrorKind{
	"authentication_error":  model.Auth,
	"permission_error":      model.Auth,
	"billing_error":         model.Quota,
	"rate_limit_error":      model.RateLimit,
	"overloaded_error":      model.Overloaded,
	"api_error":             model.Unavailable,
	"timeout_error":         model.Unavailable,
	"invalid_request_error": model.Invalid,
	"not_found_error":       model.Invalid,
	"request_too_large":     model.ContextTooLong,
}

// classify returns what an error of the SDK means.
func classify(err error) *model.Error {
	out := &model.Error{Kind: model.Unavailable}
	var api *sdk.Error
	if !errors.As(err, &api) {
		return out
	}
	out.Status = api.StatusCode
	kind, message := envelope(api.RawJSON())
	out.Message = message
	if known, ok := byType[kind]; ok {
		out.Kind = known
	} else {
		out.Kind = wire.ByStatus(api.StatusCode)
	}
	switch {
	case out.Kind != model.Invalid:
	case wire.Mentions(message, "prompt is too long", "context window", "exceed context limit"):
		out.Kind = model.ContextTooLong
	case wire.Mentions(message, "content filtering"):
		out.Kind = model.Refused
	case wire.Mentions(message, "credit balance", "usage limits"):
		out.Kind = model.Quota
		out.RetryAfter = regained(message)
	}
	return out
}

// accessAgain matches the API's message about the end of a usage limit: "You
// will regain access on 2026-12-01 at 00:00 UTC."
var accessAgain = regexp.MustCompile(`regain access on (\d{4}-\d\d-\d\d) at (\d\d:\d\d) UTC`)

// regained returns how long it is until then; 0 where nothing is said of it.
func regained(message string) time.Duration {
	m := accessAgain.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	at, err := time.Parse("2006-01-02 15:04", m[1]+" "+m[2])
	if err != nil {
		return 0
	}
	return max(0, time.Until(at))
}

// envelope reads {"type":"error","error":{"type":…,"message":…}}.
func envelope(raw string) (kind, message string) {
	var body struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(raw), &body) != nil || body.Error.Message == "" {
		return body.Error.Type, wire.Excerpt(raw)
	}
	return body.Error.Type, body.Error.Message
}
