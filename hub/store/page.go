package store

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// PageToken names a place in a list that is ordered by time and id: behind that
// row.
func PageToken(at time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(at.Format(time.RFC3339Nano) + " " + id))
}

// ParsePageToken reads what PageToken has made; anything else is an error.
func ParsePageToken(token string) (at time.Time, id string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		when, id, ok := strings.Cut(string(raw), " ")
		if at, err = time.Parse(time.RFC3339Nano, when); err == nil && ok {
			return at, id, nil
		}
	}
	return time.Time{}, "", fault.New(fault.Invalid, "page_token is not one that a list has answered").WithFix("leave it out to begin again")
}
