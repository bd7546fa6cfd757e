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
	meant := browserlink.Target{Page: browserlink.PageOf(r.url + "/labels"), Words: "export the orders", Role: "button", Name: "Export orders"}
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

// What is remembered is not taken where the words may mean another element: in rows, for places and
// states, among equals, and where another element is called what the words say.
func TestNoOtherElementIsTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := browserlink.NewKey()
	click := func(target string) (said browser.Answer, used browserlink.UsedTarget) {
		t.Helper()
		said = r.ask(toolname.BrowserClick, map[string]any{"target": target})
		if len(said.Target) > 0 {
			var err error
			used, err = key.OpenTarget(r.last, said.Target)
			require.NoError(t, err)
		}
		return said, used
	}
	labels := func(names ...string) {
		t.Helper()
		r.do(toolname.BrowserNavigate, map[string]any{"url": r.url + "/labels?" + url.Values{"name": names}.Encode()})
	}
	rows := func(names ...string) {
		t.Helper()
		r.do(toolname.BrowserNavigate, map[string]any{"url": r.url + "/rows?" + url.Values{"name": names}.Encode()})
	}
	at := browserlink.PageOf(r.url + "/labels")
	remembered := browserlink.Target{Page: at, Words: "export orders", Role: "button", Name: "Export all orders"}
	inRow := browserlink.Target{Page: browserlink.PageOf(r.url + "/rows"), Words: "the Delete button in the row Ada", Role: "button", Name: "Delete"}
	r.keep(browser.Config{Start: browserlink.Start{Key: key, Targets: []browserlink.Target{remembered, inRow}}})

	others := []string{"Cleo", "Dora", "Emil", "Fred", "Gina", "Hugo", "Iris", "Jane", "Karl", "Lena", "Mary", "Nora", "Olaf", "Paul", "Rosa", "Saul", "Tina"}
	rows(append([]string{"Ada", "Bob"}, others...)...)
	said, used := click("the Delete button in the row Ada")
	require.Contains(t, said.Answer, "deleted Ada", said.Error)
	require.Empty(t, used)
	rows(append([]string{"Bob", "Ada"}, others...)...)
	said, _ = click("the Delete button in the row Ada")
	require.Contains(t, said.Answer, "deleted Ada", said.Error)
	rows("Bob")
	said, used = click("the Delete button in the row Ada")
	require.NotContains(t, said.Answer+said.Error, "meant before")
	require.Empty(t, used)
	rows("Ada", "Bob")
	_, used = click("the second button")
	require.Empty(t, used)

	labels("Export all orders", "Print")
	said, used = click("export orders")
	require.Contains(t, said.Answer, `what it meant before, button "Export all orders"`)
	require.True(t, used.Hit)

	// Two of them: neither is what it meant, and it is not gone either.
	labels("Export all orders", "Export all orders")
	said, used = click("export orders")
	require.Contains(t, said.Error, "not clear")
	require.NotContains(t, said.Error, "any more")
	require.Empty(t, used)

	// Another one is called so by now.
	labels("Export all orders", "Export orders")
	said, used = click("export orders")
	require.Contains(t, said.Answer, "clicked Export orders")
	require.NotContains(t, said.Answer, "meant before")
	require.Equal(t, browserlink.UsedTarget{Missed: true, Target: browserlink.Target{Page: at, Words: "export orders", Role: "button", Name: "Export orders"}}, used)
	_, used = click("export orders")
	require.True(t, used.Hit)
}

// What a page puts into its address and names is not remembered with a secret in it.
func TestNoSecretIsRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := browserlink.NewKey()
	r.keep(browser.Config{Start: browserlink.Start{Key: key, Secrets: []browserlink.Secret{{Credential: "bank", Value: "correct-horse"}}}})
	r.do(toolname.BrowserNavigate, map[string]any{"url": r.url + "/labels?name=Pay+now"})
	r.do(toolname.BrowserExecuteJS, map[string]any{"expression": "history.pushState(null, '', '/x/correct-horse')"})
	require.Empty(t, r.ask(toolname.BrowserClick, map[string]any{"target": "pay now"}).Target)
	r.do(toolname.BrowserExecuteJS, map[string]any{"expression": "history.pushState(null, '', '/x/y')"})
	require.NotEmpty(t, r.ask(toolname.BrowserClick, map[string]any{"target": "pay now"}).Target)
}

// What a page draws a moment after a click, by a timer, is in the click's result.
func TestAClickWaitsForTimers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keep(browser.Config{})
	r.do(toolname.BrowserNavigate, map[string]any{"url": r.url + "/later"})
	require.Contains(t, r.do(toolname.BrowserClick, map[string]any{"target": `button "Menu"`}), "the menu is open")
}
