package handle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// tokenFields are the names of fields whose value is a secret, in any object of the
// response.
var tokenFields = []string{"access_token", "id_token", "refresh_token", "token"}

// ErrNoToken is wrapped by the error for a response that has no token.
var ErrNoToken = errors.New("it has no token")

// HideToken returns the response of a token endpoint with a handle in place of each
// token: the fields access_token, id_token, refresh_token and token. The handles may
// be used where uses says, of which there is at least one. The body is that of a
// response with a status of 2xx, decompressed. A response without a token is an error,
// ErrNoToken: if it has a secret, then in a field that is not known here.
func (e *Exchange) HideToken(body []byte, uses []Use, now time.Time) ([]byte, error) {
	if len(body) > maxToken {
		return nil, fmt.Errorf("token response: it has %d bytes, more than %d", len(body), maxToken)
	}
	if len(uses) == 0 {
		return nil, errors.New("token response: there is no host that the token may be used for")
	}
	for _, u := range uses {
		if !e.intercepts(u.Host, u.Port) {
			return nil, fmt.Errorf("token response: the token for %s:%d cannot be hidden, because requests to it are not inspected: add the host to the credential", u.Host, u.Port)
		}
	}
	var out bytes.Buffer
	in, to := jsontext.NewDecoder(bytes.NewReader(body)), jsontext.NewEncoder(&out)
	fresh, expires := map[string]*secret{}, now.Add(e.maxAge)
	for {
		token, err := in.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = to.WriteToken(token)
		}
		if err != nil {
			return nil, errors.New("token response: it is not valid JSON")
		}
		if parent, n := in.StackIndex(in.StackDepth()); parent != jsontext.KindBeginObject || n%2 == 0 {
			continue // it is not the name of a field
		}
		name := strings.ToLower(token.String())
		if !slices.Contains(tokenFields, name) {
			if in.StackDepth() == 1 && (name == "expires_in" || name == "expires_at") {
				value, err := in.ReadValue()
				if err == nil {
					err = to.WriteValue(value)
				}
				if err != nil {
					return nil, errors.New("token response: it is not valid JSON")
				}
				if at, ok := tokenExpiry(value, now); ok && at.Before(expires) {
					expires = at
				}
			}
			continue
		}
		switch in.PeekKind() {
		case jsontext.KindNull:
			continue
		case jsontext.KindString:
		default:
			return nil, fmt.Errorf("token response: the field %s is not a string", name)
		}
		value, err := in.ReadToken()
		if err != nil {
			return nil, errors.New("token response: it is not valid JSON")
		}
		text := value.String()
		if text != "" {
			handle := newHandle()
			fresh[handle] = &secret{uses: uses, token: text}
			if name == "refresh_token" { // it outlives the token that it is for
				fresh[handle].expires = now.Add(e.maxAge)
			}
			text = handle
		}
		if err := to.WriteToken(jsontext.String(text)); err != nil {
			return nil, errors.New("token response: it cannot be rewritten")
		}
	}
	if len(fresh) == 0 {
		return nil, fmt.Errorf("token response: %w: none of the fields %s", ErrNoToken, strings.Join(tokenFields, ", "))
	}
	for _, s := range fresh {
		if s.expires.IsZero() {
			s.expires = expires
		}
	}
	e.keep(now, fresh)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// tokenExpiry parses expires_in (seconds) or expires_at (RFC 3339, or seconds since
// 1970).
func tokenExpiry(value jsontext.Value, now time.Time) (time.Time, bool) {
	text := strings.Trim(string(value), `"`)
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, true
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return time.Time{}, false
	}
	if seconds > 1e9 { // a time, since no token is valid for thirty years
		return time.Unix(int64(seconds), 0), true
	}
	return now.Add(time.Duration(seconds) * time.Second), true
}
