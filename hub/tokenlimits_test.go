package hub_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// works reports whether a client is let in; a token that was found is taken for
// good for a moment.
func works(t *testing.T, client *sdk.Client) bool {
	t.Helper()
	_, err := client.Agents.ListAgents(t.Context(), &deckhandv1.ListAgentsRequest{})
	if err != nil {
		require.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(err), "%v", err)
	}
	return err == nil
}

// An organisation says how old people's tokens get: none is made that would live
// longer, and those that there are end, with the sessions that were made with them.
func TestAnOrganisationLimitsItsTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	create := func(name string, kind deckhandv1.TokenKind, ttl time.Duration) (*sdk.Client, string, error) {
		req := &deckhandv1.CreateTokenRequest{Name: name, Kind: kind}
		if ttl > 0 {
			req.Ttl = durationpb.New(ttl)
		}
		res, err := r.user.Tokens.CreateToken(t.Context(), req)
		if err != nil {
			return nil, "", err
		}
		return r.Client(t, res.GetSecret()), res.GetSecret(), nil
	}
	const user, worker = deckhandv1.TokenKind_TOKEN_KIND_USER, deckhandv1.TokenKind_TOKEN_KIND_WORKER
	old, secret, err := create("old", user, 0)
	require.NoError(t, err)
	session := browser(t, r.Hub, login(t, r.Hub, secret))
	fresh, _, err := create("fresh", user, 0)
	require.NoError(t, err)
	_, workers, err := create("rack", worker, 0)
	require.NoError(t, err)
	require.Empty(t, do(t, old.Tokens.GetTokenLimits, &deckhandv1.GetTokenLimitsRequest{}).GetLimits().GetMaxTtl())

	r.exec("UPDATE api_tokens SET created_at = now() - interval '2 days' WHERE name <> 'fresh'")
	require.True(t, works(t, old), "there is no limit yet")
	limits := &deckhandv1.TokenLimits{MaxTtl: durationpb.New(24 * time.Hour)}
	do(t, r.user.Tokens.SetTokenLimits, &deckhandv1.SetTokenLimitsRequest{Limits: limits})
	require.Equal(t, "token.limits_set", r.audited("token.limits_set")[0].GetAction())
	for name, client := range map[string]*sdk.Client{"an old token": old, "a session of it": session} {
		require.Eventually(t, func() bool { return !works(t, client) }, time.Minute, 50*time.Millisecond, name)
	}
	require.True(t, works(t, fresh))
	require.True(t, works(t, r.user), "the data folder's own")
	_, err = r.Client(t, workers).Workers.RegisterWorker(t.Context(), &deckhandv1.RegisterWorkerRequest{Name: "w2", Slots: 1})
	require.NoError(t, err, "a worker's")

	for _, ttl := range []time.Duration{0, 25 * time.Hour} {
		_, _, err = create("long", user, ttl)
		require.True(t, fault.Is(fault.FromConnect(err), fault.Invalid), "%v", err)
		require.ErrorContains(t, err, "at most 24h0m0s")
	}
	_, _, err = create("short", user, 24*time.Hour)
	require.NoError(t, err)
	_, _, err = create("rack-2", worker, 0)
	require.NoError(t, err)
	do(t, r.user.Tokens.SetTokenLimits, &deckhandv1.SetTokenLimitsRequest{Limits: &deckhandv1.TokenLimits{}})
	require.True(t, works(t, old), "there is no limit any more")
}

// A new password can end the user's tokens with their sessions.
func TestAPasswordEndsTokensWhereAsked(t *testing.T) {
	if testing.Short() {
		t.Skip("hashing passwords takes minutes with the race detector, and there is no race in it")
	}
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	admin := h.Client(t, h.AdminToken)
	do(t, admin.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "ann", Role: "advanced"})
	one := h.Client(t, do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "one", UserId: "ann"}).GetSecret())
	other := h.Client(t, do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "other", UserId: "ann"}).GetSecret())
	mine := h.Client(t, do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "mine"}).GetSecret())
	set := &deckhandv1.SetPasswordRequest{UserId: "ann", Password: "correct horse battery"}
	do(t, admin.Users.SetPassword, set)
	require.True(t, works(t, one))
	set.RevokeTokens = true
	do(t, admin.Users.SetPassword, set)
	require.False(t, works(t, one), "at once")
	require.False(t, works(t, other))
	require.True(t, works(t, mine), "somebody else's")
	do(t, admin.Users.SetPassword, &deckhandv1.SetPasswordRequest{Password: "correct horse battery", RevokeTokens: true})
	require.False(t, works(t, mine))
	require.True(t, works(t, admin), "the data folder's own")
}
