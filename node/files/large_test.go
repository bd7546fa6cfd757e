package files_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// A file of 5 GB, nearly all of it a hole, is listed, read in ranges, added
// to and moved without being read as a whole.
func TestAFileOf5GB(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	const size = 5 << 30
	path := filepath.Join(dir, "huge")
	f, err := os.Create(path)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("middle"), size/2)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("end"), size-3)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	list, err := s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: jailID, Path: "huge"})
	require.NoError(t, err)
	require.EqualValues(t, size, list.GetFiles()[0].GetSize())
	for offset, want := range map[int64]string{size / 2: "middle\x00\x00\x00\x00", size - 3: "end", size: "", size + 5: ""} {
		got, err := s.ReadFile(t.Context(), &nodev1.ReadFileRequest{JailId: jailID, Path: "huge", Offset: offset, Limit: 10})
		require.NoError(t, err)
		require.Equal(t, want, string(got.GetContent()), "at %d", offset)
		require.EqualValues(t, size, got.GetSize())
	}
	_, err = s.MoveFile(t.Context(), &nodev1.MoveFileRequest{JailId: jailID, From: "huge", To: "sub/huge"})
	require.NoError(t, err)
	stream, err := dial(t, s).DescribeFiles(t.Context(), &nodev1.DescribeFilesRequest{JailId: jailID, Paths: []string{"sub"}})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.ErrorContains(t, err, "more bytes than can be copied at once", "it is no artifact")
}

// More changes at once than can be told one by one: that is said, and what
// comes after is told again.
func TestABurstOfChangesOverflowsAWatch(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := dial(t, s).WatchFiles(ctx, &nodev1.WatchFilesRequest{JailId: jailID})
	require.NoError(t, err)
	first, err := stream.Recv() // it is watched from here on
	require.NoError(t, err)
	require.False(t, first.GetOverflow())
	for i := range 20_000 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("f%05d", i)))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	for {
		m, err := stream.Recv()
		require.NoError(t, err)
		require.LessOrEqual(t, len(m.GetEvents()), 1000)
		if m.GetOverflow() {
			break
		}
	}
	last := func() { require.NoError(t, os.WriteFile(filepath.Join(dir, "last"), nil, 0o600)) }
	last()
	for {
		m, err := stream.Recv()
		require.NoError(t, err)
		if m.GetOverflow() {
			last() // it may be among what was lost
		}
		for _, e := range m.GetEvents() {
			if e.GetPath() == "last" {
				return
			}
		}
	}
}
