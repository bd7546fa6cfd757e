package gitpush_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/gitpush"
)

var everything = gitpush.Rules{{Ref: "refs/*", Rights: []gitpush.Right{gitpush.Create, gitpush.FastForward, gitpush.Force, gitpush.Delete}}}

func TestByDefaultBranchesOfDeckhandAreCreatedAndUpdated(t *testing.T) {
	t.Parallel()
	s := serve(t, gitpush.DefaultRules())
	work := s.seed(3)
	first := commit(t, work, "first")
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/task/7")
	require.Zero(t, s.last().spooled, "nothing depends on the pack of a new branch")
	require.Equal(t, first, s.refs()["refs/heads/deckhand/task/7"])

	commit(t, work, "second")
	third := commit(t, work, "third")
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/task/7")
	require.Equal(t, 1, s.last().spooled)
	require.Equal(t, third, s.refs()["refs/heads/deckhand/task/7"])

	out, ok := run(t, work, "push", "origin", "HEAD:main")
	require.False(t, ok)
	require.Contains(t, out, "! [remote rejected] HEAD -> main (updating this reference is not allowed; a persona allows it with the push rule {ref: refs/heads/main, rights: [update]}, or with force if this is not a fast-forward)")
	out, ok = run(t, work, "push", "origin", "HEAD:refs/heads/other")
	require.False(t, ok)
	require.Contains(t, out, "! [remote rejected] HEAD -> other (creating this reference is not allowed")
	out, ok = run(t, work, "push", "origin", "HEAD:refs/tags/v1")
	require.False(t, ok)
	require.Contains(t, out, "! [remote rejected] HEAD -> v1 (creating this reference is not allowed")
	out, ok = run(t, work, "push", "origin", ":deckhand/task/7")
	require.False(t, ok)
	require.Contains(t, out, "! [remote rejected] deckhand/task/7 (deleting this reference is not allowed")
	require.Len(t, s.refs(), 2)
}

func TestAForcedUpdateIsASeparateRight(t *testing.T) {
	t.Parallel()
	s := serve(t, gitpush.DefaultRules())
	work := s.seed(2)
	pushed := commit(t, work, "first try")
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/fix")
	git(t, work, "commit", "--quiet", "--amend", "--message", "second try")
	amended := git(t, work, "rev-parse", "HEAD")
	out, ok := run(t, work, "push", "--force", "origin", "HEAD:refs/heads/deckhand/fix")
	require.False(t, ok)
	require.Contains(t, out, "! [remote rejected] HEAD -> deckhand/fix (not proven to be a fast-forward")
	require.Contains(t, out, "{ref: refs/heads/deckhand/fix, rights: [force]}")
	require.Equal(t, pushed, s.refs()["refs/heads/deckhand/fix"])

	s.judge.Rules = gitpush.Rules{{Ref: "refs/heads/deckhand/*", Rights: []gitpush.Right{gitpush.Force}}}
	git(t, work, "push", "--force", "origin", "HEAD:refs/heads/deckhand/fix")
	require.Zero(t, s.last().spooled, "nothing depends on the pack where force is allowed")
	require.Equal(t, amended, s.refs()["refs/heads/deckhand/fix"])
}

func TestAMergeOfTheRemoteBranchIsAFastForward(t *testing.T) {
	t.Parallel()
	s := serve(t, gitpush.DefaultRules())
	work := s.seed(2)
	git(t, work, "checkout", "--quiet", "-b", "mine")
	commit(t, work, "mine")
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/fix")
	git(t, work, "checkout", "--quiet", "-b", "theirs", "main")
	git(t, work, "commit", "--quiet", "--allow-empty", "--message", "theirs")
	git(t, work, "merge", "--quiet", "--no-edit", "mine")
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/fix")
	require.Equal(t, git(t, work, "rev-parse", "HEAD"), s.refs()["refs/heads/deckhand/fix"])
}

func TestAFastForwardToACommitOfTheServerIsProvenFromFetchedCommits(t *testing.T) {
	t.Parallel()
	s := serve(t, gitpush.DefaultRules())
	work := s.seed(8)
	git(t, work, "push", "origin", "HEAD~5:refs/heads/deckhand/fix")
	out, ok := run(t, work, "push", "origin", "HEAD:refs/heads/deckhand/fix")
	require.False(t, ok, "the pack is empty and proves nothing")
	require.Contains(t, out, "not proven to be a fast-forward")

	asked := 0
	lie := true
	s.judge.Commit = func(ctx context.Context, hash string) ([]byte, error) {
		asked++
		cmd := exec.CommandContext(ctx, "git", "cat-file", "commit", hash)
		cmd.Dir = s.bare
		object, err := cmd.Output()
		if lie { // as if the branch were its parent
			old := s.refs()["refs/heads/deckhand/fix"]
			object = bytes.Replace(object, []byte("\nauthor"), []byte("\nparent "+old+"\nauthor"), 1)
		}
		return object, err
	}
	_, ok = run(t, work, "push", "origin", "HEAD:refs/heads/deckhand/fix")
	require.False(t, ok, "the hash of what was fetched is another one")
	require.Equal(t, 1, asked)
	lie = false
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/fix")
	require.Equal(t, 6, asked)
	require.Equal(t, git(t, work, "rev-parse", "HEAD"), s.refs()["refs/heads/deckhand/fix"])
}

func TestWhenOneReferenceIsRefusedNothingArrives(t *testing.T) {
	t.Parallel()
	for _, options := range [][]string{nil, {"--atomic"}} {
		s := serve(t, gitpush.DefaultRules())
		work := s.seed(2)
		commit(t, work, "change")
		before := s.refs()
		out, ok := run(t, work, append(append([]string{"push"}, options...), "origin",
			"HEAD:refs/heads/deckhand/one", "HEAD:main", "HEAD:refs/heads/deckhand/two", "HEAD:refs/tags/v1")...)
		require.False(t, ok)
		require.Contains(t, out, "! [remote rejected] HEAD -> deckhand/one ("+gitpush.NotPushed+")")
		require.Contains(t, out, "! [remote rejected] HEAD -> deckhand/two ("+gitpush.NotPushed+")")
		require.Contains(t, out, "! [remote rejected] HEAD -> main (updating this reference is not allowed")
		require.Contains(t, out, "! [remote rejected] HEAD -> v1 (creating this reference is not allowed")
		require.Equal(t, before, s.refs())
		require.NotContains(t, git(t, s.bare, "count-objects"), "no objects")
		require.Len(t, s.last().updates, 4)
	}
}

func TestAtomicPushesOptionsAndTagsPass(t *testing.T) {
	t.Parallel()
	s := serve(t, everything)
	s.config("receive.advertisePushOptions", "true")
	work := s.seed(2)
	commit(t, work, "change")
	git(t, work, "tag", "--annotate", "--message", "release", "v1")
	git(t, work, "push", "--atomic", "-o", "ci.skip", "-o", "ticket=7 größer", "origin", "HEAD:main", "HEAD:refs/heads/two", "v1")
	require.Contains(t, s.last().capabilities, "atomic")
	require.Equal(t, []string{"ci.skip", "ticket=7 größer"}, s.last().options)
	require.Equal(t, git(t, work, "rev-parse", "v1"), s.refs()["refs/tags/v1"])
	git(t, work, "push", "origin", ":refs/tags/v1", ":two")
	require.Len(t, s.refs(), 1)

	// To move a tag is forced, even to a later commit.
	s.judge.Rules = gitpush.Rules{{Ref: "refs/tags/*", Rights: []gitpush.Right{gitpush.Create, gitpush.FastForward}}}
	git(t, work, "push", "origin", "HEAD:refs/tags/v2")
	commit(t, work, "later")
	out, ok := run(t, work, "push", "--force", "origin", "HEAD:refs/tags/v2")
	require.False(t, ok)
	require.Contains(t, out, "changing an existing tag counts as forced")
}

func TestASignedPushIsReadAndStaysValid(t *testing.T) {
	t.Parallel()
	s := serve(t, gitpush.DefaultRules())
	s.config("receive.certNonceSeed", "seed")
	s.config("receive.certNonceSlop", "60")
	s.config("receive.advertisePushOptions", "true")
	keys := t.TempDir()
	key := filepath.Join(keys, "key")
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput()
	require.NoError(t, err, string(out))
	public, err := os.ReadFile(key + ".pub")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(keys, "allowed"), append([]byte("* "), public...), 0o644))
	s.config("gpg.format", "ssh")
	s.config("gpg.ssh.allowedSignersFile", filepath.Join(keys, "allowed"))
	hook := "#!/bin/sh\necho \"status=$GIT_PUSH_CERT_STATUS nonce=$GIT_PUSH_CERT_NONCE_STATUS\" >" + filepath.Join(keys, "result") + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(s.bare, "hooks", "pre-receive"), []byte(hook), 0o755))

	work := s.seed(2)
	git(t, work, "config", "gpg.format", "ssh")
	git(t, work, "config", "user.signingkey", key+".pub")
	commit(t, work, "change")
	git(t, work, "push", "--signed", "-o", "ci.skip", "origin", "HEAD:refs/heads/deckhand/signed", "HEAD:refs/heads/deckhand/two")
	last := s.last()
	require.Len(t, last.updates, 2)
	require.Equal(t, "refs/heads/deckhand/signed", last.updates[0].Ref)
	require.NotEmpty(t, last.certificate.Nonce)
	require.Contains(t, last.certificate.Pusher, "SHA256:")
	require.Equal(t, []string{"ci.skip"}, last.certificate.Options)
	require.Contains(t, string(last.certificate.Text), "-----BEGIN SSH SIGNATURE-----")
	result, err := os.ReadFile(filepath.Join(keys, "result"))
	require.NoError(t, err)
	require.Regexp(t, "status=G nonce=(OK|SLOP)", string(result))

	refused, ok := run(t, work, "push", "--signed", "origin", "HEAD:main", "HEAD:refs/heads/deckhand/three")
	require.False(t, ok)
	require.Contains(t, refused, "! [remote rejected] HEAD -> main (updating this reference is not allowed")
	require.Contains(t, refused, "! [remote rejected] HEAD -> deckhand/three ("+gitpush.NotPushed+")")
}

// What gpg signs passes as it is, byte by byte: the server verifies it with gpg, and nothing of
// a signed push that is refused arrives.
func TestAPushSignedWithGPGStaysValid(t *testing.T) {
	t.Parallel()
	// Its agent listens in the folder, and the path of a socket may have 107 bytes.
	home, err := os.MkdirTemp("/tmp", "gpg")
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		_ = os.RemoveAll(home)
	})
	out, err := exec.Command("gpg", "--homedir", home, "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "Ann <ann@example.com>", "ed25519", "sign", "never").CombinedOutput()
	require.NoError(t, err, "%s", out)
	program := filepath.Join(home, "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nexec gpg --homedir "+home+" \"$@\"\n"), 0o755))
	s := serve(t, gitpush.DefaultRules())
	s.config("receive.certNonceSeed", "seed")
	s.config("receive.certNonceSlop", "60")
	s.config("gpg.program", program)
	result := filepath.Join(home, "result")
	hook := "#!/bin/sh\necho \"status=$GIT_PUSH_CERT_STATUS signer=$GIT_PUSH_CERT_SIGNER nonce=$GIT_PUSH_CERT_NONCE_STATUS\" >" + result + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(s.bare, "hooks", "pre-receive"), []byte(hook), 0o755))

	work := s.seed(2)
	git(t, work, "config", "gpg.program", program)
	git(t, work, "config", "user.signingkey", "ann@example.com")
	signed := commit(t, work, "change")
	git(t, work, "push", "--signed", "origin", "HEAD:refs/heads/deckhand/signed")
	require.Equal(t, signed, s.refs()["refs/heads/deckhand/signed"])
	last := s.last()
	require.Contains(t, last.certificate.Pusher, "ann@example.com")
	require.Contains(t, string(last.certificate.Text), "-----BEGIN PGP SIGNATURE-----")
	verified, err := os.ReadFile(result)
	require.NoError(t, err)
	require.Regexp(t, "status=G signer=Ann <ann@example.com> nonce=(OK|SLOP)", string(verified))

	require.NoError(t, os.Remove(result))
	refused, ok := run(t, work, "push", "--signed", "origin", "HEAD:main", "HEAD:refs/heads/deckhand/three")
	require.False(t, ok)
	require.Contains(t, refused, "! [remote rejected] HEAD -> main (updating this reference is not allowed")
	require.NoFileExists(t, result)
}

func TestAShallowCloneIsPushedFrom(t *testing.T) {
	t.Parallel()
	s := serve(t, gitpush.DefaultRules())
	s.seed(6)
	work := s.clone("--depth", "2")
	commit(t, work, "on a shallow clone")
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/shallow")
	require.Len(t, s.last().shallow, 1)
	last := commit(t, work, "one more")
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/shallow")
	require.Equal(t, last, s.refs()["refs/heads/deckhand/shallow"])
	require.Equal(t, 1, s.last().spooled)
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/shallow") // nothing to do
}

func TestARepositoryOfSHA256IsPushedTo(t *testing.T) {
	t.Parallel()
	s := serve(t, gitpush.DefaultRules(), "--object-format=sha256")
	work := s.seed(3, "--object-format=sha256")
	commit(t, work, "first")
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/fix")
	require.Len(t, s.last().updates[0].New, 64)
	second := commit(t, work, "second")
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/fix")
	require.Equal(t, second, s.refs()["refs/heads/deckhand/fix"])
	git(t, work, "commit", "--quiet", "--amend", "--message", "other")
	out, ok := run(t, work, "push", "--force", "origin", "HEAD:refs/heads/deckhand/fix")
	require.False(t, ok)
	require.Contains(t, out, "not proven to be a fast-forward")
}

// large adds a file that cannot be compressed.
func large(t *testing.T, folder string, bytes int64) {
	f, err := os.Create(filepath.Join(folder, "large.bin"))
	require.NoError(t, err)
	_, err = io.CopyN(f, rand.Reader, bytes)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	git(t, folder, "-c", "core.compression=0", "add", ".")
	git(t, folder, "commit", "--quiet", "--message", "large")
}

func TestALargePackIsUploadedInChunks(t *testing.T) {
	t.Parallel()
	s := serve(t, gitpush.DefaultRules())
	work := s.seed(2)
	large(t, work, 5<<20)
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/large")
	require.Len(t, s.pushes, 2)
	require.Empty(t, s.pushes[0].updates, "git sends an empty request first")
	require.False(t, s.pushes[0].chunked)
	require.True(t, s.pushes[1].chunked)
	large(t, work, 5<<20)
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/large")
	require.Equal(t, 1, s.last().spooled)
	require.Equal(t, git(t, work, "rev-parse", "HEAD"), s.refs()["refs/heads/deckhand/large"])
	git(t, s.bare, "fsck", "--strict")
}

func TestTheReasonsOfALargePushThatIsRefusedArePrinted(t *testing.T) {
	t.Parallel()
	s := serve(t, gitpush.DefaultRules())
	work := s.seed(2)
	large(t, work, 64<<20)
	out, ok := run(t, work, "push", "origin", "HEAD:main", "HEAD:refs/heads/deckhand/large")
	require.False(t, ok)
	require.True(t, s.last().chunked)
	require.Contains(t, out, "! [remote rejected] HEAD -> main (updating this reference is not allowed")
	require.Contains(t, out, "! [remote rejected] HEAD -> deckhand/large ("+gitpush.NotPushed+")")
	require.NotContains(t, out, "RPC failed")
}

func TestABodyInGzipIsReadAndForwarded(t *testing.T) {
	t.Parallel()
	s := serve(t, gitpush.DefaultRules())
	s.change = compress
	work := s.seed(2)
	for range 2 { // unseen, then through the spool
		head := commit(t, work, "change")
		git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/zip")
		require.Equal(t, head, s.refs()["refs/heads/deckhand/zip"])
	}
	require.Equal(t, 1, s.last().spooled)
}

func TestNamesThatAreNotASCIIArePushed(t *testing.T) {
	t.Parallel()
	s := serve(t, gitpush.DefaultRules())
	work := s.seed(1)
	for _, name := range []string{"refs/heads/deckhand/größe-漢字-🚀", "refs/heads/deckhand/a'b\"c;$(id)`id`&|<x>%0a#", "refs/heads/deckhand/-rf"} {
		git(t, work, "push", "origin", "HEAD:"+name)
		require.Contains(t, s.refs(), name)
		out, ok := run(t, work, "push", "origin", "HEAD:"+strings.Replace(name, "deckhand", "other", 1))
		require.False(t, ok)
		require.Contains(t, out, "[remote rejected]")
		require.Contains(t, out, "(creating this reference is not allowed")
	}
}

func TestADamagedPackIsRefusedByItsChecksum(t *testing.T) {
	t.Parallel()
	s := serve(t, gitpush.DefaultRules())
	work := s.seed(1)
	commit(t, work, "first")
	git(t, work, "push", "origin", "HEAD:refs/heads/deckhand/fix")
	before := s.refs()
	commit(t, work, "second")
	for what, damage := range map[string]func([]byte) []byte{
		"checksum of the pack is wrong": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"data follows the pack":         func(b []byte) []byte { return append(b, "more"...) },
		"the pack is incomplete":        func(b []byte) []byte { return b[:len(b)-30] },
		"is not a pack": func(b []byte) []byte {
			return append(b[:bytes.Index(b, []byte("PACK"))], "this is not a pack at all"...)
		},
	} {
		s.change = func(r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			body = damage(body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		out, ok := run(t, work, "push", "origin", "HEAD:refs/heads/deckhand/fix", "HEAD:refs/heads/deckhand/new")
		require.False(t, ok)
		require.Contains(t, out, what)
		require.Contains(t, out, "! [remote rejected] HEAD -> deckhand/fix (malformed push: ")
		require.Contains(t, out, "! [remote rejected] HEAD -> deckhand/new (malformed push: ")
		require.Equal(t, before, s.refs())
	}
}

func TestAPushThatGitSendsAndWeCannotReadIsAnHTTPError(t *testing.T) {
	t.Parallel()
	s := serve(t, everything)
	s.judge.Limits.Updates = 2
	work := s.seed(1)
	out, ok := run(t, work, "push", "origin", "HEAD:refs/heads/a", "HEAD:refs/heads/b", "HEAD:refs/heads/c")
	require.False(t, ok)
	require.Contains(t, out, "HTTP 413")
	require.Len(t, s.refs(), 1)
}
