package oauth

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

// hostile is a value that would be markup if it were not escaped.
const hostile = `"><script>alert(1)</script><b x='` + "`" + `&lt;` + "\x00"

// Whatever a program sends stands on the page as text.
func TestThePageEscapesEveryValue(t *testing.T) {
	t.Parallel()
	full := view{
		Program: hostile, Where: hostile, Local: hostile, User: hostile, Action: hostile,
		Scopes: []choice{{Scope: hostile, Title: hostile, Text: hostile, Checked: true}, {Scope: "read"}}, Fields: map[string]string{hostile: hostile, "state": "s"},
	}
	problem := full
	problem.Problem, problem.Fix, problem.Back = hostile, hostile, true
	for name, v := range map[string]view{"question": full, "problem": problem, "problem without a way back": {Problem: hostile}} {
		page := v.page()
		require.NotContains(t, page, contentMark, name)
		require.NotContains(t, page, "%!", name)
		require.True(t, strings.HasSuffix(strings.TrimSpace(page), "</html>"), name)
		// A browser's parser finds only the elements that belong there.
		for tokens := html.NewTokenizer(strings.NewReader(page)); tokens.Next() != html.ErrorToken; {
			token := tokens.Token()
			require.NotEqual(t, "script", token.Data, name)
			require.NotEqual(t, "b", token.Data, name)
			for _, a := range token.Attr {
				require.Contains(t, []string{"lang", "charset", "name", "content", "role", "method", "action", "type", "value", "checked", "class"}, a.Key, name)
			}
		}
	}
	require.Equal(t, 1, strings.Count(full.page(), " checked />"))
	require.Contains(t, full.page(), `<input type="hidden" name="state" value="s" />`)
}
