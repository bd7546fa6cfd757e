package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
	"github.com/deckhand-sh/deckhand/internal/child"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// parentEnv makes the test binary act as a parent that starts a cluster in the folder it
// names, reports it, and waits to be killed.
const parentEnv = "DECKHAND_TEST_POSTGRES_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		cluster, err := postgres.Config{DataDir: dir, Fast: true}.Complete(context.Background())
		if err == nil {
			err = cluster.Start(context.Background())
		}
		fmt.Println("started:", err)
		select {}
	}
	goleak.VerifyTestMain(m)
}

// dataDir returns a folder that the user postgres can reach.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir(); d = filepath.Dir(d) {
		require.NoError(t, os.Chmod(d, 0o711))
	}
	return filepath.Join(dir, "pg")
}

func complete(t *testing.T, dir string) *postgres.Cluster {
	t.Helper()
	cluster, err := postgres.Config{DataDir: dir, Fast: true}.Complete(t.Context())
	require.NoError(t, err)
	// It lies elsewhere when the test's folder has a long name.
	t.Cleanup(func() { _ = os.RemoveAll(socketOf(t, cluster)) })
	return cluster
}

func start(t *testing.T, cluster *postgres.Cluster) {
	t.Helper()
	require.NoError(t, cluster.Start(t.Context()))
	t.Cleanup(cluster.Stop)
}

func query[T any](t *testing.T, url, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), sql)
	require.NoError(t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return value
}

func socketOf(t *testing.T, cluster *postgres.Cluster) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(cluster.URL("postgres"))
	require.NoError(t, err)
	return cfg.Host
}

func TestClusterKeepsItsRowsOverAStopAndASecondStart(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	cluster := complete(t, dir)
	start(t, cluster)
	require.NoError(t, cluster.EnsureDatabase(t.Context(), "hub"))
	require.NoError(t, cluster.EnsureDatabase(t.Context(), "hub"), "making it again is harmless")
	conn, err := pgx.Connect(t.Context(), cluster.URL("hub"))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS answer")
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	cluster.Stop()
	require.NoError(t, cluster.Err())

	again := complete(t, dir)
	start(t, again)
	require.False(t, again.Adopted())
	require.Equal(t, 42, query[int](t, again.URL("hub"), "SELECT answer FROM kept"))
}

func TestClusterIsHeardOnItsSocketOnlyAndOurRoleIsNoSuperuser(t *testing.T) {
	t.Parallel()
	cluster := complete(t, dataDir(t))
	start(t, cluster)
	url := cluster.URL("postgres")
	require.Equal(t, "", query[string](t, url, "SHOW listen_addresses"))
	require.Equal(t, "UTF8", query[string](t, url, "SHOW server_encoding"))
	require.Equal(t, "C", query[string](t, url, "SELECT datcollate FROM pg_database WHERE datname = 'postgres'"))
	require.Equal(t, "400", query[string](t, url, "SHOW max_connections"))
	require.False(t, query[bool](t, url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"))
}

func TestClusterOfAParentThatWasKilledIsAdoptedAndStopped(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	pid := startAndKillParent(t, dir)
	postmaster, err := child.Of(pid)
	require.NoError(t, err)
	require.True(t, postmaster.Alive())
	cluster := complete(t, dir)
	start(t, cluster)
	require.True(t, cluster.Adopted())
	require.Equal(t, pid, cluster.PID())
	require.Equal(t, 1, query[int](t, cluster.URL("postgres"), "SELECT 1"))
	cluster.Stop()
	require.False(t, postmaster.Alive())
}

// startAndKillParent returns the pid of a postmaster whose parent is dead.
func startAndKillParent(t *testing.T, dir string) int {
	t.Helper()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+dir)
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "started: <nil>\n", line)
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	var pid int
	text, err := os.ReadFile(filepath.Join(dir, "cluster", "postmaster.pid"))
	require.NoError(t, err)
	_, err = fmt.Sscan(string(text), &pid)
	require.NoError(t, err)
	return pid
}

func TestClusterThatWasKilledStartsAgainThoughItsPidBelongsToAnother(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	cluster := complete(t, dir)
	start(t, cluster)
	socketDir := socketOf(t, cluster)
	cluster.Stop()
	// As after a power cut: both lock files name a pid that something else of
	// the same user now has. Any process will do for the test: this one.
	pid := fmt.Sprintf("%d\n", os.Getpid())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cluster", "postmaster.pid"), []byte(pid+filepath.Join(dir, "cluster")+"\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(socketDir, ".s.PGSQL.5432.lock"), []byte(pid), 0o644))
	start(t, cluster)
	require.False(t, cluster.Adopted())
}

func TestClusterInAFolderWithALongNameHasAShortSocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dataDir(t), strings.Repeat("long", 30))
	cluster := complete(t, dir)
	start(t, cluster)
	socketDir := socketOf(t, cluster)
	require.Less(t, len(socketDir), 90)
	require.NotContains(t, socketDir, "long")
}

func TestClusterWhoseFirstStartWasInterruptedIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	part := filepath.Join(dir, "cluster.part-123", "base")
	require.NoError(t, os.MkdirAll(part, 0o755))
	require.NoError(t, os.Chmod(dir, 0o711))
	cluster := complete(t, dir)
	start(t, cluster)
	require.NoDirExists(t, part)
}

func TestClusterThatDiesByItselfEndsTheServiceWithItsLog(t *testing.T) {
	t.Parallel()
	cluster := complete(t, dataDir(t))
	start(t, cluster)
	require.NoError(t, syscall.Kill(cluster.PID(), syscall.SIGKILL))
	<-cluster.Done()
	require.ErrorContains(t, cluster.Err(), "postgres ended by itself: signal: killed")
}

func TestCompleteRefusesWithWhatToDo(t *testing.T) {
	t.Parallel()
	t.Run("when the named folder has no binaries", func(t *testing.T) {
		t.Parallel()
		_, err := postgres.Config{DataDir: dataDir(t), BinDir: t.TempDir()}.Complete(t.Context())
		require.True(t, fault.Is(err, fault.Precondition))
		require.ErrorContains(t, err, "no initdb and postgres of version 15 or later")
	})
	t.Run("when the cluster was made by a version that is not installed", func(t *testing.T) {
		t.Parallel()
		dir := dataDir(t)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "cluster"), 0o711))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "cluster", "PG_VERSION"), []byte("9\n"), 0o600))
		_, err := postgres.Config{DataDir: dir}.Complete(t.Context())
		require.ErrorContains(t, err, "apt-get install postgresql-9")
	})
	t.Run("when the user postgres cannot reach the folder", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() != 0 {
			t.Skip("only root runs PostgreSQL as another user")
		}
		shut := filepath.Join(t.TempDir(), "shut")
		require.NoError(t, os.Mkdir(shut, 0o700))
		_, err := postgres.Config{DataDir: filepath.Join(shut, "pg")}.Complete(t.Context())
		require.ErrorContains(t, err, "chmod o+x "+shut)
	})
	t.Run("when there is no folder", func(t *testing.T) {
		t.Parallel()
		_, err := postgres.Config{}.Complete(t.Context())
		require.ErrorContains(t, err, "data folder")
	})
}
