package files_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func describe(t *testing.T, api nodev1.FileServiceClient, req *nodev1.DescribeFilesRequest) (*nodev1.DescribeFilesResponse, error) {
	t.Helper()
	req.JailId = jailID
	stream, err := api.DescribeFiles(t.Context(), req)
	require.NoError(t, err)
	out := &nodev1.DescribeFilesResponse{}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fault.FromGRPC(err)
		}
		out.Entries = append(out.Entries, part.GetEntries()...)
		out.Missing = append(out.Missing, part.GetMissing()...)
		out.Skipped = append(out.Skipped, part.GetSkipped()...)
	}
}

func pathsOf(entries []*nodev1.UploadEntry) (out []string) {
	for _, e := range entries {
		out = append(out, e.GetPath())
	}
	return out
}

func TestOnlyWhatPeopleLookAtIsDescribed(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	for name, content := range map[string]string{
		"a.md": "a", ".gitignore": "x", ".env": "x", ".git/config": "x", "ui/node_modules/b.md": "b", "ui/c.md": "c", "large.md": strings.Repeat("x", 21),
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640))
	}
	// What is left out does not count.
	out, err := describe(t, dial(t, s), &nodev1.DescribeFilesRequest{Paths: []string{"."}, Visible: true, MaxFileBytes: 20, MaxFiles: 4})
	require.NoError(t, err)
	require.Equal(t, []string{".gitignore", "a.md", "ui", "ui/c.md"}, pathsOf(out.GetEntries()))
}

// Artifacts are named by paths and patterns.
func TestFilesAreDescribedByPathsAndPatterns(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	api := dial(t, s)
	for name, content := range map[string]string{
		"a.go": "a", "src/b.go": "b", "src/deep/c.go": "c", "src/deep/d.md": "d", "out/x": "x", "odd[1].txt": "odd",
		".deckhand/scratchpad.md": "notes", "src/bad\xff": "b", "src/new\nline.go": "n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640))
	}
	require.NoError(t, os.Symlink("/etc/shadow", filepath.Join(dir, "out", "link")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "out", "pipe"), 0o600))
	for what, c := range map[string]struct {
		req     *nodev1.DescribeFilesRequest
		found   []string
		missing []string
		skipped []string
	}{
		"a file":                     {req: &nodev1.DescribeFilesRequest{Paths: []string{"a.go"}}, found: []string{"a.go"}},
		"a path of the jail":         {req: &nodev1.DescribeFilesRequest{Paths: []string{"/workspace/a.go"}}, found: []string{"a.go"}},
		"a name that looks like one": {req: &nodev1.DescribeFilesRequest{Paths: []string{"odd[1].txt"}}, found: []string{"odd[1].txt"}},
		"a folder with what is in it": {
			req:   &nodev1.DescribeFilesRequest{Paths: []string{"out"}},
			found: []string{"out", "out/link", "out/x"}, skipped: []string{`"out/pipe"`},
		},
		"a pattern": {req: &nodev1.DescribeFilesRequest{Paths: []string{"**/*.go"}}, found: []string{"a.go", "src/b.go", "src/deep/c.go", "src/new\nline.go"}},
		"a folder by a pattern": {
			req:   &nodev1.DescribeFilesRequest{Paths: []string{"s*"}},
			found: []string{"src", "src/b.go", "src/deep", "src/deep/c.go", "src/deep/d.md", "src/new\nline.go"}, skipped: []string{`"src/bad\xff"`},
		},
		"nothing":         {req: &nodev1.DescribeFilesRequest{Paths: []string{"none", "*.rs", "a.go/x"}}, missing: []string{"none", "*.rs", "a.go/x"}},
		"exactly":         {req: &nodev1.DescribeFilesRequest{Paths: []string{"out", "*.go"}, Exact: true}, found: []string{"out"}, missing: []string{"*.go"}},
		"its own, named":  {req: &nodev1.DescribeFilesRequest{Paths: []string{".deckhand/scratchpad.md"}}, found: []string{".deckhand/scratchpad.md"}},
		"not through all": {req: &nodev1.DescribeFilesRequest{Paths: []string{"**/*.md"}}, found: []string{"src/deep/d.md"}},
	} {
		t.Run(what, func(t *testing.T) {
			got, err := describe(t, api, c.req)
			require.NoError(t, err)
			require.Equal(t, c.found, pathsOf(got.GetEntries()))
			require.Equal(t, c.missing, got.GetMissing())
			require.Equal(t, c.skipped, got.GetSkipped())
		})
	}
	got, err := describe(t, api, &nodev1.DescribeFilesRequest{Paths: []string{"a.go", "out/link"}})
	require.NoError(t, err)
	require.Equal(t, fileEntry("a.go", "a").GetDigest(), got.GetEntries()[0].GetDigest())
	require.Equal(t, "/etc/shadow", got.GetEntries()[1].GetTarget())

	_, err = describe(t, api, &nodev1.DescribeFilesRequest{Paths: []string{"../x"}})
	require.Equal(t, fault.SandboxViolation, fault.As(err).Code)
	_, err = describe(t, api, &nodev1.DescribeFilesRequest{Paths: []string{strings.Repeat("{a,a}", 40) + "b"}})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = describe(t, api, &nodev1.DescribeFilesRequest{Paths: []string{"src"}, MaxFiles: 3})
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	_, err = describe(t, api, &nodev1.DescribeFilesRequest{Paths: []string{"src"}, MaxBytes: 2})
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
}

func TestFilesAreDownloaded(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	api := dial(t, s)
	large := strings.Repeat("0123456789", 300_000)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large"), []byte(large), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600))
	from := fileEntry("large", large)
	from.Offset = 1_500_000
	download := func(entries ...*nodev1.UploadEntry) (string, error) {
		stream, err := api.DownloadFiles(t.Context(), &nodev1.DownloadFilesRequest{JailId: jailID, Entries: entries})
		require.NoError(t, err)
		var b strings.Builder
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return b.String(), nil
			}
			if err != nil {
				return b.String(), fault.FromGRPC(err)
			}
			if m.GetEntry() != nil {
				b.WriteString("<" + m.GetEntry().GetPath() + ">")
			}
			b.Write(m.GetData())
		}
	}
	got, err := download(from, fileEntry("empty", ""), fileEntry("large", large))
	require.NoError(t, err)
	require.True(t, got == "<large>"+large[1_500_000:]+"<empty><large>"+large)

	_, err = download(fileEntry("large", "another"))
	require.Equal(t, fault.FileConflict, fault.As(err).Code)
	info, err := os.Stat(filepath.Join(dir, "large"))
	require.NoError(t, err)
	described := fileEntry("large", large)
	described.ModifiedAt = timestamppb.New(info.ModTime())
	_, err = download(described)
	require.NoError(t, err)
	// Another content of the same length.
	require.NoError(t, os.Chtimes(filepath.Join(dir, "large"), time.Time{}, info.ModTime().Add(time.Second)))
	_, err = download(described)
	require.Equal(t, fault.FileConflict, fault.As(err).Code)
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	_, err = download(fileEntry("out", "x"))
	require.Equal(t, fault.SandboxViolation, fault.As(err).Code)
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, err = download(fileEntry("socket", ""))
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
}

// An upload that says what it replaces loses nobody's work.
func TestAnUploadReplacesOnlyWhatItExpects(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	api := dial(t, s)
	large := strings.Repeat("0123456789", 5000)
	for _, content := range []string{"small", large} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("theirs"), 0o600))
		e := fileEntry("f", content)
		for _, expect := range []string{"absent", fileEntry("f", "older").GetDigest()} {
			e.ExpectDigest = expect
			_, err := upload(t, api, "", sent{e, content})
			require.Equal(t, fault.FileConflict, fault.As(fault.FromGRPC(err)).Code, "%v", err)
			got, err := os.ReadFile(filepath.Join(dir, "f"))
			require.NoError(t, err)
			require.Equal(t, "theirs", string(got))
		}
		e.ExpectDigest = fileEntry("f", "theirs").GetDigest()
		_, err := upload(t, api, "", sent{e, content})
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, "f"))
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	}
	_, err := upload(t, api, "", sent{entry: &nodev1.UploadEntry{Path: "f", Type: "symlink", Target: "x", ExpectDigest: "absent"}})
	require.Equal(t, fault.FileConflict, fault.As(fault.FromGRPC(err)).Code, "%v", err)
	left, err := filepath.Glob(filepath.Join(dir, ".deckhand-upload-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
