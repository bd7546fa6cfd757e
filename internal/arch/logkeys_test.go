package arch_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/deckhand-sh/deckhand/internal/logging"
)

// logCalls are the methods of a logger, and the index of the first key.
var logCalls = map[string]int{"Trace": 1, "Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0}

// isLog reports whether an expression is a logger, by its name.
func isLog(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.EqualFold(x.Name, "log")
	case *ast.SelectorExpr:
		return strings.EqualFold(x.Sel.Name, "log")
	case *ast.CallExpr:
		f, ok := x.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		if p, ok := f.X.(*ast.Ident); ok && p.Name == "logging" && f.Sel.Name == "From" {
			return true
		}
		return (f.Sel.Name == "Named" || f.Sel.Name == "With") && isLog(f.X)
	}
	return false
}

// lastName returns the last name of an expression: TaskID of step.TaskID and t.GetTaskId().
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return strings.TrimPrefix(x.Sel.Name, "Get")
	case *ast.CallExpr:
		if len(x.Args) == 0 {
			return lastName(x.Fun)
		}
	case *ast.StarExpr:
		return lastName(x.X)
	}
	return ""
}

var snakeCase = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)

// What several roles log is under one key, so that one task can be followed through all of
// them.
func TestLogLinesHaveTheKeysOfTheSchema(t *testing.T) {
	t.Parallel()
	wrong, known, byValue := map[string]string{}, map[string]bool{}, map[string]string{}
	for _, f := range logging.Fields() {
		known[f.Key] = true
		for _, not := range f.Not {
			wrong[not] = f.Key
		}
		byValue[strings.ReplaceAll(f.Key, "_", "")] = f.Key // taskid: of values named TaskID and taskId
	}
	calls := 0
	for _, files := range folders(t) {
		for _, f := range files {
			if f.generated || strings.HasSuffix(f.path, "_test.go") {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				fun, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				first, ok := logCalls[fun.Sel.Name]
				if !ok || !isLog(fun.X) {
					return true
				}
				calls++
				keys := map[string]bool{}
				for i := first; i+1 < len(call.Args); i += 2 {
					lit, ok := call.Args[i].(*ast.BasicLit)
					if !ok || lit.Kind != token.STRING {
						continue // a constant of the schema
					}
					key, _ := strconv.Unquote(lit.Value)
					keys[key] = true
					at := f.set.Position(lit.Pos())
					if right, ok := wrong[key]; ok {
						t.Errorf("%s: the key %q: use %q", at, key, right)
					}
					if !snakeCase.MatchString(key) {
						t.Errorf("%s: the key %q is not in snake case", at, key)
					}
					if right, ok := byValue[strings.ToLower(lastName(call.Args[i+1]))]; ok && strings.HasSuffix(right, "_id") && key != right {
						t.Errorf("%s: the key %q holds a %s: use that", at, key, right)
					}
				}
				if keys[logging.StepID] && !keys[logging.TaskID] {
					t.Errorf("%s: a line with %s and without %s: those of a task are not found by it", f.set.Position(call.Pos()), logging.StepID, logging.TaskID)
				}
				return true
			})
		}
	}
	if calls < 300 {
		t.Errorf("only %d calls of loggers were found", calls)
	}
}
