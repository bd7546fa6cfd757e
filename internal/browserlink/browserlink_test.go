package browserlink_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
)

// Only the holder of a key opens what it sealed, for the purpose and the call that it was sealed
// for, and signatures are of one call.
func TestKey(t *testing.T) {
	t.Parallel()
	k, other := browserlink.NewKey(), browserlink.NewKey()
	session, err := browserlink.EncodeSession(browserlink.Session{Tabs: []browserlink.Tab{{URL: "https://shop.example.com/", Active: true}}})
	require.NoError(t, err)
	sealed, err := k.SealSession("step_1", session)
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "shop.example.com")
	opened, err := k.OpenSession("step_1", sealed)
	require.NoError(t, err)
	s, err := browserlink.DecodeSession(opened)
	require.NoError(t, err)
	require.Equal(t, "https://shop.example.com/", s.Tabs[0].URL)
	_, err = k.OpenSession("step_2", sealed)
	require.Error(t, err, "it is the result of another call")
	_, err = other.OpenSession("step_1", sealed)
	require.Error(t, err)
	_, err = browserlink.Key(nil).OpenSession("step_1", sealed)
	require.Error(t, err)

	secret, err := k.SealSecret("keeper_1", "step_1", browserlink.Secret{Credential: "shop", Value: "hunter2"})
	require.NoError(t, err)
	got, err := k.OpenSecret("keeper_1", "step_1", secret)
	require.NoError(t, err)
	require.Equal(t, "hunter2", got.Value)
	_, err = k.OpenSecret("keeper_2", "step_1", secret)
	require.Error(t, err, "it is for one keeper")
	_, err = k.OpenSecret("keeper_1", "step_2", secret)
	require.Error(t, err, "it is for one call")

	call := browserlink.Call{Keeper: "keeper_1", Exec: "step_1", Number: 1, Deadline: 1000, Tool: "browser_click", Arguments: []byte("{}")}
	mac := k.Sign(call)
	require.True(t, k.Signed(mac, call))
	for _, change := range []func(*browserlink.Call){
		func(c *browserlink.Call) { c.Keeper = "keeper_2" },
		func(c *browserlink.Call) { c.Number = 2 },
		func(c *browserlink.Call) { c.Deadline = 2000 },
		func(c *browserlink.Call) { c.Tool = "browser_type" },
		func(c *browserlink.Call) { c.Exec, c.Tool = "step_1browser", "_click" },
		func(c *browserlink.Call) { c.Secret = []byte("x") },
	} {
		other := call
		change(&other)
		require.False(t, k.Signed(mac, other))
	}
	require.False(t, k.Signed(nil, call))
	require.False(t, browserlink.Key(nil).Signed(nil, call), "no key signs nothing")
}

// A session that is too large keeps its tabs and cookies, and says what it lost.
func TestASessionIsBounded(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 900<<10)
	for i := range noise {
		noise[i] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[rand.IntN(64)] //nolint:gosec // no secret
	}
	data, err := browserlink.EncodeSession(browserlink.Session{
		Tabs:    []browserlink.Tab{{URL: "https://a.example/"}},
		Cookies: []browserlink.Cookie{{Name: "id", Value: "1"}},
		Local:   map[string][]browserlink.Item{"https://a.example": {{"k", string(noise)}}},
	})
	require.NoError(t, err)
	require.Less(t, len(data), browserlink.MaxSealed)
	s, err := browserlink.DecodeSession(data)
	require.NoError(t, err)
	require.Equal(t, 1, s.Dropped)
	require.Empty(t, s.Local)
	require.Len(t, s.Cookies, 1)
	_, err = browserlink.EncodeSession(browserlink.Session{Tabs: []browserlink.Tab{{URL: strings.Repeat(string(noise), 2)}}})
	require.ErrorContains(t, err, "too large")
}
