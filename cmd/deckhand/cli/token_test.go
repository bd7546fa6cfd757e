package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (h *testHub) GetTokenLimits(context.Context, *deckhandv1.GetTokenLimitsRequest) (*deckhandv1.GetTokenLimitsResponse, error) {
	return &deckhandv1.GetTokenLimitsResponse{Limits: h.limits}, nil
}

func (h *testHub) SetTokenLimits(_ context.Context, req *deckhandv1.SetTokenLimitsRequest) (*deckhandv1.SetTokenLimitsResponse, error) {
	h.limits = req.GetLimits()
	return &deckhandv1.SetTokenLimitsResponse{Limits: h.limits}, nil
}

func (h *testHub) SetPassword(context.Context, *deckhandv1.SetPasswordRequest) (*deckhandv1.SetPasswordResponse, error) {
	return &deckhandv1.SetPasswordResponse{}, nil
}

// A limit that is not given stays as it is.
func TestTheLimitsOfTokensAreShownAndChanged(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.limits = &deckhandv1.TokenLimits{LoginWithin: durationpb.New(720 * time.Hour)}
	shown := h.run(t, "token", "limits")
	require.Equal(t, 0, shown.code, shown.stderr)
	require.Regexp(t, `(?m)^max ttl +none$`, shown.stdout)
	require.Regexp(t, `(?m)^login within +720h0m0s$`, shown.stdout)
	require.Nil(t, h.last["SetTokenLimitsRequest"], "it was only shown")

	set := h.run(t, "token", "limits", "--max-ttl", "2160h")
	require.Equal(t, 0, set.code, set.stderr)
	require.Regexp(t, `(?m)^max ttl +2160h0m0s$`, set.stdout)
	require.Equal(t, 720*time.Hour, h.limits.GetLoginWithin().AsDuration())
	h.run(t, "token", "limits", "--max-ttl", "0", "--login-within", "24h")
	require.Nil(t, h.limits.GetMaxTtl())
	require.Equal(t, 24*time.Hour, h.limits.GetLoginWithin().AsDuration())
	require.Equal(t, 2, h.run(t, "token", "limits", "--max-ttl", "-1h").code)
}

func TestAPasswordIsSetWithOrWithoutAnEndOfTheTokens(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("correct horse battery\n"), 0o600))
	for _, revoke := range []bool{false, true} {
		args := []string{"user", "password", "alice", "--password-file", file}
		if revoke {
			args = append(args, "--revoke-tokens")
		}
		got := h.run(t, args...)
		require.Equal(t, 0, got.code, got.stderr)
		request, ok := h.last["SetPasswordRequest"].(*deckhandv1.SetPasswordRequest)
		require.True(t, ok)
		require.Equal(t, revoke, request.GetRevokeTokens())
	}
}
