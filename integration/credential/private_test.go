package credential

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// A repository that is not public is read with a credential of the organisation, which is put
// into the requests of the clone on their way out and is nowhere else. Only administrators add
// such a source, and only where the credential is for the repository.
func TestAPrivateRepositoryIsReadWithACredential(t *testing.T) {
	t.Parallel()
	host := newGitHost(t, "10.98.13.1")
	host.create("docs", map[string]string{"guide.md": "# Guide\n\nThe canary host is called blackbird.\n"})
	f := harness.New(t)
	f.NodeEnv = trusting(t, host.origin)
	f.StartNode()
	file := filepath.Join(t.TempDir(), "value")
	require.NoError(t, os.WriteFile(file, []byte(gitUser+":"+gitToken), 0o600))
	f.CLI(0, "credential", "create", "git", "--kind", "basic", "--host", host.host, "--port", host.port, "--roots", host.roots, "--private",
		"--agent", "coder", "--value-file", file)

	require.Contains(t, f.CLI(1, "knowledge", "add", "docs", "--git", host.url()+"/docs.git").Err, "the repository cannot be cloned")
	require.Contains(t, f.CLI(3, "knowledge", "add", "docs", "--git", host.url()+"/docs.git", "--credential", "none").Err, "there is no credential none")
	require.Contains(t, f.CLI(4, "knowledge", "add", "docs", "--git", "https://10.98.13.9/docs.git", "--credential", "git").Err, "it goes to 10.98.13.9")
	said := f.CLI(0, "knowledge", "add", "private", "--git", host.url()+"/docs.git", "--credential", "git")
	require.Contains(t, said.Err, "1 files: 1 added")
	var found []struct{ Citation string }
	f.JSON(&found, "knowledge", "search", "canary host")
	require.Len(t, found, 1)
	require.Equal(t, "private: guide.md:3", found[0].Citation)
	authorised := 0
	for _, r := range host.seen() {
		if _, token, _ := r.BasicAuth(); token == gitToken {
			authorised++
			assert.True(t, strings.HasSuffix(r.URL.Path, "/docs.git/info/refs") || strings.HasSuffix(r.URL.Path, "/docs.git/git-upload-pack"), r.URL.Path)
			assert.Contains(t, []string{http.MethodGet, http.MethodPost}, r.Method)
		}
	}
	require.NotZero(t, authorised)

	ctx, admin := t.Context(), f.Client()
	made, err := admin.Users.CreateUser(ctx, &deckhandv1.CreateUserRequest{Name: "bob", Role: "advanced"})
	require.NoError(t, err)
	token, err := admin.Tokens.CreateToken(ctx, &deckhandv1.CreateTokenRequest{Name: "test", UserId: made.GetUser().GetId()})
	require.NoError(t, err)
	bob, err := sdk.New(sdk.Config{URL: f.URL(), Token: token.GetSecret(), Retries: -1})
	require.NoError(t, err)
	own, err := bob.Knowledge.CreateCollection(ctx, &deckhandv1.CreateCollectionRequest{Name: "own"})
	require.NoError(t, err)
	_, err = bob.Knowledge.AddSource(ctx, &deckhandv1.AddSourceRequest{CollectionId: own.GetCollection().GetId(), Source: &deckhandv1.KnowledgeSource{
		Kind: deckhandv1.KnowledgeSourceKind_KNOWLEDGE_SOURCE_KIND_GIT, Url: "https://git.example.com/docs.git", Credential: "git",
	}})
	require.True(t, sdk.IsKind(err, sdk.KindDenied), "%v", err)
	require.ErrorContains(t, err, "for administrators")
}
