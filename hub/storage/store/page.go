package store

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// PageToken names a place in a list that is ordered by time and id: behind that
// row.
func PageToken(at time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(at.Format(time.RFC3339Nano) + " " + id))
}

// ParsePageToken parses a token of PageToken; any other text is an error.
func ParsePageToken(token string) (at time.Time, id string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		when, id, ok := strings.Cut(string(raw), " ")
		if at, err = time.Parse(time.RFC3339Nano, when); err == nil && ok {
			return at, id, nil
		}
	}
	return time.Time{}, "", errPageToken()
}

// NameToken names a place in a list that is ordered by name and id: behind that
// row.
func NameToken(name, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(name + " " + id))
}

// ParseNameToken parses a token of NameToken, and "" as the position before all; any
// other text is an error.
func ParseNameToken(token string) (name, id string, err error) {
	if token == "" {
		return "", "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if i := strings.LastIndexByte(string(raw), ' '); err == nil && i >= 0 && utf8.Valid(raw) && !bytes.ContainsRune(raw, 0) {
		return string(raw[:i]), string(raw[i+1:]), nil
	}
	return "", "", errPageToken()
}

// PlaceToken names a place in a list that is ordered by a number and id: behind that row.
func PlaceToken(place int64, id string) string { return NameToken(id, strconv.FormatInt(place, 10)) }

// ParsePlaceToken reads a token of PlaceToken; "" is the beginning.
func ParsePlaceToken(token string) (place int64, id string, err error) {
	id, number, err := ParseNameToken(token)
	if err != nil || number == "" {
		return 0, id, err
	}
	if place, err = strconv.ParseInt(number, 10, 64); err != nil {
		return 0, "", errPageToken()
	}
	return place, id, nil
}

// NumberToken names a place in a list that is ordered by number: behind that row.
func NumberToken(n int32) string { return NameToken(strconv.Itoa(int(n)), "") }

// ParseNumberToken parses a token of NumberToken, and "" as 0; any other text is an
// error.
func ParseNumberToken(token string) (int32, error) {
	if token == "" {
		return 0, nil
	}
	text, _, err := ParseNameToken(token)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, errPageToken()
	}
	return int32(n), nil
}

// StandingToken returns the page token of a list that has active rows before those that
// are over, and each by time and id: the position after that row.
func StandingToken(standing bool, at time.Time, id string) string {
	return PageToken(at, strconv.FormatBool(standing)+" "+id)
}

// ParseStandingToken parses a token of StandingToken; any other text is an error.
func ParseStandingToken(token string) (standing bool, at time.Time, id string, err error) {
	at, rest, err := ParsePageToken(token)
	if err != nil {
		return false, time.Time{}, "", err
	}
	word, id, ok := strings.Cut(rest, " ")
	if standing, err = strconv.ParseBool(word); err != nil || !ok {
		return false, time.Time{}, "", errPageToken()
	}
	return standing, at, id, nil
}

// Page returns the first size of rows, of which the caller read up to one more, and the
// next page's token, which token creates from the last row; "" for the last page.
func Page[Row any](rows []Row, size int32, token func(last Row) string) (page []Row, next string) {
	if len(rows) <= int(size) {
		return rows, ""
	}
	return rows[:size], token(rows[size-1])
}

// PageOf returns the page of rows that begins behind a token. The rows are all in memory, in
// ascending order of their keys, which are unique. The row of the token may be gone.
func PageOf[Row any](rows []Row, size int32, token string, key func(Row) string) (page []Row, next string, err error) {
	if token != "" {
		after, _, err := ParseNameToken(token)
		if err != nil {
			return nil, "", err
		}
		begin := slices.IndexFunc(rows, func(r Row) bool { return key(r) > after })
		if begin < 0 {
			return nil, "", nil
		}
		rows = rows[begin:]
	}
	page, next = Page(rows, size, func(last Row) string { return NameToken(key(last), "") })
	return page, next, nil
}

func errPageToken() error {
	return fault.New(fault.Invalid, "page_token is not one that a list has answered").WithFix("leave it out to begin again")
}
