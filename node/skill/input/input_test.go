package input_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/skill/input"
)

// endless is one line of so many bytes.
type endless struct{ left int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.left)
	clear(p[:n])
	e.left -= n
	return int(n), nil
}

func TestALineOfAGigabyteIsReadInConstantMemory(t *testing.T) {
	t.Parallel()
	lines := input.NewLines(io.MultiReader(strings.NewReader("a\n"), &endless{1 << 30}, strings.NewReader("\nb\r\nlast")))
	require.True(t, lines.Next())
	require.Equal(t, "a", string(lines.Line()))
	require.True(t, lines.Next())
	require.Len(t, lines.Line(), input.MaxLine)
	require.EqualValues(t, 2, lines.Offset())
	require.True(t, lines.Next())
	require.Equal(t, "b", string(lines.Line()))
	require.EqualValues(t, 3+1<<30, lines.Offset())
	require.EqualValues(t, 3, lines.Number())
	require.True(t, lines.Next())
	require.Equal(t, "last", string(lines.Line()))
	require.False(t, lines.Next())
	require.NoError(t, lines.Err())
	require.EqualValues(t, 1, lines.Cut)
}

// Lines are the same wherever the reads end.
func TestLinesDoNotDependOnHowTheyAreRead(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a line\n\nanother, longer line\n", 30_000) + strings.Repeat("y", 200_000) + "\nend"
	var got []string
	for lines := input.NewLines(iotestHalf{strings.NewReader(text)}); lines.Next(); {
		got = append(got, string(lines.Line()))
	}
	want := strings.Split(text, "\n")
	want[len(want)-2] = want[len(want)-2][:input.MaxLine]
	require.Equal(t, want, got)
}

// iotestHalf reads in odd pieces.
type iotestHalf struct{ r io.Reader }

func (h iotestHalf) Read(p []byte) (int, error) { return h.r.Read(p[:min(len(p), 7919)]) }

func TestAGzipBombEndsWhereACallMayReadNoMore(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, err := io.Copy(zip, &endless{64 << 20})
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	path := filepath.Join(t.TempDir(), "bomb.gz")
	require.NoError(t, os.WriteFile(path, packed.Bytes(), 0o600))
	f, err := input.Open(t.Context(), path, 1<<20)
	require.NoError(t, err)
	defer f.Close()
	n, err := io.Copy(io.Discard, f)
	require.ErrorIs(t, err, input.ErrTooMuch)
	require.EqualValues(t, 1<<20, n)
}

func TestAFileThatGrowsIsReadToWhereItEnded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte("before\n"), 0o600))
	f, err := input.Open(t.Context(), path, 1<<20)
	require.NoError(t, err)
	defer f.Close()
	more, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = more.WriteString("after\n")
	require.NoError(t, err)
	require.NoError(t, more.Close())
	text, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "before\n", string(text))
	require.EqualValues(t, 6, f.Grown())
}

func TestATreeIsWalkedAsGitWouldSeeIt(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, text := range map[string]string{
		".gitignore": "*.log\n/build/\n!keep.log\n", "a.go": "x", "b.log": "x", "keep.log": "x", "build/out": "x", "sub/build/in": "x",
		"sub/.gitignore": "secret*\n", "sub/secret.txt": "x", "secret.txt": "x", ".git/config": "x", "node_modules/m/i.js": "x",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
	}
	// A loop of links, and one that leads out.
	require.NoError(t, os.Symlink("..", filepath.Join(root, "sub", "loop")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(root, "etc")))
	seen := map[string]bool{}
	tree := &input.Tree{Root: root, Each: func(e input.Entry) error { seen[e.Rel] = true; return nil }}
	require.NoError(t, tree.Walk(t.Context()))
	require.Equal(t, map[string]bool{
		".gitignore": true, "a.go": true, "keep.log": true, "sub/.gitignore": true, "sub/build/in": true, "secret.txt": true,
	}, seen)
	require.Equal(t, 2, tree.Links)
}

// Agents name what is in their workspace by its path below it.
func TestName(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"src/a.go": "src/a.go", "./src/a.go": "src/a.go", "/workspace/src/a.go": "src/a.go", "/workspace": ".", ".": ".", "/var/log/a": "/var/log/a", "/workspaces/a": "/workspaces/a",
	} {
		require.Equal(t, want, input.Name(path), path)
	}
}
