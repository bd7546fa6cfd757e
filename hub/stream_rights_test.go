package hub_test

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// What is open ends when its caller may not open it any more: a revoked token,
// a user who is disabled or has another role, and a new access rule.
func TestAStreamEndsWithItsCallersRights(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	admin := h.Client(t, h.AdminToken)
	watch := func(client *sdk.Client) <-chan error {
		ended := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		stream, err := client.Events.Watch(ctx, &deckhandv1.WatchRequest{Follow: true})
		require.NoError(t, err)
		require.True(t, stream.Receive(), "%v", stream.Err())
		go func() {
			for stream.Receive() {
			}
			ended <- stream.Err()
		}()
		return ended
	}
	stays := watch(admin)
	open := map[string]<-chan error{}
	for _, name := range []string{"revoked", "disabled", "demoted"} {
		do(t, admin.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: name, Role: "advanced"})
		token := do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: name, UserId: name})
		open[name] = watch(h.Client(t, token.GetSecret()))
		switch name {
		case "revoked":
			do(t, admin.Tokens.RevokeToken, &deckhandv1.RevokeTokenRequest{TokenId: token.GetToken().GetId()})
		case "disabled":
			do(t, admin.Users.UpdateUser, &deckhandv1.UpdateUserRequest{UserId: name, Disabled: new(true)})
		case "demoted":
			do(t, admin.Users.UpdateUser, &deckhandv1.UpdateUserRequest{UserId: name, Role: "viewer"})
		}
	}
	cookie := login(t, h, h.AdminToken)
	in := browser(t, h, cookie)
	open["logged out"] = watch(in)
	do(t, in.Sessions.DeleteSession, &deckhandv1.DeleteSessionRequest{})
	for name, ended := range open {
		select {
		case err := <-ended:
			require.Contains(t, []connect.Code{connect.CodeUnauthenticated, connect.CodePermissionDenied}, connect.CodeOf(err), "%s: %v", name, err)
		case <-time.After(waittest.Limit(20 * time.Second)):
			require.Fail(t, "it goes on", name)
		}
	}
	mine := do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "mine"})
	ruled := watch(h.Client(t, mine.GetSecret()))
	do(t, admin.Access.SetAccessRule, &deckhandv1.SetAccessRuleRequest{What: "*", Networks: []string{"10.1.0.0/16"}, Force: true})
	select {
	case err := <-ruled:
		require.Equal(t, connect.CodePermissionDenied, connect.CodeOf(err), "%v", err)
	case <-time.After(waittest.Limit(20 * time.Second)):
		require.Fail(t, "it goes on")
	}
	select {
	case err := <-stays:
		require.Fail(t, "nobody has ended it", "%v", err)
	default:
	}
}

// A token has so many streams open at once, however it opens them; the next is
// refused until one of them ends. Others have theirs.
func TestACallersStreamsAreBounded(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	admin := h.Client(t, h.AdminToken)
	token := func(name string) *sdk.Client {
		return h.Client(t, do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: name}).GetSecret())
	}
	busy, other := token("busy"), token("other")
	open := func(client *sdk.Client) (end context.CancelFunc, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		stream, err := client.Events.Watch(ctx, &deckhandv1.WatchRequest{Follow: true})
		if err == nil && !stream.Receive() {
			err = stream.Err()
		}
		if err != nil {
			cancel()
			return nil, err
		}
		t.Cleanup(cancel)
		return cancel, nil
	}
	var ends []context.CancelFunc
	for i := range auth.StreamsEach {
		end, err := open(busy)
		require.NoError(t, err, "watch %d", i+1)
		ends = append(ends, end)
	}
	_, err := open(busy)
	require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), "%v", err)
	refused := fault.As(fault.FromConnect(err))
	require.Equal(t, fault.RateLimited, refused.Code)
	require.Contains(t, refused.Message, "100 streams are open already with this token")
	require.NotEmpty(t, refused.Fix)
	_, err = open(other)
	require.NoError(t, err, "another token's")
	ends[0]()
	require.Eventually(t, func() bool {
		_, err := open(busy)
		return err == nil
	}, time.Minute, 20*time.Millisecond, "one has ended")
	_, err = open(busy)
	require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), "%v", err)
}
