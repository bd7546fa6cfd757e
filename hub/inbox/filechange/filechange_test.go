package filechange_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/deckhand-sh/deckhand/hub/inbox/filechange"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/files"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const jailID = "jail_1"

// workspace is the folder of the only jail.
type workspace string

func (w workspace) Workspace(id string) (string, error) {
	if id != jailID {
		return "", fault.New(fault.NotFound, "no jail %s", id)
	}
	return string(w), nil
}

func (w workspace) Outputs(string) (*os.Root, error) { return nil, os.ErrNotExist }
func (w workspace) Owner(string) (uid, gid int)      { return os.Geteuid(), os.Getegid() }

// looker returns a Looker that asks the real file service of nodes, and the workspace.
func looker(t *testing.T) (filechange.Looker, string) {
	t.Helper()
	dir := t.TempDir()
	book, err := ledger.Open(ledger.Config{Path: filepath.Join(t.TempDir(), "ledger.db")})
	require.NoError(t, err)
	t.Cleanup(func() { _ = book.Close() })
	service, err := files.New(files.Config{Workspaces: workspace(dir), Ledger: book})
	require.NoError(t, err)
	server := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			res, err := next(ctx, req)
			return res, fault.ToGRPC(err)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return fault.ToGRPC(next(srv, stream))
		}),
	)
	nodev1.RegisterFileServiceServer(server, service)
	listener := bufconn.Listen(1 << 20)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return filechange.Looker{Files: nodev1.NewFileServiceClient(conn), JailID: jailID}, dir
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644)) //nolint:gosec // as agents do
}

func look(t *testing.T, l filechange.Looker, tool string, arguments map[string]any) filechange.Change {
	t.Helper()
	out, err := l.Look(t.Context(), tool, arguments)
	require.NoError(t, err)
	require.Len(t, out, 1)
	return out[0]
}

// What a deletion takes away is counted and named, and what Git has of it.
func TestADeletionSaysWhatGitHas(t *testing.T) {
	t.Parallel()
	l, dir := looker(t)
	put(t, dir, ".gitignore", "*.log\n")
	for _, name := range []string{"old/a.txt", "old/b.txt", "old/sub/c.txt", "keep.txt"} {
		put(t, dir, name, name+"\n")
	}
	for _, line := range []string{"init -q", "add .", "-c user.name=a -c user.email=a@example.com commit -qm x"} {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, strings.Fields(line)...)...).CombinedOutput() //nolint:gosec // the test's own
		require.NoError(t, err, "%s", out)
	}
	put(t, dir, "old/b.txt", "changed\n")
	put(t, dir, "old/new.txt", "new\n")
	put(t, dir, "old/x.log", "log\n")

	c := look(t, l, "file_delete", map[string]any{"path": "/workspace/old", "recursive": true})
	require.Empty(t, c.Problem)
	require.Equal(t, "old", c.Path)
	require.Equal(t, 5, c.Files)
	require.EqualValues(t, len("old/a.txt\n")+len("changed\n")+len("old/sub/c.txt\n")+len("new\n")+len("log\n"), c.Bytes)
	require.Len(t, c.Entries, 5)
	require.NotNil(t, c.Git)
	require.Equal(t, [4]int{2, 1, 1, 1}, [4]int{c.Git.Unchanged, c.Git.Changed, c.Git.Untracked, c.Git.Ignored})

	c = look(t, l, "file_delete", map[string]any{"path": "old"})
	require.Contains(t, c.Problem, "recursive is not set")
	c = look(t, l, "file_delete", map[string]any{"path": "nothing"})
	require.Equal(t, "nothing does not exist", c.Problem)
	require.NoError(t, os.Symlink("old", filepath.Join(dir, "link")))
	c = look(t, l, "file_delete", map[string]any{"path": "link"})
	require.Equal(t, "symlink", c.Before.Type)
	require.Equal(t, 1, c.Files, "the link goes, and not what it leads to")
}

// A call that a node would refuse is a call that will fail, and not one of unknown effect.
func TestACallThatWillFailSaysWhy(t *testing.T) {
	t.Parallel()
	l, dir := looker(t)
	put(t, dir, "a.txt", "x\ny\nx\n")
	for name, c := range map[string]struct {
		tool      string
		arguments map[string]any
		problem   string
	}{
		"outside":         {"file_write", map[string]any{"path": "../up", "content": "x"}, "up"},
		"a folder":        {"file_write", map[string]any{"path": ".", "content": "x"}, "is a folder"},
		"text twice":      {"file_edit", map[string]any{"path": "a.txt", "old_string": "x", "new_string": "z"}, "is 2 times in a.txt, and replace_all is not set"},
		"no such text":    {"file_edit", map[string]any{"path": "a.txt", "old_string": "nope\nmore", "new_string": "z"}, "`nope...` is not in a.txt"},
		"no such file":    {"file_edit", map[string]any{"path": "b.txt", "old_string": "x", "new_string": "z"}, "b.txt does not exist"},
		"must be absent":  {"file_write", map[string]any{"path": "a.txt", "content": "z", "expect_digest": "absent"}, "a.txt exists"},
		"another digest":  {"file_append", map[string]any{"path": "a.txt", "content": "z", "expect_digest": strings.Repeat("0", 64)}, "was changed since"},
		"a move onto it":  {"file_move", map[string]any{"from": "a.txt", "to": "a.txt"}, "overwrite is not set"},
		"no patch":        {"apply_patch", map[string]any{"input": "hello"}, "Begin Patch"},
		"a missing piece": {"apply_patch", map[string]any{"input": "*** Begin Patch\n*** Update File: a.txt\n@@\n-no\n+yes\n*** End Patch"}, "a.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, look(t, l, c.tool, c.arguments).Problem, c.problem)
		})
	}
}

// What cannot be compared says so, and the others have their diff.
func TestAWriteIsCompared(t *testing.T) {
	t.Parallel()
	l, dir := looker(t)
	put(t, dir, "a.txt", "one\ntwo\n")
	require.NoError(t, os.Chmod(filepath.Join(dir, "a.txt"), 0o755)) //nolint:gosec // an executable file
	c := look(t, l, "file_write", map[string]any{"path": "a.txt", "content": "one\n2\nthree\n"})
	require.Equal(t, filechange.Overwrite, c.Kind)
	require.Equal(t, [2]int{2, 1}, [2]int{c.Added, c.Deleted})
	require.Equal(t, "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n one\n-two\n+2\n+three\n", c.Unified)
	require.EqualValues(t, 0o755, c.Before.Mode)
	require.Equal(t, 3, c.After.Lines)

	c = look(t, l, "file_append", map[string]any{"path": "new.txt", "content": "x"})
	require.Equal(t, filechange.Create, c.Kind)
	require.Contains(t, c.Unified, "--- /dev/null\n")
	put(t, dir, "bin", "\x00\x01")
	require.Equal(t, "the file is no text", look(t, l, "file_append", map[string]any{"path": "bin", "content": "x"}).Omitted)
	put(t, dir, "big.txt", strings.Repeat("line\n", 200_000))
	c = look(t, l, "file_write", map[string]any{"path": "big.txt", "content": "x"})
	require.Contains(t, c.Omitted, "1000000 bytes")
	require.EqualValues(t, 1_000_000, c.Before.Size)
}
