package openai

import (
	"encoding/json"
	"errors"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

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

// streamed is an error that came in a stream.
type streamed struct{ code, kind, message string }

// Error implements error.
func (s *streamed) Error() string { return s.message }

// failure returns the error that an event of a response is; nil for none.
func failure(event responses.ResponseStreamEventUnion) error {
	switch event.Type {
	case "error":
		return &streamed{code: event.Code, message: event.Message}
	case "response.failed":
		e := event.Response.Error
		return &streamed{code: string(e.Code), kind: e.Type, message: e.Message}
	}
	return nil
}

// classify returns what an error of the SDK or of a stream means.
func classify(err error) *model.Error {
	var (
		out    = &model.Error{Kind: model.Unavailable}
		api    *sdk.Error
		broken *ssestream.StreamError
		told   *streamed
	)
	switch {
	case errors.As(err, &api):
		out.Status = api.StatusCode
		out.Message = api.Message
		if out.Message == "" {
			out.Message = wire.Excerpt(api.RawJSON())
		}
		told = &streamed{api.Code, api.Type, out.Message}
		if out.Kind = wire.ByStatus(api.StatusCode); api.StatusCode == http.StatusServiceUnavailable {
			out.Kind = model.Overloaded
		}
	case errors.As(err, &broken):
		told = inStream(broken)
		out.Message = told.message
	case errors.As(err, &told):
		out.Message = told.message
	default:
		return out
	}
	for _, code := range []string{told.code, told.kind} {
		if known, ok := byCode[code]; ok {
			out.Kind = known
			return out
		}
	}
	if told.kind == "invalid_request_error" && out.Kind == model.Unavailable && out.Status < http.StatusInternalServerError {
		out.Kind = model.Invalid
	}
	// Those who only speak like OpenAI say in words what it says in codes.
	switch {
	case out.Kind != model.Invalid:
	case wire.Mentions(told.message, "maximum context length", "context length", "context size", "context window", "too many tokens", "prompt is too long"):
		out.Kind = model.ContextTooLong
	case wire.Mentions(told.message, "content filter", "content policy", "data_inspection", "inappropriate content"):
		out.Kind = model.Refused
	case wire.Mentions(told.message, "quota", "arrearage", "billing"):
		out.Kind = model.Quota
	}
	return out
}

// inStream reads {"error": {"message": …, "type": …, "code": …}}, or an error
// that is a string.
func inStream(err *ssestream.StreamError) *streamed {
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	out := &streamed{message: wire.Excerpt(string(err.Event.Data))}
	if json.Unmarshal(err.Event.Data, &body) != nil {
		return out
	}
	var detail struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    any    `json:"code"`
	}
	var text string
	switch {
	case json.Unmarshal(body.Error, &detail) == nil && detail.Message != "":
		out.message, out.kind = detail.Message, detail.Type
		out.code, _ = detail.Code.(string)
	case json.Unmarshal(body.Error, &text) == nil:
		out.message = text
	}
	return out
}
