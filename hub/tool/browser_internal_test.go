package tool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Tools that act on a page ask in supervised mode although their category is safe, and are
// deferred in review mode; the list that rules use is the registry's.
func TestToolsThatActOnAPage(t *testing.T) {
	t.Parallel()
	acting := 0
	for _, one := range browserTools() {
		require.Equal(t, toolname.ActsOnPage(one.Name), one.Acts, one.Name)
		require.True(t, toolname.IsBrowser(one.Name))
		supervised := &persona.Persona{Mode: persona.Supervised, Tools: []string{one.Name}}
		require.True(t, HasBrowser(supervised))
		if !one.Acts {
			require.Empty(t, one.ApprovalReason(supervised), one.Name)
			continue
		}
		acting++
		require.NotEmpty(t, one.ApprovalReason(supervised), one.Name)
		require.NotEqual(t, deckhandv1.ToolConfirmation_TOOL_CONFIRMATION_NEVER, one.Confirmation(), one.Name)
		require.True(t, one.Leaves(nil), one.Name)
	}
	require.Equal(t, 7, acting)
}

// What a person approves is shown whole: the script, the text, and each other argument.
func TestPreviewOfBrowserCalls(t *testing.T) {
	t.Parallel()
	r, err := NewRegistry()
	require.NoError(t, err)
	long := make([]byte, 60<<10)
	for i := range long {
		long[i] = 'x'
	}
	script := r.Get(toolname.BrowserExecuteJS).Preview(map[string]any{"expression": string(long) + "end", "timeout_seconds": 5.0})
	require.Contains(t, script, "xend")
	require.Contains(t, script, `"timeout_seconds": 5`)
	require.Equal(t, "Type into: the amount\n500\n(then press Enter)", r.Get(toolname.BrowserType).Preview(map[string]any{"target": "the amount", "text": "500", "submit": true}))
	require.Equal(t, "Type the password of credential office into: Password\n(then press Enter)",
		r.Get(toolname.BrowserType).Preview(map[string]any{"target": "Password", "credential": "office", "submit": true}))
	require.Equal(t, "Double-click: button \"Pay\"\n{\n  \"button\": \"right\"\n}", r.Get(toolname.BrowserClick).Preview(map[string]any{"target": `button "Pay"`, "double_click": true, "button": "right"}))
	require.Equal(t, "browser_click e12", Title(toolname.BrowserClick, map[string]any{"target": "e12"}))
}

// A keeper that a page has taken over has no say about words that the agent did not use, about
// calls that only look, or about another call.
func TestOnlyTheTargetOfTheCallIsRemembered(t *testing.T) {
	t.Parallel()
	key := browserlink.NewKey()
	used := browserlink.UsedTarget{Target: browserlink.Target{Page: "bank.example/transfer", Words: "the cancel button", Role: "button", Name: "Confirm"}}
	sealed, err := key.SealTarget("step_1", used)
	require.NoError(t, err)
	of := func(name, exec, target string) bool {
		got := usedTarget(name, Call{ExecID: exec, Arguments: map[string]any{"target": target}}, key, sealed)
		if got != nil {
			require.Equal(t, used, *got)
		}
		return got != nil
	}
	require.True(t, of(toolname.BrowserClick, "step_1", " the  cancel button "))
	require.False(t, of(toolname.BrowserClick, "step_1", "the pay button"))
	require.False(t, of(toolname.BrowserClick, "step_1", ""))
	require.False(t, of(toolname.BrowserExtract, "step_1", "the cancel button"))
	require.False(t, of(toolname.BrowserClick, "step_2", "the cancel button"))
}
