package files_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/files"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const jailID = "jail_1"

// one is a machine with one jail.
type one struct {
	dir      string
	uid, gid int
}

func (o one) Workspace(id string) (string, error) {
	if id != jailID {
		return "", fault.New(fault.NotFound, "no jail %s", id)
	}
	return o.dir, nil
}

func (o one) Owner(string) (uid, gid int) { return o.uid, o.gid }

// Outputs implements files.Workspaces.
func (o one) Outputs(string) (*os.Root, error) {
	return os.OpenRoot(filepath.Join(filepath.Dir(o.dir), "out"))
}

// service returns a service and the workspace's folder, which lies beside a
// folder "outside" with a secret in it.
func service(t testing.TB) (*files.Service, string) {
	t.Helper()
	top := t.TempDir()
	jail := one{dir: filepath.Join(top, "workspace"), uid: os.Geteuid(), gid: os.Getegid()}
	if jail.uid == 0 {
		jail.uid, jail.gid = 65534, 65534
	}
	require.NoError(t, os.Mkdir(jail.dir, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(top, "outside"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(top, "outside", "secret"), []byte("secret"), 0o600))
	book, err := ledger.Open(ledger.Config{Path: filepath.Join(top, "ledger.db")})
	require.NoError(t, err)
	t.Cleanup(func() { _ = book.Close() })
	s, err := files.New(files.Config{Workspaces: jail, Ledger: book})
	require.NoError(t, err)
	return s, jail.dir
}

func read(t testing.TB, s *files.Service, path string) (*nodev1.ReadFileResponse, error) {
	t.Helper()
	return s.ReadFile(t.Context(), &nodev1.ReadFileRequest{JailId: jailID, Path: path})
}

func write(t testing.TB, s *files.Service, path, content string) (*nodev1.WriteFileResponse, error) {
	t.Helper()
	return s.WriteFile(t.Context(), &nodev1.WriteFileRequest{JailId: jailID, Path: path, Content: []byte(content)})
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func TestFileIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	wrote, err := write(t, s, "/workspace/a/b/c.txt", "hello\x00\xff")
	require.NoError(t, err)
	require.Equal(t, digest("hello\x00\xff"), wrote.GetDigest())
	require.False(t, wrote.GetReplaced())
	got, err := read(t, s, "a/b/c.txt")
	require.NoError(t, err)
	require.Equal(t, []byte("hello\x00\xff"), got.GetContent())
	require.EqualValues(t, 7, got.GetSize())
	require.Equal(t, wrote.GetDigest(), got.GetDigest())

	require.NoError(t, os.Chmod(filepath.Join(dir, "a/b/c.txt"), 0o750))
	wrote, err = write(t, s, "a/./b//c.txt", "again")
	require.NoError(t, err)
	require.True(t, wrote.GetReplaced())
	info, err := os.Stat(filepath.Join(dir, "a/b/c.txt"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o750), info.Mode().Perm(), "a replaced file keeps its mode")
	entries, err := os.ReadDir(filepath.Join(dir, "a/b"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
}

func TestWhatIsMadeBelongsToTheJail(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	s, dir := service(t)
	_, err := write(t, s, "new/deep/file", "x")
	require.NoError(t, err)
	_, err = s.AppendFile(t.Context(), &nodev1.AppendFileRequest{JailId: jailID, Path: "log/day", Content: []byte("x")})
	require.NoError(t, err)
	for _, name := range []string{"new", "new/deep", "new/deep/file", "log", "log/day"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.EqualValues(t, 65534, info.Sys().(*syscall.Stat_t).Uid, name)
		require.EqualValues(t, 65534, info.Sys().(*syscall.Stat_t).Gid, name)
	}
}

func TestReadAnswersTheRangeThatWasAskedFor(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("0123456789"), 0o600))
	for name, c := range map[string]struct {
		offset, limit int64
		want          string
	}{
		"from the start":    {0, 4, "0123"},
		"from the middle":   {4, 3, "456"},
		"past the end":      {8, 100, "89"},
		"beginning at it":   {10, 5, ""},
		"beginning past it": {1 << 60, 5, ""},
		"without a limit":   {7, 0, "789"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := s.ReadFile(t.Context(), &nodev1.ReadFileRequest{JailId: jailID, Path: "f", Offset: c.offset, Limit: c.limit})
			require.NoError(t, err)
			require.Equal(t, c.want, string(got.GetContent()))
			require.EqualValues(t, 10, got.GetSize())
			require.Equal(t, digest("0123456789"), got.GetDigest(), "of the whole file")
		})
	}
	_, err := s.ReadFile(t.Context(), &nodev1.ReadFileRequest{JailId: jailID, Path: "f", Offset: -1})
	require.True(t, fault.Is(err, fault.Invalid))
}

// Lines are read whole, with the number of all, and a line that is too long is cut between
// two characters.
func TestReadReturnsWholeLines(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	for name, c := range map[string]struct {
		content            string
		first, most, limit int64
		want               string
		lines, total       int64
		cut                bool
	}{
		"all":                      {"a\nb\nc\n", 1, 0, 0, "a\nb\nc\n", 3, 3, false},
		"without an end":           {"a\nb", 1, 0, 0, "a\nb", 2, 2, false},
		"some":                     {"a\nb\nc\n", 2, 1, 0, "b\n", 1, 3, false},
		"as many as fit":           {"aaa\nbbb\nccc\n", 1, 0, 9, "aaa\nbbb\n", 2, 3, false},
		"one that is too long":     {"x\näöü\n", 2, 0, 3, "ä", 1, 2, true},
		"after the end":            {"a\n", 5, 0, 0, "", 0, 1, false},
		"nothing":                  {"", 1, 0, 0, "", 0, 0, false},
		"longer than what is kept": {strings.Repeat("x", 200_000) + "\nnext\n", 2, 0, 0, "next\n", 1, 2, false},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte(c.content), 0o600))
		got, err := s.ReadFile(t.Context(), &nodev1.ReadFileRequest{JailId: jailID, Path: "f", FirstLine: c.first, MaxLines: c.most, Limit: c.limit})
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(got.GetContent()), name)
		require.Equal(t, []any{c.lines, c.total, c.cut}, []any{got.GetLines(), got.GetTotalLines(), got.GetCut()}, name)
		require.Equal(t, digest(c.content), got.GetDigest(), "of the whole file")
	}
}

// What the file API refuses is a sandbox violation with the path, and no
// byte is read or changed.
func TestPathThatLeavesTheWorkspaceIsRefused(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	for link, target := range map[string]string{
		"abs": outside, "rel": "../outside", "file": "../outside/secret", "absfile": filepath.Join(outside, "secret"),
		"one": "two", "two": "rel", "proc": "/proc/self/root", "up": "..",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	for _, path := range []string{
		"..", "../outside/secret", "a/../../outside/secret", "/etc/passwd", "/", "/workspace/..", "/workspaces/x",
		"/workspace/../outside/secret", "abs/secret", "rel/secret", "file", "absfile", "one/secret", "proc/etc/passwd",
		"up/outside/secret", "up/workspace/x", "rel/new", "abs/new/deep",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			refused := func(err error) {
				t.Helper()
				require.True(t, fault.Is(err, fault.Denied), "%v", err)
				require.Equal(t, fault.SandboxViolation, fault.As(err).Code)
				require.Contains(t, fault.As(err).Message, path)
			}
			_, err := read(t, s, path)
			refused(err)
			_, err = write(t, s, path, "changed")
			refused(err)
			_, err = s.AppendFile(t.Context(), &nodev1.AppendFileRequest{JailId: jailID, Path: path, Content: []byte("changed")})
			refused(err)
			_, err = s.AppendFile(t.Context(), &nodev1.AppendFileRequest{JailId: jailID, Path: path, Content: []byte("changed"), OperationId: "step_" + path})
			refused(err)
			_, err = s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: jailID, Path: path})
			refused(err)
		})
	}
	t.Cleanup(func() {
		content, err := os.ReadFile(filepath.Join(outside, "secret"))
		require.NoError(t, err)
		require.Equal(t, "secret", string(content))
		entries, err := os.ReadDir(outside)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
}

func TestLinkThatStaysInTheWorkspaceIsFollowed(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "real/deep"), 0o755))
	require.NoError(t, os.Symlink("real/deep", filepath.Join(dir, "dir")))
	require.NoError(t, os.Symlink("dir/../file", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	_, err := write(t, s, "link", "through")
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(dir, "real/file"))
	require.NoError(t, err)
	require.Equal(t, "through", string(content), "\"..\" after a link is its target's parent")
	info, err := os.Lstat(filepath.Join(dir, "link"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink, "the link stays a link")
	got, err := read(t, s, "link")
	require.NoError(t, err)
	require.Equal(t, "through", string(got.GetContent()))
	_, err = write(t, s, "loop", "x")
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
}

// A process in the jail that swaps a folder for a link while the daemon
// walks does not lead it out.
func TestLinksThatChangeDuringACallLeadNowhere(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "d", "secret"), []byte("mine"), 0o666))
	stop, swapped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swapped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "kept"))
			_ = os.Symlink("../outside", filepath.Join(dir, "d"))
			_ = os.Remove(filepath.Join(dir, "d"))
			_ = os.Symlink("../outside/secret", filepath.Join(dir, "kept", "l"))
			_ = os.Remove(filepath.Join(dir, "kept", "l"))
			_ = os.Rename(filepath.Join(dir, "kept"), filepath.Join(dir, "d"))
		}
	}()
	for i := range 300 {
		if got, err := read(t, s, "d/secret"); err == nil {
			require.NotEqual(t, "secret", string(got.GetContent()))
		}
		if got, err := read(t, s, "d/l"); err == nil {
			require.NotEqual(t, "secret", string(got.GetContent()))
		}
		_, _ = write(t, s, "d/l", "escaped")
		_, _ = write(t, s, fmt.Sprintf("d/new%d", i%10), "escaped")
		_, _ = s.AppendFile(t.Context(), &nodev1.AppendFileRequest{JailId: jailID, Path: "d/secret", Content: []byte("+")})
		if list, err := s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: jailID, Recursive: true}); err == nil {
			require.LessOrEqual(t, len(list.GetFiles()), 40)
		}
	}
	close(stop)
	<-swapped
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	content, err := os.ReadFile(filepath.Join(outside, "secret"))
	require.NoError(t, err)
	require.Equal(t, "secret", string(content))
}

func TestWhatIsNoRegularFileIsNeverOpened(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	require.NoError(t, os.Symlink("pipe", filepath.Join(dir, "link")))
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer syscall.Close(fd)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Join(dir, "socket")}))
	names := []string{"pipe", "folder", "link", "socket", "."}
	if syscall.Mknod(filepath.Join(dir, "device"), syscall.S_IFCHR|0o666, 1<<8|3) == nil {
		names = append(names, "device")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, s, name)
			require.True(t, fault.Is(err, fault.Precondition), "%v", err)
			_, err = write(t, s, name, "x")
			require.True(t, fault.Is(err, fault.Precondition), "%v", err)
			_, err = s.AppendFile(t.Context(), &nodev1.AppendFileRequest{JailId: jailID, Path: name, Content: []byte("x")})
			require.True(t, fault.Is(err, fault.Precondition), "%v", err)
		})
	}
}

func TestErrorsNameThePathAndTheKind(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for name, c := range map[string]struct {
		path string
		kind fault.Kind
	}{
		"a file that is not there":            {"absent/file", fault.NotFound},
		"a path through a file":               {"file/below", fault.Precondition},
		"a name longer than a name can be":    {strings.Repeat("n", 300), fault.Invalid},
		"a path with a NUL byte":              {"a\x00b", fault.Invalid},
		"a very long path of nothing":         {strings.Repeat("a/", 5000) + "b", fault.NotFound},
		"a very long path that stays at home": {strings.Repeat("./", 5000) + "absent", fault.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, s, c.path)
			require.True(t, fault.Is(err, c.kind), "%v", err)
		})
	}
	_, err := s.ReadFile(t.Context(), &nodev1.ReadFileRequest{JailId: "jail_2", Path: "file"})
	require.True(t, fault.Is(err, fault.NotFound))
	require.ErrorContains(t, err, "jail_2")
	_, err = write(t, s, "file", strings.Repeat("x", 33<<20))
	require.True(t, fault.Is(err, fault.Invalid))
}

// A write may name the digest it expects.
func TestWriteHappensOnlyOverTheExpectedContent(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o600))
	attempt := func(path, expect string) error {
		_, err := s.WriteFile(t.Context(), &nodev1.WriteFileRequest{
			JailId: jailID, Path: path, Content: []byte("new"), ExpectDigest: expect,
		})
		return err
	}
	for _, err := range []error{attempt("f", "absent"), attempt("f", digest("other")), attempt("none", digest("old"))} {
		require.True(t, fault.Is(err, fault.Aborted), "%v", err)
		require.Equal(t, fault.FileConflict, fault.As(err).Code)
	}
	content, err := os.ReadFile(filepath.Join(dir, "f"))
	require.NoError(t, err)
	require.Equal(t, "old", string(content))
	require.NoFileExists(t, filepath.Join(dir, "none"))
	require.NoError(t, attempt("f", strings.ToUpper(digest("old"))))
	require.NoError(t, attempt("none", "absent"))
}

func TestOnlyOneOfManyWritersOverTheSameContentSucceeds(t *testing.T) {
	t.Parallel()
	s, _ := service(t)
	_, err := write(t, s, "f", "old")
	require.NoError(t, err)
	var wg sync.WaitGroup
	won := make(chan int, 20)
	for i := range 20 {
		wg.Go(func() {
			_, err := s.WriteFile(t.Context(), &nodev1.WriteFileRequest{
				JailId: jailID, Path: "f", Content: fmt.Appendf(nil, "new %d", i), ExpectDigest: digest("old"),
			})
			if err == nil {
				won <- i
			}
		})
	}
	wg.Wait()
	require.Len(t, won, 1)
}

func TestReaderSeesTheOldFileOrTheNewOneWhole(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	old, next := strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<20)
	_, err := write(t, s, "f", old)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			_, _ = write(t, s, "f", next)
			_, _ = write(t, s, "f", old)
		}
	}()
	for {
		content, err := os.ReadFile(filepath.Join(dir, "f"))
		require.NoError(t, err)
		require.Contains(t, []string{digest(old), digest(next)}, digest(string(content)))
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestListingIsInOrderAndBounded(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "b/inner"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b/inner/x"), []byte("12345"), 0o640))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.txt"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a\nnew\xffline"), nil, 0o600))
	require.NoError(t, os.Symlink("../outside", filepath.Join(dir, "c")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "d"), 0o600))
	list := func(path string, recursive bool, limit int32) (*nodev1.ListFilesResponse, []string) {
		t.Helper()
		got, err := s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: jailID, Path: path, Recursive: recursive, Limit: limit})
		require.NoError(t, err)
		var names []string
		for _, f := range got.GetFiles() {
			names = append(names, f.GetType()+" "+f.GetPath())
		}
		return got, names
	}
	odd := `file "a\nnew\xffline"`
	got, names := list("", true, 0)
	require.Equal(t, []string{odd, "dir b", "dir b/inner", "file b/inner/x", "file b.txt", "symlink c", "other d"}, names)
	require.True(t, got.GetFiles()[0].GetQuoted())
	require.False(t, got.GetFiles()[1].GetQuoted())
	require.EqualValues(t, 5, got.GetFiles()[3].GetSize())
	require.EqualValues(t, 0o640, got.GetFiles()[3].GetMode())
	require.False(t, got.GetTruncated())
	_, names = list("/workspace", false, 0)
	require.Equal(t, []string{odd, "dir b", "file b.txt", "symlink c", "other d"}, names)
	got, names = list(".", true, 3)
	require.Equal(t, []string{odd, "dir b", "dir b/inner"}, names)
	require.True(t, got.GetTruncated())
	got, _ = list(".", true, 7)
	require.False(t, got.GetTruncated(), "exactly as many as asked for")
	_, names = list("b/inner/x", false, 0)
	require.Equal(t, []string{"file b/inner/x"}, names)
	_, err := s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: jailID, Path: "none"})
	require.True(t, fault.Is(err, fault.NotFound))
}

func TestListingOfAHugeFolderGivesItsFirstNames(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	var want []string
	for i := range 6_000 {
		name := fmt.Sprintf("f%d", i*7919%6_000)
		want = append(want, name)
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	sort.Strings(want)
	got, err := s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: jailID, Limit: 50})
	require.NoError(t, err)
	require.True(t, got.GetTruncated())
	for i, f := range got.GetFiles() {
		require.Equal(t, want[i], f.GetPath())
	}
	require.Len(t, got.GetFiles(), 50)
}

func TestListingOfAnEndlessDescentEnds(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 500)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "z"), nil, 0o600))
	got, err := s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: jailID, Recursive: true})
	require.NoError(t, err)
	require.True(t, got.GetTruncated())
	require.Equal(t, "z", got.GetFiles()[len(got.GetFiles())-1].GetPath(), "what is beside it is still listed")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.ListFiles(ctx, &nodev1.ListFilesRequest{JailId: jailID})
	require.ErrorIs(t, err, context.Canceled)
}

func TestServiceNeedsItsParts(t *testing.T) {
	t.Parallel()
	_, err := files.New(files.Config{})
	require.ErrorContains(t, err, "Workspaces and Ledger")
}
