package browser_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// A browser has at most 20 tabs: one more is refused with what to do, also if a page opens it, and
// after one was closed there is room again.
//
//nolint:paralleltest // its tabs take the memory that other browsers need
func TestTabsAreLimited(t *testing.T) {
	r := start(t)
	r.open("/dialogs")
	for range 19 {
		r.do(toolname.BrowserTabs, map[string]any{"action": "new"})
	}
	refused := r.ask(toolname.BrowserTabs, map[string]any{"action": "new"})
	require.Contains(t, refused.Error, "20 tabs are open, which is the most: close one with the action close")
	r.do(toolname.BrowserTabs, map[string]any{"action": "select", "tab": "t1"})
	require.Contains(t, r.click("New tab"), "1 tabs were closed: a browser has at most 20")
	require.Contains(t, r.do(toolname.BrowserTabs, nil), "20 tabs")
	r.do(toolname.BrowserTabs, map[string]any{"action": "close", "tab": "t7"})
	require.Contains(t, r.do(toolname.BrowserTabs, map[string]any{"action": "new"}), "20 tabs")
}
