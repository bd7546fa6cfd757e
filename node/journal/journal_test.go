package journal_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/journal"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

var begin = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// journalOf writes a journal with systemd's own writer: n entries of nginx.service, one each
// second, and one of another unit.
func journalOf(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	var text strings.Builder
	entry := func(second int, unit, message string) {
		fmt.Fprintf(&text, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=4a1d5c5f2a7b4cf3a2a2a7a0a1b2c3d4\n_MACHINE_ID=5a1d5c5f2a7b4cf3a2a2a7a0a1b2c3d4\n_SYSTEMD_UNIT=%s\nPRIORITY=4\n_PID=12\nMESSAGE=%s\n\n",
			begin.Add(time.Duration(second)*time.Second).UnixMicro(), (second+1)*1_000_000, unit, message)
	}
	for i := range n {
		message := fmt.Sprintf("request %d", i)
		if i%10 == 3 {
			message = fmt.Sprintf("upstream timeout %d", i)
		}
		entry(i, "nginx.service", message)
	}
	entry(n, "nginx.service", strings.Repeat("long ", 2000))
	entry(n+1, "ssh.service", "a password")
	input := filepath.Join(t.TempDir(), "export")
	require.NoError(t, os.WriteFile(input, []byte(text.String()), 0o600))
	out, err := exec.CommandContext(t.Context(), "/lib/systemd/systemd-journal-remote", "-o", filepath.Join(dir, "test.journal"), input).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

func messages(res *nodev1.ReadJournalResponse) (out []string) {
	for _, e := range res.GetEntries() {
		out = append(out, e.GetMessage())
	}
	return out
}

// The newest entries of a unit are returned, bounded, by time, pattern and cursor, with the
// fields that the operator shows.
func TestReadJournal(t *testing.T) {
	t.Parallel()
	m, err := journal.New(journal.Config{Units: []string{"nginx.service", "app-*.service"}, Fields: []string{"PRIORITY"}, Dir: journalOf(t, 40)})
	require.NoError(t, err)
	read := func(req *nodev1.ReadJournalRequest) *nodev1.ReadJournalResponse {
		req.Unit = "nginx.service"
		res, err := m.Read(t.Context(), req)
		require.NoError(t, err)
		return res
	}
	all := read(&nodev1.ReadJournalRequest{})
	require.Len(t, all.GetEntries(), 41, "those of this unit only")
	require.False(t, all.GetMore())
	require.Equal(t, "request 0", all.GetEntries()[0].GetMessage())
	require.Equal(t, map[string]string{"PRIORITY": "4"}, all.GetEntries()[0].GetFields())
	require.Equal(t, begin, all.GetEntries()[0].GetTime().AsTime())
	last := all.GetEntries()[40]
	require.True(t, last.GetCut())
	require.Len(t, last.GetMessage(), 4<<10)

	some := read(&nodev1.ReadJournalRequest{Grep: "time(out)?", Lines: 2})
	require.Equal(t, []string{"upstream timeout 23", "upstream timeout 33"}, messages(some))
	require.True(t, some.GetMore())
	older := read(&nodev1.ReadJournalRequest{Grep: "time(out)?", Before: some.GetEntries()[0].GetCursor()})
	require.Equal(t, []string{"upstream timeout 3", "upstream timeout 13"}, messages(older))
	since := read(&nodev1.ReadJournalRequest{Since: timestamppb.New(begin.Add(10 * time.Second)), Grep: "time(out)?", Before: some.GetEntries()[0].GetCursor()})
	require.Equal(t, []string{"upstream timeout 13"}, messages(since), "a cursor and a period")
	require.False(t, since.GetMore())
	within := read(&nodev1.ReadJournalRequest{Since: timestamppb.New(begin.Add(5 * time.Second)), Until: timestamppb.New(begin.Add(7 * time.Second))})
	require.Equal(t, []string{"request 5", "request 6", "request 7"}, messages(within))
}

// What the operator does not show is refused, and so is what is no name, pattern or cursor.
func TestWhatTheOperatorDoesNotShowIsRefused(t *testing.T) {
	t.Parallel()
	m, err := journal.New(journal.Config{Units: []string{"app-*.service"}, Dir: journalOf(t, 1)})
	require.NoError(t, err)
	nothing, err := journal.New(journal.Config{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		m    *journal.Machine
		req  *nodev1.ReadJournalRequest
		kind fault.Kind
		says string
	}{
		"another unit":          {m, &nodev1.ReadJournalRequest{Unit: "ssh.service"}, fault.Denied, "does not show the unit ssh.service"},
		"none by default":       {nothing, &nodev1.ReadJournalRequest{Unit: "ssh.service"}, fault.Denied, "does not show"},
		"a pattern of units":    {m, &nodev1.ReadJournalRequest{Unit: "app-*"}, fault.Invalid, "not the name of a unit"},
		"an option":             {m, &nodev1.ReadJournalRequest{Unit: "app-1.service --file=/etc/shadow"}, fault.Invalid, "not the name of a unit"},
		"no regular expression": {m, &nodev1.ReadJournalRequest{Unit: "app-1.service", Grep: "("}, fault.Invalid, "grep"},
		"no cursor":             {m, &nodev1.ReadJournalRequest{Unit: "app-1.service", Before: "x --file=y"}, fault.Invalid, "cursor"},
	} {
		_, err := c.m.Read(t.Context(), c.req)
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
		require.ErrorContains(t, err, c.says, name)
	}
	_, err = nothing.Unit(t.Context(), "nginx.service")
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	res, err := m.Read(t.Context(), &nodev1.ReadJournalRequest{Unit: "app-1.service"})
	require.NoError(t, err)
	require.Empty(t, res.GetEntries())
}

// A machine says what it is, and one that systemd does not run has no units.
func TestInfoAndUnits(t *testing.T) {
	t.Parallel()
	m, err := journal.New(journal.Config{Units: []string{"*"}})
	require.NoError(t, err)
	info, err := m.Info(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, info.GetKernel())
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		require.NotEmpty(t, info.GetSystemd())
		state, err := m.Unit(t.Context(), "systemd-journald.service")
		require.NoError(t, err)
		require.Equal(t, "loaded", state["LoadState"])
		return
	}
	require.Empty(t, info.GetSystemd())
	_, err = m.Unit(t.Context(), "nginx.service")
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.ErrorContains(t, err, "systemd does not run this machine")
}
