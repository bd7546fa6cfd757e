package ledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func TestEndsAreRecordedOnAFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a small file system is mounted by root")
	}
	dir := t.TempDir()
	require.NoError(t, unix.Mount("deckhand-test", dir, "tmpfs", 0, "size=16m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	cfg := ledger.Config{Path: filepath.Join(dir, "ledger.db"), Reserve: 2 << 20}
	l, err := ledger.Open(cfg)
	require.NoError(t, err)
	ctx := t.Context()
	const many = 100
	for i := range many {
		_, _, err := l.Exec(ctx, &nodev1.ExecSpec{ExecId: fmt.Sprint("step-", i), JailId: "jail", Argv: []string{"true"}}, "init")
		require.NoError(t, err)
	}
	ballast := filepath.Join(dir, "ballast")
	fill := func() {
		f, err := os.OpenFile(ballast, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		require.NoError(t, err)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		require.ErrorIs(t, err, unix.ENOSPC)
		require.NoError(t, f.Close())
	}
	fill()
	for i := range many {
		require.NoError(t, l.FinishExecs(ctx, []*nodev1.Exec{{
			ExecId: fmt.Sprint("step-", i), EndedAt: timestamppb.Now(), StartError: strings.Repeat("x", 8000),
		}}), "%d", i)
	}
	info, err := os.Stat(cfg.Path + ".reserve")
	require.NoError(t, err)
	require.Zero(t, info.Size(), "it was not needed: the test shows nothing")
	_, _, err = l.Exec(ctx, &nodev1.ExecSpec{ExecId: "new", JailId: "jail", Argv: []string{"true"}}, "init")
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	rec, err := l.GetExec(ctx, "new")
	require.NoError(t, err)
	require.Nil(t, rec)

	require.NoError(t, l.Close())
	l, err = ledger.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	require.NoError(t, os.Remove(ballast))
	_, existed, err := l.Exec(ctx, &nodev1.ExecSpec{ExecId: "new", JailId: "jail", Argv: []string{"true"}}, "init")
	require.NoError(t, err)
	require.False(t, existed)
	info, err = os.Stat(cfg.Path + ".reserve")
	require.NoError(t, err)
	require.EqualValues(t, 2<<20, info.Size())
}
