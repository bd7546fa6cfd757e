package arch_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A page is a document of the repository, by its path below the root.
type page struct{ path, text string }

// pages returns the documents for people.
func pages(t *testing.T) []page {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	var out []page
	for _, path := range append(paths, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"),
		filepath.Join(root, "sdk", "README.md"), filepath.Join(root, "sdk", "ts", "README.md")) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		rel, err := filepath.Rel(root, path)
		require.NoError(t, err)
		out = append(out, page{rel, string(text)})
	}
	return out
}

// subfolders returns the folders directly below dir that have something in
// them that is committed, as far as a name can tell.
func subfolders(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, dir))
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		ignored := []string{"bin", "node_modules", "testdata"} // as in .gitignore
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(ignored, e.Name()) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

var (
	tree   = regexp.MustCompile("(?s)```tree\n(.*?)```")
	folder = regexp.MustCompile(`^( *)(\S+)/ +\S`)
)

// The tree in docs/architecture.md has the top-level folders, and where it
// shows what is in one, all of that. A line is a name with a slash, and what
// the folder is for; two spaces of indentation go one level deeper.
func TestTheDocumentedTreeIsTheFolders(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	block := tree.FindStringSubmatch(string(text))
	require.NotNil(t, block, "docs/architecture.md has no block of the kind tree")
	documented := map[string][]string{}
	var above []string
	for line := range strings.Lines(block[1]) {
		m := folder.FindStringSubmatch(line)
		require.NotNil(t, m, "not a name with a slash and a description: %q", line)
		depth := len(m[1]) / 2
		require.LessOrEqual(t, depth, len(above), line)
		above = append(above[:depth], m[2])
		parent := filepath.Join(above[:depth]...)
		documented[parent] = append(documented[parent], filepath.Join(above...))
	}
	for parent, children := range documented {
		require.ElementsMatch(t, subfolders(t, parent), children, "the folders in %q, and what docs/architecture.md shows there", parent)
	}
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noise   = regexp.MustCompile("[^a-z0-9 _-]")
)

// anchors returns what a link to a page may have behind its #, as GitHub makes
// it of the headings.
func anchors(text string) []string {
	var out []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		out = append(out, strings.ReplaceAll(noise.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

func TestLinksInTheDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(p.text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := p.text
			if path != "" {
				data, err := os.ReadFile(filepath.Join(root, filepath.Dir(p.path), path))
				if err != nil {
					t.Errorf("%s links to %s, which does not exist", p.path, m[1])
					continue
				}
				target = string(data)
			}
			if anchor != "" && !slices.Contains(anchors(target), anchor) {
				t.Errorf("%s links to %s, and no heading there is called so", p.path, m[1])
			}
		}
	}
}

// quoted is a block that shows a file of the repository.
var quoted = regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n```[a-z]*\n(.*?)```")

// A block below a comment such as <!-- file: docs/quickstart/agent.md --> is a
// part of that file, but for its indentation.
func TestQuotedFilesAreAsInTheDocuments(t *testing.T) {
	t.Parallel()
	flat := func(text string) string {
		var out []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, line)
			}
		}
		return strings.Join(out, "\n")
	}
	for _, p := range pages(t) {
		for _, m := range quoted.FindAllStringSubmatch(p.text, -1) {
			data, err := fs.ReadFile(os.DirFS(root), m[1])
			require.NoError(t, err, p.path)
			if !strings.Contains(flat(string(data)), flat(m[2])) {
				t.Errorf("%s shows a part of %s that is not in it", p.path, m[1])
			}
		}
	}
}

// source names a file or folder of the repository.
var source = regexp.MustCompile("`((?:hub|worker|node|sdk|internal|cmd|ui|integration|scripts|packaging|personas|proto|docs)/[A-Za-z0-9_./-]+)`")

func TestPathsInTheDocumentsExist(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for _, m := range source.FindAllStringSubmatch(fence.ReplaceAllString(p.text, ""), -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", p.path, m[1])
			}
		}
	}
}

var point = regexp.MustCompile("crash-[a-z]+-[a-z]+")

// docs/architecture.md shows where in a step a test may kill a process.
func TestEveryCrashPointIsDocumented(t *testing.T) {
	t.Parallel()
	named := func(path string) []string {
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		names := point.FindAllString(string(text), -1)
		slices.Sort(names)
		return slices.Compact(names)
	}
	require.Equal(t, named("internal/crashpoint/crashpoint.go"), named("docs/architecture.md"))
}
