package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Package termsafe drops what styles the output of commands. What will be
// executed, written or sent must not pass through it unseen: it is made literal
// first.
func TestArgumentsAreShownLiterally(t *testing.T) {
	t.Parallel()
	acts := map[string]bool{
		"GetArguments": true, "GetChangedArguments": true, "GetPreview": true, "GetCommand": true, "GetDangers": true, "GetUnclear": true,
	}
	lossy := map[string]bool{"termsafe.Text": true, "termsafe.Line": true}
	read := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		read++
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !lossy[name(call.Fun)] {
				return true
			}
			for _, arg := range call.Args {
				ast.Inspect(arg, func(n ast.Node) bool {
					inner, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					called := name(inner.Fun)
					if strings.HasPrefix(called, "literal.") || called == "output.Arguments" || called == "lines" {
						return false // these two make literal what they are given
					}
					_, method, _ := strings.Cut(called, ".")
					require.False(t, acts[method], "%s: %s is shown by %s: use package literal", fset.Position(inner.Pos()), called, name(call.Fun))
					return true
				})
			}
			return true
		})
		return nil
	}))
	require.Greater(t, read, 150)
}

// name returns the last two parts of what is called.
func name(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := sel.X.(*ast.Ident); ok {
		return x.Name + "." + sel.Sel.Name
	}
	return "." + sel.Sel.Name
}
