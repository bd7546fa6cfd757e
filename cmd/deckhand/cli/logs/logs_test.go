package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/logs"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// screen is standard output, read while it is written.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// show runs the command, and returns what it wrote and why it failed.
func show(ctx context.Context, t *testing.T, stdin string, out *screen, args ...string) (notes string, err error) {
	t.Helper()
	var errs bytes.Buffer
	e := &env.Env{
		In: strings.NewReader(stdin), Out: out, Err: &errs, Format: output.Table,
		Now: func() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) },
	}
	cmd := logs.Command(e)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(ctx)
	return errs.String(), err
}

const (
	hubLog = `{"@level":"info","@message":"hub is ready","@module":"hub","@timestamp":"2026-01-01T10:00:00.000Z"}
{"@level":"warn","@message":"call failed","@module":"hub.api","@timestamp":"2026-01-01T11:00:01.000Z","correlation_id":"c1","error":"no \u001b[31m"}
{"@level":"info","@message":"a call runs","@module":"hub.step","@timestamp":"2026-01-01T11:00:03.000Z","task_id":"task_a","step_id":"step_1","exec_id":"step_1"}
panic: what
{"@level":"error","@message":"of another","@module":"hub.step","@timestamp":"2026-01-01T11:00:04.000Z","task_id":"task_b","correlation_id":"c1"}
`
	workerLog = `{"@level":"info","@message":"claimed","@module":"worker","@timestamp":"2026-01-01T12:00:02.000+01:00","task_id":"task_a","attempt":1,"correlation_id":"c1"}
`
	nodeLog = `{"@level":"info","@message":"a command ended","@module":"deckhand-node.exec","@timestamp":"2026-01-01T11:00:03.500Z","exec_id":"step_1_2","node_id":"node_1"}
{"@level":"info","@message":"another ended","@module":"deckhand-node.exec","@timestamp":"2026-01-01T11:00:05.000Z","exec_id":"step_9","node_id":"node_1","correlation_id":"c1"}
{"@level":"info","@message":"a jail was made","@module":"deckhand-node.jail","@timestamp":"2026-01-01T11:00:06.000Z","jail_id":"jail_1","correlation_id":"c1"}
`
)

// written writes the logs of three roles, and returns their files.
func written(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	var out []string
	for name, text := range map[string]string{"hub": hubLog, "worker": workerLog, "node": nodeLog} {
		path := filepath.Join(dir, name+".jsonl")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		out = append(out, path)
	}
	return out
}

// messages returns the messages of lines in JSON.
func messages(text string) (out []string) {
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(line, `"@message":"`)
		message, _, _ := strings.Cut(rest, `"`)
		out = append(out, message)
	}
	return out
}

func TestOneTaskIsFollowedThroughAllRoles(t *testing.T) {
	t.Parallel()
	files := written(t)
	for name, c := range map[string]struct {
		flags []string
		want  []string
	}{
		"all, by time": {nil, []string{"hub is ready", "call failed", "claimed", "a call runs", "a command ended", "of another", "another ended", "a jail was made"}},
		// The call of its request came before the line that says whose it is. The other command is
		// one of a subtask, whose request is the same.
		"a task":              {[]string{"--task", "task_a"}, []string{"call failed", "claimed", "a call runs", "a command ended", "a jail was made"}},
		"a task, by its head": {[]string{"--task", "task_b"}, []string{"call failed", "of another", "a jail was made"}},
		"a step":              {[]string{"--step", "step_1"}, []string{"a call runs", "a command ended"}},
		"a node":              {[]string{"--node", "node_1"}, []string{"a command ended", "another ended"}},
		"a role":              {[]string{"--role", "worker"}, []string{"claimed"}},
		"a level":             {[]string{"--level", "warn"}, []string{"call failed", "of another"}},
		"since a time":        {[]string{"--since", "2026-01-01T11:00:03.5Z"}, []string{"a command ended", "of another", "another ended", "a jail was made"}},
		"for an hour":         {[]string{"--since", "59m57s"}, []string{"a call runs", "a command ended", "of another", "another ended", "a jail was made"}},
		"some":                {[]string{"--task", "task_a", "--role", "node", "--level", "info"}, []string{"a command ended", "a jail was made"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := &screen{}
			notes, err := show(t.Context(), t, "", out, append(append([]string{"--json"}, c.flags...), files...)...)
			require.NoError(t, err)
			require.Equal(t, c.want, messages(out.String()))
			require.Contains(t, notes, "skipped 1 line that")
		})
	}
}

// journaled adds the lines of a unit to the journal in a folder, the later the higher its
// number: in a file of its own, by systemd's own writer.
func journaled(t *testing.T, dir string, number int, unit, log string) {
	t.Helper()
	var text strings.Builder
	at := time.Date(2026, 1, 1, 11, number, 0, 0, time.UTC)
	for line := range strings.Lines(log) {
		at = at.Add(time.Second)
		fmt.Fprintf(&text, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%[1]d\n_BOOT_ID=4a1d5c5f2a7b4cf3a2a2a7a0a1b2c3d4\n_SYSTEMD_UNIT=%s\nMESSAGE=%s\n\n",
			at.UnixMicro(), unit, strings.TrimSpace(line))
	}
	input := filepath.Join(t.TempDir(), "export")
	require.NoError(t, os.WriteFile(input, []byte(text.String()), 0o600))
	said, err := exec.CommandContext(t.Context(), "/lib/systemd/systemd-journal-remote", "-o", filepath.Join(dir, fmt.Sprintf("test%d.journal", number)), input).CombinedOutput()
	require.NoError(t, err, "%s", said)
}

// The journal that systemd's own writer has made is read like a file.
func TestTheJournalIsRead(t *testing.T) {
	t.Parallel()
	long := `{"@level":"info","@message":"long","@module":"worker","@timestamp":"2026-01-01T11:00:06Z","task_id":"task_a","text":"` + strings.Repeat("x", 10_000) + `"}`
	dir := t.TempDir()
	journaled(t, dir, 1, "deckhand-hub.service", hubLog)
	journaled(t, dir, 2, "deckhand-worker.service", long)
	journaled(t, dir, 3, "other.service", workerLog)
	for name, c := range map[string]struct {
		flags []string
		want  []string
	}{
		"all services": {[]string{"--unit", "deckhand*"}, []string{"hub is ready", "call failed", "a call runs", "of another", "long"}},
		"one":          {[]string{"--unit", "deckhand-worker.service"}, []string{"long"}},
		"a task":       {[]string{"--unit", "deckhand*", "--task", "task_a"}, []string{"a call runs", "long"}},
		"two":          {[]string{"--unit", "deckhand-worker.service", "--unit", "other.service", "--level", "info"}, []string{"claimed", "long"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := &screen{}
			_, err := show(t.Context(), t, "", out, append([]string{"--json", "--journal-dir", dir}, c.flags...)...)
			require.NoError(t, err)
			require.Equal(t, c.want, messages(out.String()))
		})
	}
}

func TestLinesAreSafeForATerminal(t *testing.T) {
	t.Parallel()
	out := &screen{}
	_, err := show(t.Context(), t, hubLog, out, "-", "--level", "warn")
	require.NoError(t, err)
	require.NotContains(t, out.String(), "\x1b")
	require.Contains(t, out.String(), "WARN  hub.api: call failed")
	require.Contains(t, out.String(), "correlation_id=c1")

	for flag, value := range map[string]string{"--level": "loud", "--role": "boss", "--since": "yesterday"} {
		_, err := show(t.Context(), t, "", out, "-", flag, value)
		require.ErrorContains(t, err, value)
	}
	_, err = show(t.Context(), t, "", out, filepath.Join(t.TempDir(), "none.jsonl"))
	require.Error(t, err)
}

// New lines come as they are written, also those of a file that takes the place of the one
// before it.
func TestNewLinesAreFollowed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "up.jsonl")
	line := func(message string) string {
		return `{"@level":"info","@message":"` + message + `","@module":"up.hub","@timestamp":"2026-01-01T10:00:00Z"}` + "\n"
	}
	require.NoError(t, os.WriteFile(path, []byte(line("one")+line("two")[:20]), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &screen{}
	ended := make(chan error, 1)
	go func() {
		_, err := show(ctx, t, "", out, "--json", "--follow", path)
		ended <- err
	}()
	until := func(want ...string) {
		t.Helper()
		waittest.Until(t, 20*time.Second, "the lines "+strings.Join(want, ", "), func() bool {
			return strings.Join(messages(out.String()), " ") == strings.Join(want, " ")
		})
	}
	until("one")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString(line("two")[20:])
	require.NoError(t, err)
	until("one", "two")
	require.NoError(t, os.Rename(path, path+".1"))
	_, err = f.WriteString(line("three"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(line("four")), 0o600))
	until("one", "two", "three", "four")
	stop()
	require.NoError(t, <-ended)
}

// A log that is cut off is read to its last byte, and lines that are too long are counted.
func TestTheLastLineIsRead(t *testing.T) {
	t.Parallel()
	whole := strings.TrimSuffix(workerLog, "\n")
	path := filepath.Join(t.TempDir(), "worker.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(whole), 0o600))
	long := `{"@level":"info","@message":"` + strings.Repeat("x", 3<<20) + `"}` + "\n"
	for name, c := range map[string]struct{ stdin, file string }{
		"a file": {"", path}, "standard input": {whole, "-"}, "after a long one": {long + whole, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := &screen{}
			notes, err := show(t.Context(), t, c.stdin, out, "--json", c.file)
			require.NoError(t, err)
			require.Equal(t, []string{"claimed"}, messages(out.String()))
			require.Equal(t, strings.HasPrefix(c.stdin, long), strings.Contains(notes, "skipped 1 line that"), notes)
		})
	}
}

// A machine may have had a deckhand up at a terminal, and a service since: both are shown.
func TestTheLogOfUpAndTheJournalAreShownTogether(t *testing.T) {
	dir, journal := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "log"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "log", "up.jsonl"), []byte(workerLog), 0o600))
	t.Setenv("DECKHAND_DATA_DIR", dir)
	out := &screen{}
	_, err := show(t.Context(), t, "", out, "--json", "--journal-dir", journal)
	require.NoError(t, err)
	require.Equal(t, []string{"claimed"}, messages(out.String()))
	journaled(t, journal, 1, "deckhand.service", nodeLog)
	out = &screen{}
	_, err = show(t.Context(), t, "", out, "--json", "--journal-dir", journal)
	require.NoError(t, err)
	require.Equal(t, []string{"claimed", "a command ended", "another ended", "a jail was made"}, messages(out.String()))

	notes, err := show(t.Context(), t, "", out, "--journal-dir", t.TempDir(), "--unit", "deckhand*")
	require.NoError(t, err)
	require.Contains(t, notes, "the journal has no line of deckhand*")
}

// A journal is followed from the entry that was read last, also if there was none, and units
// that log later are found.
func TestTheJournalIsFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &screen{}
	ended := make(chan error, 1)
	go func() {
		_, err := show(ctx, t, "", out, "--json", "--follow", "--journal-dir", dir, "--unit", "deckhand*")
		ended <- err
	}()
	until := func(want ...string) {
		t.Helper()
		waittest.Until(t, 40*time.Second, "the lines "+strings.Join(want, ", "), func() bool {
			return strings.Join(messages(out.String()), ",") == strings.Join(want, ",")
		})
	}
	journaled(t, dir, 1, "deckhand-worker.service", workerLog)
	until("claimed")
	journaled(t, dir, 2, "deckhand-node.service", nodeLog)
	until("claimed", "a command ended", "another ended", "a jail was made")
	stop()
	require.NoError(t, <-ended)
}
