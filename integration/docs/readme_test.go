package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// reader is the uid of a normal user, who exists in a user database of the test's.
const reader = 41234

// onTerminal starts a command on a pseudo terminal and collects what it shows.
func onTerminal(t *testing.T, cmd *exec.Cmd) (*os.File, *harness.Buffer, <-chan struct{}) {
	t.Helper()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120})
	require.NoError(t, err)
	out, done := &harness.Buffer{}, make(chan struct{})
	go func() {
		defer close(done)
		_, err := io.Copy(out, terminal)
		if err != nil && !errors.Is(err, syscall.EIO) { // the end of a terminal
			_, _ = fmt.Fprintln(out, err)
		}
	}()
	return terminal, out, done
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]|\r")

// The README works as it is written: root starts everything with sudo at a terminal,
// and is greeted in words; the user who ran sudo then needs no token, no sudo and no
// flag. The log is a file of JSON.
func TestTheREADMEWorksForANormalUser(t *testing.T) {
	t.Parallel()
	dir, stage := jailtest.Dir(t), t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(stage), 0o755)) //nolint:gosec // the user passes through it
	require.NoError(t, os.Chmod(stage, 0o755))               //nolint:gosec // the user passes through it
	home := filepath.Join(stage, "home")
	require.NoError(t, os.Mkdir(home, 0o700))
	require.NoError(t, os.Chown(home, reader, reader))

	// Installed, as the README says.
	install := exec.Command("make", "-s", "-C", harness.Root, "install", "PREFIX=/usr", "DESTDIR="+stage)
	install.Env = append(os.Environ(), "BIN="+filepath.Dir(harness.Binary(t, "deckhand")))
	out, err := install.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, file := range []string{
		"bin/deckhand", "bin/deckhand-node", "share/man/man1/deckhand.1.gz", "share/man/man1/deckhand-node.1.gz", "share/bash-completion/completions/deckhand",
		"share/zsh/site-functions/_deckhand", "share/fish/vendor_completions.d/deckhand.fish", "lib/systemd/system/deckhand.service", "lib/systemd/system/deckhand-node.service",
		"../etc/deckhand/up.yaml", "../etc/deckhand/node.yaml",
	} {
		data, err := os.ReadFile(filepath.Join(stage, "usr", file))
		require.NoError(t, err)
		require.NotEmpty(t, data, file)
		require.NotContains(t, string(data[:min(len(data), 2000)]), "@PROGRAM@", file)
	}

	// The user exists in a mount namespace of the test's, and not on the machine.
	passwd := filepath.Join(stage, "passwd")
	machine, err := os.ReadFile("/etc/passwd")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(passwd, fmt.Appendf(machine, "reader:x:%d:%d::%s:/bin/sh\n", reader, reader, home), 0o600))
	require.NoError(t, os.Chmod(passwd, 0o644)) //nolint:gosec // as /etc/passwd is
	program := filepath.Join(stage, "usr/bin/deckhand")
	up := exec.Command("unshare", "--mount", "--propagation", "slave", "sh", "-c", `mount --bind "$0" /etc/passwd && exec "$@"`, passwd,
		program, "up", "--data-dir", dir, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0")
	up.Env = append(os.Environ(), fmt.Sprintf("SUDO_UID=%d", reader), "DECKHAND_PRESSURE_MAX_LOAD=off", "TERM=xterm-256color")
	terminal, said, ended := onTerminal(t, up)
	t.Cleanup(func() {
		_ = up.Process.Kill() // it has ended where the test went well
		<-ended
		if t.Failed() {
			t.Log(said.String())
		}
	})
	waittest.Until(t, time.Minute, "the greeting", func() bool {
		return strings.Contains(said.String(), "Ctrl-C stops everything") || strings.Contains(said.String(), "error: ")
	})
	greeting := escapes.ReplaceAllString(said.String(), "")
	for _, want := range []string{
		"PostgreSQL  started", "hub         http://127.0.0.1:", "worker      8 slots", "/login#code=", "ssh -L ", "reader can use it without sudo",
		"deckhand provider connect anthropic", "deckhand agent apply -f personas/", filepath.Join(dir, "log/up.jsonl"),
	} {
		require.Contains(t, greeting, want)
	}

	// What the README says next, at a terminal of the user's.
	log := filepath.Join(stage, "dpkg.log")
	require.NoError(t, os.WriteFile(log, []byte(strings.Repeat("2026-11-20 10:00:00 install bash:amd64 <none> 5.2\n", 20)), 0o600))
	require.NoError(t, os.Chown(log, reader, reader))
	personas := filepath.Join(home, "personas")
	require.NoError(t, os.CopyFS(personas, os.DirFS(filepath.Join(harness.Root, "personas"))))
	ran := 0
	as := func(command string) string {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "PATH=" + filepath.Dir(program) + ":/usr/bin:/bin", "TERM=xterm-256color"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: reader, Gid: reader}}
		_, shown, done := onTerminal(t, cmd)
		<-done
		require.NoError(t, cmd.Wait(), "%s\n%s", command, shown.String())
		return escapes.ReplaceAllString(shown.String(), "")
	}
	for _, command := range documented(t, "../../README.md") {
		if strings.HasPrefix(command, "deckhand ") && !strings.HasPrefix(command, "deckhand up") {
			ran++
			as(strings.NewReplacer("/var/log/dpkg.log", log).Replace(command))
		}
	}
	require.Greater(t, ran, 2)
	require.Contains(t, as("deckhand doctor"), "connected")
	require.Contains(t, as("USER=reader SSH_CONNECTION='10.0.0.2 5000 10.0.0.7 22' deckhand open"), "reader@10.0.0.7")
	require.Contains(t, as("deckhand __complete agent show log-"), "log-triage")

	// Each task that ended has a line, and all else is in the log.
	waittest.Until(t, time.Minute, "the line of the task", func() bool { return strings.Contains(said.String(), " in ") })
	require.Regexp(t, `\d\d:\d\d:\d\d  log-triage\S*  task_\w+  succeeded in `, escapes.ReplaceAllString(said.String(), ""))
	for line := range strings.Lines(escapes.ReplaceAllString(said.String(), "")) {
		require.False(t, strings.HasPrefix(line, "{"), line)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "log/up.jsonl"))
	require.NoError(t, err)
	for line := range bytes.Lines(lines) {
		require.True(t, json.Valid(line), string(line))
	}
	info, err := os.Stat(filepath.Join(home, ".config/deckhand/config.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	// Ctrl-C at the terminal.
	_, err = terminal.Write([]byte{3})
	require.NoError(t, err)
	<-ended
	require.NoError(t, up.Wait(), said.String())
}
