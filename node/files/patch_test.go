package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/files"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// tree returns the files below a folder with their contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(content)
		return err
	}))
	return out
}

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640))
	}
}

const somePatch = `*** Begin Patch
*** Add File: new/made.txt
+made
*** Update File: edited
@@
 one
-two
+2
*** Update File: moved
*** Move to: there/moved
@@
-m
+M
*** Delete File: gone
*** End Patch`

var (
	unpatched   = map[string]string{"edited": "one\ntwo\n", "moved": "m\n", "gone": "g"}
	patchedTree = map[string]string{"edited": "one\n2\n", "new/made.txt": "made\n", "there/moved": "M\n"}
)

// A patch changes all its files, or none if it does not fit one of them.
func TestPatches(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	put(t, dir, unpatched)
	apply := func(patch string) (*nodev1.PatchFilesResponse, error) {
		return s.PatchFiles(t.Context(), &nodev1.PatchFilesRequest{JailId: jailID, Patch: patch})
	}
	require.NoError(t, os.Symlink("edited", filepath.Join(dir, "link")))
	link := "*** Begin Patch\n*** Update File: edited\n@@\n-one\n+1\n"
	for says, patch := range map[string]string{
		`"edited", the hunk on line 6 of the patch: its lines are not in the file, or not below the hunk before; what is most like it begins on line 2: "two"`: link + "@@\n-twoo\n+2\n*** End Patch",
		`no file "none" in the workspace`:                                  link + "*** Delete File: none\n*** End Patch",
		`"gone" is there already`:                                          link + "*** Add File: gone\n+x\n*** End Patch",
		`"moved" is there already`:                                         link + "*** Update File: gone\n*** Move to: moved\n*** End Patch",
		`path "../out" leads out of the workspace`:                         link + "*** Add File: ../out\n+x\n*** End Patch",
		`"link" is no regular file`:                                        link + "*** Delete File: link\n*** End Patch",
		`line 6 of the patch: "oops" begins with none of a space, - and +`: link + "oops\n*** End Patch",
	} {
		_, err := apply(patch)
		require.ErrorContains(t, err, says)
		require.Equal(t, "one\ntwo\n", tree(t, dir)["edited"], says)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "link")))
	done, err := apply(somePatch)
	require.NoError(t, err)
	require.Equal(t, patchedTree, tree(t, dir))
	require.Len(t, done.GetFiles(), 4)
	require.Equal(t, digest("M\n"), done.GetFiles()[2].GetDigest())
	require.Empty(t, done.GetFiles()[3].GetDigest())
	info, err := os.Stat(filepath.Join(dir, "there/moved"))
	require.NoError(t, err)
	require.EqualValues(t, 0o640, info.Mode().Perm(), "it keeps its mode")

	_, err = apply("*** Begin Patch\n*** Delete File: edited\n*** Add File: edited\n+anew\n*** End Patch")
	require.NoError(t, err)
	require.Equal(t, "anew\n", tree(t, dir)["edited"], "one file twice")
}

// The daemon dies while it applies a patch: the next one finishes it, wherever it was.
func TestAPatchThatWasInterrupted(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]map[string]string{
		"before the first file":    unpatched,
		"after one file":           {"edited": "one\ntwo\n", "moved": "m\n", "gone": "g", "new/made.txt": "made\n"},
		"before what is removed":   {"edited": "one\n2\n", "moved": "m\n", "gone": "g", "new/made.txt": "made\n", "there/moved": "M\n"},
		"before the last of those": {"edited": "one\n2\n", "gone": "g", "new/made.txt": "made\n", "there/moved": "M\n"},
		"before the record":        patchedTree,
	} {
		top := t.TempDir()
		jail := one{dir: filepath.Join(top, "workspace"), uid: os.Geteuid(), gid: os.Getegid()}
		put(t, jail.dir, unpatched)
		book, err := ledger.Open(ledger.Config{Path: filepath.Join(top, "ledger.db")})
		require.NoError(t, err)
		defer book.Close()
		req := &nodev1.PatchFilesRequest{JailId: jailID, Patch: somePatch, OperationId: "step_1"}
		first, err := files.New(files.Config{Workspaces: jail, Ledger: mortal{book}})
		require.NoError(t, err)
		_, err = first.PatchFiles(t.Context(), req)
		require.Error(t, err, name)
		require.NoError(t, os.RemoveAll(jail.dir))
		put(t, jail.dir, left)
		second, err := files.New(files.Config{Workspaces: jail, Ledger: book})
		require.NoError(t, err)
		for range 2 {
			done, err := second.PatchFiles(t.Context(), req)
			require.NoError(t, err, name)
			require.Len(t, done.GetFiles(), 4, name)
			require.Equal(t, patchedTree, tree(t, jail.dir), name)
		}
	}
}
