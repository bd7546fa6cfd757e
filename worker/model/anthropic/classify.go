package anthropic

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/worker/model"
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

var byCode = map[fault.Code]model.ErrorKind{
	fault.BudgetLimit:       model.Budget,
	fault.RateLimited:       model.RateLimit,
	fault.ContextTooLarge:   model.ContextTooLong,
	fault.CredentialInvalid: model.Auth,
	fault.NoCredentials:     model.NoCredential,
	fault.UnpricedModel:     model.Invalid,
	fault.PermissionDenied:  model.Invalid,
	fault.Killed:            model.Invalid,
}

// classify answers what an error of the SDK means.
func classify(err error) *model.Error {
	out := &model.Error{Kind: model.Unavailable, Provider: Provider, Message: err.Error(), Err: err}
	var api *sdk.Error
	if !errors.As(err, &api) {
		return out
	}
	out.Status = api.StatusCode
	kind, message := envelope(api.RawJSON())
	out.Message = message
	var header http.Header
	if api.Response != nil {
		header = api.Response.Header
	}
	if known, ok := byType[kind]; ok {
		out.Kind = known
	} else {
		out.Kind = byStatus(api.StatusCode)
	}
	switch lower := strings.ToLower(message); {
	case out.Kind != model.Invalid:
	case strings.Contains(lower, "prompt is too long"), strings.Contains(lower, "context window"),
		strings.Contains(lower, "exceed context limit"):
		out.Kind = model.ContextTooLong
	case strings.Contains(lower, "content filtering"):
		out.Kind = model.Refused
	case strings.Contains(lower, "credit balance"), strings.Contains(lower, "usage limits"):
		out.Kind = model.Quota
	}
	if code := fault.Code(header.Get(fault.CodeHeader)); code != "" {
		out.Code, out.Fix = code, header.Get(fault.FixHeader)
		if known, ok := byCode[code]; ok {
			out.Kind = known
		}
	}
	out.RetryAfter = retryAfter(header)
	return out
}

func byStatus(status int) model.ErrorKind {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return model.Auth
	case status == http.StatusPaymentRequired:
		return model.Quota
	case status == http.StatusTooManyRequests:
		return model.RateLimit
	case status == http.StatusRequestEntityTooLarge:
		return model.ContextTooLong
	case status == 529:
		return model.Overloaded
	case status == http.StatusRequestTimeout || status >= 500:
		return model.Unavailable
	default:
		return model.Invalid
	}
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
		const limit = 200
		return body.Error.Type, strings.ToValidUTF8(raw[:min(len(raw), limit)], "")
	}
	return body.Error.Type, body.Error.Message
}

// retryAfter reads the header in seconds or as an HTTP date.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 && seconds < 1e6 {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
