package faults

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
)

// standby is a copy of the rig's database that follows it.
type standby struct {
	r       *rig
	unit    *unit
	cluster *postgres.Cluster
	primary string // URL
}

// startStandby starts a standby that streams from the rig's primary, has hubs that start from
// now on know both, and waits until it follows. With synchronous a commit waits for it.
func (r *rig) startStandby(synchronous bool) *standby {
	r.t.Helper()
	ctx := r.t.Context()
	s := &standby{r: r, primary: r.database}
	// The cluster serves the owner only, by name: also for replication.
	hba, err := os.OpenFile(filepath.Join(r.dir, "pg", "cluster", "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(r.t, err)
	_, err = hba.WriteString("local replication all peer map=deckhand\n")
	require.NoError(r.t, err)
	require.NoError(r.t, hba.Close())
	r.asSuperuser(s.primary, "SELECT pg_reload_conf()")

	dir := filepath.Join(r.dir, "pg-standby")
	s.cluster, err = postgres.Config{DataDir: dir}.Complete(ctx)
	require.NoError(r.t, err)
	command := s.cluster.Command()
	bin, data := filepath.Dir(command[0]), command[2]
	owner := s.cluster.Credential()
	if owner != nil {
		require.NoError(r.t, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
	}
	env := []string{"PATH=" + bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	base := exec.Command(filepath.Join(bin, "pg_basebackup"), "--pgdata="+data, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast",
		"--dbname="+superuser(r, s.primary, ""))
	base.Env, base.SysProcAttr = env, &syscall.SysProcAttr{Credential: owner}
	out, err := base.CombinedOutput()
	require.NoError(r.t, err, "%s", out)
	require.NoError(r.t, s.cluster.Prepare(ctx))
	s.unit = r.unit("postgres-standby", syscall.SIGINT, func() *exec.Cmd {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env, cmd.SysProcAttr = env, &syscall.SysProcAttr{Credential: owner}
		return cmd
	})
	r.eventually(time.Minute, "the standby to follow", s.follows)
	if synchronous {
		r.asSuperuser(s.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
		r.asSuperuser(s.primary, "SELECT pg_reload_conf()")
	}
	r.database = bothHosts(r, s.primary, s.cluster.URL("deckhand"))
	r.db.Close()
	// The test's own look at the database goes where the hubs' does.
	r.db, err = pgxpool.New(ctx, r.database+"&target_session_attrs=read-write")
	require.NoError(r.t, err)
	return s
}

// follows reports whether the standby streams from the primary.
func (s *standby) follows() bool {
	ctx, cancel := context.WithTimeout(s.r.t.Context(), callTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, superuser(s.r, s.primary, "postgres"))
	if err != nil {
		return false
	}
	defer conn.Close(ctx)
	streams := false
	return conn.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_stat_replication WHERE state = 'streaming'").Scan(&streams) == nil && streams
}

// has reports whether the standby has replayed the primary's log up to there.
func (s *standby) has(lsn string) (replayed bool) {
	ctx, cancel := context.WithTimeout(s.r.t.Context(), callTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, superuser(s.r, s.cluster.URL("postgres"), "postgres"))
	if err != nil {
		return false
	}
	defer conn.Close(ctx)
	return conn.QueryRow(ctx, "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn", lsn).Scan(&replayed) == nil && replayed
}

// promote makes it the primary.
func (s *standby) promote() {
	s.r.t.Helper()
	s.r.eventually(time.Minute, "the standby to be promoted", func() bool {
		ctx, cancel := context.WithTimeout(s.r.t.Context(), callTimeout)
		defer cancel()
		conn, err := pgx.Connect(ctx, superuser(s.r, s.cluster.URL("postgres"), "postgres"))
		if err != nil {
			return false
		}
		defer conn.Close(ctx)
		follows := true
		if conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&follows) == nil && follows {
			_, _ = conn.Exec(ctx, "SELECT pg_promote(false)") // tried again until it follows no more
			return false
		}
		return !follows
	})
}

// superuser returns a URL of the same server for the user who owns it.
func superuser(r *rig, database, name string) string {
	u, err := url.Parse(database)
	require.NoError(r.t, err)
	query := u.Query()
	query.Set("user", "postgres")
	u.RawQuery, u.Path = query.Encode(), "/"+name
	return u.String()
}

func (r *rig) asSuperuser(database, sql string) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), superuser(r, database, "postgres"))
	require.NoError(r.t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(r.t.Context(), sql)
	require.NoError(r.t, err, sql)
}

// bothHosts returns a URL that names the servers of both.
func bothHosts(r *rig, first, second string) string {
	a, err := url.Parse(first)
	require.NoError(r.t, err)
	b, err := url.Parse(second)
	require.NoError(r.t, err)
	query := a.Query()
	for _, key := range []string{"host", "port"} {
		query.Set(key, a.Query().Get(key)+","+b.Query().Get(key))
	}
	a.RawQuery = query.Encode()
	return a.String()
}
