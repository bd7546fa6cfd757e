package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/files"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Of the machine only the folders that its operator names are read, whatever the path looks
// like and wherever symbolic links lead, and nothing of them is written.
func TestOnlyFoldersThatTheOperatorShowsAreBrowsed(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	for _, dir := range []string{"shown/sub", "shown-not", "secret"} {
		require.NoError(t, os.MkdirAll(at(dir), 0o700))
	}
	for name, text := range map[string]string{"shown/a.conf": "a\n", "shown/sub/b.conf": "b\n", "shown-not/c.conf": "c\n", "secret/key": "secret"} {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
	}
	require.NoError(t, os.Symlink(at("secret/key"), at("shown/absolute")))
	require.NoError(t, os.Symlink("../secret/key", at("shown/relative")))
	require.NoError(t, os.Symlink("../secret", at("shown/folder")))
	require.NoError(t, os.Symlink("sub/b.conf", at("shown/inside")))
	require.NoError(t, os.Symlink(at("shown/sub/b.conf"), at("shown/sub/absolute")))
	require.NoError(t, os.Symlink(at("shown/sub"), at("shown/sub/self")))
	require.NoError(t, os.Symlink(at("shown/sub/loop"), at("shown/sub/loop")))
	book, err := ledger.Open(ledger.Config{Path: at("ledger.db")})
	require.NoError(t, err)
	t.Cleanup(func() { _ = book.Close() })
	found := func(dir string) (string, error) { return dir, nil }
	s, err := files.New(files.Config{Workspaces: one{dir: at("secret")}, Ledger: book, Browsed: []string{at("shown")}, Folder: found})
	require.NoError(t, err)
	read := func(s *files.Service, path string) (string, error) {
		res, err := s.ReadFile(t.Context(), &nodev1.ReadFileRequest{JailId: nodelink.BrowsedFiles, Path: path})
		return string(res.GetContent()), err
	}

	for path, text := range map[string]string{"shown/a.conf": "a\n", "shown/sub/b.conf": "b\n", "shown/inside": "b\n", "shown/sub/../a.conf": "a\n",
		"shown/sub/absolute": "b\n", "shown/sub/self/b.conf": "b\n", "shown/sub/self/self/absolute": "b\n"} {
		content, err := read(s, at("")+"/"+path)
		require.NoError(t, err, path)
		require.Equal(t, text, content)
	}
	list, err := s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: nodelink.BrowsedFiles, Path: at("shown")})
	require.NoError(t, err)
	var names []string
	for _, f := range list.GetFiles() {
		names = append(names, f.GetPath()+" "+f.GetType())
	}
	require.Equal(t, []string{at("shown/a.conf") + " file", at("shown/absolute") + " symlink", at("shown/folder") + " symlink", at("shown/inside") + " symlink",
		at("shown/relative") + " symlink", at("shown/sub") + " dir"}, names)

	for _, path := range []string{
		at("secret/key"), at("shown-not/c.conf"), at("shown") + "/../secret/key", at("shown/absolute"), at("shown/relative"), at("shown/folder/key"),
		"/etc/passwd", "/", top, at("shown") + "/../shown-not/c.conf",
	} {
		content, err := read(s, path)
		require.True(t, fault.Is(err, fault.Denied), "%s: %q %v", path, content, err)
		require.NotContains(t, err.Error(), "workspace")
		_, err = s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: nodelink.BrowsedFiles, Path: path})
		require.Error(t, err, path)
	}
	_, err = read(s, "shown/a.conf")
	require.True(t, fault.Is(err, fault.Invalid), "a relative path: %v", err)
	_, err = read(s, at("shown/none"))
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	require.ErrorContains(t, err, "on this machine")
	_, err = read(s, at("shown/sub/loop"))
	require.ErrorContains(t, err, "too many symbolic links")
	_, err = read(s, at("shown/absolute"))
	require.ErrorContains(t, err, at("shown/absolute")+" leads to "+at("secret/key"))

	// Nothing of it is written, whichever way the path is named.
	for _, path := range []string{at("shown/a.conf"), "shown/a.conf", "a.conf"} {
		_, err = s.WriteFile(t.Context(), &nodev1.WriteFileRequest{JailId: nodelink.BrowsedFiles, Path: path, Content: []byte("x")})
		require.Error(t, err, path)
		_, err = s.DeleteFile(t.Context(), &nodev1.DeleteFileRequest{JailId: nodelink.BrowsedFiles, Path: path})
		require.Error(t, err, path)
		_, err = s.MoveFile(t.Context(), &nodev1.MoveFileRequest{JailId: nodelink.BrowsedFiles, From: path, To: "z"})
		require.Error(t, err, path)
	}
	content, err := read(s, at("shown/a.conf"))
	require.NoError(t, err)
	require.Equal(t, "a\n", content)

	nothing, err := files.New(files.Config{Workspaces: one{}, Ledger: book, Folder: found})
	require.NoError(t, err)
	_, err = read(nothing, at("shown/a.conf"))
	require.ErrorContains(t, err, "browse-paths")
	for _, bad := range []string{"/", "var/log", "/var/log/", "/var/../etc", ""} {
		_, err := files.New(files.Config{Workspaces: one{}, Ledger: book, Browsed: []string{bad}})
		require.True(t, fault.Is(err, fault.Invalid), "%q: %v", bad, err)
	}
}
