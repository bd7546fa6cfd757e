package memory

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// What is exported is imported as it was; a line that was changed, removed, added or cut off is
// noticed.
func TestAnExportIsReadBackUnchangedOrNotAtAll(t *testing.T) {
	t.Parallel()
	value, err := structpb.NewValue(map[string]any{"host": "db-2", "port": 5433, "note": "a < b & \"c\"\n☃"})
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, writeExport(&out, []entry{
		{Type: deckhandv1.MemoryType_MEMORY_TYPE_FACT, Key: "database", Value: value, Confidence: 0.5, Untrusted: true, ExpiresAt: timestamppb.Now()},
		{Type: deckhandv1.MemoryType_MEMORY_TYPE_PREFERENCE, Key: "language", Value: structpb.NewStringValue("German"), Confidence: 1},
	}))
	entries, err := readExport(strings.NewReader(out.String()))
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.Equal(t, value.AsInterface(), entries[0].GetValue().AsInterface())
	require.Equal(t, deckhandv1.MemoryType_MEMORY_TYPE_FACT, entries[0].GetType())
	require.InDelta(t, 0.5, entries[0].GetConfidence(), 0)
	require.True(t, entries[0].GetUntrusted())
	require.NotNil(t, entries[0].GetExpiresAt())

	lines := strings.SplitAfter(out.String(), "\n")
	for name, text := range map[string]string{
		"a changed value":      strings.Replace(out.String(), "5433", "5434", 1),
		"an entry less":        lines[0] + lines[2],
		"entries in new order": lines[1] + lines[0] + lines[2],
		"an entry twice":       lines[0] + lines[1] + lines[1] + lines[2],
		"no last line":         lines[0] + lines[1],
		"a line cut off":       lines[0] + lines[1][:40],
		"a mark taken away":    strings.Replace(out.String(), `"untrusted":true,`, "", 1),
		"nothing":              "",
	} {
		_, err := readExport(strings.NewReader(text))
		require.ErrorContains(t, err, "of the export", name)
	}
}
