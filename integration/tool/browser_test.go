package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/skill/browser/browsertest"
)

// chromiumOf returns the first process of a task's browser on the machine; 0 if there is none.
func chromiumOf(t *testing.T, taskID string) int {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), "--remote-debugging-pipe") || !strings.Contains(string(data), taskID) || strings.Contains(string(data), "--type=") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		require.NoError(t, err)
		return pid
	}
	return 0
}

// An agent logs in, filters, exports, downloads and verifies, in a real Chromium in its jail,
// which runs as a user of its own. The browser outlives the node's daemon. If it is killed,
// the call says so, the next one starts it anew, and it ends with the task.
func TestABrowserInAJail(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	node := f.StartNode()
	f.StartWorker()
	keys, program := harness.Site(t)
	f.Persona("tester", `
turns:
  - text: I start the site and log in.
    calls:
      - {tool: shell_exec, arguments: {command: "`+program+` 8080", background: true}}
      - {tool: shell_exec, arguments: {command: "until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.1; done"}}
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/orders"}}
      - {tool: browser_type, arguments: {target: "User name", text: ada}}
      - {tool: browser_type, arguments: {target: "Password", text: "`+browsertest.Password+`", submit: true}}
      - {tool: browser_select, arguments: {target: "Status", values: [Paid]}}
      - {tool: browser_extract, arguments: {as: table, max_bytes: 4096}}
      - {tool: browser_click, arguments: {target: "the export link"}}
      - {tool: csv_profile, arguments: {path: downloads/orders.csv}}
      - {tool: browser_screenshot, arguments: {}}
      - {tool: shell_exec, arguments: {command: "stat -c %u $(dirname $(grep -l '^chromium' /proc/[0-9]*/comm | head -1)); stat -c %a /workspace"}}
      - {tool: browser_navigate, arguments: {url: "http://files.example.com/x"}}
  - text: The node's daemon dies.
    calls:
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/forms"}}
      - {tool: browser_wait, arguments: {seconds: 6}}
      - {tool: browser_snapshot, arguments: {full: true}}
  - text: Chromium dies.
    calls:
      - {tool: browser_wait, arguments: {seconds: 29}}
      - {tool: browser_snapshot, arguments: {}}
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/forms"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "tested"}}
`, "mode: autonomous", keys)
	id := f.Submit("tester")
	type step struct {
		Tool, State, Observation string
		Outcome                  map[string]any
	}
	var steps []step
	runs := func(n int) {
		t.Helper()
		waittest.Until(t, 2*time.Minute, fmt.Sprintf("step %d to run", n), func() bool {
			f.JSON(&steps, "task", "steps", id)
			return len(steps) > n && steps[n].State == "STEP_STATE_STARTED"
		})
	}
	runs(13)
	browser := chromiumOf(t, id)
	require.NotZero(t, browser)
	node.Kill()
	f.StartNodeIn(f.NodeDir)
	runs(15)
	require.Equal(t, browser, chromiumOf(t, id), "it is the same browser")
	require.NoError(t, syscall.Kill(browser, syscall.SIGKILL))
	succeeds(f, id)

	f.JSON(&steps, "task", "steps", id)
	said := func(n int, state, text string) {
		t.Helper()
		require.Equal(t, "STEP_STATE_"+state, steps[n].State, "%d: %+v", n, steps[n])
		require.Contains(t, steps[n].Observation, text)
	}
	said(2, "SUCCEEDED", `title: "Log in"`)
	said(4, "SUCCEEDED", `title: "Orders"`)
	said(5, "SUCCEEDED", "url: http://localhost:8080/orders?status=paid")
	said(6, "SUCCEEDED", "1002,Grace,paid,17,Delete")
	said(7, "SUCCEEDED", "downloaded downloads/orders.csv: ")
	require.EqualValues(t, 2, steps[7].Outcome["files_changed"], "the file, and the folder of downloads")
	require.Equal(t, "localhost", steps[7].Outcome["host"])
	said(8, "SUCCEEDED", "8 rows")
	said(9, "SUCCEEDED", "a picture of the page")
	require.EqualValues(t, 1, steps[9].Outcome["images"])
	said(10, "SUCCEEDED", "1001\n700\n")
	said(11, "FAILED", "no rule allows files.example.com:80")
	refused := steps[11].Outcome["egress"].(map[string]any)["refused"].([]any)
	require.Equal(t, "files.example.com:80", refused[0].(map[string]any)["host"], "it belongs to the step")
	said(13, "SUCCEEDED", "")
	said(14, "SUCCEEDED", `heading "Forms"`)
	said(15, "FAILED", "the browser ended (signal: killed) during the call")
	said(16, "SUCCEEDED", "1 of 1 tabs, whose pages were loaded again; the active one is http://localhost:8080/forms")
	require.Contains(t, steps[16].Observation, `heading "Forms"`)
	said(17, "SUCCEEDED", `title: "Forms"`)
	waittest.Until(t, time.Minute, "the browser to end with its task", func() bool { return chromiumOf(t, id) == 0 })

	// People see the picture, too.
	dir := t.TempDir()
	f.CLI(0, "task", "steps", id, "--images", dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.png"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Regexp(t, `"mediaType": ?"image/png"`, f.CLI(0, "task", "export", id).Out)
}

// The browser's session goes with the checkpoints: an agent that goes back has the cookies and
// storages of that point, and so has a task that is resumed from there. A password is typed from
// a credential and is in no record; commands of the agent cannot use the browser.
func TestSessionsOfABrowser(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	keys, program := harness.Site(t)
	secret := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(secret, []byte(browsertest.Password), 0o600))
	f.CLI(0, "credential", "create", "office", "--kind", "password", "--host", "localhost", "--port", "8080", "--agent", "clerk", "--value-file", secret)
	serve := `{tool: shell_exec, arguments: {command: "` + program + ` 8080", background: true}}
      - {tool: shell_exec, arguments: {command: "until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.1; done"}}`
	f.Persona("clerk", `
turns:
  - text: I log in, and have the page remember something.
    calls:
      - `+serve+`
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/login"}}
      - {tool: browser_type, arguments: {target: "User name", text: ada}}
      - {tool: browser_type, arguments: {target: "Password", credential: office, submit: true}}
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/state?token=parameter"}}
      - {tool: browser_click, arguments: {target: Remember}}
      - {tool: shell_exec, arguments: {command: "for d in /tmp/.deckhand-browser-*; do echo '{\"tool\":\"browser_tabs\",\"exec\":\"x\"}' | /.deckhand-skill browser ask $d; cat $d/profile/Default/Preferences; done"}}
      - {tool: checkpoint, arguments: {name: remembered}}
  - text: I look at it.
    calls:
      - `+serve+`
      - {tool: browser_extract, arguments: {}}
  - text: I have it forget, and go back.
    calls:
      - {tool: browser_click, arguments: {target: Forget}}
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/forms"}}
      - {tool: checkpoint_restore, arguments: {name: remembered}}
      - {tool: browser_extract, arguments: {}}
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/orders"}}
  - text: I note it.
    calls:
      - {tool: file_write, arguments: {path: notes, content: "all is well"}}
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/forms"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "tested"}}
`, "mode: autonomous", "credentials: [office]", keys)
	id := f.Submit("clerk")
	succeeds(f, id)
	type step struct{ Tool, State, Observation, ID string }
	var steps []step
	f.JSON(&steps, "task", "steps", id)
	said := func(n int, state, text string) {
		t.Helper()
		require.Equal(t, "STEP_STATE_"+state, steps[n].State, "%d: %+v", n, steps[n])
		require.Contains(t, steps[n].Observation, text)
	}
	const remembered = "cart: three apples, draft: dear Ada, cookies: kept=long seen=yes"
	said(4, "SUCCEEDED", `typed credential office into textbox "Password"`)
	require.Contains(t, steps[4].Observation, `title: "Orders"`)
	said(6, "SUCCEEDED", remembered)
	said(7, "FAILED", "the browser is used by the agent's tools only")
	require.Contains(t, steps[7].Observation, "Permission denied")
	said(11, "SUCCEEDED", remembered)
	said(12, "SUCCEEDED", "cart: null, draft: null, cookies: kept=long")
	said(14, "SUCCEEDED", "the browser goes back, too")
	said(15, "SUCCEEDED", remembered)
	require.Contains(t, steps[15].Observation, "its session was restored")
	said(16, "SUCCEEDED", `title: "Orders"`)

	// People see which pages and cookies a checkpoint has, and no value.
	checkpoints := f.CLI(0, "task", "checkpoints", id, "-o", "json").Out
	require.Contains(t, checkpoints, `"http://localhost:8080/state"`)
	require.Contains(t, checkpoints, `"session of localhost"`)
	require.NotContains(t, checkpoints, "parameter")
	require.Contains(t, f.CLI(0, "task", "checkpoints", id).Out, "http://localhost:8080/state")
	require.Contains(t, f.CLI(0, "credential", "usage", "office").Out, "TYPE")

	require.Contains(t, f.CLI(0, "credential", "usage", "office", "-o", "json").Out, `200`, "it was typed")

	// What pages did after the change that is undone is named.
	require.Contains(t, f.CLI(0, "task", "undo", id, "--last", "1").Err, "not undone: what the page does on its server (browser_navigate, step ")

	resumed := strings.TrimSpace(f.CLI(0, "task", "resume-from", id, "-o", "name", "--name", "remembered", "--workspace", "keep").Out)
	succeeds(f, resumed)
	var again []step
	f.JSON(&again, "task", "steps", resumed)
	first := slices.IndexFunc(again, func(s step) bool { return strings.HasPrefix(s.Tool, "browser_") })
	require.GreaterOrEqual(t, first, 0)
	require.Contains(t, again[first].Observation, remembered, "the task that goes on from there has the session of that point")
	require.Contains(t, again[first].Observation, "its session was restored")

	all := f.CLI(0, "task", "steps", id, "-o", "json").Out + f.CLI(0, "task", "export", id).Out
	for _, one := range steps {
		if strings.HasPrefix(one.Tool, "browser_") {
			all += f.CLI(0, "task", "logs", one.ID).Out
		}
	}
	require.NotContains(t, all, browsertest.Password)
	require.NotContains(t, all, "three apples\\\"")
}
