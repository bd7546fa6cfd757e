package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// initdb creates the cluster in a temporary folder and renames it, so that an interrupted
// one is never taken for complete.
func (c *Cluster) initdb(ctx context.Context) error {
	parts, err := filepath.Glob(c.pgdata() + ".part-*")
	if err != nil {
		return fmt.Errorf("look for unfinished clusters: %w", err)
	}
	for _, part := range parts {
		if err := os.RemoveAll(part); err != nil {
			return fmt.Errorf("remove an unfinished cluster: %w", err)
		}
	}
	part, err := os.MkdirTemp(c.cfg.DataDir, filepath.Base(c.pgdata())+".part-*")
	if err != nil {
		return fmt.Errorf("make the PostgreSQL cluster: %w", err)
	}
	if err := os.Chown(part, c.owner.uid, c.owner.gid); err != nil {
		return fmt.Errorf("make the PostgreSQL cluster: %w", err)
	}
	args := []string{
		"--pgdata=" + part, "--username=" + superuser, "--auth=peer",
		"--encoding=UTF8", "--no-locale",
	}
	if c.cfg.Fast {
		args = append(args, "--no-sync")
	}
	if err := c.run(ctx, "initdb", args...); err != nil {
		return fmt.Errorf("make the PostgreSQL cluster: %w", err)
	}
	var identMap strings.Builder
	for _, user := range []string{"root", c.owner.name} {
		for _, role := range []string{superuser, Role} {
			fmt.Fprintf(&identMap, "deckhand %s %s\n", strconv.Quote(user), role)
		}
	}
	files := map[string]string{
		"pg_hba.conf":     "# Only this machine's root and the cluster's owner, as the kernel names them.\nlocal all all peer map=deckhand\n",
		"pg_ident.conf":   identMap.String(),
		"postgresql.conf": "# Rewritten at each start:\ninclude 'deckhand.conf'\n\n# Settings below win over those above.\n",
		"deckhand.conf":   "",
	}
	for name, text := range files {
		if err := c.owner.writeFile(filepath.Join(part, name), text); err != nil {
			return fmt.Errorf("make the PostgreSQL cluster: %w", err)
		}
	}
	if err := os.Rename(part, c.pgdata()); err != nil {
		return fmt.Errorf("make the PostgreSQL cluster: %w", err)
	}
	return nil
}

// writeSettings writes the settings, at every start.
func (c *Cluster) writeSettings() error {
	onOff := map[bool]string{true: "on", false: "off"}
	connections := "200"
	if c.cfg.Fast {
		connections = "400" // the hubs of all tests share one cluster
	}
	settings := [][2]string{
		{"listen_addresses", "''"},
		{"port", strconv.Itoa(port)},
		{"unix_socket_directories", quote(c.socketDir)},
		{"unix_socket_permissions", "0700"},
		{"max_connections", connections},
		{"shared_buffers", "128MB"},
		{"max_wal_size", "512MB"},
		{"min_wal_size", "80MB"},
		// Writing zeros to a new segment of the log holds up every commit for a
		// tenth of a second or more. What is written to it later is as durable.
		{"wal_init_zero", "off"},
		{"synchronous_commit", onOff[!c.cfg.Fast]},
		{"fsync", onOff[!c.cfg.Fast]},
		{"full_page_writes", onOff[!c.cfg.Fast]},
		// A test's database lives for seconds, and there are dozens: the launcher would
		// start a worker for one after the other.
		{"autovacuum", onOff[!c.cfg.Fast]},
		// Statements and their parameters may hold goals and tool arguments:
		// the log names errors only.
		{"log_min_error_statement", "panic"},
		{"log_parameter_max_length_on_error", "0"},
		{"logging_collector", "off"},
		{"log_timezone", "UTC"},
		{"timezone", "UTC"},
		// A client that vanished must not hold locks until TCP notices.
		{"client_connection_check_interval", "10s"},
	}
	var text strings.Builder
	text.WriteString("# Written by Deckhand at each start. Change postgresql.conf instead.\n")
	for _, setting := range settings {
		fmt.Fprintf(&text, "%s = %s\n", setting[0], setting[1])
	}
	if err := c.owner.writeFile(filepath.Join(c.pgdata(), "deckhand.conf"), text.String()); err != nil {
		return fmt.Errorf("write PostgreSQL's settings: %w", err)
	}
	return nil
}

// removeStalePid removes a postmaster.pid whose process is no longer this
// cluster's. PostgreSQL does not see that its pid now belongs to something else
// of the same user, as is usual after the machine went down. Of a process that
// is gone the file stays: by it PostgreSQL finds sessions that outlived their
// postmaster, beside which it must not start.
func (c *Cluster) removeStalePid() error {
	path := filepath.Join(c.pgdata(), "postmaster.pid")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read postmaster.pid: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err == nil && pid > 0 {
		// The postmaster's working folder is its cluster's.
		dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if errors.Is(err, os.ErrNotExist) || err == nil && sameDir(dir, c.pgdata()) {
			return nil
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove a stale postmaster.pid: %w", err)
	}
	lock := filepath.Join(c.socketDir, socketName+".lock")
	if err := os.Remove(lock); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove a stale socket lock: %w", err)
	}
	return nil
}

func sameDir(a, b string) bool {
	ai, err := os.Stat(a)
	if err != nil {
		return false
	}
	bi, err := os.Stat(b)
	return err == nil && os.SameFile(ai, bi)
}

func quote(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, " / ")
}
