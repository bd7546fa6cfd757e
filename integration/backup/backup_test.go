package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// persona applies an agent whose tasks have a workspace each. It asks, and then appends to
// a file, so that the file shows how often it did.
func persona(f *harness.Fleet, name, script, more string) {
	f.T.Helper()
	dir := f.T.TempDir()
	require.NoError(f.T, os.WriteFile(filepath.Join(dir, name+".md"), fmt.Appendf(nil, `---
name: %[1]s
description: For tests.
provider: script
script: %[1]s.script.yaml
limits: {iterations: 30}
tools: [shell_exec, request_input, complete_task]
workspace: {scope: task}
%[2]s
---
Do what the script says.
`, name, more), 0o600))
	require.NoError(f.T, os.WriteFile(filepath.Join(dir, name+".script.yaml"), []byte(script), 0o600))
	f.CLI(0, "agent", "apply", "-f", dir)
}

const asks = `
turns:
  - text: I ask.
    calls:
      - tool: request_input
        arguments: {question: "Go on?"}
  - text: I append.
    calls:
      - tool: shell_exec
        arguments: {command: "echo %[1]s >> ran-%[1]s"}
  - text: Done.
    calls:
      - tool: complete_task
        arguments: {summary: "done"}
`

const appends = `
turns:
  - text: I append.
    calls:
      - tool: shell_exec
        arguments: {command: "sleep %[2]d; echo %[1]s >> ran-%[1]s"}
  - text: Done.
    calls:
      - tool: complete_task
        arguments: {summary: "done"}
`

// ran returns what commands have appended, by the name of their agent.
func ran(f *harness.Fleet, name string) string {
	f.T.Helper()
	files, err := filepath.Glob(filepath.Join(f.NodeDir, "workspaces", "*", "ran-"+name))
	require.NoError(f.T, err)
	var out strings.Builder
	for _, file := range files {
		out.WriteString(harness.ReadFile(f.T, file))
	}
	return out.String()
}

// A hub is lost with its database and its data folder. Its last backup is older than what
// its node did: a task was answered and went on, an approved command ran, another was
// running. After the restore the node is back by itself, nothing runs twice, what the backup
// does not have is shown, and the audit verifies.
func TestARestoredHubRepeatsNothingThatItsNodesDid(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	worker := f.StartWorker()
	node := f.StartNode()
	persona(f, "untouched", fmt.Sprintf(asks, "untouched"), "")
	persona(f, "forgotten", fmt.Sprintf(asks, "forgotten"), "")
	persona(f, "approved", fmt.Sprintf(appends, "approved", 0), "approvals: {tools: [shell_exec]}")
	persona(f, "running", fmt.Sprintf(appends, "running", 6), "")
	untouched, forgotten, approved := f.Submit("untouched"), f.Submit("forgotten"), f.Submit("approved")
	questions := map[string]string{untouched: f.Item(untouched, ""), forgotten: f.Item(forgotten, "")}
	approval := f.Item(approved, "")
	running := f.Submit("running")
	f.Started(running)

	// The backup.
	dir := t.TempDir()
	backups, identity := filepath.Join(dir, "backups"), filepath.Join(dir, "key.txt")
	recipient := strings.TrimSpace(f.CLI(0, "backup", "key", identity).Out)
	info, err := os.Stat(identity)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	database := "DECKHAND_DATABASE_URL=" + f.Database
	create := func(code int, args ...string) harness.Result {
		r := harness.Run(t, []string{database}, append([]string{"backup", "create", backups, "--data-dir", f.Dir}, args...)...)
		require.Equal(t, code, r.Code, r.Err)
		return r
	}
	require.Contains(t, create(2).Err, "no recipient")
	path := strings.TrimSpace(create(0, "--recipient", recipient, "-o", "name").Out)
	require.NoFileExists(t, filepath.Join(path, "keyset.json"))
	keyset := harness.ReadFile(t, filepath.Join(f.Dir, "keyset.json"))
	require.NotContains(t, harness.ReadFile(t, filepath.Join(path, "keyset.json.age")), keyset[:40])
	require.FileExists(t, filepath.Join(path, "personas", "default", "forgotten.md"))

	// What happens after it.
	f.CLI(0, "inbox", "answer", questions[forgotten], "yes")
	f.CLI(0, "inbox", "approve", approval)
	f.Ended(forgotten)
	f.Ended(approved)
	require.Equal(t, "forgotten\n", ran(f, "forgotten"))
	require.Equal(t, "approved\n", ran(f, "approved"))

	// The machine of the hub is lost.
	api, _, bus := f.Hub.Addresses(t)
	edge := f.EdgeListener()
	f.Hub.Kill()
	worker.Kill()

	refuses(t, path, identity, f.Dir, f.Database)
	f.Dir, f.Database = t.TempDir(), postgrestest.Database(t)
	restored := harness.Run(t, []string{"DECKHAND_DATABASE_URL=" + f.Database}, "backup", "restore", path, "--identity", identity, "--data-dir", f.Dir)
	require.Equal(t, 0, restored.Code, restored.Err)
	require.Contains(t, restored.Err, "4 tasks had not ended")

	f.StartHub("--listen", api, "--edge-listen", edge, "--nats-listen", bus)
	f.StartWorker()
	f.Connected(1)

	// No task goes on by itself. Resumed, one finds the command that it had begun, and does not
	// begin it again.
	paused := func(id string) {
		t.Helper()
		waittest.Until(t, time.Minute, "the task to be compared", func() bool {
			got := f.Task(id)
			return got.State == "TASK_STATE_PAUSED" && strings.Contains(got.Reason, "restored to an earlier state")
		})
	}
	paused(running)
	f.CLI(0, "task", "resume", running)
	f.Ended(running)
	require.Equal(t, "running\n", ran(f, "running"))

	waittest.Until(t, time.Minute, "the tasks to be compared", func() bool { return f.Task(approved).State == "TASK_STATE_PAUSED" })
	require.Contains(t, f.Task(approved).Reason, "restored to an earlier state")
	var events string
	waittest.Until(t, time.Minute, "what was recovered to be shown", func() bool {
		events = f.CLI(0, "task", "watch", forgotten, "--type", "task.restored", "--follow=false", "-o", "jsonl").Out
		return events != ""
	})
	require.Contains(t, events, "recovered")
	require.Contains(t, events, "echo forgotten >> ran-forgotten")
	require.Contains(t, events, "exit code 0")

	// A person resumes the approved one: its step ends with what the node knows.
	f.CLI(0, "task", "resume", approved)
	f.Ended(approved)
	require.Equal(t, "approved\n", ran(f, "approved"))
	require.Equal(t, "STEP_STATE_SUCCEEDED", f.Steps(approved)[0].State)

	// One of which the nodes know nothing newer is uncertain: answered, it waits until a person
	// has looked, as one that did something does.
	f.CLI(0, "inbox", "answer", f.Item(untouched, ""), "yes")
	waittest.Until(t, time.Minute, "the answered task to say why it waits", func() bool {
		return strings.Contains(f.Task(untouched).Reason, "deckhand task resume "+untouched)
	})
	require.Contains(t, f.CLI(0, "task", "watch", untouched, "--type", "task.restored", "--follow=false", "-o", "jsonl").Out, "uncertain")
	require.Empty(t, ran(f, "untouched"))
	f.CLI(0, "task", "resume", untouched)
	f.Ended(untouched)
	require.Equal(t, "untouched\n", ran(f, "untouched"))
	f.CLI(0, "inbox", "answer", f.Item(forgotten, ""), "yes")
	waittest.Until(t, time.Minute, "the task to say why it waits", func() bool {
		return strings.Contains(f.Task(forgotten).Reason, "deckhand task resume "+forgotten)
	})
	require.Equal(t, "forgotten\n", ran(f, "forgotten"))

	// Its epoch is above every one that the lost hub gave.
	conn, err := pgx.Connect(t.Context(), f.Database)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	var epoch int64
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT epoch FROM node_sessions").Scan(&epoch))
	require.Greater(t, epoch, time.Now().Add(-time.Hour).UnixMicro())

	log := filepath.Join(dir, "audit.jsonl")
	require.NoError(t, os.WriteFile(log, []byte(f.CLI(0, "audit", "export").Out), 0o600))
	f.CLI(0, "audit", "verify", log)
	require.Contains(t, f.CLI(0, "audit", "list").Out, "hub.restored")
	restoresANode(f, node, backups, recipient, identity)
}

// restoresANode verifies that the data of a stopped node is part of a backup on request, and
// that a node that lost its folder is the same node afterwards.
func restoresANode(f *harness.Fleet, node *harness.Process, backups, recipient, identity string) {
	f.T.Helper()
	t := f.T
	run := func(code int, args ...string) harness.Result {
		r := harness.Run(t, []string{"DECKHAND_DATABASE_URL=" + f.Database}, append([]string{"backup"}, args...)...)
		require.Equal(t, code, r.Code, r.Err)
		return r
	}
	create := []string{"create", backups, "--data-dir", f.Dir, "--recipient", recipient, "-o", "name", "--node-dir", f.NodeDir}
	require.Contains(t, run(1, create...).Err, "another deckhand-node", "a running node changes its data meanwhile")
	before := f.NodeID()
	node.Stop(t)
	path := strings.TrimSpace(run(0, create...).Out)
	require.FileExists(t, filepath.Join(path, "node.tar.gz.age"))

	dir := filepath.Join(jailtest.Dir(t), "node") // jails reach what is in it
	other := filepath.Join(t.TempDir(), "other.txt")
	require.Equal(t, 0, harness.Run(t, nil, "backup", "key", other).Code)
	require.Contains(t, run(4, "restore-node", path, filepath.Join(t.TempDir(), "none"), "--identity", other).Err, "cannot be read with the key")
	require.Contains(t, run(1, "restore-node", path, f.NodeDir, "--identity", identity).Err, "not empty")
	run(0, "restore-node", path, dir, "--identity", identity)
	for _, name := range []string{"identity/node.json", "ledger.db"} {
		require.FileExists(t, filepath.Join(dir, name))
	}
	harness.RestartNode(f, dir)
	f.Connected(1)
	require.Equal(t, before, f.NodeID(), "it is the same node")
}

// refuses verifies what backup restore and backup verify refuse.
func refuses(t *testing.T, path, identity, dataDir, database string) {
	t.Helper()
	verify := func(code int, path string, args ...string) string {
		r := harness.Run(t, nil, append([]string{"backup", "verify", path}, args...)...)
		require.Equal(t, code, r.Code, r.Err)
		return r.Err
	}
	restore := func(code int, path, identity, dataDir, database string) string {
		r := harness.Run(t, []string{"DECKHAND_DATABASE_URL=" + database}, "backup", "restore", path, "--identity", identity, "--data-dir", dataDir)
		require.Equal(t, code, r.Code, r.Err)
		return r.Err
	}
	verify(0, path, "--identity", identity)
	list := harness.Run(t, nil, "backup", "list", filepath.Dir(path))
	require.Equal(t, 0, list.Code, list.Err)
	require.Contains(t, list.Out, path)

	// Neither a used data folder nor a used database is touched.
	require.Contains(t, restore(1, path, identity, dataDir, database), "not empty")
	fresh := t.TempDir()
	require.Contains(t, restore(1, path, identity, fresh, database), "the database has")
	require.NoFileExists(t, filepath.Join(fresh, "keyset.json"))

	// Another key.
	other := filepath.Join(t.TempDir(), "other.txt")
	require.Equal(t, 0, harness.Run(t, nil, "backup", "key", other).Code)
	require.Contains(t, verify(4, path, "--identity", other), "does not read this backup")
	require.Contains(t, restore(4, path, other, fresh, database), "does not read this backup")

	// A newer schema, and files that have changed.
	newer := filepath.Join(t.TempDir(), filepath.Base(path))
	require.NoError(t, os.CopyFS(newer, os.DirFS(path)))
	var manifest map[string]any
	require.NoError(t, json.Unmarshal([]byte(harness.ReadFile(t, filepath.Join(newer, "manifest.json"))), &manifest))
	manifest["schema"] = 99999
	text, err := json.Marshal(manifest)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(newer, "manifest.json"), text, 0o600))
	require.Contains(t, restore(1, newer, identity, fresh, database), "schema 99999")
	dump := filepath.Join(newer, "database.dump")
	data := []byte(harness.ReadFile(t, dump))
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(dump, data, 0o600))
	require.Contains(t, verify(1, newer), "database.dump has changed")
	require.NoError(t, os.Remove(dump))
	require.Contains(t, verify(1, newer), "database.dump is missing")
	require.Contains(t, verify(3, t.TempDir()), "is not a backup")
}

// The archive for a bug report has no secret, wherever in the data folder or the hub one
// occurs.
func TestTheArchiveForABugReportHasNoSecrets(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	admin, worker := f.Token("admin-token"), f.Token("worker-token")
	canaries := []string{
		admin, worker, "sk-ant-api03-Zk3Vq81LmTx7RnPp2Wc9Yd4Hs6Bj0Fg5Ae8Uo1Ii3Kt7Qv2Xz4Nm6Lr9Jh0Gf5DsAA", "ghp_8fk2Lq7TzXv3Wn5Rm1Pb9Yc4Hd6Js0Ga2UeIo",
		"canary-password-7Xq2", "AKIAZ7CANARY3LQ9XT2W",
	}
	require.NoError(t, os.MkdirAll(filepath.Join(f.Dir, "log"), 0o700))
	var log strings.Builder
	for _, c := range canaries {
		fmt.Fprintf(&log, `{"@message":"canary","authorization":"Bearer %s","url":"postgres://deckhand:%s@db/deckhand"}`+"\n", c, c)
		fmt.Fprintf(&log, `{"@message":"body {\"password\":\"%s\"} map[Authorization:[Bearer %s] Cookie:[session=%s; b=%s]]","url":"redis://:%s@cache/0"}`+"\n", c, c, c, c, c)
		fmt.Fprintf(&log, "Set-Cookie: session=%s; Path=/\n", c)
	}
	fmt.Fprintf(&log, "%s\n", harness.ReadFile(t, filepath.Join(f.Dir, "keyset.json")))
	require.NoError(t, os.WriteFile(filepath.Join(f.Dir, "log", "up.jsonl"), []byte(log.String()), 0o600))

	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	f.CLI(0, "doctor", "bundle", path, "--data-dir", f.Dir)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	in, err := os.Open(path)
	require.NoError(t, err)
	defer in.Close()
	packed, err := gzip.NewReader(in)
	require.NoError(t, err)
	files := map[string]string{}
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		data, err := io.ReadAll(archive)
		require.NoError(t, err)
		files[filepath.Base(header.Name)] = string(data)
	}
	for _, name := range []string{"doctor.json", "version.json", "nodes.json", "workers.json", "data-folder.txt", "up.jsonl"} {
		require.Contains(t, files, name)
	}
	require.Contains(t, files["doctor.json"], "database durability")
	require.Contains(t, files["up.jsonl"], "canary")
	require.Contains(t, files["data-folder.txt"], "keyset.json")
	var keyset struct {
		Key []struct{ KeyData struct{ Value string } }
	}
	require.NoError(t, json.Unmarshal([]byte(harness.ReadFile(t, filepath.Join(f.Dir, "keyset.json"))), &keyset))
	require.NotEmpty(t, keyset.Key)
	for name, text := range files {
		for _, c := range append(canaries, keyset.Key[0].KeyData.Value) {
			require.NotContains(t, text, c, name)
		}
	}
	f.CLI(1, "doctor", "bundle", path, "--data-dir", f.Dir) // it is not overwritten

	// A secret that others can read is found, and is a failure.
	require.NoError(t, os.Chmod(filepath.Join(f.Dir, "admin-token"), 0o644))
	found := harness.Run(t, []string{"DECKHAND_DATA_DIR=" + f.Dir}, "doctor", "--json", "--problems")
	require.Equal(t, 1, found.Code, found.Err)
	require.Contains(t, found.Out, "chmod 600")
	require.NotContains(t, found.Out, admin)
}
