package imagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// HostLayer returns a layer with programs, files and folders of this machine, by their
// absolute paths, and the libraries of the programs, which are files that can be executed.
// It has the files that links lead to instead of the links, and leaves out what skip
// reports; nil for nothing. It is not compressed: that would take longer than the rest of
// a test.
func HostLayer(tb testing.TB, skip func(path string) bool, paths ...string) v1.Layer {
	tb.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	seen := map[string]bool{}
	add := func(path string) {
		if seen[path] {
			return
		}
		seen[path] = true
		info, err := os.Stat(path)
		require.NoError(tb, err)
		raw, err := os.ReadFile(path)
		require.NoError(tb, err)
		require.NoError(tb, w.WriteHeader(&tar.Header{
			Name: strings.TrimPrefix(path, "/"), Typeflag: tar.TypeReg, Mode: int64(info.Mode().Perm()), Size: int64(len(raw)),
		}))
		_, err = w.Write(raw)
		require.NoError(tb, err)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		require.NoError(tb, err)
		if !info.IsDir() {
			add(path)
			for _, library := range librariesOf(path) {
				add(library)
			}
			continue
		}
		require.NoError(tb, filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case skip != nil && skip(at):
				if entry.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			// A link may lead nowhere, or to a folder.
			if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() {
				add(at)
			}
			return nil
		}))
	}
	require.NoError(tb, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil },
		tarball.WithCompressionLevel(gzip.NoCompression))
	require.NoError(tb, err)
	return layer
}

// librariesOf returns the paths of the libraries that a program loads; none for a static
// one or a script.
func librariesOf(program string) (out []string) {
	listed, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil // "not a dynamic executable"
	}
	for line := range strings.Lines(string(listed)) {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") {
				out = append(out, word)
				break
			}
		}
	}
	return out
}
