package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// byCode is what the relay's own refusals mean.
var byCode = map[fault.Code]model.ErrorKind{
	fault.BudgetLimit:       model.Budget,
	fault.RateLimited:       model.RateLimit,
	fault.ContextTooLarge:   model.ContextTooLong,
	fault.CredentialInvalid: model.Auth,
	fault.NoCredentials:     model.NoCredential,
	fault.UnpricedModel:     model.Invalid,
	fault.PermissionDenied:  model.Invalid,
	fault.Killed:            model.Invalid,
	fault.HubUnavailable:    model.Unavailable,
}

// relayed applies what a response's headers say: the relay's own code and fix,
// and when to retry.
func relayed(e *model.Error, header http.Header) {
	if code := fault.Code(header.Get(fault.CodeHeader)); code != "" {
		e.Code, e.Fix = code, header.Get(fault.FixHeader)
		if e.Hub = code == fault.HubUnavailable; e.Hub {
			e.Code = fault.ModelUnavailable
		}
		if known, ok := byCode[code]; ok {
			e.Kind = known
		}
		e.Own = header.Get(fault.OwnHeader) != ""
	}
	if e.RetryAfter == 0 {
		e.RetryAfter = retryAfter(header)
	}
}

// StatusOverloaded is Anthropic's, and that of some who speak as it does.
const StatusOverloaded = 529

// ByStatus returns what a status means where the body does not say.
func ByStatus(status int) model.ErrorKind {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return model.Auth
	case status == http.StatusPaymentRequired:
		return model.Quota
	case status == http.StatusTooManyRequests:
		return model.RateLimit
	case status == http.StatusRequestEntityTooLarge:
		return model.ContextTooLong
	case status == StatusOverloaded:
		return model.Overloaded
	case status == http.StatusRequestTimeout || status >= 500:
		return model.Unavailable
	default:
		return model.Invalid
	}
}

// Mentions reports whether a message has one of some phrases, in whatever case.
func Mentions(message string, phrases ...string) bool {
	message = strings.ToLower(message)
	for _, phrase := range phrases {
		if strings.Contains(message, phrase) {
			return true
		}
	}
	return false
}

// Excerpt is the beginning of a body that is no error as it should be.
func Excerpt(raw string) string {
	const limit = 200
	return strings.ToValidUTF8(raw[:min(len(raw), limit)], "")
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
