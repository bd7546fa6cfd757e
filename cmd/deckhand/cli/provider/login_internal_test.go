package provider

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The address that is shown asks for a code with PKCE and a state; a code
// that comes with another state is not taken.
func TestALoginTakesTheCodeThatItAskedFor(t *testing.T) {
	t.Parallel()
	shown, notes := io.Pipe()
	e := &env.Env{Err: notes}
	p, ok := provider.Of("gemini")
	require.True(t, ok)
	type ended struct {
		login *deckhandv1.ProviderLogin
		err   error
	}
	done := make(chan ended, 1)
	go func() {
		login, err := logIn(t.Context(), e, p, &loginFlags{clientID: "client-1"})
		done <- ended{login, err}
	}()
	var asked *url.URL
	for lines := bufio.NewScanner(shown); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), p.Login.AuthURL) {
			var err error
			asked, err = url.Parse(lines.Text())
			require.NoError(t, err)
			break
		}
	}
	require.NotNil(t, asked)
	go func() { _, _ = io.Copy(io.Discard, shown) }()
	q := asked.Query()
	require.Equal(t, []string{"client-1", "S256", "offline", "consent", "code", strings.Join(p.Login.Scopes, " ")},
		[]string{q.Get("client_id"), q.Get("code_challenge_method"), q.Get("access_type"), q.Get("prompt"), q.Get("response_type"), q.Get("scope")})
	come := func(state string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, q.Get("redirect_uri")+"?"+url.Values{"code": {"code-of-" + state}, "state": {state}}.Encode(), nil)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		return res.StatusCode
	}
	require.Equal(t, http.StatusBadRequest, come("another"))
	require.Equal(t, http.StatusOK, come(q.Get("state")))
	got := <-done
	require.NoError(t, got.err)
	require.Equal(t, "code-of-"+q.Get("state"), got.login.GetCode())
	require.Equal(t, q.Get("redirect_uri"), got.login.GetRedirectUrl())
	require.Equal(t, q.Get("code_challenge"), oauth2.S256ChallengeFromVerifier(got.login.GetCodeVerifier()))
}
