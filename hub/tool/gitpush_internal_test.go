package tool

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// repository is a clone of one that git http-backend serves with TLS.
type repository struct {
	t         *testing.T
	dir, bare string
	url       string
	env       []string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	root := t.TempDir()
	r := &repository{t: t, dir: filepath.Join(root, "work"), bare: filepath.Join(root, "srv", "app.git")}
	// Nothing of the machine's own configuration, nor of this repository's hooks.
	r.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com"}
	r.command(root, "init", "--quiet", "--bare", "--initial-branch=main", r.bare)
	r.command(r.bare, "config", "http.receivepack", "true")
	core, err := exec.Command("git", "--exec-path").Output()
	require.NoError(t, err)
	s := httptest.NewTLSServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Join(root, "srv"), "GIT_HTTP_EXPORT_ALL=1", "HOME=" + root},
	})
	t.Cleanup(s.Close)
	roots := filepath.Join(root, "roots.pem")
	require.NoError(t, os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	r.env = append(r.env, "GIT_SSL_CAINFO="+roots)
	r.url = s.URL + "/app.git"
	r.command(root, "init", "--quiet", "--initial-branch=main", r.dir)
	r.git("remote", "add", "origin", r.url)
	r.commit("README", "hello\n", "first")
	r.git("push", "--quiet", "origin", "main")
	r.git("checkout", "--quiet", "-b", "deckhand/fix")
	return r
}

func (r *repository) command(dir string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, r.env
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, "git %s: %s", strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	return r.command(r.dir, args...)
}

func (r *repository) write(name, content string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o755)) //nolint:gosec // some are scripts
}

// commit commits a file, and returns the commit's id.
func (r *repository) commit(name, content, subject string) string {
	r.t.Helper()
	r.write(name, content)
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message", subject)
	return r.git("rev-parse", "HEAD")
}

// remote returns where a branch of the remote is; "" if it is not there.
func (r *repository) remote(branch string) string {
	r.t.Helper()
	cmd := exec.Command("git", "rev-parse", "--verify", "--quiet", "refs/heads/"+branch)
	cmd.Dir, cmd.Env = r.bare, r.env
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// run runs the script as it runs in a jail, and returns the facts, the rest and the exit status.
func (r *repository) run(mode string, arguments map[string]any, approved *push) (facts map[string]string, rest string, status int) {
	r.t.Helper()
	line, err := gitPushLine(mode, arguments, approved)
	require.NoError(r.t, err)
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", line)
	cmd.Env = append(r.env, "GIT_EXTERNAL_DIFF=touch "+filepath.Join(r.dir, "..", "ran"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		require.NoError(r.t, err)
	}
	facts, rest = factsOf(string(out))
	return facts, rest, status
}

func (r *repository) arguments(more ...any) map[string]any {
	out := map[string]any{"ref": "deckhand/fix", "path": r.dir}
	for i := 0; i < len(more); i += 2 {
		out[fmt.Sprint(more[i])] = more[i+1]
	}
	return out
}

// inspect returns what would be pushed, and what a person sees of it.
func (r *repository) inspect(more ...any) (push, string) {
	r.t.Helper()
	facts, rest, status := r.run("inspect", r.arguments(more...), nil)
	require.Zero(r.t, status, "%v %s", facts, rest)
	i, err := pushInspection("refs/heads/deckhand/fix", facts, strings.TrimPrefix(rest, "\n"), false)
	require.NoError(r.t, err)
	require.Nil(r.t, i.Refused)
	var p push
	require.NoError(r.t, json.Unmarshal([]byte(i.State), &p))
	return p, i.Preview
}

// Neither many commits with long subjects nor many files with long names keep the diff of a
// push from being shown.
func TestALargeLogLeavesTheDiffInSight(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	var in strings.Builder
	const who = "Ann <ann@example.com> 1700000000 +0000"
	for i := range 250 {
		subject := strings.Repeat("much to say ", 30)
		fmt.Fprintf(&in, "commit refs/heads/deckhand/fix\ncommitter %s\ndata %d\n%s\n", who, len(subject), subject)
		if i == 0 {
			in.WriteString("from refs/heads/main\n")
		}
		name := fmt.Sprintf("z-%03d-%s", i, strings.Repeat("long", 40))
		fmt.Fprintf(&in, "M 100644 inline %s\ndata 1\n1\n", name)
	}
	in.WriteString("M 100644 inline a.txt\ndata 11\nthe change\n\n")
	cmd := exec.Command("git", "fast-import", "--quiet", "--force")
	cmd.Dir, cmd.Env, cmd.Stdin = r.dir, r.env, strings.NewReader(in.String())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	_, shown := r.inspect()
	shown = cut(shown, maxInspection)
	assert.Contains(t, shown, "250 commits")
	assert.Equal(t, 2, strings.Count(shown, "[... the rest is not shown]"))
	assert.Contains(t, shown, "+the change")
}

// What was inspected is pushed, and nothing that was committed since.
func TestAPushIsOfWhatWasInspected(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	one := r.commit("one.txt", "1\n", "add one")
	two := r.commit("two.txt", "2\n", "add two")
	p, shown := r.inspect()
	assert.Equal(t, push{Ref: "refs/heads/deckhand/fix", Old: "-", New: two, URL: r.url}, p)
	assert.Contains(t, shown, "2 commits")
	assert.Contains(t, shown, two+" Ann <ann@example.com> add two\n"+one+" Ann <ann@example.com> add one\n")
	assert.Contains(t, shown, "+++ b/one.txt")
	assert.Contains(t, shown, "+2\n")
	assert.NotContains(t, shown, "README", "the remote has it")

	r.commit("late.txt", "late\n", "add late")
	_, rest, status := r.run("push", r.arguments(), &p)
	require.Zero(t, status, rest)
	assert.Equal(t, two, r.remote("deckhand/fix"))

	// Once more has nothing to do, as after a crash.
	_, rest, status = r.run("push", r.arguments(), &p)
	require.Zero(t, status, rest)

	// The branch is there now.
	p, shown = r.inspect()
	assert.Equal(t, two, p.Old)
	assert.Contains(t, shown, "1 commits")
	assert.Contains(t, shown, "+late\n")
	assert.NotContains(t, shown, "+++ b/one.txt")

	// Somebody else pushes meanwhile: nothing of theirs is lost.
	r.command(r.bare, "update-ref", "refs/heads/deckhand/fix", one)
	_, rest, status = r.run("push", r.arguments(), &p)
	require.NotZero(t, status)
	assert.Contains(t, rest, "(stale info)")
	assert.Equal(t, one, r.remote("deckhand/fix"))
}

// Commits of the remote are replaced only with force, and it is said.
func TestAPushThatReplacesCommitsNeedsForce(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.commit("one.txt", "1\n", "add one")
	r.git("push", "--quiet", "origin", "deckhand/fix")
	r.git("commit", "--quiet", "--amend", "--message", "add one, better")
	facts, _, status := r.run("inspect", r.arguments(), nil)
	require.Equal(t, exitRefused, status)
	require.Equal(t, "diverged", facts["refused"])
	facts, _, status = r.run("push", r.arguments(), nil)
	require.Equal(t, exitRefused, status)
	require.Equal(t, "diverged", facts["refused"])
	p, shown := r.inspect("force", true)
	assert.Contains(t, shown, "THIS REPLACES THE BRANCH: 1 commits")
	_, rest, status := r.run("push", r.arguments("force", true), &p)
	require.Zero(t, status, rest)
	assert.Equal(t, p.New, r.remote("deckhand/fix"))
	facts, _, status = r.run("push", r.arguments(), nil)
	assert.Equal(t, exitRefused, status)
	assert.Equal(t, "same", facts["refused"])
}

// The repository is the agent's own: nothing that it configures runs, and what it pretends is
// not believed.
func TestARepositoryNeitherRunsNorHidesAnything(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.write(".gitattributes", "*.go -diff\n*.txt diff=own\n")
	r.commit("main.go", "package evil\n", "add main")
	real := r.commit("note.txt", "plain text\x1b[2J\n", "a \u202esubject")
	ran := filepath.Join(r.dir, "..", "ran")
	hook := "#!/bin/sh\ntouch " + ran + "\n"
	r.write(".git/hooks/pre-push", hook)
	r.write(".git/own", hook)
	own := filepath.Join(r.dir, ".git", "own")
	for key, value := range map[string]string{
		"core.fsmonitor": own, "core.hooksPath": filepath.Join(r.dir, ".git", "hooks"), "core.pager": own, "pager.log": own, "pager.diff": own, "diff.external": own,
		"diff.own.textconv": own, "diff.own.command": own, "core.sshCommand": own, "core.askPass": own, "credential.helper": "!" + own, "gpg.program": own,
		"log.showSignature": "true", "push.gpgSign": "true", "diff.noprefix": "true", "color.ui": "always", "push.followTags": "true", "log.date": "relative",
	} {
		r.git("config", key, value)
	}
	// A remote that has the URL as its name would send the push elsewhere.
	r.git("config", "remote."+r.url+".pushurl", "https://evil.invalid/prod.git")
	r.git("config", "diff.ignoreSubmodules", "all")
	r.git("config", "http.proxy", "http://127.0.0.1:9")
	// The real commit looks like another one, with another message, to whoever believes refs/replace.
	other := r.git("commit-tree", "-p", "HEAD~1", "-m", "harmless", "HEAD~1^{tree}")
	r.git("update-ref", "refs/replace/"+real, other)
	// It pretends that the remote has the first commit already.
	r.git("update-ref", "refs/remotes/origin/main", real)

	p, shown := r.inspect()
	assert.Equal(t, real, p.New)
	assert.Contains(t, shown, "2 commits")
	assert.Contains(t, shown, "+package evil")
	assert.Contains(t, shown, "+++ b/note.txt")
	assert.Contains(t, shown, "+plain text\x1b[2J")
	assert.Contains(t, shown, "a \u202esubject")
	assert.NotContains(t, shown, "harmless")
	_, rest, status := r.run("push", r.arguments(), &p)
	require.Zero(t, status, rest)
	assert.Equal(t, real, r.remote("deckhand/fix"))
	assert.NoFileExists(t, ran)
}

func TestAPushThatCannotBeMadeSaysWhy(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	refused := func(word string, more ...any) {
		t.Helper()
		facts, rest, status := r.run("inspect", r.arguments(more...), nil)
		require.Equal(t, exitRefused, status, rest)
		said, _, _ := strings.Cut(facts["refused"], " ")
		require.Equal(t, word, said)
		e := pushRefused(facts["refused"], "refs/heads/x", rest)
		require.NotEmpty(t, e.Message)
		require.NotEmpty(t, e.Fix)
	}
	refused("no-branch", "ref", "refs/heads/none")
	refused("no-remote", "remote", "upstream")
	refused("no-folder", "path", r.dir+"/it's not there")
	refused("no-repository", "path", t.TempDir())
	refused("same", "ref", "main")
	r.git("remote", "add", "ssh", "ssh://git@example.com/app.git")
	refused("not-https", "remote", "ssh")
	r.git("remote", "add", "own", "https://user:password@example.com/app.git")
	refused("password", "remote", "own")
	r.git("remote", "add", "away", strings.TrimSuffix(r.url, "app.git")+"gone.git")
	refused("unreachable", "remote", "away")
	r.git("config", "--add", "remote.own.url", r.url)
	refused("several-urls", "remote", "own")
	r.git("config", "url.https://evil.test/.pushInsteadOf", "https://")
	refused("rewritten")

	for _, ref := range []string{"-x", "a..b", "refs/tags/v1", "refs/heads/refs/heads/x", "a b", "x'; touch y; '"} {
		_, err := gitPushLine("push", map[string]any{"ref": ref}, nil)
		require.Error(t, err, ref)
	}
}
