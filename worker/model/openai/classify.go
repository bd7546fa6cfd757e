package openai

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// byCode maps the codes and types of the API's errors, which also come in the
// middle of a stream under status 200.
// https://platform.openai.com/docs/guides/error-codes
var byCode = map[string]model.ErrorKind{
	"invalid_api_key":             model.Auth,
	"invalid_authentication":      model.Auth,
	"insufficient_quota":          model.Quota,
	"billing_hard_limit_reached":  model.Quota,
	"rate_limit_exceeded":         model.RateLimit,
	"rate_limit_error":            model.RateLimit,
	"context_length_exceeded":     model.ContextTooLong,
	"string_above_max_length":     model.ContextTooLong,
	"content_filter":              model.Refused,
	"content_policy_violation":    model.Refused,
	"invalid_prompt":              model.Refused,
	"cyber_policy":                model.Refused,
	"model_not_found":             model.Invalid,
	"server_error":                model.Unavailable,
	"server_is_overloaded":        model.Overloaded,
	"slow_down":                   model.Overloaded,
	"overloaded_error":            model.Overloaded,
	"vector_store_timeout":        model.Unavailable,
	"responsible_ai_policy_error": model.Refused,
}

// streamed is an error as the API tells it, in a stream or in the body of a response.
type streamed struct{ code, kind, message string }

// Error implements error.
func (s *streamed) Error() string { return s.message }

// classify returns what an error of a call or of a stream means.
func classify(err error) *model.Error {
	var (
		out    = &model.Error{Kind: model.Unavailable}
		api    *refused
		broken *streamed
	)
	switch {
	case errors.As(err, &api):
		var body struct {
			Error json.RawMessage `json:"error"`
		}
		if json.Unmarshal(api.body, &body) != nil || len(body.Error) == 0 {
			body.Error = api.body
		}
		broken = told(body.Error)
		out.Status = api.status
		if out.Kind = wire.ByStatus(api.status); api.status == http.StatusServiceUnavailable {
			out.Kind = model.Overloaded
		}
	case errors.As(err, &broken):
	default:
		return out
	}
	out.Message = broken.message
	for _, code := range []string{broken.code, broken.kind} {
		if known, ok := byCode[code]; ok {
			out.Kind = known
			return out
		}
	}
	if broken.kind == "invalid_request_error" && out.Kind == model.Unavailable && out.Status < http.StatusInternalServerError {
		out.Kind = model.Invalid
	}
	// Those who only speak like OpenAI say in words what it says in codes.
	switch {
	case out.Kind != model.Invalid:
	case wire.Mentions(broken.message, "maximum context length", "context length", "context size", "context window", "too many tokens", "prompt is too long"):
		out.Kind = model.ContextTooLong
	case wire.Mentions(broken.message, "content filter", "content policy", "data_inspection", "inappropriate content"):
		out.Kind = model.Refused
	case wire.Mentions(broken.message, "quota", "arrearage", "billing"):
		out.Kind = model.Quota
	}
	return out
}

// told reads an error: {"message": …, "type": …, "code": …}, or a text.
func told(body []byte) *streamed {
	out := &streamed{message: wire.Excerpt(string(body))}
	var detail struct {
		Message loose `json:"message"`
		Type    loose `json:"type"`
		Code    loose `json:"code"`
	}
	var text string
	switch {
	case json.Unmarshal(body, &detail) == nil:
		out.kind, out.code = string(detail.Type), string(detail.Code)
		if detail.Message != "" {
			out.message = string(detail.Message)
		}
	case json.Unmarshal(body, &text) == nil:
		out.message = text
	}
	return out
}
