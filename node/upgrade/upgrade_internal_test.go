package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/version"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/upgrade/upgradetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// program says a version, and does what then says when it is started.
func program(version, then string) []byte {
	return fmt.Appendf(nil, "#!/bin/sh\n[ \"$1\" != --version ] || { echo deckhand-node version %s; exit; }\n%s\n", version, then)
}

// Only a newer release that the machine's key has signed, as the hub named it, is accepted.
func TestOnlyANewerReleaseOfTheKeyIsAccepted(t *testing.T) {
	t.Parallel()
	const release = "9.1.0"
	key, served := upgradetest.NewKey(t), t.TempDir()
	public := key.PublicFile(t)
	publicText, err := os.ReadFile(public)
	require.NoError(t, err)
	files, turned := http.StripPrefix(Path, http.FileServer(http.Dir(served))), map[string]bool{}
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// It is busy at first, and then breaks off.
		switch name := r.URL.Path; {
		case !turned[name]:
			turned[name] = true
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.Contains(name, ProgramFile) && !turned["broken"]:
			turned["broken"] = true
			w.Header().Set("Content-Length", "1000000")
			_, _ = w.Write([]byte("#!/bin/sh\nexit 1\n")) // it is cut off
		default:
			files.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(hub.Close)
	dir := t.TempDir()
	u, err := New(Config{Key: public, Dir: dir, HubURL: func() string { return hub.URL }, Log: hclog.NewNullLogger()})
	require.NoError(t, err)
	require.Nil(t, u.Last())
	good := program(release, "exit 1")
	digest := upgradetest.Release(t, served, key, release, good)
	ready, err := u.Prepare(t.Context(), &nodev1.UpgradeRequest{Id: "rollout_1", Version: release, Digest: digest})
	require.NoError(t, err)
	require.Equal(t, release, ready.Version)
	got, err := os.ReadFile(ready.Program)
	require.NoError(t, err)
	require.Equal(t, good, got)

	// One at a time: what is installed is what was tried.
	again := &nodev1.UpgradeRequest{Id: "rollout_2", Version: release, Digest: digest}
	_, err = u.Prepare(t.Context(), again)
	require.True(t, fault.Is(err, fault.Aborted), "%v", err)
	tried, err := New(Config{Key: public, Dir: dir, Trial: true, HubURL: func() string { return hub.URL }, Log: hclog.NewNullLogger()})
	require.NoError(t, err)
	_, err = tried.Prepare(t.Context(), again)
	require.True(t, fault.Is(err, fault.Aborted), "%v", err)
	require.FileExists(t, ready.Program, "a trial removes nothing")
	u.Drop(ready)

	write := func(name string, text []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(served, name), text, 0o600))
	}
	for _, c := range []struct {
		name    string
		version string
		do      func()
		says    string
	}{
		{"an older release", "0.0.9", func() {}, "which is newer than 0.0.9"},
		{"the same release", version.Version, func() {}, "runs " + version.Version + " already"},
		{"what is no version", "latest", func() {}, "is no version"},
		{"a version that was signed otherwise", "9.2.0", func() {}, `it is signed as "9.1.0", and 9.2.0 was ordered`},
		{"another key", release, func() {
			upgradetest.Release(t, served, upgradetest.NewKey(t), release, good)
		}, "not by this machine's release key"},
		{"digests that were changed afterwards", release, func() {
			sum := sha256.Sum256(good)
			write(SumsFile, []byte(hex.EncodeToString(sum[:])+"  deckhand-node-linux-amd64\n"+hex.EncodeToString(sum[:])+"  deckhand-node-linux-arm64\n"))
		}, "not by this machine's release key"},
		{"a comment that was changed afterwards", release, func() {
			text, err := os.ReadFile(filepath.Join(served, SignatureFile))
			require.NoError(t, err)
			write(SignatureFile, []byte(strings.ReplaceAll(string(text), release, "9.9.9")))
		}, "not by this machine's release key"},
		{"no signature", release, func() { write(SignatureFile, []byte("trusted comment: Deckhand\n")) }, "is not a signature"},
		{"another program", release, func() {
			entries, err := filepath.Glob(filepath.Join(served, ProgramFile+"*"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(entries[0], program(release, "exit 2"), 0o600))
		}, "another digest than the release"},
		{"a program that does not run here", release, func() { digest = upgradetest.Release(t, served, key, release, []byte("MZ")) }, "does not run here"},
		{"another digest than was ordered", release, func() { upgradetest.Release(t, served, key, release, program(release, "true")) }, "is another than what was ordered"},
		{"no key", release, func() { require.NoError(t, os.Remove(public)) }, "this machine has no release key"},
	} {
		digest = upgradetest.Release(t, served, key, release, good)
		c.do()
		_, err := u.Prepare(t.Context(), &nodev1.UpgradeRequest{Id: "rollout_1", Version: c.version, Digest: digest})
		require.ErrorContains(t, err, c.says, c.name)
	}

	// Another program came in its place.
	other, err := os.Stat(dir)
	require.NoError(t, err)
	u.running = other
	upgradetest.Release(t, served, key, release, good)
	require.NoError(t, os.WriteFile(public, publicText, 0o600))
	_, err = u.Prepare(t.Context(), &nodev1.UpgradeRequest{Id: "rollout_1", Version: release, Digest: digest})
	require.ErrorContains(t, err, "was replaced since this node started")
	left, err := filepath.Glob(filepath.Join(dir, ".download-*"))
	require.NoError(t, err)
	require.Empty(t, left)

	// What was left of upgrades that were interrupted goes at the next start.
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".download-1"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, previousFile), nil, 0o600))
	_, err = New(Config{Dir: dir, Log: hclog.NewNullLogger()})
	require.NoError(t, err)
	entries, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, previousFile)}, entries)
}

// A program is accepted once it has said that it has a session, and stopped whatever it does.
func TestAProgramIsTriedBeforeItReplacesTheOldOne(t *testing.T) {
	t.Parallel()
	try := func(then string, patience time.Duration) error {
		dir := t.TempDir()
		r := &Ready{Program: filepath.Join(dir, "deckhand-node"), Version: "9.1.0", self: filepath.Join(dir, "self"), dir: dir, patience: patience, log: hclog.NewNullLogger()}
		require.NoError(t, os.WriteFile(r.Program, program("9.1.0", then), 0o700)) //nolint:gosec // a program
		return r.try(t.Context(), []string{"deckhand-node", "--name", "web-1"}, append(os.Environ(), "NOTIFY_SOCKET=/run/none"))
	}
	long := waittest.Limit(time.Minute)
	require.NoError(t, try(`[ "$2" = web-1 ] && [ -z "$NOTIFY_SOCKET" ] || exit 1
trap 'exit 0' TERM; echo linked >&3; while :; do sleep 0.05; done`, long))
	require.ErrorContains(t, try("exit 3", long), "ended before it had a session with the hub")
	require.ErrorContains(t, try("exec 3>&-; exec sleep 100", long), "ended before")
	require.ErrorContains(t, try("exec sleep 100", 100*time.Millisecond), "had no session with the hub within")

	dir := t.TempDir()
	r := &Ready{ID: "rollout_1", Program: filepath.Join(dir, "new"), Version: "9.1.0", self: filepath.Join(dir, "deckhand-node"), dir: filepath.Join(dir, "kept"), log: hclog.NewNullLogger()}
	require.NoError(t, os.Mkdir(r.dir, 0o700))
	require.NoError(t, os.WriteFile(r.Program, []byte("new"), 0o600))
	require.NoError(t, os.WriteFile(r.self, []byte("old"), 0o600))
	sum := sha256.Sum256([]byte("new"))
	r.digest = hex.EncodeToString(sum[:])
	var err error
	r.running, err = os.Stat(r.Program)
	require.NoError(t, err)
	require.ErrorContains(t, r.install(), "was replaced since this node started")
	r.running, err = os.Stat(r.self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(r.Program, []byte("another"), 0o600))
	require.ErrorContains(t, r.install(), "is not what was verified")
	require.NoError(t, os.WriteFile(r.Program, []byte("new"), 0o600))
	require.NoError(t, r.install())
	for path, want := range map[string]string{r.self: "new", filepath.Join(r.dir, previousFile): "old"} {
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}

	// A machine that failed during the trial runs the old program, and says so.
	r.record("tried", "")
	open := func(trial bool) *Upgrader {
		u, err := New(Config{Dir: r.dir, Trial: trial, Log: hclog.NewNullLogger()})
		require.NoError(t, err)
		return u
	}
	require.Equal(t, nodev1.SessionResponse_Upgrade_STATE_TRIED, open(true).Last().GetState())
	last := open(false).Last()
	require.Equal(t, nodev1.SessionResponse_Upgrade_STATE_FAILED, last.GetState())
	require.Contains(t, last.GetProblem(), "during the trial")
	require.Equal(t, "rollout_1", last.GetId())

	// Unless it failed after the program was replaced.
	r.Version = version.Version
	r.record("tried", "")
	require.Equal(t, nodev1.SessionResponse_Upgrade_STATE_INSTALLED, open(false).Last().GetState())
	r.Version = "9.1.0"

	// Told to stop, it ends the trial.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, os.WriteFile(r.Program, program("9.1.0", "exec sleep 100"), 0o700)) //nolint:gosec // a program
	r.patience = long
	require.NoError(t, r.Take(ctx, []string{"deckhand-node"}, os.Environ()))
	require.Equal(t, nodev1.SessionResponse_Upgrade_STATE_FAILED, open(false).Last().GetState())
}
