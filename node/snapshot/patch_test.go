package snapshot_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
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

	"github.com/deckhand-sh/deckhand/node/snapshot"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// dial returns a client of the service over gRPC.
func dial(t *testing.T, s *snapshot.Service) nodev1.SnapshotServiceClient {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	nodev1.RegisterSnapshotServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return nodev1.NewSnapshotServiceClient(conn)
}

func export(t *testing.T, api nodev1.SnapshotServiceClient, req *nodev1.ExportWorkspaceRequest) ([]byte, error) {
	t.Helper()
	req.JailId = jailID
	stream, err := api.ExportWorkspace(t.Context(), req)
	require.NoError(t, err)
	var out bytes.Buffer
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out.Bytes(), nil
		}
		if err != nil {
			return out.Bytes(), err
		}
		out.Write(piece.GetData())
	}
}

const changesOfAllKinds = `
	seq 100 | sed 's/^50$/fifty/' > text; printf 'no newline' > end; rm gone; echo new > "odd name"; printf 'x' > $'tab\tand \xff'
	head -c 300 /dev/urandom > binary; chmod +x script; rm turns; ln -s text turns; mkdir -p d/e; echo deep > d/e/f; ln -sfn end link; : > empty`

// A task's changes, as git understands them.
func TestChangesAsAGitPatch(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	m.step(t, s, "step_0", `seq 100 > text; printf 'old' > end; echo gone > gone; head -c 5000 /dev/zero > binary; echo '#!' > script; echo file > turns; ln -s text link`)
	other := filepath.Join(m.top, "other")
	require.NoError(t, exec.Command("cp", "-a", m.dir(), other).Run())
	m.step(t, s, "step_1", changesOfAllKinds)
	data, err := export(t, dial(t, s), &nodev1.ExportWorkspaceRequest{
		Format: nodev1.ExportFormat_EXPORT_FORMAT_GIT_PATCH, Range: &nodev1.ChangeRange{By: []string{"step_1"}},
	})
	require.NoError(t, err)
	apply := exec.Command("git", "apply", "--whitespace=nowarn", "-")
	apply.Dir, apply.Stdin = other, bytes.NewReader(data)
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+m.top)
	out, err := apply.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, data)
	diff, err := exec.Command("diff", "-r", "--no-dereference", m.dir(), other).CombinedOutput()
	require.NoError(t, err, "%s", diff)
	info, err := os.Stat(filepath.Join(other, "script"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&0o100)
}

func TestTheWorkspaceAsATar(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	m.step(t, s, "step_0", "echo file > turns; echo '#!' > script; echo gone > gone; "+changesOfAllKinds)
	data, err := export(t, dial(t, s), &nodev1.ExportWorkspaceRequest{Format: nodev1.ExportFormat_EXPORT_FORMAT_TAR})
	require.NoError(t, err)
	other := filepath.Join(m.top, "other")
	require.NoError(t, os.Mkdir(other, 0o755))
	untar := exec.Command("tar", "-x", "-C", other)
	untar.Stdin = bytes.NewReader(data)
	out, err := untar.CombinedOutput()
	require.NoError(t, err, "%s", out)
	diff, err := exec.Command("diff", "-r", "--no-dereference", m.dir(), other).CombinedOutput()
	require.NoError(t, err, "%s", diff)

	data, err = export(t, dial(t, s), &nodev1.ExportWorkspaceRequest{Format: nodev1.ExportFormat_EXPORT_FORMAT_TAR, Path: []byte("d")})
	require.NoError(t, err)
	var names []string
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		head, err := r.Next()
		if err != nil {
			break
		}
		names = append(names, head.Name)
	}
	require.Equal(t, []string{"d/", "d/e/", "d/e/f"}, names)
}

func TestChangesAsUnifiedDiffs(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	m.step(t, s, "step_0", `seq 100 > text; head -c 5000 /dev/zero > binary; echo '#!' > script; head -c 2000000 /dev/zero | tr '\0' x > large`)
	m.step(t, s, "step_1", `sed -i 's/^50$/fifty/' text; echo x >> binary; chmod 755 script; echo x >> large; mkdir d; echo new > d/f`)
	stream, err := dial(t, s).DiffChanges(t.Context(), &nodev1.DiffChangesRequest{JailId: jailID, Range: &nodev1.ChangeRange{By: []string{"step_1"}}})
	require.NoError(t, err)
	got := map[string]*nodev1.DiffChangesResponse{}
	for {
		one, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		got[string(one.GetChange().GetPath())] = one
	}
	require.Len(t, got, 6)
	require.Contains(t, string(got["text"].GetUnified()), "--- a/text\n+++ b/text\n@@ -47,7 +47,7 @@\n 47\n 48\n 49\n-50\n+fifty\n 51\n 52\n 53\n")
	require.EqualValues(t, 1, got["text"].GetAddedLines())
	require.EqualValues(t, 1, got["text"].GetDeletedLines())
	require.Equal(t, "a binary file of 5000 bytes became a binary file of 5002 bytes", got["binary"].GetSummary())
	require.True(t, strings.HasPrefix(got["large"].GetSummary(), "a large file of 2000000 bytes"))
	require.Equal(t, "mode 0644 became 0755", got["script"].GetSummary())
	require.Equal(t, "a folder was made", got["d"].GetSummary())
	require.Contains(t, string(got["d/f"].GetUnified()), "--- /dev/null\n+++ b/d/f\n@@ -0,0 +1 @@\n+new\n")
}
