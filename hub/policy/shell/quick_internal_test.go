package shell

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
	"pgregory.net/rapid"
)

// Words that are put together without the expander are what it makes of them.
func TestQuickWordsAreThoseOfTheExpander(t *testing.T) {
	t.Parallel()
	pieces := []string{
		"a", "b.c", "/", "*", "?", "[", "]", "{", "}", ",", "..", "1", "~", "=", "'", "'x y'", `"x y"`, `"$X"`, "$X", "${X}", "$EMPTY", "$SPACED", `"$SPACED"`, "$UNSET", `"${UNSET}"`, "$GUESS",
		"$HOME", "$PWD", "$1", "$@", `"$@"`, "$LIST", "${X:-y}", "$(echo z)", `\ `, `\*`, "$'a'", "$GLOB", `"$GLOB"`, "@(a|b)", "-", "#",
	}
	quick := 0
	rapid.Check(t, func(t *rapid.T) {
		text := "cmd x" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 5).Draw(t, "pieces"), "")
		if rapid.Bool().Draw(t, "alone") {
			text = strings.Replace(text, "cmd x", "cmd ", 1)
		}
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
		if err != nil || len(file.Stmts) != 1 {
			return
		}
		call, ok := file.Stmts[0].Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) != 2 {
			return
		}
		word := call.Args[1]
		walked := func() *walker {
			w := &walker{state: &state{}, out: &Script{}}
			w.begin("")
			w.set("X", "val", true)
			w.set("EMPTY", "", true)
			w.set("SPACED", "two words", true)
			w.set("GUESS", "maybe", false)
			w.set("GLOB", "*.go", true)
			put(&w.vars, "LIST", variable{Variable: expand.Variable{Set: true, Kind: expand.Indexed, List: []string{"p", "q"}}})
			return w
		}
		w := walked()
		if got, ok := w.quick(word, true); ok {
			quick++
			cfg, e := w.config(word)
			fields, err := expand.Fields(cfg, word)
			require.NoError(t, err, text)
			require.Len(t, fields, 1, text)
			want := Word{Text: fields[0], Known: !e.guess && !holed(fields[0]), Glob: (unquotedGlob(word) || e.glob) && strings.ContainsAny(fields[0], "*?[(")}
			require.Equal(t, want, got, text)
		}
		w = walked()
		if got, ok := w.quick(word, false); ok {
			cfg, e := w.config(word)
			want, err := expand.Literal(cfg, word)
			require.NoError(t, err, text)
			require.Equal(t, Word{Text: want, Known: !e.guess}, got, text)
		}
	})
	require.Positive(t, quick, "none of the words were tried")
}

// What a script must have to multiply is in every script that does.
func TestOnlyScriptsWithoutFunctionsAndLoopsAreNotLookedAt(t *testing.T) {
	t.Parallel()
	pieces := []string{"f", "()", "( )", "(\t)", "{", "}", " ", "\n", ";", "&", "|", "while", "whi\\\nle", "until", "for ((;;))", "do", "done", "function ", "func\\\ntion ", "true", "f\\\n()", "$(", ")", "`", ":"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 16).Draw(t, "pieces"), "")
		if mayBomb(text) {
			return
		}
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
		if err != nil {
			return
		}
		syntax.Walk(file, func(n syntax.Node) bool {
			switch n.(type) {
			case *syntax.FuncDecl, *syntax.WhileClause, *syntax.ForClause:
				t.Fatalf("%q has a %T", text, n)
			}
			return true
		})
	})
}
