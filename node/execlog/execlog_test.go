package execlog_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/node/execlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type write struct {
	stream execlog.Stream
	data   []byte
}

// require1 is what testing.T and rapid.T share.
type require1 interface {
	require.TestingT
	Helper()
}

func read(t require1, dir string, rng execlog.Range) []write {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	r, err := execlog.Open(root)
	require.NoError(t, err)
	defer r.Close()
	var out []write
	at := rng.Offset
	require.NoError(t, r.Read(context.Background(), rng, func(c execlog.Chunk) error {
		require.Equal(t, at, c.Offset, "a byte was left out or came twice")
		at += int64(len(c.Data))
		out = append(out, write{c.Stream, bytes.Clone(c.Data)})
		return nil
	}))
	return out
}

func join(writes []write) []byte {
	var out []byte
	for _, w := range writes {
		out = append(out, w.data...)
	}
	return out
}

// streams answers, byte by byte, the stream that each came from.
func streams(writes []write) []byte {
	var out []byte
	for _, w := range writes {
		out = append(out, bytes.Repeat([]byte{byte(w.stream)}, len(w.data))...)
	}
	return out
}

// Any range of a log reads exactly the bytes that were written there, each
// from its own stream.
func TestEveryRangeReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "execlog")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		w, err := execlog.Create(dir)
		require.NoError(t, err)
		var writes []write
		for range rapid.IntRange(0, 40).Draw(t, "writes") {
			one := write{
				stream: rapid.SampledFrom([]execlog.Stream{execlog.Stdout, execlog.Stderr}).Draw(t, "stream"),
				data:   rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data"),
			}
			require.NoError(t, w.Append(one.stream, one.data))
			writes = append(writes, one)
		}
		require.NoError(t, w.Close())
		all, from := join(writes), streams(writes)
		require.EqualValues(t, len(all), w.Size())

		offset := rapid.IntRange(0, len(all)+5).Draw(t, "offset")
		limit := rapid.IntRange(0, len(all)+5).Draw(t, "limit")
		end := len(all)
		if limit > 0 {
			end = min(end, offset+limit)
		}
		got := read(t, dir, execlog.Range{Offset: int64(offset), Limit: int64(limit)})
		if offset >= end {
			require.Empty(t, got)
			return
		}
		require.Equal(t, all[offset:end], join(got))
		require.Equal(t, from[offset:end], streams(got))
	})
}

// A crash tears the index anywhere; no byte of output is lost or repeated,
// and those that a whole record tells of keep their stream.
func TestATornIndexLosesNoByte(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "execlog")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		w, err := execlog.Create(dir)
		require.NoError(t, err)
		var all []byte
		n := rapid.IntRange(1, 20).Draw(t, "writes")
		for i := range n {
			data := bytes.Repeat([]byte{byte('a' + i)}, 1+i)
			require.NoError(t, w.Append(execlog.Stderr, data))
			all = append(all, data...)
		}
		require.NoError(t, w.Close())
		index := filepath.Join(dir, execlog.IndexFile)
		raw, err := os.ReadFile(index)
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "cut") {
			raw = raw[:rapid.IntRange(0, len(raw)).Draw(t, "at")]
		} else {
			raw[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] ^= 0x40
		}
		require.NoError(t, os.WriteFile(index, raw, 0o600))

		offset := rapid.IntRange(0, len(all)-1).Draw(t, "offset")
		got := read(t, dir, execlog.Range{Offset: int64(offset)})
		require.Equal(t, all[offset:], join(got))
		for _, w := range got {
			require.Contains(t, []execlog.Stream{execlog.Stderr, execlog.Unknown}, w.stream)
		}
	})
}

// A follower sees everything, whenever it comes, and ends with the log.
func TestAFollowerReadsTwoStreamsToTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := execlog.Create(dir)
	require.NoError(t, err)
	ended := make(chan struct{})
	var wg sync.WaitGroup
	for _, stream := range []execlog.Stream{execlog.Stdout, execlog.Stderr} {
		wg.Go(func() {
			var line [8]byte
			for i := range 5000 {
				binary.BigEndian.PutUint64(line[:], uint64(i))
				if err := w.Append(stream, line[:]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() {
		wg.Wait()
		close(ended)
	}()
	next := map[execlog.Stream]uint64{}
	for _, got := range read(t, dir, execlog.Range{Ended: ended}) {
		require.Len(t, got.data, 8)
		require.Equal(t, next[got.stream], binary.BigEndian.Uint64(got.data))
		next[got.stream]++
	}
	require.Equal(t, map[execlog.Stream]uint64{execlog.Stdout: 5000, execlog.Stderr: 5000}, next)
	require.NoError(t, w.Close())
}

func TestAFollowerEndsWithItsContextAndItsReader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := execlog.Create(dir)
	require.NoError(t, err)
	require.NoError(t, w.Append(execlog.Stdout, []byte("hello")))
	require.NoError(t, w.Close())
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	r, err := execlog.Open(root)
	require.NoError(t, err)
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	err = r.Read(ctx, execlog.Range{Ended: make(chan struct{})}, func(execlog.Chunk) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	stop := errors.New("stop")
	require.ErrorIs(t, r.Read(t.Context(), execlog.Range{}, func(execlog.Chunk) error { return stop }), stop)
}

// What a jail could put instead of its log does not lead the daemon
// out of the folder, nor make it hang.
func TestWhatIsNoLogIsRefused(t *testing.T) {
	t.Parallel()
	for name, lay := range map[string]func(dir string) error{
		"a link out of the folder": func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, execlog.DataFile)) },
		"a folder":                 func(dir string) error { return os.Mkdir(filepath.Join(dir, execlog.DataFile), 0o700) },
		"nothing":                  func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, lay(dir))
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			_, err = execlog.Open(root)
			require.Error(t, err)
		})
	}
}

func FuzzIndex(f *testing.F) {
	dir := f.TempDir()
	w, err := execlog.Create(dir)
	require.NoError(f, err)
	require.NoError(f, w.Append(execlog.Stdout, []byte("one")))
	require.NoError(f, w.Append(execlog.Stderr, []byte("twotwo")))
	require.NoError(f, w.Close())
	raw, err := os.ReadFile(filepath.Join(dir, execlog.IndexFile))
	require.NoError(f, err)
	f.Add(raw, int64(0), int64(0))
	f.Add(raw[:40], int64(2), int64(5))
	f.Add([]byte{}, int64(3), int64(1))
	f.Fuzz(func(t *testing.T, index []byte, offset, limit int64) {
		data := []byte("onetwotwo and more")
		offset, limit = max(0, offset%32), max(0, limit%32)
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, execlog.DataFile), data, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, execlog.IndexFile), index, 0o600))
		got := join(read(t, dir, execlog.Range{Offset: offset, Limit: limit}))
		want := data[min(int(offset), len(data)):]
		if limit > 0 {
			want = want[:min(int(limit), len(want))]
		}
		require.Equal(t, string(want), string(got))
	})
}
