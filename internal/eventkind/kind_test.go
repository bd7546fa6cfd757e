package eventkind_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
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
		require.NotEmpty(t, e.When, e.Kind)
		require.NotEmpty(t, e.Payload, e.Kind)
		require.Equal(t, e.Worker, eventkind.FromWorker(string(e.Kind)))
	}
	require.False(t, eventkind.FromWorker("inbox_answered"))
	require.False(t, eventkind.FromWorker("invented"))
}

// A pattern names a group, a name or a beginning; an event is selected by its kind and by
// each lifecycle name that its payload gives it.
func TestSelect(t *testing.T) {
	t.Parallel()
	for _, group := range eventkind.Groups() {
		require.NotEmpty(t, eventkind.Members(group), group)
		selected, err := eventkind.Select("types", []string{group})
		require.NoError(t, err)
		require.Len(t, selected, len(eventkind.Members(group)))
	}
	selected, err := eventkind.Select("types", []string{"task.*", "agent.paused", "thinking"})
	require.NoError(t, err)
	require.Subset(t, selected.Sources(), []string{"task.assigned", "task.submitted", "state_changed", "thinking"})
	require.Equal(t, []string{"task.submitted", "task.assigned"}, selected.Of("task.submitted", map[string]any{"agent": "triage", "assignee": "ada"}))
	require.Equal(t, []string{"task.submitted"}, selected.Of("task.submitted", map[string]any{"agent": ""}))
	for payload, want := range map[string]bool{`{"to":"paused"}`: true, `{"to":"failed"}`: true, `{"to":"running"}`: false, `{}`: false, `no JSON`: false} {
		require.Equal(t, want, selected.Has("state_changed", []byte(payload)), payload)
	}
	require.True(t, selected.Has("thinking", nil))
	require.False(t, selected.Has("tool_selected", []byte(`{}`)))

	_, err = eventkind.Select("types", []string{"thinking", "agent.invented"})
	require.ErrorContains(t, err, `unknown event type "agent.invented" in types`)
	everything, err := eventkind.Select("types", []string{"*"})
	require.NoError(t, err)
	require.Equal(t, eventkind.Names(), everything.Sources())
}

// A lifecycle name that a stored kind has, too, would be sent twice for one event.
func TestLifecycleNamesAreSortedAndOfKinds(t *testing.T) {
	t.Parallel()
	var names []string
	for _, l := range eventkind.LifecycleTable() {
		require.NotEqual(t, string(l.From), l.Name)
		require.Contains(t, eventkind.Names(), string(l.From), l.Name)
		require.NotEmpty(t, l.What, l.Name)
		names = append(names, l.Name)
	}
	require.True(t, slices.IsSorted(names))
	require.Equal(t, "human agent agent system system", strings.Join([]string{
		eventkind.ActorClass("user"), eventkind.ActorClass("worker"), eventkind.ActorClass("agent"), eventkind.ActorClass("hub"), eventkind.ActorClass("node"),
	}, " "))
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
