package handle_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/handle"
)

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

var registry = []handle.Use{{Host: "registry.example.com", Port: 443}, {Host: "auth.example.com", Port: 443, Method: "POST", Path: "/token"}}

func TestTokensAreHiddenAndRevealed(t *testing.T) {
	t.Parallel()
	e := newExchange(handle.Config{})
	out, err := e.HideToken([]byte(`{"access_token":"top-secret&1","token_type":"bearer","expires_in":600,"big":12345678901234567890123,"refresh_token":"top-secret-2","data":[{"Token":"top-secret-3"}],"scope":null}`), registry, now)
	require.NoError(t, err)
	require.NotContains(t, string(out), "top-secret")
	require.Contains(t, string(out), `"token_type":"bearer"`)
	require.Contains(t, string(out), "12345678901234567890123")
	var token struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Data    []struct{ Token string }
	}
	require.NoError(t, json.Unmarshal(out, &token))
	require.Equal(t, 3, e.Len())

	get := func(header, value string) *http.Request {
		return request("GET", "https://registry.example.com/v2/", map[string]string{header: value})
	}
	for header, want := range map[string]struct{ value, revealed string }{
		"Authorization":   {"Bearer " + token.Access, "Bearer top-secret&1"},
		"Private-Token":   {token.Access, "top-secret&1"},
		"X-Third":         {token.Data[0].Token, "top-secret-3"},
		"X-Authorization": {"token " + token.Access, "token top-secret&1"},
	} {
		r := get(header, want.value)
		found, err := e.Reveal(r, now)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want.revealed, r.Header.Get(header))
	}
	r := get("Authorization", "Basic "+encode("oauth2:"+token.Access))
	_, err = e.Reveal(r, now)
	require.NoError(t, err)
	_, password, _ := r.BasicAuth()
	require.Equal(t, "top-secret&1", password)

	r = request("GET", "https://registry.example.com/v2/?a=b&access_token="+token.Access, nil)
	_, err = e.Reveal(r, now)
	require.NoError(t, err)
	require.Equal(t, "top-secret&1", r.URL.Query().Get("access_token"))

	form := func(target, body string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
	r = form("https://auth.example.com/token", "grant_type=refresh_token&refresh_token="+token.Refresh)
	_, err = e.Reveal(r, now.Add(30*time.Minute)) // when the access token has expired
	require.NoError(t, err)
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, int64(len(body)), r.ContentLength)
	values, err := url.ParseQuery(string(body))
	require.NoError(t, err)
	require.Equal(t, "top-secret-2", values.Get("refresh_token"))

	// A form without a handle, and one that is too long to look into, are unchanged.
	for _, text := range []string{"a=b", "a=" + strings.Repeat("x", 100_000)} {
		r = form("https://auth.example.com/token", text)
		found, err := e.Reveal(r, now)
		require.NoError(t, err)
		require.False(t, found)
		body, err = io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, text, string(body))
	}

	for name, r := range map[string]*http.Request{
		"another host":         request("GET", "https://evil.example.com/", map[string]string{"Authorization": "Bearer " + token.Access}),
		"another path":         form("https://auth.example.com/log", "a="+token.Refresh),
		"within a form's text": form("https://auth.example.com/token", "a=x"+token.Refresh),
		"a form's name":        form("https://auth.example.com/token", token.Refresh+"=x"),
		"twice in a value":     get("Authorization", "Bearer "+token.Access+" "+token.Access),
		"as a scheme":          get("Authorization", token.Access+" "+token.Access),
		"basic in pieces":      get("Authorization", "Basic "+encode("a:x"+token.Access)),
		"basic elsewhere":      get("X-Other", "Basic "+encode("a:"+token.Access)),
		"expired":              nil,
	} {
		at := now
		if r == nil {
			r, at = get("Authorization", "Bearer "+token.Access), now.Add(10*time.Minute)
		}
		_, err := e.Reveal(r, at)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "top-secret")
	}
}

func TestATokenResponseThatCannotBeHiddenIsAnError(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`token=top-secret`:                           "not valid JSON",
		`{"token":"top-secret"`:                      "not valid JSON",
		`{"token":"top-secret","token":"b"}`:         "not valid JSON",
		`{"token":{"value":"top-secret"}}`:           "token is not a string",
		`{"jwt":"top-secret"}`:                       "none of the fields access_token",
		`{"token":""}`:                               "none of the fields",
		`["token","top-secret"]`:                     "none of the fields",
		`{"a":"` + strings.Repeat("x", 1<<20) + `"}`: "more than 1048576",
	} {
		e := newExchange(handle.Config{})
		_, err := e.HideToken([]byte(body), registry, now)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "top-secret")
		require.Zero(t, e.Len())
	}
	_, err := newExchange(handle.Config{}).HideToken([]byte(`{"token":"a"}`), nil, now)
	require.ErrorContains(t, err, "no host")
	_, err = newExchange(handle.Config{}).HideToken([]byte(`{"token":"a"}`), []handle.Use{{Host: "elsewhere.example.com", Port: 443}}, now)
	require.ErrorContains(t, err, "elsewhere.example.com:443 cannot be hidden")
}

func TestTheExpiryOfATokenIsRead(t *testing.T) {
	t.Parallel()
	for field, valid := range map[string]time.Duration{
		`"expires_in":60`:                     time.Minute,
		`"expires_in":"60"`:                   time.Minute,
		`"expires_at":"2026-03-01T12:01:00Z"`: time.Minute,
		`"expires_at":1772366460`:             time.Minute,
		`"expires_in":86400`:                  time.Hour,
		`"expires_in":"soon"`:                 time.Hour,
		`"nested":{"expires_in":60}`:          time.Hour,
		`"scope":"expires_in"`:                time.Hour,
	} {
		e := newExchange(handle.Config{})
		out, err := e.HideToken([]byte(`{`+field+`,"token":"top-secret"}`), registry, now)
		require.NoError(t, err)
		var token struct{ Token string }
		require.NoError(t, json.Unmarshal(out, &token))
		for at, ok := range map[time.Duration]bool{valid - time.Second: true, valid: false} {
			_, err := e.Reveal(request("GET", "https://registry.example.com/", map[string]string{"Authorization": "Bearer " + token.Token}), now.Add(at))
			require.Equal(t, ok, err == nil, "%s after %s", field, at)
		}
	}
}
