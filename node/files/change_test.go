package files_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/files"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// An edit happens once, and only to the file it expects.
func TestEdits(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	path := filepath.Join(dir, "a")
	const before = "one\ntwo\n\ttwo, three\nfour\n"
	require.NoError(t, os.WriteFile(path, []byte(before), 0o640))
	edit := func(operation, expect, old, made string) (*nodev1.EditFileResponse, error) {
		old, all := strings.CutPrefix(old, "all:")
		return s.EditFile(t.Context(), &nodev1.EditFileRequest{
			JailId: jailID, Path: "a", OperationId: operation, ExpectDigest: expect,
			Edit: &nodev1.Edit{Old: []byte(old), New: []byte(made), All: all},
		})
	}
	for name, c := range map[string]struct{ expect, old, says string }{
		"not there":           {"", "two,three", `the old text is not in "a"; what is most like it begins on line 3: "two, three"`},
		"nothing like it":     {"", "completely different", `the old text is not in "a"`},
		"not the only one":    {"", "two", "2 times in \"a\", on lines 2, 3"},
		"of another's change": {digest("what it was before"), "one", "it was changed in the meantime"},
	} {
		_, err := edit("", c.expect, c.old, "x")
		require.ErrorContains(t, err, c.says, name)
		content, rerr := os.ReadFile(path)
		require.NoError(t, rerr)
		require.Equal(t, before, string(content), name)
	}
	for range 2 { // asked again it happens once
		got, err := edit("step_1", digest(before), "all:two", "2\nand")
		require.NoError(t, err)
		require.EqualValues(t, 2, got.GetReplacements())
		require.Equal(t, digest("one\n2\nand\n\t2\nand, three\nfour\n"), got.GetDigest())
		require.Equal(t, []int64{2, 4}, got.GetLines())
		require.EqualValues(t, 1, got.GetExcerptLine())
		require.Equal(t, "one\n2\nand\n\t2\nand, three\nfour\n", string(got.GetExcerpt()), "three lines before and after")
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o640, info.Mode().Perm())
}

// The daemon dies between an effect and its record: the next one finds what
// happened, and does it no second time.
func TestChangesThatWereInterrupted(t *testing.T) {
	t.Parallel()
	for _, happened := range []bool{false, true} {
		top := t.TempDir()
		jail := one{dir: filepath.Join(top, "workspace"), uid: os.Geteuid(), gid: os.Getegid()}
		require.NoError(t, os.Mkdir(jail.dir, 0o755))
		put := func(name, content string) {
			require.NoError(t, os.WriteFile(filepath.Join(jail.dir, name), []byte(content), 0o600))
		}
		book, err := ledger.Open(ledger.Config{Path: filepath.Join(top, "ledger.db")})
		require.NoError(t, err)
		defer book.Close()
		put("edited", "aa")
		put("moved", "m")
		put("deleted", "d")
		ask := func(s *files.Service) (errs []error) {
			_, err := s.EditFile(t.Context(), &nodev1.EditFileRequest{
				JailId: jailID, Path: "edited", OperationId: "step_1", Edit: &nodev1.Edit{Old: []byte("aa"), New: []byte("aaa")},
			})
			errs = append(errs, err)
			_, err = s.MoveFile(t.Context(), &nodev1.MoveFileRequest{JailId: jailID, From: "moved", To: "d/to", OperationId: "step_2"})
			errs = append(errs, err)
			_, err = s.DeleteFile(t.Context(), &nodev1.DeleteFileRequest{JailId: jailID, Path: "deleted", OperationId: "step_3"})
			return append(errs, err)
		}
		first, err := files.New(files.Config{Workspaces: jail, Ledger: mortal{book}})
		require.NoError(t, err)
		for _, err := range ask(first) {
			require.Error(t, err)
		}
		if !happened { // it died before the effect
			put("edited", "aa")
			require.NoError(t, os.Rename(filepath.Join(jail.dir, "d", "to"), filepath.Join(jail.dir, "moved")))
			put("deleted", "d")
		}
		second, err := files.New(files.Config{Workspaces: jail, Ledger: book})
		require.NoError(t, err)
		for range 2 {
			for _, err := range ask(second) {
				require.NoError(t, err)
			}
		}
		content, err := os.ReadFile(filepath.Join(jail.dir, "edited"))
		require.NoError(t, err)
		require.Equal(t, "aaa", string(content))
		require.FileExists(t, filepath.Join(jail.dir, "d", "to"))
		require.NoFileExists(t, filepath.Join(jail.dir, "moved"))
		require.NoFileExists(t, filepath.Join(jail.dir, "deleted"))
	}
}

// Neither a move nor a deletion leads out of the workspace.
func TestMovesAndDeletionsStayInside(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "full"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "full", "x"), []byte("x"), 0o600))
	move := func(from, to string) error {
		_, err := s.MoveFile(t.Context(), &nodev1.MoveFileRequest{JailId: jailID, From: from, To: to, Overwrite: true})
		return err
	}
	remove := func(path string, recursive bool) error {
		_, err := s.DeleteFile(t.Context(), &nodev1.DeleteFileRequest{JailId: jailID, Path: path, Recursive: recursive})
		return err
	}
	for _, err := range []error{
		move("a", "link/a"), move("link/secret", "b"), move("a", "../outside/a"), move("/etc/passwd", "b"),
		remove("link/secret", false), remove("../outside", true), remove("/workspace/../outside", true),
	} {
		require.Equal(t, fault.SandboxViolation, fault.As(err).Code, "%v", err)
	}
	require.True(t, fault.Is(move("a", "full"), fault.Exists))
	require.Error(t, remove("full", false))
	require.Error(t, remove(".", true))
	require.NoError(t, remove("full", true))
	require.NoError(t, remove("link", true))
	require.FileExists(t, filepath.Join(outside, "secret"), "the link went, and not what it led to")
	require.NoError(t, move("a", "b/c/d"))
	require.FileExists(t, filepath.Join(dir, "b", "c", "d"))
}

func TestSearch(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "src", "deep"), 0o755))
	for name, content := range map[string]string{
		"src/a.go": "package a\n// Needle here\nneedle\n", "src/deep/b.go": "x needle y\r\n", "c.txt": "needle", "bin": "needle\x00",
		"long": strings.Repeat("x", 200_000) + "needle\nneedle\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	require.NoError(t, os.Symlink("../outside", filepath.Join(dir, "link")))
	find := func(req *nodev1.SearchFilesRequest) (got []string) {
		req.JailId = jailID
		out, err := s.SearchFiles(t.Context(), req)
		require.NoError(t, err)
		for _, m := range out.GetMatches() {
			got = append(got, fmt.Sprintf("%s %d %s", m.GetPath(), m.GetLine(), m.GetText()))
		}
		return got
	}
	require.Equal(t, []string{"c.txt 1 needle", "long 2 needle", "src/a.go 3 needle", "src/deep/b.go 1 x needle y"}, find(&nodev1.SearchFilesRequest{Pattern: "needle"}))
	require.Equal(t, []string{"src/a.go 2 // Needle here", "src/a.go 3 needle"}, find(&nodev1.SearchFilesRequest{
		Pattern: `^(// )?needle`, Regexp: true, IgnoreCase: true, Name: "*.go", Path: "src",
	}))
	require.Len(t, find(&nodev1.SearchFilesRequest{Pattern: "needle", MaxMatches: 1}), 1)
	for _, pattern := range []string{"(", "([a-y]*){10}(x?){900}z"} {
		_, err := s.SearchFiles(t.Context(), &nodev1.SearchFilesRequest{JailId: jailID, Pattern: pattern, Regexp: true})
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	}
}

// A listing with a pattern has what matches it below its folder, however deep, and counts
// nothing else.
func TestAListingCanBeOfWhatMatchesAPattern(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	for _, name := range []string{"a.go", "b.md", "sub/c.go", "sub/deep/d.go", "sub/deep/e.ts", "out/f.go"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("out\n"), 0o600))
	for _, c := range []struct {
		path, pattern string
		limit         int32
		want          []string
	}{
		{"", "**/*.go", 0, []string{"a.go", "sub/c.go", "sub/deep/d.go"}},
		{"", "*.go", 0, []string{"a.go"}},
		{"sub", "*.go", 0, []string{"sub/c.go"}},
		{"sub", "**/*.{go,ts}", 0, []string{"sub/c.go", "sub/deep/d.go", "sub/deep/e.ts"}},
		{"", "**/deep", 0, []string{"sub/deep"}},
		{"", "**/*.go", 2, []string{"a.go", "sub/c.go"}},
		{"", "**/*.rs", 0, nil},
	} {
		out, err := s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: jailID, Path: c.path, Pattern: c.pattern, Limit: c.limit, SkipIgnored: true})
		require.NoError(t, err)
		var got []string
		for _, f := range out.GetFiles() {
			got = append(got, f.GetPath())
		}
		require.Equal(t, c.want, got, "%+v", c)
		require.Equal(t, c.limit > 0, out.GetTruncated(), "%+v", c)
	}
	_, err := s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: jailID, Pattern: "a[", SkipIgnored: true})
	require.ErrorContains(t, err, `pattern "a[" cannot be read`)
}

// Listing and search can leave out what Git ignores. Listing an ignored folder itself shows
// what is in it.
func TestWhatGitIgnoresIsLeftOut(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	for name, content := range map[string]string{
		".gitignore": "*.log\n/build/\n", ".git/config": "needle", "a.go": "needle", "a.log": "needle", "build/out": "needle",
		"sub/.gitignore": "!keep.log\n", "sub/keep.log": "needle", "sub/other.log": "needle",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	list := func(path string, skip bool) (got []string, ignored int32) {
		out, err := s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: jailID, Path: path, Recursive: true, SkipIgnored: skip})
		require.NoError(t, err)
		for _, f := range out.GetFiles() {
			got = append(got, f.GetPath())
		}
		return got, out.GetIgnored()
	}
	find := func(path string, skip bool) (got []string) {
		out, err := s.SearchFiles(t.Context(), &nodev1.SearchFilesRequest{JailId: jailID, Path: path, Pattern: "needle", SkipIgnored: skip})
		require.NoError(t, err)
		for _, m := range out.GetMatches() {
			got = append(got, m.GetPath())
		}
		return got
	}
	all, ignored := list("", false)
	require.Len(t, all, 11)
	require.Zero(t, ignored)
	some, ignored := list("", true)
	require.Equal(t, []string{".gitignore", "a.go", "sub", "sub/.gitignore", "sub/keep.log"}, some)
	require.EqualValues(t, 4, ignored)
	below, _ := list("sub", true)
	require.Equal(t, []string{"sub/.gitignore", "sub/keep.log"}, below, "by the rules above it too")
	named, _ := list("build", true)
	require.Equal(t, []string{"build/out"}, named)
	require.Equal(t, []string{"a.go", "sub/keep.log"}, find("", true))
	require.Len(t, find("", false), 6)
	require.Equal(t, []string{".git/config"}, find(".git", true))
}

func TestASearchEndsWithItsContextWithinAFile(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lines"), []byte(strings.Repeat("a line\n", 1000)), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // whether it had a slot by then or not
		_, err := s.SearchFiles(ctx, &nodev1.SearchFilesRequest{JailId: jailID, Path: "lines", Pattern: "line"})
		require.ErrorIs(t, err, context.Canceled)
	}
}
