package files_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/files"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func dial(t *testing.T, s *files.Service) nodev1.FileServiceClient {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	nodev1.RegisterFileServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return nodev1.NewFileServiceClient(conn)
}

func fileEntry(path, content string) *nodev1.UploadEntry {
	sum := blake3.Sum256([]byte(content))
	return &nodev1.UploadEntry{Path: path, Type: "file", Mode: 0o640, Size: int64(len(content)), Digest: hex.EncodeToString(sum[:])}
}

type sent struct {
	entry *nodev1.UploadEntry
	data  string
}

func upload(t *testing.T, api nodev1.FileServiceClient, into string, all ...sent) (*nodev1.UploadFilesResponse, error) {
	t.Helper()
	stream, err := api.UploadFiles(t.Context())
	require.NoError(t, err)
	// What is refused is said by the answer.
	_ = stream.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Begin_{Begin: &nodev1.UploadFilesRequest_Begin{JailId: jailID, Path: into}}})
	for _, one := range all {
		_ = stream.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Entry{Entry: one.entry}})
		for data := []byte(one.data); len(data) > 0; {
			n := min(len(data), 1000)
			_ = stream.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Data{Data: data[:n]}})
			data = data[n:]
		}
	}
	return stream.CloseAndRecv()
}

func TestATreeIsUploaded(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	api := dial(t, s)
	large := strings.Repeat("0123456789", 5000)
	when := timestamppb.New(time.Unix(1_600_000_000, 123_000_000))
	dated := fileEntry("d/dated", "dated")
	dated.ModifiedAt = when
	out, err := upload(t, api, "into", sent{dated, "dated"},
		sent{entry: &nodev1.UploadEntry{Path: "d", Type: "dir", Mode: 0o700}}, sent{fileEntry("d/large", large), large},
		sent{fileEntry("empty", ""), ""}, sent{entry: &nodev1.UploadEntry{Path: "link", Type: "symlink", Target: "d/large"}})
	require.NoError(t, err)
	require.EqualValues(t, 3, out.GetFiles())
	info, err := os.Stat(filepath.Join(dir, "into", "d", "dated"))
	require.NoError(t, err)
	require.True(t, when.AsTime().Equal(info.ModTime()), "%v", info.ModTime())
	content, err := os.ReadFile(filepath.Join(dir, "into", "link"))
	require.NoError(t, err)
	require.Equal(t, large, string(content))
	info, err = os.Stat(filepath.Join(dir, "into", "d"))
	require.NoError(t, err)
	require.EqualValues(t, 0o700, info.Mode().Perm())
	got, err := api.CompareFiles(t.Context(), &nodev1.CompareFilesRequest{JailId: jailID, Path: "into", Entries: []*nodev1.UploadEntry{
		fileEntry("d/large", large), fileEntry("d/large", strings.ToUpper(large)+"x"), fileEntry("empty", ""), fileEntry("none", "x"),
	}})
	require.NoError(t, err)
	require.Equal(t, []int64{-1, 0, -1, 0}, got.GetSendFrom())
}

// The stream breaks in the middle of a file: the next one continues from there.
func TestAnUploadGoesOnWhereItBroke(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	api := dial(t, s)
	large := strings.Repeat("0123456789", 5000)
	_, err := upload(t, api, "", sent{fileEntry("large", large), large[:12_345]})
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(dir, "large"), "a part of a file is not seen")
	e := fileEntry("large", large)
	got, err := api.CompareFiles(t.Context(), &nodev1.CompareFilesRequest{JailId: jailID, Entries: []*nodev1.UploadEntry{e}})
	require.NoError(t, err)
	e.Offset = got.GetSendFrom()[0]
	require.EqualValues(t, 12_345, e.GetOffset())
	out, err := upload(t, api, "", sent{e, large[e.GetOffset():]})
	require.NoError(t, err)
	require.EqualValues(t, len(large)-12_345, out.GetBytes())
	content, err := os.ReadFile(filepath.Join(dir, "large"))
	require.NoError(t, err)
	require.True(t, bytes.Equal([]byte(large), content))
}

// What is uploaded stays inside, and is what it is said to be.
func TestUploadsThatAreRefused(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	api := dial(t, s)
	require.NoError(t, os.Symlink("../outside", filepath.Join(dir, "link")))
	wrong := fileEntry("a", "content")
	for name, c := range map[string]struct {
		into string
		one  sent
		code fault.Code
	}{
		"up":                             {"", sent{fileEntry("../outside/a", "x"), "x"}, fault.SandboxViolation},
		"through a link":                 {"", sent{fileEntry("link/a", "x"), "x"}, fault.SandboxViolation},
		"into a link":                    {"link", sent{fileEntry("a", "x"), "x"}, fault.SandboxViolation},
		"absolute":                       {"", sent{fileEntry("/workspace/a", "x"), "x"}, ""},
		"another content":                {"", sent{wrong, "CONTENT"}, ""},
		"more than it has":               {"", sent{wrong, "content and more"}, ""},
		"less than it has":               {"", sent{wrong, "con"}, ""},
		"a large one of another content": {"", sent{fileEntry("a", strings.Repeat("x", 50_000)), strings.Repeat("y", 50_000)}, ""},
	} {
		_, err := upload(t, api, c.into, c.one)
		require.Error(t, err, name)
		require.Equal(t, c.code, fault.As(fault.FromGRPC(err)).Code, "%s: %v", name, err)
	}
	require.NoFileExists(t, filepath.Join(dir, "a"))
	left, err := filepath.Glob(filepath.Join(dir, files.PartPrefix+"small*"))
	require.NoError(t, err)
	require.Empty(t, left)
	outside, err := os.ReadDir(filepath.Join(filepath.Dir(dir), "outside"))
	require.NoError(t, err)
	require.Len(t, outside, 1)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := dial(t, s).WatchFiles(ctx, &nodev1.WatchFilesRequest{JailId: jailID})
	require.NoError(t, err)
	_, err = stream.Recv() // it is watched from here on
	require.NoError(t, err)
	until := func(want ...string) {
		t.Helper()
		left := map[string]bool{}
		for _, one := range want {
			left[one] = true
		}
		for len(left) > 0 {
			m, err := stream.Recv()
			require.NoError(t, err, "%v were not told", left)
			for _, e := range m.GetEvents() {
				delete(left, e.GetWhat()+" "+e.GetPath())
			}
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "b", "c"), []byte("x"), 0o600))
	until("changed a/b/c")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "new"), 0o755))
	until("changed new")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new", "f"), []byte("x"), 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "a", "b", "c")))
	until("changed new/f", "gone a/b/c")
}

// More folders than can be watched: that is said, and the rest is watched.
func TestAWatchThatCannotSeeAllSaysSo(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	for i := range 4200 {
		require.NoError(t, os.Mkdir(filepath.Join(dir, fmt.Sprintf("d%04d", i)), 0o755))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := dial(t, s).WatchFiles(ctx, &nodev1.WatchFilesRequest{JailId: jailID})
	require.NoError(t, err)
	first, err := stream.Recv()
	require.NoError(t, err)
	require.True(t, first.GetOverflow())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "seen"), nil, 0o600))
	for {
		m, err := stream.Recv()
		require.NoError(t, err)
		for _, e := range m.GetEvents() {
			if e.GetPath() == "seen" {
				return
			}
		}
	}
}

func TestTheWatchesOfAJailAreBounded(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	api := dial(t, s)
	open := func(ctx context.Context) error {
		stream, err := api.WatchFiles(ctx, &nodev1.WatchFilesRequest{JailId: jailID})
		require.NoError(t, err)
		_, err = stream.Recv()
		return fault.FromGRPC(err)
	}
	first, end := context.WithCancel(t.Context())
	require.NoError(t, open(first))
	for range 15 {
		require.NoError(t, open(t.Context()))
	}
	err := open(t.Context())
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	require.ErrorContains(t, err, "16 watches of this workspace are open")
	end()
	require.Eventually(t, func() bool { return open(t.Context()) == nil }, time.Minute, 10*time.Millisecond, "one that has ended makes room")
}
