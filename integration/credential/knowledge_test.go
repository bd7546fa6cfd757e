package credential

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Repositories and pages become documents: read through the egress of a jail that can read from
// their host only, read again when they change, and kept while their host does not respond.
func TestRepositoriesAndPagesBecomeDocuments(t *testing.T) {
	t.Parallel()
	host := newGitHost(t, "10.98.12.1")
	host.open = true
	bare := host.create("docs", map[string]string{"guide.md": "# Guide\n\nThe canary host is called blackbird.\n", "leave.md": "# Leave\n\nThirty days.\n"})
	var page atomic.Value
	page.Store("<h1>Manual</h1><p>The pager number is 4711.</p><p style='display: none'>hidden</p>")
	site := newOrigin(t, "10.98.12.2", func(w http.ResponseWriter, r *http.Request) {
		if text := page.Load(); text != "" && r.URL.Path == "/manual" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<!doctype html><title>Manual</title>"+text.(string))
			return
		}
		http.NotFound(w, r)
	})
	f := harness.New(t)
	f.NodeEnv = trusting(t, host.origin, site)
	f.StartNode()
	cited := func(words string) (out []string) {
		var found []struct{ Citation string }
		f.JSON(&found, "knowledge", "search", words)
		for _, p := range found {
			out = append(out, p.Citation)
		}
		return out
	}

	said := f.CLI(0, "knowledge", "add", "docs", "--git", host.url()+"/docs.git")
	require.Contains(t, said.Err, "2 files: 2 added")
	require.Equal(t, []string{"docs: guide.md:3"}, cited("canary host"))
	work := filepath.Join(t.TempDir(), "docs")
	host.git(host.dir, "clone", "-q", bare, work)
	require.NoError(t, os.WriteFile(filepath.Join(work, "guide.md"), []byte("# Guide\n\nThe canary host is called nightingale.\n"), 0o600))
	host.git(work, "rm", "-q", "leave.md")
	host.git(work, "commit", "-qam", "second")
	host.git(work, "push", "-q", "origin", "main")
	require.Contains(t, f.CLI(0, "knowledge", "sync", "docs").Err, "1 files: 0 added, 1 changed, 1 removed")
	require.Empty(t, cited("blackbird"))
	require.Equal(t, []string{"docs: guide.md:3"}, cited("nightingale"))
	host.git(work, "checkout", "-q", "-b", "next")
	require.NoError(t, os.MkdirAll(filepath.Join(work, "new"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(work, "new", "plan.md"), []byte("# Plan\n\nThe move is in March.\n"), 0o600))
	host.git(work, "add", "-A")
	host.git(work, "commit", "-q", "-m", "third")
	host.git(work, "push", "-q", "origin", "next")
	require.Contains(t, f.CLI(0, "knowledge", "add", "plans", "--git", host.url()+"/docs.git", "--branch", "next", "--path", "new").Err, "1 files: 1 added")
	require.Equal(t, []string{"plans: plan.md:3"}, cited("when is the move"))
	require.Contains(t, f.CLI(1, "knowledge", "add", "plans", "--git", host.url()+"/nothing.git").Err, "the repository cannot be cloned")
	require.Contains(t, f.CLI(1, "knowledge", "add", "plans", "--git", host.url()+"/docs.git", "--branch", "gone").Err, "Remote branch gone not found")

	require.Contains(t, f.CLI(0, "knowledge", "add", "manual", "--url", site.url()+"/manual").Err, "1 files: 1 added")
	require.Len(t, cited("pager number"), 1)
	require.Contains(t, cited("pager number")[0], "manual: 10.98.12.2/manual.html")
	require.Empty(t, cited("hidden"))
	page.Store("<h1>Manual</h1><p>The pager number is 4712.</p>")
	require.Contains(t, f.CLI(0, "knowledge", "sync", "manual").Err, "1 files: 0 added, 1 changed, 0 removed")
	page.Store("")
	require.Contains(t, f.CLI(1, "knowledge", "sync", "manual").Err, "the page cannot be downloaded")
	require.Len(t, cited("4712"), 1, "documents of a page that does not respond are kept")

	for _, r := range append(host.seen(), site.seen()...) {
		if r.Method != http.MethodGet {
			assert.Equal(t, http.MethodPost, r.Method)
			assert.True(t, strings.HasSuffix(r.URL.Path, ".git/git-upload-pack"), r.URL.Path)
		}
	}

	// Only administrators name addresses of private networks.
	ctx, admin := t.Context(), f.Client()
	made, err := admin.Users.CreateUser(ctx, &deckhandv1.CreateUserRequest{Name: "bob", Role: "advanced"})
	require.NoError(t, err)
	token, err := admin.Tokens.CreateToken(ctx, &deckhandv1.CreateTokenRequest{Name: "test", UserId: made.GetUser().GetId()})
	require.NoError(t, err)
	bob, err := sdk.New(sdk.Config{URL: f.URL(), Token: token.GetSecret(), Retries: -1})
	require.NoError(t, err)
	own, err := bob.Knowledge.CreateCollection(ctx, &deckhandv1.CreateCollectionRequest{Name: "own"})
	require.NoError(t, err)
	for _, address := range []string{site.url() + "/manual", "https://[::1]/", "https://169.254.169.254/latest"} {
		_, err = bob.Knowledge.AddSource(ctx, &deckhandv1.AddSourceRequest{CollectionId: own.GetCollection().GetId(), Source: &deckhandv1.KnowledgeSource{
			Kind: deckhandv1.KnowledgeSourceKind_KNOWLEDGE_SOURCE_KIND_WEB, Url: address,
		}})
		require.True(t, sdk.IsKind(err, sdk.KindDenied), "%s: %v", address, err)
	}
	conn, err := pgx.Connect(ctx, f.Database)
	require.NoError(t, err)
	defer conn.Close(ctx)
	var left int
	require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM jail_authorities").Scan(&left))
	require.Zero(t, left, "the authorities of jails that read are deleted with them")
}
