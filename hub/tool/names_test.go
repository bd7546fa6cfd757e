package tool_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// otherWords are the literals that are spelled like a tool's name and mean
// something else, by their files.
var otherWords = map[string][]string{
	"update_plan": {"worker/loop/loop.go", "worker/loop/phases.go"},                                                                                                   // a phase of a turn
	"delegate":    {"hub/work/subtask/graph.go"},                                                                                                                      // a kind of edge
	"checkpoint":  {"cmd/deckhand/cli/env/help.go", "cmd/deckhand/cli/event/event.go", "cmd/deckhand/cli/task/checkpoints.go", "cmd/deckhand/cli/task/resumefrom.go"}, // the label of a line, and a flag
}

// A tool's name is written once, in internal/toolname, and each name there is a
// tool's.
func TestToolNamesAreConstants(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, name := range r.Names() {
		names[name] = true
	}
	delete(names, toolname.Wait) // a word of shells, of flags and of logs, too
	require.ElementsMatch(t, r.Names(), literals(t, "../../internal/toolname/toolname.go"))
	for _, folder := range []string{"hub", "worker", "cmd", "node"} {
		err := filepath.WalkDir("../../"+folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := filepath.Rel("../..", path)
			require.NoError(t, err)
			for _, text := range literals(t, path) {
				if names[text] {
					require.Contains(t, otherWords[text], filepath.ToSlash(file), "%s has the literal %q: use the constant of internal/toolname", file, text)
				}
			}
			return nil
		})
		require.NoError(t, err)
	}
}

// literals returns the strings that a file of Go writes, without the paths of its
// imports and the tags of its structs.
func literals(t *testing.T, path string) (texts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				text, err := strconv.Unquote(n.Value)
				require.NoError(t, err)
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}
