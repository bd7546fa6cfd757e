package fault_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// root is the repository.
const root = "../.."

// sources calls do with each file below the root that has one of the
// extensions, apart from what was downloaded or built.
func sources(t *testing.T, do func(path string), extensions ...string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && (name == "node_modules" || name == "dist" || name == "testdata" || len(name) > 2 && name[0] == '.') {
			return filepath.SkipDir
		}
		if !entry.IsDir() && slices.Contains(extensions, filepath.Ext(name)) {
			do(path)
		}
		return nil
	}))
}

// parsed calls do with the syntax of each Go file that is no test and not
// generated.
func parsed(t *testing.T, do func(path string, file *ast.File)) {
	t.Helper()
	files := token.NewFileSet()
	sources(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, filepath.Join(root, "proto/gen")) ||
			strings.HasPrefix(path, filepath.Join(root, "hub/storage/store/db")) {
			return
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		do(path, file)
	}, ".go")
}

// constants returns the codes that fault.go declares, by the names of their
// constants.
func constants(t *testing.T) map[string]fault.Code {
	t.Helper()
	out := map[string]fault.Code{}
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
			out[spec.Names[0].Name] = fault.Code(strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
		}
		return true
	})
	return out
}

var kinds = map[string]fault.Kind{
	"Internal": fault.Internal, "Invalid": fault.Invalid, "Unauthenticated": fault.Unauthenticated, "Denied": fault.Denied,
	"NotFound": fault.NotFound, "Exists": fault.Exists, "Precondition": fault.Precondition, "Aborted": fault.Aborted,
	"Exhausted": fault.Exhausted, "Unavailable": fault.Unavailable, "Deadline": fault.Deadline, "Canceled": fault.Canceled,
}

// of returns what is chosen from package fault, or nothing: X of fault.X.
func of(n ast.Node) string {
	if sel, ok := n.(*ast.SelectorExpr); ok {
		if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "fault" {
			return sel.Sel.Name
		}
	}
	return ""
}

func TestEachCodeHasOneWholeEntry(t *testing.T) {
	t.Parallel()
	var want, got []fault.Code
	for _, code := range constants(t) {
		want = append(want, code)
	}
	titles := map[string]bool{}
	for _, e := range fault.Catalogue() {
		got = append(got, e.Code)
		require.NotEmpty(t, e.Kinds, e.Code)
		require.NotEmpty(t, e.Title, e.Code)
		require.False(t, titles[e.Title], "two codes have the title %q", e.Title)
		titles[e.Title] = true
		for _, text := range []string{e.What, e.Fix} {
			require.Regexp(t, `^[A-Z].*\.$`, text, "%s: whole sentences", e.Code)
			require.NotContains(t, text, "|", "%s: it stands in a table of Markdown", e.Code)
		}
		found, ok := fault.Lookup(e.Code)
		require.True(t, ok)
		require.Equal(t, e, found)
	}
	require.ElementsMatch(t, want, got)
	_, ok := fault.Lookup("AGENT_000")
	require.False(t, ok)
}

func TestEachCodeIsUsed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	parsed(t, func(_ string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			used[of(n)] = true
			return true
		})
	})
	for name, code := range constants(t) {
		require.True(t, used[name], "nothing uses %s (%s)", name, code)
	}
}

// A code that is written out, in a comment of a proto, in the console, in the
// docs or in a test, is one of the catalogue.
func TestEachCodeThatIsWrittenOutIsKnown(t *testing.T) {
	t.Parallel()
	var named []string
	for _, e := range fault.Catalogue() {
		if !strings.HasPrefix(string(e.Code), "AGENT_") {
			named = append(named, string(e.Code))
		}
	}
	agent := regexp.MustCompile(`\bAGENT_\d+\b`)
	quoted := regexp.MustCompile("code [!=]==? \"([A-Z]+_[A-Z_]+)\"")
	seen := 0
	sources(t, func(path string) {
		if filepath.Base(path) == "catalogue_test.go" {
			return
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, code := range agent.FindAllString(string(text), -1) {
			seen++
			_, ok := fault.Lookup(fault.Code(code))
			require.True(t, ok, "%s names %s", path, code)
		}
		if !strings.HasPrefix(path, filepath.Join(root, "ui/src")) {
			return
		}
		for _, match := range quoted.FindAllStringSubmatch(string(text), -1) {
			seen++
			require.Contains(t, named, match[1], path)
		}
	}, ".go", ".proto", ".ts", ".tsx", ".md", ".sql", ".yaml")
	require.NotZero(t, seen)
}

// Where the code writes an error with its kind and its code, the catalogue has
// that kind for the code.
func TestErrorsHaveAKindOfTheirCode(t *testing.T) {
	t.Parallel()
	codes := constants(t)
	checked := 0
	var wrong []string
	parsed(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			for _, pair := range pairs(n) {
				code, isCode := codes[pair[1]]
				kind, isKind := kinds[pair[0]]
				if !isCode || !isKind {
					continue
				}
				checked++
				if e, _ := fault.Lookup(code); !slices.Contains(e.Kinds, kind) {
					wrong = append(wrong, fmt.Sprintf("%s: %s is made with kind %s", path, code, pair[0]))
				}
			}
			return true
		})
	})
	require.Empty(t, wrong)
	require.Greater(t, checked, 50)
}

// pairs returns the names that may be a kind and its code: those of a chain
// New(kind).WithCode(code), and those that are next to each other in the
// arguments of a call or on the right of an assignment.
func pairs(n ast.Node) (out [][2]string) {
	var list []ast.Expr
	switch n := n.(type) {
	case *ast.AssignStmt:
		list = n.Rhs
	case *ast.CallExpr:
		list = n.Args
		if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "WithCode" && len(n.Args) == 1 {
			out = append(out, [2]string{kindOf(n), of(n.Args[0])})
		}
	}
	for i := 1; i < len(list); i++ {
		out = append(out, [2]string{of(list[i-1]), of(list[i])})
	}
	return out
}

// kindOf returns the first argument of the fault.New that a chain of With
// methods begins with.
func kindOf(n ast.Expr) string {
	for {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return ""
		}
		if of(call.Fun) == "New" {
			return of(call.Args[0])
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		n = sel.X
	}
}
