package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
)

var (
	// adviceOf finds where a text names a command of ours. The words of a path may
	// follow deckhand, as in a name of a file, and a word may follow deckhand-node.
	adviceOf  = regexp.MustCompile(`(?:^|[^-\w/.@])deckhand ([a-z][a-z-]*(?: [a-z][a-z-]*)*)`)
	flagOf    = regexp.MustCompile(`(?:^|[ \[|])--([a-z][a-z-]*)`)
	quoted    = regexp.MustCompile(`'[^']*'`)
	endAdvice = regexp.MustCompile("[\n`;#]|: |, |\\. | and | or |&&|\\| ")
)

// prose is what texts say of deckhand that is no command.
var prose = map[string]bool{
	"keyset": true, "leader": true, "content": true, // names of keys and locks
	"began": true, "goes": true,
}

// wrong returns what is wrong with the commands that a text names, in short.
func wrong(root *cobra.Command, text string) (out []string, named int) {
	for _, at := range adviceOf.FindAllStringSubmatchIndex(text, -1) {
		words := strings.Fields(text[at[2]:at[3]])
		if prose[words[0]] {
			continue
		}
		named++
		cmd := root
		for i, word := range words {
			if !cmd.HasSubCommands() {
				break
			}
			next, _, err := cmd.Find([]string{word})
			if err == nil && next != cmd {
				cmd = next
				continue
			}
			// Some commands with others below them take arguments as well.
			if i == 0 || cmd.Args != nil && cmd.Args(cmd, []string{word}) != nil && !followsProse(word) {
				out = append(out, fmt.Sprintf("deckhand %s", strings.Join(words[:i+1], " ")))
			}
			break
		}
		rest := quoted.ReplaceAllString(text[at[3]:], "")
		if end := endAdvice.FindStringIndex(rest); end != nil {
			rest = rest[:end[0]]
		}
		for _, flag := range flagOf.FindAllStringSubmatch(rest, -1) {
			if cmd.Flags().Lookup(flag[1]) == nil && cmd.InheritedFlags().Lookup(flag[1]) == nil && flag[1] != "help" {
				out = append(out, fmt.Sprintf("%s --%s", cmd.CommandPath(), flag[1]))
			}
		}
	}
	return out, named
}

// followsProse reports whether a word that follows a group's name goes on with
// the sentence.
func followsProse(word string) bool {
	switch word {
	case "is", "and", "or", "has", "with", "for", "to":
		return true
	}
	return false
}

// Whatever help, errors and the console advise to run exists, with its flags.
func TestEveryCommandThatIsAdvisedExists(t *testing.T) {
	t.Parallel()
	root := newRoot(&env.Env{Out: io.Discard, Err: io.Discard})
	root.InitDefaultCompletionCmd()
	seen := 0
	check := func(where, text string) {
		bad, named := wrong(root, text)
		seen += named
		for _, what := range bad {
			t.Errorf("%s advises %q, which does not exist", where, what)
		}
	}
	for _, dir := range []string{"cmd", "hub", "internal", "node", "sdk", "worker", "ui/src", "personas"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("../../..", dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "gen" || d.Name() == "testdata"):
				return fs.SkipDir
			case strings.HasSuffix(path, "_test.go"):
			case strings.HasSuffix(path, ".go"):
				return literals(path, check)
			case strings.HasSuffix(path, ".ts"), strings.HasSuffix(path, ".tsx"), strings.HasSuffix(path, ".md"):
				data, err := os.ReadFile(path)
				if err == nil {
					check(path, string(data))
				}
				return err
			}
			return nil
		}))
	}
	require.Greater(t, seen, 200, "the advice was not found")

	for _, text := range []string{
		"see deckhand task frobnicate", "run `deckhand frob`", "deckhand run x --nonsense", "run deckhand node token --for ever",
	} {
		bad, _ := wrong(root, text)
		require.Len(t, bad, 1, text)
	}
}

// literals hands over each text of a Go file; those that are added up count as one.
func literals(path string, check func(where, text string)) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BinaryExpr, *ast.BasicLit:
			expr, _ := n.(ast.Expr)
			if text := textOf(expr); text != "" {
				check(set.Position(n.Pos()).String(), text)
				return false
			}
		}
		return true
	})
	return nil
}

// textOf returns a text that is written out, with … for what is not.
func textOf(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			if err == nil {
				return text
			}
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			if left, right := textOf(e.X), textOf(e.Y); left != "" || right != "" {
				return orHole(left) + orHole(right)
			}
		}
	}
	return ""
}

func orHole(text string) string {
	if text == "" {
		return "…"
	}
	return text
}
