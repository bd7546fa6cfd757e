package files_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/files"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func appendTo(t testing.TB, s *files.Service, operation, content string) (*nodev1.AppendFileResponse, error) {
	t.Helper()
	return s.AppendFile(t.Context(), &nodev1.AppendFileRequest{
		JailId: jailID, Path: "log", Content: []byte(content), OperationId: operation,
	})
}

func TestAppendHappensOncePerOperation(t *testing.T) {
	t.Parallel()
	s, dir := service(t)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			got, err := appendTo(t, s, "step_1", "one\n")
			if err != nil || got.GetSize() != 4 || got.GetDigest() != digest("one\n") {
				t.Errorf("answered %v, %v", got, err)
			}
		})
	}
	wg.Wait()
	_, err := appendTo(t, s, "step_2", "two\n")
	require.NoError(t, err)
	got, err := appendTo(t, s, "step_1", "one\n")
	require.NoError(t, err)
	require.EqualValues(t, 4, got.GetSize(), "the answer is that of the time")
	_, err = appendTo(t, s, "step_1", "something else\n")
	require.True(t, fault.Is(err, fault.Exists), "%v", err)
	for range 2 {
		_, err = appendTo(t, s, "", "free\n")
		require.NoError(t, err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\nfree\nfree\n", string(content))
}

// mortal is a ledger whose process dies before an operation is complete.
type mortal struct{ *ledger.Ledger }

func (mortal) Complete(context.Context, string, []byte) error { return context.Canceled }

func TestAppendThatWasInterruptedIsFinishedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// left is what the file holds when the next daemon is asked again;
		// "-" for no file.
		before, left, want string
		unknown            bool
	}{
		"before it wrote":                              {"old,", "old,", "old,new", false},
		"before it made the file":                      {"-", "-", "new", false},
		"after it made the file":                       {"-", "", "new", false},
		"in the middle of writing":                     {"old,", "old,ne", "old,new", false},
		"after it wrote":                               {"old,", "old,new", "old,new", false},
		"after it wrote, and others went on":           {"old,", "old,new,more", "old,new,more", false},
		"and others wrote something else there":        {"old,", "old,other", "old,other", true},
		"in the middle of writing, and others went on": {"old,", "old,neXX", "old,neXX", true},
		"and the file was cut":                         {"old,", "o", "o", true},
		"and the file is gone":                         {"old,", "-", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			jail := one{dir: filepath.Join(top, "workspace"), uid: os.Geteuid(), gid: os.Getegid()}
			require.NoError(t, os.Mkdir(jail.dir, 0o755))
			log := filepath.Join(jail.dir, "log")
			put := func(content string) {
				t.Helper()
				if content == "-" {
					require.NoError(t, os.RemoveAll(log))
					return
				}
				require.NoError(t, os.WriteFile(log, []byte(content), 0o600))
			}
			book, err := ledger.Open(ledger.Config{Path: filepath.Join(top, "ledger.db")})
			require.NoError(t, err)
			defer book.Close()
			first, err := files.New(files.Config{Workspaces: jail, Ledger: mortal{book}})
			require.NoError(t, err)
			put(c.before)
			_, err = appendTo(t, first, "step_1", "new")
			require.ErrorIs(t, err, context.Canceled)

			put(c.left)
			second, err := files.New(files.Config{Workspaces: jail, Ledger: book})
			require.NoError(t, err)
			for range 2 {
				_, err = appendTo(t, second, "step_1", "new")
				if c.unknown {
					require.Equal(t, fault.OutcomeUnknown, fault.As(err).Code)
				} else {
					require.NoError(t, err)
				}
			}
			content, err := os.ReadFile(log)
			require.NoError(t, err)
			require.Equal(t, c.want, string(content))
		})
	}
}
