package tool_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// What anybody may have written is declared so: tools for the web and for machines, and with
// network access what runs programs. A tool that is neither is named here.
func TestToolsDeclareWhoseTextTheyReturn(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry()
	require.NoError(t, err)
	own := []string{toolname.NodeList, toolname.NodeLock, toolname.NodeUnlock, toolname.HostWrite}
	var fetched []string
	for _, name := range r.Names() {
		record := r.Get(name)
		switch record.Kind {
		case tool.KindWeb, tool.KindFleet:
			require.Equal(t, !slices.Contains(own, name), record.Untrusted(false), name)
		default:
			require.Equal(t, name == toolname.WebSearch || name == toolname.RAGQuery, record.Untrusted(false), name)
		}
		if record.Returns == tool.Fetched {
			fetched = append(fetched, name)
			require.True(t, record.Untrusted(true), name)
		}
	}
	for _, name := range []string{toolname.ShellExec, toolname.JobOutput, toolname.TerminalRead, toolname.Wait} {
		require.Contains(t, fetched, name)
	}
	require.True(t, r.Get("mcp__tracker__list").Untrusted(false))
}
