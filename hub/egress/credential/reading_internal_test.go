package credential

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A sync's credential is for the two requests of a clone of its repository.
func TestOnlyACloneOfTheRepositoryGetsTheCredential(t *testing.T) {
	t.Parallel()
	repository, err := url.Parse("https://git.example/team/docs.git")
	require.NoError(t, err)
	for request, want := range map[string]bool{
		"GET https://git.example/team/docs.git/info/refs?service=git-upload-pack":      true,
		"GET https://git.example:443/team/docs.git/info/refs?service=git-upload-pack":  true,
		"POST https://git.example/team/docs.git/git-upload-pack":                       true,
		"GET https://git.example/team/docs.git/info/refs?service=git-receive-pack":     false,
		"POST https://git.example/team/docs.git/git-receive-pack":                      false,
		"GET https://other.example/team/docs.git/info/refs?service=git-upload-pack":    false,
		"GET https://git.example:8443/team/docs.git/info/refs?service=git-upload-pack": false,
		"GET https://git.example/team/secret.git/info/refs?service=git-upload-pack":    false,
		"GET https://git.example/team/docs.git/git-upload-pack":                        false,
		"DELETE https://git.example/team/docs.git/info/refs?service=git-upload-pack":   false,
		"GET https://git.example/team/docs.git/info/refs":                              false,
	} {
		method, address, _ := strings.Cut(request, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		require.NoError(t, err)
		require.Equal(t, want, isClone(req, repository), request)
	}
}
