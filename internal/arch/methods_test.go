package arch_test

import (
	"go/ast"
	"path/filepath"
	"strings"
	"testing"
)

// maxMethods is the number of methods from which a type does the work of two.
const maxMethods = 25

// wide are the types with more methods, and how many each has at most. A type that loses
// some gets its new number here, and with maxMethods or fewer its row goes; no row is added.
var wide = map[string]int{
	"hub.Hub":                           31,
	"hub/egress/credential.Credentials": 33,
	"hub/fleet/image.Images":            26,
	"hub/inbox.Service":                 32,
	"hub/policy/shell.walker":           93,
	"hub/record/notification.Service":   52,
	"hub/step.Steps":                    117,
	"hub/work/task.Service":             36,
	"hub/work/trigger.Service":          57,
	"node/egress.jail":                  36,
	"node/exec.Service":                 48,
	"node/files.workspace":              26,
	"node/image.Store":                  49,
	"node/initd.server":                 42,
	"node/jail.Manager":                 132,
	"node/nodetest.Node":                37,
	"node/snapshot.Service":             28,
	"node/snapshot.space":               26,
	"worker.Worker":                     28,
	"worker/hubtest.Hub":                45,
	"worker/loop.run":                   60,
}

func TestNoTypeHasTooManyMethods(t *testing.T) {
	t.Parallel()
	count := map[string]int{}
	for dir, in := range folders(t) {
		dir, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range in {
			if f.generated || strings.HasSuffix(f.path, "_test.go") {
				continue
			}
			for _, decl := range f.ast.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil {
					count[filepath.ToSlash(dir)+"."+receiver(fn)]++
				}
			}
		}
	}
	for name, n := range count {
		switch most, known := wide[name]; {
		case !known && n > maxMethods:
			t.Errorf("%s has %d methods: look for the second type inside, at most %d", name, n, maxMethods)
		case known && n > most:
			t.Errorf("%s has %d methods, %d before: give the new ones to a type of their own", name, n, most)
		}
	}
	for name, most := range wide {
		if count[name] <= maxMethods {
			t.Errorf("%s has %d methods and is not wide any more: delete its row, which says %d", name, count[name], most)
		}
	}
}

// receiver returns the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	of := fn.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// The programs execute no templates: those call methods by name, for which the linker keeps
// every method of a program, a third of its size.
func TestNoProgramExecutesTemplates(t *testing.T) {
	t.Parallel()
	for dir, in := range folders(t) {
		dir, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		top, _, _ := strings.Cut(filepath.ToSlash(dir), "/")
		if top == "scripts" || top == "integration" || top == "tools" {
			continue // they are no part of the programs
		}
		for _, f := range in {
			if strings.HasSuffix(f.path, "_test.go") {
				continue
			}
			for _, imported := range f.ast.Imports {
				if path := strings.Trim(imported.Path.Value, `"`); path == "text/template" || path == "html/template" {
					t.Errorf("%s imports %s: write the text with strings.Builder, and escape what is put into HTML", f.path, path)
				}
			}
		}
	}
}
