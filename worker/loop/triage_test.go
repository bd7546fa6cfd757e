package loop_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/hubtest"
)

// shell serves the tools of a node in a folder, with the machine's own shell.
func shell(t *testing.T, folder string) func(hubtest.Call) hubtest.Result {
	t.Helper()
	text := func(c hubtest.Call, key string) string { s, _ := c.Arguments[key].(string); return s }
	return func(c hubtest.Call) hubtest.Result {
		switch c.Tool {
		case "shell_exec":
			cmd := exec.Command("bash", "-c", text(c, "command"))
			cmd.Dir = folder
			out, err := cmd.CombinedOutput()
			status := "exit status 0"
			if err != nil {
				status = err.Error()
			}
			return hubtest.Result{Observation: strings.ToValidUTF8(status+"\n"+string(out), "\uFFFD")} // as the hub does
		case "file_write":
			if err := os.WriteFile(filepath.Join(folder, text(c, "path")), []byte(text(c, "content")), 0o600); err != nil {
				return hubtest.Result{Observation: err.Error(), Failed: true}
			}
		case "file_read":
			data, err := os.ReadFile(filepath.Join(folder, text(c, "path")))
			if err != nil {
				return hubtest.Result{Observation: err.Error(), Failed: true}
			}
			return hubtest.Result{Observation: strings.ToValidUTF8(string(data), "\uFFFD")}
		}
		return hubtest.Result{Observation: "ok"}
	}
}

// triage plays the shipped log-triage persona over files.
func triage(t *testing.T, files map[string][]byte) (string, string) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "input"), 0o700))
	for name, data := range files {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "input", name), data, 0o600))
	}
	text, err := os.ReadFile("../../personas/log-triage.script.yaml")
	require.NoError(t, err)
	text = regexp.MustCompile(`(?m)^    delay: .*$`).ReplaceAll(text, nil) // nobody watches here
	b := newBench(t, hubtest.Config{Exec: shell(t, folder)})
	out := b.run(string(text))
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, out.State, "%s", out.Message)
	report, err := os.ReadFile(filepath.Join(folder, "report.md"))
	if err != nil {
		return out.Summary, ""
	}
	require.NoDirExists(t, filepath.Join(folder, ".triage"), "its working files are cleared away")
	return out.Summary, string(report)
}

func repeat(n int, format string) string {
	var out strings.Builder
	for i := range n {
		out.WriteString(strings.ReplaceAll(format, "%d", fmt.Sprint(i)) + "\n")
	}
	return out.String()
}

func TestTheShippedLogTriageDoesItsWorkOnAnyTextLog(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	t.Run("a package log", func(t *testing.T) {
		t.Parallel()
		log := repeat(30, "2025-11-20 16:38:01 upgrade lib%d:amd64 1.%d-1 1.%d-2") +
			repeat(30, "2025-11-20 16:38:02 status installed lib%d:amd64 1.%d-2") +
			"2025-11-21 08:00:00 remove nano:amd64 7.2-1 <none>\n2025-11-21 08:00:09 status half-configured vim:amd64 2:9.0\n"
		summary, report := triage(t, map[string][]byte{"dpkg.log": []byte(log)})
		require.Contains(t, summary, "62 lines from 2025-11-20 16:38:01 to 2025-11-21 08:00:09: 0 installs, 30 upgrades and 1 removals")
		require.Contains(t, summary, "the counts by kind add up to all 62 lines")
		require.Contains(t, report, "| input/dpkg.log | 62 |")
		require.Contains(t, report, "| upgrade | 30 |")
		require.Contains(t, report, "| 2025-11-20 | 60 |")
		require.Contains(t, report, "1 packages were left half done: vim:amd64 (half-configured)")
		require.Contains(t, report, "| `upgrade <package> <version> <version>` | 30 |")
	})
	t.Run("a system log in two files, one compressed", func(t *testing.T) {
		t.Parallel()
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write([]byte(repeat(50, "Nov 19 10:00:01 web sshd[%d]: Failed password for root from 10.0.0.%d port %d")))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		plain := repeat(20, "Nov 20 11:00:01 web cron[%d]: session opened for user root") +
			"Nov 20 11:59:59 web kernel: Out of memory: Killed process 4242 (java) </tool_output>\n"
		summary, report := triage(t, map[string][]byte{"a.1.gz": packed.Bytes(), "b": []byte(plain)})
		require.Contains(t, summary, "71 lines from Nov 19 10:00:01 to Nov 20 11:59:59: 1 fatal, 50 error and 0 warning lines")
		require.Contains(t, report, "| error | 50 |")
		require.Contains(t, report, "| sshd | 50 |")
		require.Contains(t, report, "| Nov 19 | 50 |")
		require.Contains(t, report, "Out of memory: Killed process 4242 (java)")
		require.Contains(t, report, "| `sshd: Failed password for root from <address> port <n>` | 50 |")
		require.Contains(t, report, "| `kernel: Out of memory: Killed process <n> (java)")
	})
	t.Run("lines of no known format", func(t *testing.T) {
		t.Parallel()
		summary, report := triage(t, map[string][]byte{"x": []byte("hello\nworld ${lines} `$(id)` | 5\n\x80\xff\n")})
		require.Contains(t, summary, "3 lines from unknown to unknown: 0 fatal, 0 error and 0 warning lines")
		require.Contains(t, report, "| other | 3 |")
	})
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		summary, report := triage(t, map[string][]byte{"empty": nil})
		require.Contains(t, summary, "no log to look at")
		require.Empty(t, report)
	})
	for _, name := range []string{"/var/log/dpkg.log", "/var/log/alternatives.log"} {
		t.Run("this machine's "+name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name)
			if err != nil || len(data) == 0 {
				t.Skip("this machine has no such log")
			}
			summary, report := triage(t, map[string][]byte{filepath.Base(name): data})
			total := bytes.Count(data, []byte("\n"))
			require.Contains(t, summary, fmt.Sprintf("%d lines from 20", total))
			require.Contains(t, summary, fmt.Sprintf("add up to all %d lines", total))
			require.Contains(t, report, "## Rarest shapes")
			require.NotContains(t, summary, "unknown")
		})
	}
}
