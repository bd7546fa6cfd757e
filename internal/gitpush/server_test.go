package gitpush_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/gitpush"
)

// server is git http-backend behind a judge.
type server struct {
	t       *testing.T
	url     string
	bare    string // the repository
	judge   *gitpush.Judge
	backend http.Handler
	// change is applied to a push before it is read, if it is not nil.
	change func(*http.Request)
	// onPush is called with each push that is forwarded, if it is not nil.
	onPush func(*gitpush.Push)

	mu     sync.Mutex
	pushes []seen
}

// seen is a push as it arrived.
type seen struct {
	updates      []gitpush.Update
	capabilities []string
	options      []string
	certificate  *gitpush.Certificate
	shallow      []string
	chunked      bool
	spooled      int
	refused      []gitpush.Refusal
}

// serve starts a server with an empty repository.
func serve(t *testing.T, rules gitpush.Rules, initOptions ...string) *server {
	root := t.TempDir()
	s := &server{t: t, bare: filepath.Join(root, "team", "app.git")}
	s.judge = &gitpush.Judge{Rules: rules}
	spools := gitpush.FileSpool(t.TempDir())
	s.judge.Spool = func() (gitpush.Spool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pushes[len(s.pushes)-1].spooled++
		return spools()
	}
	git(t, root, append([]string{"init", "--quiet", "--bare", "--initial-branch=main", s.bare}, initOptions...)...)
	s.config("http.receivepack", "true")
	path, err := exec.Command("git", "--exec-path").Output()
	require.NoError(t, err)
	s.backend = &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:    append([]string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}, environment(t)...),
		Stderr: io.Discard,
	}
	listener := httptest.NewServer(s)
	t.Cleanup(listener.Close)
	s.url = listener.URL + "/team/app.git"
	return s
}

func (s *server) config(key, value string) {
	git(s.t, s.bare, "config", key, value)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !gitpush.Is(r) {
		s.backend.ServeHTTP(w, r)
		return
	}
	if s.change != nil {
		s.change(r)
	}
	chunked := r.ContentLength < 0
	push, err := gitpush.ReadRequest(r, s.judge.Limits)
	if err != nil {
		_ = gitpush.Fail(w, nil, err, s.judge.Limits)
		return
	}
	defer push.Close()
	s.mu.Lock()
	s.pushes = append(s.pushes, seen{
		updates: push.Updates, capabilities: push.Capabilities, options: push.Options,
		certificate: push.Certificate, shallow: push.Shallow, chunked: chunked,
	})
	s.mu.Unlock()
	refusals, err := s.judge.Judge(r.Context(), push)
	if err != nil {
		_ = gitpush.Fail(w, push, err, s.judge.Limits)
		return
	}
	if len(refusals) > 0 {
		s.mu.Lock()
		s.pushes[len(s.pushes)-1].refused = refusals
		s.mu.Unlock()
		_ = gitpush.Refuse(w, push, refusals, s.judge.Limits)
		return
	}
	if s.onPush != nil {
		s.onPush(push)
	}
	if err := push.Forward(r); err != nil {
		_ = gitpush.Fail(w, push, err, s.judge.Limits)
		return
	}
	s.backend.ServeHTTP(w, r)
}

// last returns the last push that changes a reference.
func (s *server) last() seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.pushes, func(p seen) bool { return len(p.updates) > 0 })
	require.GreaterOrEqual(s.t, i, 0, "no push arrived")
	return s.pushes[len(s.pushes)-1]
}

// refs returns the references of the repository and what they are at.
func (s *server) refs() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(git(s.t, s.bare, "for-each-ref", "--format=%(refname) %(objectname)")) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[name] = id
	}
	return out
}

// clone returns a clone of the repository.
func (s *server) clone(options ...string) string {
	folder := filepath.Join(s.t.TempDir(), "clone")
	git(s.t, "", append(append([]string{"clone", "--quiet"}, options...), s.url, folder)...)
	return folder
}

// seed fills the repository with commits on main, and returns a clone.
func (s *server) seed(commits int, initOptions ...string) string {
	folder := s.t.TempDir()
	git(s.t, folder, append([]string{"init", "--quiet", "--initial-branch=main"}, initOptions...)...)
	for range commits {
		commit(s.t, folder, "start")
	}
	git(s.t, folder, "push", "--quiet", s.bare, "main")
	git(s.t, folder, "remote", "add", "origin", s.url)
	git(s.t, folder, "fetch", "--quiet", "origin")
	return folder
}

// environment makes git independent of the machine's and the user's configuration.
func environment(t *testing.T) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(os.TempDir(), "no-home"), "LC_ALL=C.UTF-8",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
		"TMPDIR=" + os.TempDir(),
	}
}

// run runs git and returns what it printed, and whether it succeeded.
func run(t *testing.T, folder string, arguments ...string) (string, bool) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), "git", arguments...)
	cmd.Dir, cmd.Env = folder, environment(t)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func git(t *testing.T, folder string, arguments ...string) string {
	t.Helper()
	out, ok := run(t, folder, arguments...)
	require.True(t, ok, "git %s: %s", strings.Join(arguments, " "), out)
	return strings.TrimSpace(out)
}

// commit makes a commit that changes a file, and returns its hash.
func commit(t *testing.T, folder, subject string) string {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(folder, "file.txt"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.WriteString(subject + "\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	git(t, folder, "add", ".")
	git(t, folder, "commit", "--quiet", "--message", subject)
	return git(t, folder, "rev-parse", "HEAD")
}

// compress sends a body in gzip, as some clients do.
func compress(r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(body)
	_ = z.Close()
	r.Header.Set("Content-Encoding", "gzip")
	r.Body, r.ContentLength = io.NopCloser(&out), int64(out.Len())
}
