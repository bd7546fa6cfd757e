package browser_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/node/skill/browser"
)

// What words meant before is tried first in a page of the same shape, also if they fit more than
// one element by now. If it is not there any more, they are compared with the page as usual, and
// the hub is told both.
func TestRememberedTargets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := browserlink.NewKey()
	open := func(names ...string) {
		t.Helper()
		r.do(toolname.BrowserNavigate, map[string]any{"url": r.url + "/labels?" + url.Values{"name": names}.Encode()})
	}
	click := func(target string) (said browser.Answer, used browserlink.UsedTarget) {
		t.Helper()
		said = r.ask(toolname.BrowserClick, map[string]any{"target": target})
		if len(said.Target) > 0 {
			var err error
			used, err = key.OpenTarget(r.last, said.Target)
			require.NoError(t, err)
			_, err = key.OpenTarget("another call", said.Target)
			require.Error(t, err)
		}
		return said, used
	}
	end := r.keep(browser.Config{Start: browserlink.Start{Key: key}})
	open("Export orders", "Print")
	said, used := click("export the orders")
	require.Contains(t, said.Answer, "clicked Export orders")
	meant := browserlink.Target{Page: browserlink.PageOf(r.url + "/labels"), Words: "export the orders", Role: "button", Name: "Export orders", Nth: 1, Of: 1}
	require.Equal(t, browserlink.UsedTarget{Target: meant}, used)
	_, used = click(`button "Print"`)
	require.Empty(t, used, "that says itself which element is meant")
	said, used = click("the frobnicate lever")
	require.NotEmpty(t, said.Error)
	require.Empty(t, used)

	// Another browser, and a page for which the words are not clear.
	end()
	r.keep(browser.Config{Start: browserlink.Start{Key: key, Targets: []browserlink.Target{meant}}})
	open("Export: orders", "Export orders")
	said, used = click("export the orders")
	require.Contains(t, said.Answer, "clicked Export orders")
	require.Contains(t, said.Answer, `what it meant before, button "Export orders"`)
	require.Equal(t, browserlink.UsedTarget{Target: meant, Hit: true}, used)

	// The page has changed.
	open("Export all orders", "Print")
	said, used = click("export the orders")
	require.Contains(t, said.Answer, "is not on the page any more")
	require.Contains(t, said.Answer, "clicked Export all orders")
	require.True(t, used.Missed)
	require.Equal(t, "Export all orders", used.Name)

	// Neither what is remembered nor what the words say.
	open("Print")
	said, used = click("export the orders")
	require.NotEmpty(t, said.Error)
	require.True(t, used.Missed)
	require.Empty(t, used.Role)
	open("Export all orders")
	_, used = click("export the orders")
	require.False(t, used.Hit || used.Missed, "what failed is forgotten")
}
