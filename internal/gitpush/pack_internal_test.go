package gitpush

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"crypto/rand"

	"github.com/klauspost/compress/zlib"
	"github.com/stretchr/testify/require"
)

// gitIn runs git in a repository with some input.
func gitIn(t testing.TB, folder string, input io.Reader, arguments ...string) string {
	t.Helper()
	cmd := exec.Command("git", arguments...)
	cmd.Dir, cmd.Stdin = folder, input
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C.UTF-8"}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "git %s: %s", strings.Join(arguments, " "), errs.String())
	return string(out)
}

// history makes a repository with commits on main whose messages are long and alike,
// so that git stores commits as deltas of each other. It returns their hashes, oldest
// first.
func history(t testing.TB, format Format, commits int) (folder string, hashes []string) {
	folder = t.TempDir()
	gitIn(t, folder, nil, "init", "--quiet", "--bare", "--object-format="+format.String(), "--initial-branch=main")
	var in bytes.Buffer
	text := strings.Repeat("The same words are in each message, and there are many of them.\n", 20)
	for i := range commits {
		message := fmt.Sprintf("change %d\n\n%s", i, text)
		fmt.Fprintf(&in, "commit refs/heads/main\nmark :%d\nauthor Ada <ada@example.com> %d +0100\ncommitter Bob <bob@example.com> %d +0000\n", i+1, 1700000000+i, 1700000000+i)
		fmt.Fprintf(&in, "data %d\n%s\nM 100644 inline file.txt\ndata %d\n%s\n", len(message), message, len(text)+1, text+"x")
		if i > 1 && i%10 == 9 { // a merge
			fmt.Fprintf(&in, "commit refs/heads/main\nmark :%d\ncommitter Bob <bob@example.com> %d +0000\ndata 5\nmerge\nmerge :%d\n", i+1+1000000, 1700000000+i, i-1)
		}
	}
	gitIn(t, folder, &in, "fast-import", "--quiet")
	for line := range strings.Lines(gitIn(t, folder, nil, "rev-list", "--reverse", "--topo-order", "main")) {
		hashes = append(hashes, strings.TrimSpace(line))
	}
	return folder, hashes
}

func fileSpool(t testing.TB) Spool {
	spool, err := FileSpool(t.TempDir())()
	require.NoError(t, err)
	t.Cleanup(func() { spool.(io.Closer).Close() })
	return spool
}

// memory is a spool.
type memory struct {
	bytes.Reader
	content []byte
}

func (m *memory) Write(b []byte) (int, error) {
	m.content = append(m.content, b...)
	m.Reset(m.content)
	return len(b), nil
}

func TestEveryCommitOfAPackIsFound(t *testing.T) {
	t.Parallel()
	for _, format := range []Format{SHA1, SHA256} {
		folder, hashes := history(t, format, 200)
		for _, options := range []string{"--delta-base-offset --depth=50", "--depth=50", "--delta-base-offset --depth=4095 --window=200", "--depth=1"} {
			arguments := append([]string{"pack-objects", "--stdout", "--revs", "--no-reuse-delta", "-q"}, strings.Fields(options)...)
			pack := gitIn(t, folder, strings.NewReader("main\n"), arguments...)
			p, err := readPack(t.Context(), strings.NewReader(pack), new(memory), format, Limits{})
			require.NoError(t, err)
			require.Len(t, p.graph.parents, len(hashes), options)
			deltas := 0
			for _, c := range p.found {
				if c.base != 0 {
					deltas++
				}
			}
			require.Greater(t, deltas, 50, "the commits of this pack are stored as deltas: %s", options)
			for i, hash := range hashes {
				require.True(t, p.graph.IsAncestor(hash, hashes[len(hashes)-1]))
				require.Equal(t, i == 0, p.graph.IsAncestor(hash, hashes[0]))
			}
		}
		// A thin pack, whose commits are deltas of commits that it lacks.
		thin := gitIn(t, folder, strings.NewReader("main\n^"+hashes[150]+"\n"), "pack-objects", "--stdout", "--revs", "--thin", "--no-reuse-delta", "-q")
		p, err := readPack(t.Context(), strings.NewReader(thin), new(memory), format, Limits{})
		require.NoError(t, err)
		require.Less(t, len(p.graph.parents), len(hashes)-150)
	}
}

func TestCommitsOfAPushAreListed(t *testing.T) {
	t.Parallel()
	folder, hashes := history(t, SHA1, 60)
	tip, old := hashes[len(hashes)-1], hashes[30]
	pack := gitIn(t, folder, strings.NewReader("main\n^"+old+"\n"), "pack-objects", "--stdout", "--revs", "--delta-base-offset", "-q")
	u := Update{Ref: "refs/heads/main", Old: old, New: tip}
	command := fmt.Sprintf("%s %s %s\x00report-status", old, tip, u.Ref)
	push, err := Read(strings.NewReader(fmt.Sprintf("%04x%s0000%s", len(command)+4, command, pack)), Limits{})
	require.NoError(t, err)
	judge := Judge{Spool: func() (Spool, error) { return new(memory), nil }}
	none, _, err := push.Commits(u, 5)
	require.NoError(t, err)
	require.Empty(t, none, "the pack was not inspected")
	require.NoError(t, judge.Inspect(t.Context(), push))

	commits, more, err := push.Commits(u, 1000)
	require.NoError(t, err)
	require.False(t, more)
	var listed []string
	for _, c := range commits {
		listed = append(listed, c.Hash)
	}
	want := strings.Fields(gitIn(t, folder, nil, "rev-list", old+".."+tip))
	require.ElementsMatch(t, want, listed)
	require.Equal(t, tip, listed[0])
	last := commits[len(commits)-1]
	require.Regexp(t, `^change \d+$`, last.Subject)
	require.Equal(t, "Ada <ada@example.com>", last.Author)
	require.Equal(t, int64(1700000000), last.Time.Unix()/1000*1000)

	commits, more, err = push.Commits(u, 3)
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, commits, 3)

	body, err := push.Body()
	require.NoError(t, err)
	all, err := io.ReadAll(body)
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(all, []byte("0000"+pack)), "the body is as it was sent")
}

// entryOf is an entry of a pack that git would not write.
func entryOf(kind byte, size int, between, content []byte) []byte {
	out := []byte{kind<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		out[len(out)-1] |= 0x80
		out = append(out, byte(size&0x7f))
	}
	out = append(out, between...)
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write(content)
	_ = w.Close()
	return append(out, z.Bytes()...)
}

func packOf(entries ...[]byte) []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(entries)))
	out = append(out, bytes.Join(entries, nil)...)
	s := newSpooler(nil, nil, SHA1, 0)
	_, _ = s.sum.Write(out)
	return s.sum.Sum(out)
}

// commitOf is a commit object.
func commitOf(parents ...string) []byte {
	out := "tree " + strings.Repeat("a", 40) + "\n"
	for _, p := range parents {
		out += "parent " + p + "\n"
	}
	return []byte(out + "author A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\n\nmessage\n")
}

func TestPacksThatGitWouldNotWriteProveNothing(t *testing.T) {
	t.Parallel()
	old := strings.Repeat("1", 40)
	good := commitOf(old)
	hash := SHA1.text(SHA1.commit(good))
	blob := entryOf(entryBlob, 3, nil, []byte("abc"))
	huge := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(good))), 1<<40)
	for name, c := range map[string]struct {
		pack []byte
		want string // the error, or "proof" or "no proof"
	}{
		"commit":                       {packOf(entryOf(entryCommit, len(good), nil, good)), "proof"},
		"commit twice":                 {packOf(entryOf(entryCommit, len(good), nil, good), entryOf(entryCommit, len(good), nil, good)), "proof"},
		"commit as a blob":             {packOf(entryOf(entryBlob, len(good), nil, good)), "no proof"},
		"commit as a tag":              {packOf(entryOf(entryTag, len(good), nil, good)), "no proof"},
		"commit of another hash":       {packOf(entryOf(entryCommit, len(good)+1, nil, append(good[:len(good):len(good)], 'x'))), "no proof"},
		"commit with wrong parent":     {packOf(entryOf(entryCommit, 10, nil, []byte("tree 12345"))), "no proof"},
		"delta with no base":           {packOf(entryOf(entryRefDelta, len(huge), make([]byte, 20), huge)), "no proof"},
		"delta of itself":              {packOf(entryOf(entryRefDelta, len(huge), mustHash(hash), huge)), "no proof"},
		"delta of a blob":              {packOf(blob, entryOf(entryOfsDelta, len(huge), []byte{byte(len(blob))}, huge)), "no proof"},
		"delta with a huge result":     {packOf(entryOf(entryCommit, len(good), nil, good), entryOf(entryRefDelta, len(huge), mustHash(hash), huge)), "proof"},
		"delta that is empty":          {packOf(entryOf(entryCommit, len(good), nil, good), entryOf(entryRefDelta, 0, mustHash(hash), nil)), "proof"},
		"empty pack":                   {packOf(), "no proof"},
		"delta of what is before":      {packOf(entryOf(entryOfsDelta, len(huge), []byte{1}, huge)), "delta of an object that is not in it"},
		"delta of the entry itself":    {packOf(entryOf(entryOfsDelta, len(huge), []byte{0}, huge)), "delta of an object that is not in it"},
		"offset without an end":        {packOf(entryOf(entryOfsDelta, len(huge), bytes.Repeat([]byte{0xff}, 20), huge)), "delta of an object that is not in it"},
		"size without an end":          {packOf(bytes.Repeat([]byte{0xff}, 20)), "too large"},
		"type 5":                       {packOf(entryOf(5, 3, nil, []byte("abc"))), "type 5"},
		"type 0":                       {packOf(entryOf(0, 3, nil, []byte("abc"))), "type 0"},
		"object longer than it says":   {packOf(entryOf(entryBlob, 2, nil, []byte("abc"))), "longer than it says"},
		"object shorter than it says":  {packOf(entryOf(entryBlob, 4, nil, []byte("abc"))), "shorter than it says"},
		"object that is not zlib":      {packOf([]byte{0x33, 'a', 'b', 'c', 'd', 'e'}), "cannot be decompressed"},
		"more objects than there are":  {append(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), 9), packOf()[12:]...), ""},
		"fewer objects than there are": {append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00"), blob...), ""},
		"version 4":                    {[]byte("PACK\x00\x00\x00\x04\x00\x00\x00\x00"), "version 2 or 3"},
		"larger than allowed":          {packOf(entryOf(entryBlob, 1<<20, nil, make([]byte, 1<<20)), entryOf(entryBlob, 1<<20, nil, make([]byte, 1<<20))), "more than 1500000 bytes"},
		"longer than allowed":          {packOf(entryOf(entryBlob, 64<<10, nil, noise(64<<10))), "its pack has more than 50000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := readPack(t.Context(), bytes.NewReader(c.pack), new(memory), SHA1, Limits{Inflated: 1500000, Pack: 50000})
			switch c.want {
			case "proof", "no proof":
				require.NoError(t, err)
				require.Equal(t, c.want == "proof", p.graph.IsAncestor(old, hash))
			default:
				var e *Error
				require.ErrorAs(t, err, &e)
				require.Contains(t, e.What, c.want)
			}
		})
	}
}

func mustHash(text string) []byte {
	id, _ := SHA1.parse(text)
	return id[:20]
}

func noise(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.Read(out)
	return out
}

func TestALimitThatIsReachedIsNoProof(t *testing.T) {
	t.Parallel()
	folder, hashes := history(t, SHA1, 100)
	pack := gitIn(t, folder, strings.NewReader("main\n"), "pack-objects", "--stdout", "--revs", "--no-reuse-delta", "-q")
	tip := hashes[len(hashes)-1]
	for _, limits := range []Limits{{Commits: 50}, {CommitSize: 100}, {Deltas: 1}} {
		p, err := readPack(t.Context(), strings.NewReader(pack), new(memory), SHA1, limits)
		require.NoError(t, err)
		require.False(t, p.graph.IsAncestor(hashes[0], tip), "%+v", limits)
	}
	broken := errors.New("connection reset")
	_, err := readPack(t.Context(), io.MultiReader(strings.NewReader(pack[:5000]), brokenReader{broken}), new(memory), SHA1, Limits{})
	require.ErrorIs(t, err, broken)
	_, err = readPack(t.Context(), strings.NewReader(pack), fullSpool{}, SHA1, Limits{})
	require.ErrorContains(t, err, "spool the pack: no space left")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = readPack(ended, strings.NewReader(pack), new(memory), SHA1, Limits{})
	require.ErrorIs(t, err, context.Canceled)
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

type fullSpool struct{ io.ReadSeeker }

func (fullSpool) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func FuzzPack(f *testing.F) {
	good := commitOf(strings.Repeat("1", 40))
	hash := SHA1.text(SHA1.commit(good))
	f.Add(packOf(entryOf(entryCommit, len(good), nil, good), entryOf(entryRefDelta, 4, mustHash(hash), []byte{1, 1, 1, 'x'})))
	f.Add(packOf(entryOf(entryBlob, 3, nil, []byte("abc")), entryOf(entryOfsDelta, 3, []byte{12}, []byte{3, 0, 0})))
	f.Fuzz(func(t *testing.T, pack []byte) {
		// The checksum is made right: otherwise no input gets past it.
		if len(pack) > 20 {
			s := newSpooler(nil, nil, SHA1, 0)
			_, _ = s.sum.Write(pack[:len(pack)-20])
			pack = s.sum.Sum(pack[:len(pack)-20])
		}
		spool := new(memory)
		p, err := readPack(t.Context(), bytes.NewReader(pack), spool, SHA1, Limits{Inflated: 1 << 20, Commits: 100, Deltas: 100, CommitSize: 4096})
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e)
			return
		}
		for id := range p.at {
			_, _, err := p.load(id)
			require.NoError(t, err)
		}
	})
}

// BenchmarkPack reads packs of 200 MB: one of large files that cannot be compressed,
// and one of many commits and small files. peak-MB is what the heap grew by.
func BenchmarkPack(b *testing.B) {
	b.Run("files", func(b *testing.B) {
		folder := b.TempDir()
		gitIn(b, folder, nil, "init", "--quiet")
		for i := range 20 {
			require.NoError(b, os.WriteFile(filepath.Join(folder, fmt.Sprint(i)), noise(10<<20), 0o644))
		}
		gitIn(b, folder, nil, "-c", "core.compression=0", "add", ".")
		gitIn(b, folder, nil, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "files")
		measure(b, folder, "HEAD")
	})
	b.Run("commits", func(b *testing.B) {
		folder := b.TempDir()
		gitIn(b, folder, nil, "init", "--quiet", "--bare", "--initial-branch=main")
		read, write := io.Pipe()
		go func() {
			for i := range 100_000 {
				data := noise(1500)
				fmt.Fprintf(write, "commit refs/heads/main\ncommitter Bob <bob@example.com> %d +0000\ndata 6\nchange\nM 100644 inline %d/%d.txt\ndata %d\n%s\n", 1700000000+i, i%100, i/100, len(data), data)
			}
			write.Close()
		}()
		gitIn(b, folder, read, "fast-import", "--quiet")
		measure(b, folder, "main")
	})
}

func measure(b *testing.B, folder, revision string) {
	file := filepath.Join(b.TempDir(), "pack")
	cmd := exec.Command("sh", "-c", "echo "+revision+" | git -c core.compression=0 pack-objects --stdout --revs --delta-base-offset -q >"+file)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, string(out))
	info, err := os.Stat(file)
	require.NoError(b, err)
	b.SetBytes(info.Size())
	var peak atomic.Uint64
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak.Store(max(peak.Load(), now.HeapInuse))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	commits := 0
	for b.Loop() {
		f, err := os.Open(file)
		require.NoError(b, err)
		p, err := readPack(b.Context(), f, fileSpool(b), SHA1, Limits{})
		require.NoError(b, err)
		commits = len(p.graph.parents)
		f.Close()
	}
	close(stop)
	<-stopped
	b.ReportMetric(float64(info.Size())/1e6, "pack-MB")
	b.ReportMetric(float64(commits), "commits")
	b.ReportMetric(float64(peak.Load()-before.HeapInuse)/1e6, "peak-MB")
}
