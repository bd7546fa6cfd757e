package eventkind_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/eventkind"
)

const root = "../.."

func TestTheTableIsSortedAndSaysWhatEachKindTells(t *testing.T) {
	t.Parallel()
	names := eventkind.Names()
	require.True(t, slices.IsSorted(names))
	require.Len(t, slices.Compact(slices.Clone(names)), len(names), "a kind is in the table twice")
	for _, e := range eventkind.All() {
		require.NotEmpty(t, e.What, e.Kind)
		require.Equal(t, e.Worker, eventkind.FromWorker(string(e.Kind)))
	}
	require.False(t, eventkind.FromWorker("inbox_answered"))
	require.False(t, eventkind.FromWorker("invented"))
}

// The page of events documents each kind, under the heading of who writes it, and
// nothing else.
func TestTheDocumentedEventsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/events.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "## From the worker")
	require.True(t, found)
	worker, hub, found := strings.Cut(rest, "## From the hub")
	require.True(t, found)
	for fromWorker, section := range map[bool]string{true: worker, false: hub} {
		var documented, declared []string
		for line := range strings.Lines(section) {
			if strings.HasPrefix(line, "## ") {
				break
			}
			if cells := strings.Split(line, "|"); len(cells) > 2 {
				for _, name := range regexp.MustCompile("`([a-z_.]+)`").FindAllStringSubmatch(cells[1], -1) {
					documented = append(documented, name[1])
				}
			}
		}
		for _, e := range eventkind.All() {
			if e.Worker == fromWorker {
				declared = append(declared, string(e.Kind))
			}
		}
		require.ElementsMatch(t, declared, documented, "written by a worker: %v", fromWorker)
	}
}

// No event is written under a kind that the table does not have: drafts name their
// kind by a constant.
func TestNoDraftNamesItsKindByALiteral(t *testing.T) {
	t.Parallel()
	drafts := 0
	for _, dir := range []string{"hub", "worker"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				for _, element := range lit.Elts {
					pair, ok := element.(*ast.KeyValueExpr)
					if !ok {
						continue
					}
					if key, ok := pair.Key.(*ast.Ident); !ok || key.Name != "Type" {
						continue
					}
					switch value := pair.Value.(type) {
					case *ast.SelectorExpr:
						if of, ok := value.X.(*ast.Ident); ok && of.Name == "eventkind" {
							drafts++
						}
					case *ast.BasicLit:
						text, err := strconv.Unquote(value.Value)
						if slices.Contains(eventkind.Names(), text) {
							t.Errorf("%s: %s is written as a literal (%v): use its constant", path, value.Value, err)
						}
					}
				}
				return true
			})
			return nil
		}))
	}
	require.Greater(t, drafts, 25, "drafts were not found")
}
