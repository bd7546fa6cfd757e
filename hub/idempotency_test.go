package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// keyed is the context of a call with an idempotency key.
func keyed(t *testing.T, key string) context.Context {
	ctx, _ := keyedCall(t, key)
	return ctx
}

// keyedCall also returns what tells of the call's response.
func keyedCall(t *testing.T, key string) (context.Context, connect.CallInfo) {
	ctx, call := connect.NewClientContext(t.Context())
	call.RequestHeader().Set("Idempotency-Key", key)
	return ctx, call
}

// replayed reports whether a call returned a stored response.
func replayed(call connect.CallInfo) bool {
	return call.ResponseHeader().Get("Idempotency-Replayed") == "true"
}

// queryText asks the database for one text.
func queryText(t *testing.T, h *hubtest.Hub, query string) (out string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&out))
	return out
}

// A repeated call is made once and gets the first response, by both protocols, and also if
// that has a secret which is shown once. Another request with the key is refused.
func TestARepeatedCallWithAKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	c := h.Client(t, h.AdminToken)
	create := func(ctx context.Context, name string) (*deckhandv1.CreateTokenResponse, error) {
		return c.Tokens.CreateToken(ctx, &deckhandv1.CreateTokenRequest{Kind: deckhandv1.TokenKind_TOKEN_KIND_USER, Name: name})
	}
	ctx, call := keyedCall(t, "key-1")
	first, err := create(ctx, "ci")
	require.NoError(t, err)
	require.False(t, replayed(call))
	ctx, call = keyedCall(t, "key-1")
	again, err := create(ctx, "ci")
	require.NoError(t, err)
	require.True(t, replayed(call))
	require.Equal(t, first.GetSecret(), again.GetSecret())
	require.NotEmpty(t, again.GetSecret())
	list, err := c.Tokens.ListTokens(t.Context(), &deckhandv1.ListTokensRequest{})
	require.NoError(t, err)
	made := 0
	for _, token := range list.GetTokens() {
		if token.GetName() == "ci" {
			made++
		}
	}
	require.Equal(t, 1, made)

	_, err = create(keyed(t, "key-1"), "other")
	require.Equal(t, fault.IdempotencyKeyReused, fault.As(fault.FromConnect(err)).Code)
	res, body := restCall(t, http.MethodPost, h.URL()+"/v1/tokens", h.AdminToken, map[string]any{"kind": "TOKEN_KIND_USER", "name": "third"}, http.Header{"Idempotency-Key": {"key-1"}})
	p := problem(t, res, body)
	require.Equal(t, http.StatusUnprocessableEntity, p.Status)
	require.Equal(t, "IDEMPOTENCY_KEY_REUSED", p.Code)
	res, body = restCall(t, http.MethodPost, h.URL()+"/v1/tokens", h.AdminToken, map[string]any{"kind": "TOKEN_KIND_USER", "name": "ci"}, http.Header{"Idempotency-Key": {"key-1"}})
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	require.Equal(t, "true", res.Header.Get("Idempotency-Replayed"))
	var shown struct{ Secret string }
	require.NoError(t, json.Unmarshal(body, &shown))
	require.Equal(t, first.GetSecret(), shown.Secret)

	// Of the request and the response nothing is stored that can be read.
	stored := queryText(t, h, "SELECT string_agg(k::text, ' ') FROM idempotency_keys k")
	require.NotContains(t, stored, "key-1")
	require.NotContains(t, stored, fmt.Sprintf("%x", first.GetSecret()))
	require.NotContains(t, stored, first.GetSecret())

	// The SDK sends it, too.
	again, err = c.Tokens.CreateToken(sdk.WithIdempotencyKey(t.Context(), "key-1"), &deckhandv1.CreateTokenRequest{
		Kind: deckhandv1.TokenKind_TOKEN_KIND_USER, Name: "ci",
	})
	require.NoError(t, err)
	require.Equal(t, first.GetSecret(), again.GetSecret())

	// The key is the user's, for every token and session with the same rights, and the procedure's.
	same := h.Client(t, first.GetSecret())
	ctx, call = keyedCall(t, "key-1")
	_, err = same.Tokens.CreateToken(ctx, &deckhandv1.CreateTokenRequest{Kind: deckhandv1.TokenKind_TOKEN_KIND_USER, Name: "ci"})
	require.NoError(t, err)
	require.True(t, replayed(call))
	narrow, err := c.Tokens.CreateToken(t.Context(), &deckhandv1.CreateTokenRequest{
		Kind: deckhandv1.TokenKind_TOKEN_KIND_USER, Name: "narrow", Role: "advanced",
	})
	require.NoError(t, err)
	other := h.Client(t, narrow.GetSecret())
	do(t, c.Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{Filename: "walker.md", Markdown: scripted("walker"), Script: "turns: []\n"})
	submitted := map[string]bool{}
	for _, caller := range []*sdk.Client{c, same, other} {
		res, err := caller.Tasks.SubmitTask(keyed(t, "key-1"), &deckhandv1.SubmitTaskRequest{AgentId: "walker", Goal: "walk"})
		require.NoError(t, err)
		submitted[res.GetTask().GetId()] = true
	}
	require.Len(t, submitted, 2, "the narrow token has keys of its own")
	_, err = c.Users.CreateUser(keyed(t, "key-1"), &deckhandv1.CreateUserRequest{Name: "ann", Role: "viewer"})
	require.NoError(t, err)
	_, err = c.Users.CreateUser(keyed(t, "key-1"), &deckhandv1.CreateUserRequest{Name: "ann", Role: "viewer"})
	require.NoError(t, err, "it exists already, and the repetition gets the first response")

	// A read ignores the key, and a key has to be one.
	for range 2 {
		_, err = c.Users.ListUsers(keyed(t, "key-2"), &deckhandv1.ListUsersRequest{})
		require.NoError(t, err)
	}
	require.Equal(t, "0", queryText(t, h, "SELECT count(*)::text FROM idempotency_keys WHERE procedure LIKE '%ListUsers'"))
	for _, bad := range []string{"with space", strings.Repeat("x", 256)} {
		_, err = create(keyed(t, bad), "bad")
		require.True(t, fault.Is(fault.FromConnect(err), fault.Invalid), "%q: %v", bad, err)
	}
	// A call that is refused frees its key.
	_, err = create(keyed(t, "key-3"), "")
	require.Error(t, err)
	_, err = c.Users.CreateUser(keyed(t, "key-4"), &deckhandv1.CreateUserRequest{Name: "ann", Role: "viewer"})
	require.True(t, fault.Is(fault.FromConnect(err), fault.Exists), "%v", err)
	_, err = c.Users.CreateUser(keyed(t, "key-4"), &deckhandv1.CreateUserRequest{Name: "bob", Role: "viewer"})
	require.NoError(t, err)
}

// Of many calls at once with one key, to two hubs, one is made; the others get its response
// or are asked to come again.
func TestConcurrentCallsWithAKey(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	hubtest.NewNATS(t).Use(&cfg)
	first := hubtest.Start(t, cfg)
	second := hubtest.Start(t, hubtest.Beside(t, cfg))
	var all sync.WaitGroup
	secrets := make([]string, 20)
	failures := make([]error, len(secrets))
	for i := range secrets {
		h := []*hubtest.Hub{first, second}[i%2]
		c := h.Client(t, first.AdminToken)
		all.Go(func() {
			for {
				res, err := c.Tokens.CreateToken(keyed(t, "key"), &deckhandv1.CreateTokenRequest{Kind: deckhandv1.TokenKind_TOKEN_KIND_USER, Name: "ci"})
				if e := fault.As(fault.FromConnect(err)); e != nil && e.Code == fault.IdempotencyInProgress {
					continue
				}
				if failures[i] = err; err == nil {
					secrets[i] = res.GetSecret()
				}
				return
			}
		})
	}
	all.Wait()
	for i, secret := range secrets {
		require.NoError(t, failures[i])
		require.Equal(t, secrets[0], secret)
	}
	require.Equal(t, "1", queryText(t, first, "SELECT count(*)::text FROM api_tokens WHERE name = 'ci'"))
}

// A hub died during a call. If it had committed nothing the call is made again; if it had,
// nobody knows, and the caller is told.
func TestACallWithAKeyBrokeOff(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	c := h.Client(t, h.AdminToken)
	create := func(key string) error {
		_, err := c.Tokens.CreateToken(keyed(t, key), &deckhandv1.CreateTokenRequest{Kind: deckhandv1.TokenKind_TOKEN_KIND_USER, Name: key})
		return err
	}
	require.NoError(t, create("broke-off"))
	require.Equal(t, "true", queryText(t, h, "SELECT touched::text FROM idempotency_keys"), "the transaction of the call records it")
	back := func(touched, abandoned bool) {
		t.Helper()
		until := "clock_timestamp() + interval '1 minute'"
		if abandoned {
			until = "clock_timestamp() - interval '1 second'"
		}
		_, err := pgExec(t, h, fmt.Sprintf("UPDATE idempotency_keys SET state = 'in_progress', sealed = NULL, touched = %t, owner = 'dead', owned_until = %s", touched, until))
		require.NoError(t, err)
	}
	back(false, false)
	err := create("broke-off")
	require.Equal(t, fault.IdempotencyInProgress, fault.As(fault.FromConnect(err)).Code)
	back(true, true)
	err = create("broke-off")
	require.Equal(t, fault.IdempotencyUnknown, fault.As(fault.FromConnect(err)).Code)
	require.Equal(t, "1", queryText(t, h, "SELECT count(*)::text FROM api_tokens WHERE name = 'broke-off'"))
	back(false, true)
	require.NoError(t, create("broke-off"), "nothing was done")
	// What the former owner still commits is rolled back.
	_, err = pgExec(t, h, "SELECT pg_current_xact_id(), touch_idempotency_key(id, 'dead') FROM idempotency_keys")
	require.ErrorContains(t, err, "taken over")
	// After a day the key is free.
	_, err = pgExec(t, h, "UPDATE idempotency_keys SET created_at = created_at - interval '25 hours'")
	require.NoError(t, err)
	require.NoError(t, create("broke-off"))
}
