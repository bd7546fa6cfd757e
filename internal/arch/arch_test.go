package arch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/deckhand-sh/deckhand"
	root   = "../.."
	// maxLines is the length from which a file holds a second noun.
	maxLines = 600
	// maxMain is the length of a main: parse, Complete, Run.
	maxMain = 30
)

// pkg is what `go list` says of a package.
type pkg struct {
	ImportPath                         string
	Standard                           bool
	Imports, TestImports, XTestImports []string
}

// packages answers the module's packages and all that they depend on.
var packages = sync.OnceValues(func() (map[string]pkg, error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Standard,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New(err.Error() + ": " + stderr.String())
	}
	all := map[string]pkg{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
})

// under reports whether a package is one of, or below one of, the paths.
func under(path string, paths ...string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

func ours(paths ...string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = module + "/" + p
	}
	return out
}

// way returns how a package comes to link another for which bad is true:
// each step imports the next. Empty when it does not.
func way(all map[string]pkg, from string, bad func(string) bool) []string {
	before := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range all[queue[0]].Imports {
			if _, seen := before[next]; seen || all[next].Standard {
				continue
			}
			before[next] = queue[0]
			if bad(next) {
				var out []string
				for p := next; p != ""; p = before[p] {
					out = append(out, p)
				}
				slices.Reverse(out)
				return out
			}
			queue = append(queue, next)
		}
	}
	return nil
}

const (
	pgx  = "github.com/jackc/pgx"
	nats = "github.com/nats-io"
	// publicAPI are the messages of the public API, which are megabytes.
	publicAPI = "proto/gen/deckhand/v1"
	sigstore  = "github.com/sigstore" // large: the hub verifies signatures, nodes only read them
)

var models = []string{
	"github.com/anthropics/anthropic-sdk-go", "github.com/openai/openai-go", "google.golang.org/genai",
}

func TestPackagesLinkOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	all, err := packages()
	require.NoError(t, err)
	for name, rule := range map[string]struct {
		// who, and all below them but those that another rule is about.
		who, but []string
		// composes are packages that put others together, without those below them.
		composes []string
		// never is what they must not link, at any depth; exactly is the same
		// of one package without those below it.
		never, exactly []string
	}{
		"a node runs without hub, worker, public API, database, bus, models and sigstore": {
			who:   ours("node", "cmd/deckhand-node"),
			never: slices.Concat(ours("hub", "worker", "sdk", publicAPI), models, []string{pgx, nats, sigstore}),
		},
		"init is small": {
			who:   ours("cmd/deckhand-init", "node/initd"),
			never: slices.Concat(ours("hub", "worker", "sdk", publicAPI), models, []string{pgx, nats, "connectrpc.com", "github.com/containerd/containerd"}),
			// ttrpc needs gRPC's codes and status, which are small.
			exactly: []string{"google.golang.org/grpc"},
		},
		"a worker knows the hub by its API only": {
			who:   ours("worker"),
			never: slices.Concat(ours("hub", "node"), []string{pgx}),
		},
		"the SDK is for programs elsewhere": {
			who:   ours("sdk"),
			never: slices.Concat(ours("hub", "node", "worker"), models, []string{pgx, nats}),
		},
		"what all share depends on none of them": {
			who:   ours("internal"),
			never: ours("hub", "node", "worker", "sdk", "cmd"),
		},
		"a command knows the hub by its API only": {
			who: ours("cmd/deckhand/cli"),
			// Each of these has a rule of its own, but role, which runs the roles, and backup,
			// which works on the data of hub and node.
			but:      ours("cmd/deckhand/cli/role", "cmd/deckhand/cli/backup", "cmd/deckhand/cli/eval", "cmd/deckhand/cli/policy"),
			composes: ours("cmd/deckhand/cli"),
			never:    slices.Concat(ours("hub", "node", "worker"), models, []string{pgx, nats}),
		},
		"the command eval takes only the guardrails from the worker": {
			who:     ours("cmd/deckhand/cli/eval"),
			never:   slices.Concat(ours("hub", "node"), models, []string{pgx, nats}),
			exactly: ours("worker", "worker/loop"),
		},
		"the command policy takes only the policy from the hub": {
			who:     ours("cmd/deckhand/cli/policy"),
			never:   slices.Concat(ours("node", "worker"), models),
			exactly: ours("hub"),
		},
		"the hub knows nodes by their services only": {
			who:   ours("hub"),
			never: ours("node", "worker"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for path := range all {
				if !under(path, rule.who...) || under(path, rule.but...) || slices.Contains(rule.composes, path) {
					continue
				}
				if chain := way(all, path, func(p string) bool {
					return under(p, rule.never...) || slices.Contains(rule.exactly, p)
				}); chain != nil {
					t.Errorf("%s", strings.Join(chain, "\n\timports "))
				}
			}
		})
	}
}

// wings are the folders of the hub, from the lowest: the packages of a wing import
// those of the same wing and of wings before it.
var wings = []string{
	"storage", "record", "policy", "identity", "fleet", "model", "tool", "work", "learn", "egress", "inbox", "step", "review", "maintenance", "api",
}

func TestTheHubsWingsFormNoCircles(t *testing.T) {
	t.Parallel()
	all, err := packages()
	require.NoError(t, err)
	wingOf := func(path string) int {
		rest, found := strings.CutPrefix(path, module+"/hub/")
		if !found {
			return -1
		}
		wing, _, _ := strings.Cut(rest, "/")
		if wing == "hubtest" {
			return len(wings)
		}
		at := slices.Index(wings, wing)
		if at < 0 {
			t.Errorf("%s is in no wing: add it to wings, or move it", path)
		}
		return at
	}
	for path, p := range all {
		from := wingOf(path)
		if from < 0 {
			continue
		}
		for _, imported := range p.Imports {
			if to := wingOf(imported); to > from {
				t.Errorf("%s imports %s, which is in a wing above it", path, imported)
			}
		}
	}
}

func TestOnlyTheHubOpensTheDatabase(t *testing.T) {
	t.Parallel()
	all, err := packages()
	require.NoError(t, err)
	for path, p := range all {
		// A benchmark may look into the database that it measures.
		if !under(path, module) || under(path, ours("hub", "scripts/benchmark")...) {
			continue
		}
		imports := p.Imports
		// A test of the whole may look into the database.
		if !under(path, ours("integration")...) {
			imports = slices.Concat(imports, p.TestImports, p.XTestImports)
		}
		for _, imported := range imports {
			if under(imported, pgx) || imported == "database/sql" {
				t.Errorf("%s imports %s", path, imported)
			}
		}
	}
}

// file is one parsed Go file of the module.
type file struct {
	path      string
	lines     int
	generated bool
	ast       *ast.File
	set       *token.FileSet
}

// folders returns the module's Go files by folder. It reads them itself, so
// that `go test` knows when to run these tests again.
func folders(t *testing.T) map[string][]file {
	t.Helper()
	out := map[string][]file{}
	set := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := path != root && strings.HasPrefix(d.Name(), ".")
			if hidden || d.Name() == "testdata" || d.Name() == "node_modules" || path == filepath.Join(root, "tools") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		out[dir] = append(out[dir], file{
			path: path, lines: set.File(parsed.Pos()).LineCount(), generated: ast.IsGenerated(parsed), ast: parsed, set: set,
		})
		return nil
	}))
	require.NotEmpty(t, out)
	return out
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	for dir, in := range folders(t) {
		documented := slices.ContainsFunc(in, func(f file) bool {
			return f.generated || f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != ""
		})
		if !documented {
			t.Errorf("%s: no file has a package doc comment: say in one what the package is for", dir)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	for _, in := range folders(t) {
		for _, f := range in {
			if !f.generated && f.lines > maxLines {
				t.Errorf("%s has %d lines: look for the second noun inside", f.path, f.lines)
			}
		}
	}
}

func TestMainsAreShort(t *testing.T) {
	t.Parallel()
	for dir, in := range folders(t) {
		total := 0
		for _, f := range in {
			if f.ast.Name.Name != "main" || strings.HasSuffix(f.path, "_test.go") {
				continue
			}
			for _, decl := range f.ast.Decls {
				if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.IMPORT {
					continue
				}
				lines := f.set.Position(decl.End()).Line - f.set.Position(decl.Pos()).Line + 1
				total += lines
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == "main" && lines >= maxMain {
					t.Errorf("%s: main has %d lines; fewer than %d are enough for parse, Complete, Run", f.path, lines, maxMain)
				}
			}
		}
		if under(filepath.ToSlash(dir), root+"/cmd") && total >= maxMain {
			t.Errorf("%s: the command has %d lines; put what is more than parse, Complete, Run into a package", dir, total)
		}
	}
}
