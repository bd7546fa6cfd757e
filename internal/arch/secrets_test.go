package arch_test

import (
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// secretNames are names of what may be secret, or may prove that somebody knows
// a secret.
var secretNames = regexp.MustCompile(`(?i)(token|secret|mac|signature|hash|password|code)s?$`)

// noSecrets are the comparisons of such names that are none of secrets, by file
// and name: hashes of a record that everybody may read, and codes of errors.
var noSecrets = map[string]string{
	"internal/auditlog/verify.go:hash":           "a record's chain, which whoever verifies it has",
	"internal/auditlog/verify.go:Hash":           "the same",
	"hub/learn/insight/failure.go:code":          "an error's code",
	"hub/learn/insight/failure.go:Code":          "the same",
	"hub/learn/insight/failure.go:ErrorCode":     "the same",
	"hub/egress/credential/bind.go:Password":     "a kind of credential",
	"hub/egress/credential/check.go:Password":    "a kind of credential",
	"hub/egress/credential/insert.go:Password":   "a kind of credential",
	"hub/egress/credential/password.go:Password": "a kind of credential",
	"hub/egress/credential/try.go:Password":      "a kind of credential",
	"hub/egress/credential/reading.go:Password":  "a kind of credential",
	"internal/fault/rpc.go:code":                 "an error's code",
	"internal/fault/catalogue.go:code":           "an error's code",
	"internal/fault/catalogue.go:Code":           "the same",
	"node/skill/mcpbridge/session.go:Code":       "an error's code",
	"node/exec/watch.go:GetExitCode":             "how a command ended",
	"hub/tool/gitpush.go:GetExitCode":            "the same",
	"hub/storage/store/outage.go:Code":           "an error's code",
	"hub/storage/store/store.go:Code":            "the same",
	"hub/storage/store/server.go:Code":           "the same",
	"hub/storage/store/unfinished.go:Code":       "the same",
	"hub/work/trigger/verify/headers.go:HMAC":    "a scheme's name",
	"internal/handle/handle.go:secrets":          "how many there are",
	"hub/record/notification/push.go:secret":     "how long it is",
}

// comparers are functions that answer sooner the sooner their arguments differ.
var comparers = []string{"bytes.Equal", "bytes.Compare", "bytes.EqualFold", "strings.EqualFold", "strings.Compare", "slices.Equal", "cmp.Compare", "reflect.DeepEqual"}

// compared returns the names by which an expression is known.
func compared(e ast.Expr) []string {
	switch x := e.(type) {
	case *ast.Ident:
		return []string{x.Name}
	case *ast.SelectorExpr:
		return []string{x.Sel.Name}
	case *ast.CallExpr:
		names := compared(x.Fun)
		for _, arg := range x.Args {
			names = append(names, compared(arg)...)
		}
		return names
	case *ast.SliceExpr:
		return compared(x.X)
	case *ast.IndexExpr:
		return compared(x.X)
	case *ast.ParenExpr:
		return compared(x.X)
	case *ast.StarExpr:
		return compared(x.X)
	case *ast.UnaryExpr:
		return compared(x.X)
	case *ast.BinaryExpr:
		if x.Op == token.ADD {
			return append(compared(x.X), compared(x.Y)...)
		}
	}
	return nil
}

// fixed reports whether an expression is known to whoever reads the program: a
// literal, nil, or a constant of a package.
func fixed(f *ast.File, e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.CompositeLit:
		return len(x.Elts) == 0
	case *ast.ParenExpr:
		return fixed(f, x.X)
	case *ast.Ident:
		return x.Name == "nil"
	case *ast.CallExpr: // a conversion, or a length, of one
		return len(x.Args) == 1 && fixed(f, x.Args[0])
	case *ast.SelectorExpr:
		of, ok := x.X.(*ast.Ident)
		return ok && slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
			path := strings.Trim(i.Path.Value, `"`)
			return i.Name != nil && i.Name.Name == of.Name || i.Name == nil && path[strings.LastIndex(path, "/")+1:] == of.Name
		})
	}
	return false
}

// Whoever sees how long a comparison takes must not learn how much of a
// secret was right: crypto/subtle or hmac.Equal compare secrets.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	t.Parallel()
	known := maps.Clone(noSecrets)
	looked := 0
	check := func(f file, at token.Pos, sides ...ast.Expr) {
		looked++
		if slices.ContainsFunc(sides, func(e ast.Expr) bool { return fixed(f.ast, e) }) {
			return
		}
		path, err := filepath.Rel(root, f.path)
		if err != nil {
			t.Error(err)
		}
		for _, name := range slices.Concat(compared(sides[0]), compared(sides[1])) {
			key := filepath.ToSlash(path) + ":" + name
			delete(known, key)
			if _, listed := noSecrets[key]; secretNames.MatchString(name) && !listed {
				t.Errorf("%s: %s is compared in a time that tells of it: use crypto/subtle or hmac.Equal, or say in noSecrets why it is none", f.set.Position(at), name)
			}
		}
	}
	for dir, in := range folders(t) {
		// A hub for tests keeps no secrets.
		if !under(filepath.ToSlash(dir), root+"/hub", root+"/node", root+"/internal", root+"/worker", root+"/cmd") || filepath.Base(dir) == "hubtest" {
			continue
		}
		for _, f := range in {
			if f.generated || strings.HasSuffix(f.path, "_test.go") {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.BinaryExpr:
					if x.Op == token.EQL || x.Op == token.NEQ {
						check(f, x.Pos(), x.X, x.Y)
					}
				case *ast.CallExpr:
					if s, ok := x.Fun.(*ast.SelectorExpr); ok && len(x.Args) == 2 {
						if of, ok := s.X.(*ast.Ident); ok && slices.Contains(comparers, of.Name+"."+s.Sel.Name) {
							check(f, x.Pos(), x.Args[0], x.Args[1])
						}
					}
				}
				return true
			})
		}
	}
	if looked < 1000 {
		t.Errorf("only %d comparisons were found", looked)
	}
	for key, why := range known {
		t.Errorf("noSecrets has %s (%s), which is compared nowhere", key, why)
	}
}
