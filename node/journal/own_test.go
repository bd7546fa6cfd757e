package journal_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/node/journal"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// The daemon's own log is read without systemd: its own lines only, with secrets masked, page
// by page.
func TestReadOwnLog(t *testing.T) {
	t.Parallel()
	secrets := &redact.Redactor{}
	secrets.Add("hunter2-hunter2-hunter2")
	root, err := logging.New("up", logging.Config{Level: "info", Format: "text"}, io.Discard, secrets)
	require.NoError(t, err)
	log := root.Named("node")
	own := journal.Listen(log.With("node_id", "node_1"), secrets)
	m, err := journal.New(journal.Config{Own: own})
	require.NoError(t, err)
	read := func(req *nodev1.ReadJournalRequest) *nodev1.ReadJournalResponse {
		res, err := m.Read(t.Context(), req)
		require.NoError(t, err)
		return res
	}
	require.Empty(t, read(&nodev1.ReadJournalRequest{}).GetEntries())

	root.Named("hub").Error("of another role")
	root.Named("node-not").Error("of another role")
	log.Debug("below the level")
	log.Named("link").Warn("cannot reach the hub", "error", "hunter2-hunter2-hunter2 refused", "attempt", 3)
	for i := range 5 {
		log.Info(fmt.Sprintf("line %d", i))
	}
	all := read(&nodev1.ReadJournalRequest{})
	require.Equal(t, []string{"cannot reach the hub", "line 0", "line 1", "line 2", "line 3", "line 4"}, messages(all))
	first := all.GetEntries()[0]
	require.Equal(t, "warn", first.GetFields()["level"])
	require.Equal(t, "up.node.link", first.GetFields()["component"])
	require.Equal(t, "3", first.GetFields()["attempt"])
	require.NotContains(t, first.GetFields()["error"], "hunter2")
	require.Contains(t, first.GetFields()["error"], "refused")

	newest := read(&nodev1.ReadJournalRequest{Lines: 2})
	require.Equal(t, []string{"line 3", "line 4"}, messages(newest))
	require.True(t, newest.GetMore())
	older := read(&nodev1.ReadJournalRequest{Lines: 2, Before: newest.GetNextCursor()})
	require.Equal(t, []string{"line 1", "line 2"}, messages(older))
	require.Equal(t, []string{"cannot reach the hub", "line 0"}, messages(read(&nodev1.ReadJournalRequest{Lines: 2, Before: older.GetNextCursor()})))
	require.Equal(t, []string{"line 0", "line 4"}, messages(read(&nodev1.ReadJournalRequest{Grep: "[04]$"})))
	require.Empty(t, read(&nodev1.ReadJournalRequest{Before: "log_other;3"}).GetEntries(), "of an earlier run of the daemon")
	require.Empty(t, read(&nodev1.ReadJournalRequest{Until: timestamppb.New(first.GetTime().AsTime().Add(-1))}).GetEntries())
	_, err = m.Read(t.Context(), &nodev1.ReadJournalRequest{Grep: "("})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)

	// It is bounded: lines that are too long are left out, and the oldest go.
	log.Info(strings.Repeat("x", 3<<20))
	require.Equal(t, messages(all), messages(read(&nodev1.ReadJournalRequest{})))
	for i := range 40 {
		log.Info(strings.Repeat("x", 100<<10), "number", i)
	}
	held := 0
	for before := ""; ; {
		page := read(&nodev1.ReadJournalRequest{Before: before})
		for _, e := range page.GetEntries() {
			require.True(t, e.GetCut())
			held++
		}
		if before = page.GetNextCursor(); !page.GetMore() {
			break
		}
	}
	require.Less(t, held, 21)
	require.Greater(t, held, 15)

	require.NoError(t, own.Close())
	log.Info("after its end")
	require.NotContains(t, messages(read(&nodev1.ReadJournalRequest{Lines: 1})), "after its end")
}
