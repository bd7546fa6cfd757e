package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// Rules can name the tools that act on a page and the host of the page that is open, a target
// on a page is no path, and scripts for a page are looked into.
func TestCallsOfTheBrowser(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("test", []byte(`
rules:
  - {name: acting, effect: ask, acts: true, host: "*.shop.test"}
  - {name: elsewhere, effect: deny, tool: "browser_*", host: evil.test}
  - {name: secrets, effect: deny, path: /workspace/secret/**}
  - {name: scripts, effect: allow, tool: browser_execute_js, args: {expression: "*"}}
`))
	require.NoError(t, err)
	set := policy.Set{{Name: "test", Policy: p}}
	decide := func(tool, host string, arguments map[string]any) policy.Decision {
		return set.Decide(policy.Call{Tool: tool, Category: "safe", PageHost: host, Arguments: arguments})
	}
	for name, c := range map[string]struct {
		tool, host string
		arguments  map[string]any
		effect     policy.Effect
		rule       string
	}{
		"a click on the host":                {toolname.BrowserClick, "www.shop.test", map[string]any{"target": "Pay"}, policy.Ask, "acting"},
		"a click on another host":            {toolname.BrowserClick, "other.test", map[string]any{"target": "Pay"}, policy.None, ""},
		"a click on a page that is unknown":  {toolname.BrowserClick, "", map[string]any{"target": "Pay"}, policy.Ask, "acting"},
		"reading on the host":                {toolname.BrowserSnapshot, "www.shop.test", nil, policy.None, ""},
		"going to a host that is denied":     {toolname.BrowserNavigate, "www.shop.test", map[string]any{"url": "https://evil.test/x"}, policy.Deny, "elsewhere"},
		"reading a page of it":               {toolname.BrowserExtract, "evil.test", nil, policy.Deny, "elsewhere"},
		"a target that looks like a path":    {toolname.BrowserClick, "other.test", map[string]any{"target": "/workspace/secret/key"}, policy.None, ""},
		"the upload of a file":               {toolname.BrowserUpload, "other.test", map[string]any{"paths": []any{"secret/key"}}, policy.Deny, "secrets"},
		"a script that only counts":          {toolname.BrowserExecuteJS, "other.test", map[string]any{"expression": "document.links.length"}, policy.Allow, "scripts"},
		"a script that reads the login":      {toolname.BrowserExecuteJS, "other.test", map[string]any{"expression": "document.cookie"}, policy.Ask, "dangerous:credentials"},
		"a script that sends a form":         {toolname.BrowserExecuteJS, "other.test", map[string]any{"expression": "document.forms[0].submit()"}, policy.Ask, "dangerous:page_request"},
		"a script that posts":                {toolname.BrowserExecuteJS, "other.test", map[string]any{"expression": "fetch('/buy', {method: 'POST'})"}, policy.Ask, "dangerous:page_request"},
		"a script that hides what it runs":   {toolname.BrowserExecuteJS, "other.test", map[string]any{"expression": "eval(atob('YWxlcnQoMSk='))"}, policy.Ask, "dangerous:hidden_code"},
		"a script that loads another script": {toolname.BrowserExecuteJS, "other.test", map[string]any{"expression": "import('https://x.test/a.js')"}, policy.Ask, "dangerous:remote_code"},
	} {
		d := decide(c.tool, c.host, c.arguments)
		require.Equal(t, c.effect, d.Effect, "%s: %+v", name, d)
		require.Equal(t, c.rule, d.Rule, name)
	}
	_, err = policy.Parse("test", []byte("rules:\n  - {effect: ask, acts: maybe}\n"))
	require.ErrorContains(t, err, "acts must be true")
}
