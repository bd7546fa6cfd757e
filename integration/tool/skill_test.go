package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// Each skill runs in the jail and reads there, and its result is short and cites where it
// was read; what it cannot do it reports.
func TestSkillsReduceDataInTheJail(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	dir := t.TempDir()
	var log strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&log, "2026-11-22T10:%02d:%02dZ INFO served /users/%d in %d ms\n", i/60%60, i%60, i, i%97)
	}
	log.WriteString("2026-11-22T11:00:00Z ERROR disk of db-7 is full\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "app.log"), []byte(log.String()), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "t.csv"), []byte("id,name\n1,a\n2,b\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "t.json"), []byte(`{"items":[{"id":7},{"id":8}]}`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lease.go"), []byte("package lease\n\n// requeueExpired gives tasks back whose worker is gone.\nfunc requeueExpired() {}\n"), 0o600))
	f.Persona("reader", `
turns:
  - text: I read.
    calls:
      - {tool: log_digest, arguments: {path: in/app.log}}
      - {tool: semantic_grep, arguments: {query: "where are expired tasks requeued", path: in}}
      - {tool: file_outline, arguments: {path: in/lease.go}}
      - {tool: json_query, arguments: {path: in/t.json, query: ".items[].id"}}
      - {tool: csv_profile, arguments: {path: in/t.csv}}
      - {tool: tree_digest, arguments: {path: in}}
      - {tool: tail_stats, arguments: {path: in/app.log}}
      - {tool: log_digest, arguments: {path: /etc/shadow}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "read"}}
`, "mode: autonomous")
	submit := []string{"run", "reader", "go on", "-o", "name"}
	for _, name := range []string{"app.log", "t.csv", "t.json", "lease.go"} {
		submit = append(submit, "--input", filepath.Join(dir, name)+"=in/"+name)
	}
	id := strings.TrimSpace(f.CLI(0, submit...).Out)
	f.Ended(id)

	var steps []struct {
		Tool, State, Observation string
		Outcome                  map[string]any
	}
	f.JSON(&steps, "task", "steps", id)
	said := map[string]string{}
	for _, s := range steps {
		if _, ok := said[s.Tool]; !ok {
			said[s.Tool] = s.Observation
		}
		require.Less(t, len(s.Observation), 9<<10, s.Tool)
	}
	require.Contains(t, said["log_digest"], "50 001 lines")
	require.Contains(t, said["log_digest"], "at in/app.log:50001\n  2026-11-22T11:00:00Z ERROR disk of db-7 is full")
	require.Contains(t, said["semantic_grep"], "1. in/lease.go:4  func requeueExpired() {}")
	require.Contains(t, said["file_outline"], "4: func requeueExpired() {}")
	require.Contains(t, said["json_query"], "1: 7\n1: 8\n")
	require.Contains(t, said["csv_profile"], "- id: integer, 2 filled")
	require.Contains(t, said["tree_digest"], "4 files")
	require.Contains(t, said["tail_stats"], "LAST ERRORS")
	last := steps[7]
	require.Equal(t, "log_digest", last.Tool)
	require.Equal(t, "STEP_STATE_FAILED", last.State)
	require.Contains(t, last.Observation, "/etc/shadow: no such file or directory", "the jail has none")
	require.EqualValues(t, log.Len(), steps[0].Outcome["bytes_read"])
}

// The operator's own skills run in the jail, where no process can change them; each node
// lists its own, with the problem of an invalid one.
func TestOperatorsOwnSkills(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	skills := t.TempDir()
	for path, text := range map[string]string{
		"disk-report/SKILL.md":       "---\nname: disk-report\ndescription: Say how full the disks are.\n---\nRun scripts/report.\n",
		"disk-report/scripts/report": "#!/bin/sh\necho report of $(id -u) in $(pwd)\n",
		"broken/SKILL.md":            "no front matter",
	} {
		path = filepath.Join(skills, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755)) //nolint:gosec // a program
	}
	f.StartNodeIn(f.NodeDir, "--skills-dir", skills, "--name", "skilled")
	f.StartWorker()

	var node struct {
		Skills []struct{ Name, Description, Path, Problem string }
	}
	f.JSON(&node, "node", "show", "skilled")
	require.Len(t, node.Skills, 3)
	require.Equal(t, "git", node.Skills[2].Name, "a built-in one")
	require.Equal(t, "broken", node.Skills[0].Name)
	require.Contains(t, node.Skills[0].Problem, "no front matter")
	const path = "/.deckhand-skills/disk-report/SKILL.md"
	require.Equal(t, "disk-report", node.Skills[1].Name)
	require.Equal(t, "Say how full the disks are.", node.Skills[1].Description)
	require.Equal(t, path, node.Skills[1].Path)
	require.Contains(t, f.CLI(0, "node", "show", "skilled").Out, "broken (not shown: SKILL.md has no front matter")

	f.Persona("skilled", `
turns:
  - text: I run the skill, and try to change it.
    calls:
      - {tool: shell_exec, arguments: {command: "cat `+path+`"}}
      - {tool: shell_exec, arguments: {command: "/.deckhand-skills/disk-report/scripts/report"}}
      - {tool: shell_exec, arguments: {command: "grep /.deckhand-skills/disk-report /proc/mounts; echo x >> `+path+`"}}
      - {tool: shell_exec, arguments: {command: "ls /.deckhand-skills"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "ran"}}
`, "mode: autonomous")
	id := f.Submit("skilled")
	f.Ended(id)
	var steps []struct{ State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Contains(t, steps[0].Observation, "Run scripts/report.")
	require.Contains(t, steps[1].Observation, "report of 1000 in /workspace")
	require.Contains(t, steps[2].Observation, " ro,")
	require.Regexp(t, "Permission denied|Read-only file system", steps[2].Observation)
	require.Contains(t, steps[3].Observation, "disk-report")
	require.NotContains(t, steps[3].Observation, "broken")
}

// In a jail with little memory, a skill that may not read something, or meets far more
// than fits, returns within its limits and reports that; the jail keeps working.
func TestSkillsSayWhatTheyMayNotReadOrHold(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("bounded", `
turns:
  - text: I make what is hard to read.
    calls:
      - tool: shell_exec
        arguments:
          command: |
            mkdir locked && echo 'func hidden() {}' > locked/a.go && echo 'func seen() {}' > seen.go
            echo 'ERROR out of reach' > closed.log && chmod 000 locked closed.log
            head -c 100000000 /dev/zero | tr '\0' a > line.log
            (printf '['; yes '{"id":1},' | head -c 100000000 | tr -d '\n'; printf '{}]') > big.json
  - text: I read it.
    calls:
      - {tool: log_digest, arguments: {path: closed.log}}
      - {tool: tree_digest, arguments: {path: .}}
      - {tool: semantic_grep, arguments: {query: "hidden or seen function", path: .}}
      - {tool: log_digest, arguments: {path: line.log}}
      - {tool: tail_stats, arguments: {path: line.log}}
      - {tool: csv_profile, arguments: {path: line.log}}
      - {tool: file_outline, arguments: {path: line.log}}
  - text: And alone, since calls that only read run side by side, and the jail is small.
    calls:
      - {tool: json_query, arguments: {path: big.json, query: ".[0].id"}}
      - {tool: shell_exec, arguments: {command: "echo still here"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "read"}}
`, "mode: autonomous", "jail: {memory: 64MiB}")
	id := f.Submit("bounded")
	f.Ended(id)
	var steps []struct{ Tool, State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	for _, s := range steps {
		require.Less(t, len(s.Observation), 9<<10, s.Tool)
	}
	for i, want := range []struct{ state, says string }{
		{"SUCCEEDED", "exit status 0"},
		{"FAILED", "closed.log: permission denied"},
		{"SUCCEEDED", "1 folders may not be read, such as locked: permission denied"},
		{"SUCCEEDED", "2 files may not be read"},
		{"SUCCEEDED", "1 line longer than 32 kB, of which the rest is skipped"},
		{"SUCCEEDED", "1 line longer than 32 kB, of which the rest is skipped"},
		{"FAILED", "a record is longer than 4 MB"},
		{"SUCCEEDED", "only the first 67.1 MB are looked at"},
		{"FAILED", "more than a query can keep in memory"},
		{"SUCCEEDED", "still here"},
	} {
		require.Equal(t, "STEP_STATE_"+want.state, steps[i].State, "%s: %s", steps[i].Tool, steps[i].Observation)
		require.Contains(t, steps[i].Observation, want.says, steps[i].Tool)
		require.NotContains(t, steps[i].Observation, "hidden()")
		require.NotContains(t, steps[i].Observation, "ERROR out of reach")
	}
}
