package image

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
)

// commandsOf counts the commands of setups that a node ran, by whether they name a text.
func commandsOf(t *testing.T, f *harness.Fleet, text string) (n int) {
	t.Helper()
	var all []struct {
		Argv []string `json:"argv"`
	}
	f.JSON(&all, "node", "execs", f.NodeName())
	for _, one := range all {
		if strings.Contains(strings.Join(one.Argv, " "), text) {
			n++
		}
	}
	return n
}

// A setup runs once for an image on a node, however many tasks need it at the same time,
// and its result is what their jails start from: also after the tag has moved, images were
// pruned and the node was started again.
func TestAnImageIsSetUpOnce(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	f := harness.New(t)
	node := f.StartNodeIn(f.NodeDir, nodeFlags(r)...)
	f.StartWorker()
	tag, first := r.Push(t, "team/tools:stable", toolchain(t, "one"))
	jail := `jail:
  image: ` + tag + `
  setup:
    - mkdir -p /usr/local/bin; sleep 1; id -u
    - |
      printf '#!/bin/sh\necho set up by %s\n' "$(tool)" > /usr/local/bin/extra
      chmod 755 /usr/local/bin/extra`
	f.Persona("builder", `turns:
  - text: I use what was set up.
    calls:
      - {tool: shell_exec, arguments: {command: "/usr/local/bin/extra; id -u; touch /usr/local/bin/x 2>/dev/null || echo read-only; sleep 0.5"}}
      - {tool: complete_task, arguments: {summary: done}}
`, jail, "workspace: {scope: task}")
	refused := f.Submit("builder")
	waittest.Until(t, time.Minute, "the task to fail", func() bool { return f.Task(refused).State == "TASK_STATE_FAILED" })
	var task struct {
		ErrorMessage string `json:"errorMessage"`
		Reason       string
	}
	f.JSON(&task, "task", "show", refused)
	require.Contains(t, task.ErrorMessage+task.Reason, "jail.setup runs commands as root in the jail, and your organisation does not allow that")
	require.Contains(t, task.ErrorMessage+task.Reason, "deckhand registry rules --allow-root")
	f.CLI(0, "registry", "rules", "--allow-root")

	var ids []string
	for range 3 {
		ids = append(ids, f.Submit("builder"))
	}
	for _, id := range ids {
		f.Ended(id)
		require.Equal(t, "exit status 0\nset up by tool one\n1000\nread-only\n", observations(f, id)[0])
	}
	require.Equal(t, 1, commandsOf(t, f, "mkdir -p /usr/local/bin"))
	require.Equal(t, 1, commandsOf(t, f, "printf"))
	seen := map[string]int{}
	for _, id := range ids {
		for line := range strings.Lines(f.CLI(0, "task", "export", id).Out) {
			var e struct {
				Event *struct {
					Type    string
					Payload map[string]any
				}
			}
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			if e.Event != nil && e.Event.Type == "image_setup" {
				require.EqualValues(t, 2, e.Event.Payload["lines"])
				seen[fmt.Sprint(e.Event.Payload["exec_id"])]++
			}
		}
	}
	require.NotEmpty(t, seen)
	for exec := range seen {
		require.Contains(t, f.CLI(0, "node", "execs", f.NodeName()).Out, exec)
	}
	require.Contains(t, f.CLI(0, "audit", "list", "-o", "json").Out, "setup of "+first)

	_, second := r.Push(t, "team/tools:stable", toolchain(t, "two"))
	require.NotEqual(t, first, second)
	node.Kill()
	f.StartNodeIn(f.NodeDir, nodeFlags(r)...)
	retried := strings.TrimSpace(f.CLI(0, "task", "retry", ids[0], "-o", "name").Out)
	f.Ended(retried)
	require.Contains(t, observations(f, retried)[0], "set up by tool one")
	require.Equal(t, 1, commandsOf(t, f, "printf"), "nothing is prepared again")
	list := f.CLI(0, "node", "image", "list", f.NodeName(), "-o", "json").Out
	require.Equal(t, 2, strings.Count(list, first), "the image, and the image prepared: %s", list)

	// What the tag means now is another image, which a person prepares beforehand.
	said := f.CLI(0, "agent", "prepare", "builder")
	require.Contains(t, said.Err, "setup, command 2 of 2")
	require.Contains(t, said.Err, "ready: "+second)
	require.Equal(t, 2, commandsOf(t, f, "printf"))
	require.NotContains(t, f.CLI(0, "agent", "prepare", "builder", "--node", f.NodeName()).Err, "setup, command")
	anew := f.Submit("builder")
	f.Ended(anew)
	require.Contains(t, observations(f, anew)[0], "set up by tool two")
	require.Equal(t, 2, commandsOf(t, f, "printf"))
}

// A setup that fails says which command failed and with what, to all who waited for it, and
// leaves nothing behind; one whose command is killed by a person says so.
func TestASetupThatFails(t *testing.T) {
	t.Parallel()
	f, r := withRegistry(t)
	f.CLI(0, "registry", "rules", "--allow-root")
	tag, _ := r.Push(t, "team/tools:1", toolchain(t, "one"))
	script := "turns:\n  - text: Never.\n    calls: [{tool: complete_task, arguments: {summary: done}}]\n"
	f.Persona("broken", script, `jail:
  image: `+tag+`
  setup: [echo fine, "sleep 1; echo the repository is gone; false; echo not reached"]`, "workspace: {scope: task}")
	var task struct {
		ErrorCode    string `json:"errorCode"`
		ErrorMessage string `json:"errorMessage"`
		Reason       string
	}
	ids := []string{f.Submit("broken"), f.Submit("broken")}
	for _, id := range ids {
		waittest.Until(t, time.Minute, "the task to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
		f.JSON(&task, "task", "show", id)
		require.Equal(t, "AGENT_032", task.ErrorCode)
		said := task.ErrorMessage + task.Reason
		require.Contains(t, said, "command 2 of 2, exit status 1: sleep 1; echo the repository is gone; false; echo not reached\nthe repository is gone")
		require.NotContains(t, said, "gone\nnot reached")
		require.Regexp(t, `deckhand node logs nexec_\w+`, said)
	}

	f.Persona("slow", script, `jail:
  image: `+tag+`
  setup: [sleep 86399]`, "workspace: {scope: task}")
	id := f.Submit("slow")
	var execs []struct{ ID, State string }
	waittest.Until(t, time.Minute, "the setup to run", func() bool {
		f.JSON(&execs, "node", "execs", f.NodeName(), "--live")
		return len(execs) == 1
	})
	f.CLI(0, "node", "kill", execs[0].ID)
	waittest.Until(t, time.Minute, "the task to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
	f.JSON(&task, "task", "show", id)
	require.Regexp(t, "killed (by|before)", task.ErrorMessage+task.Reason)

	// When the task that started a setup is cancelled, a task that waits for it starts another.
	first := f.Submit("slow")
	waittest.Until(t, time.Minute, "the setup to run again", func() bool {
		f.JSON(&execs, "node", "execs", f.NodeName(), "--live")
		return len(execs) == 1
	})
	second, started := f.Submit("slow"), execs[0].ID
	waittest.Until(t, time.Minute, "the second to wait for it", func() bool {
		return strings.Contains(f.CLI(0, "task", "export", second).Out, started)
	})
	var wg sync.WaitGroup
	wg.Go(func() { f.CLI(0, "task", "cancel", first) })
	waittest.Until(t, time.Minute, "the other to start one", func() bool {
		f.JSON(&execs, "node", "execs", f.NodeName(), "--live")
		return len(execs) == 1 && execs[0].ID != started
	})
	wg.Wait()
	// The kill switch ends it as it ends commands of tasks.
	f.CLI(0, "kill", "task", second)
	waittest.Until(t, 10*time.Second, "nothing to run", func() bool {
		f.JSON(&execs, "node", "execs", f.NodeName(), "--live")
		return len(execs) == 0
	})
	require.NotContains(t, f.CLI(0, "node", "image", "list", f.NodeName(), "-o", "json").Out, `"setup": "sha256`)

	// It ends one that a person started, and none begins under its hold.
	prepare := []string{"agent", "prepare", "slow"}
	person := f.Person(t.Context(), prepare...)
	require.NoError(t, person.Start())
	waittest.Until(t, time.Minute, "the setup of a person to run", func() bool {
		f.JSON(&execs, "node", "execs", f.NodeName(), "--live")
		return len(execs) == 1
	})
	killed := f.CLI(0, "kill", "agent", "slow", "--yes")
	require.Contains(t, killed.Err, "ended the setup of image "+strings.Replace(tag, ":1", "@sha256:", 1))
	require.NotContains(t, killed.Err, "Nothing was running")
	require.Error(t, person.Wait())
	f.JSON(&execs, "node", "execs", f.NodeName(), "--live")
	require.Empty(t, execs)
	refused := harness.Run(t, []string{"DECKHAND_DATA_DIR=" + f.Dir}, prepare...)
	require.NotZero(t, refused.Code)
	require.Contains(t, refused.Err, "hold")
}

// An agent that is root in its jail installs what it needs and finds it again in its next
// task; the organisation's administrators must have allowed it.
func TestAnAgentThatIsRoot(t *testing.T) {
	t.Parallel()
	f, r := withRegistry(t)
	tag, _ := r.Push(t, "team/tools:1", toolchain(t, "one"))
	f.Persona("admin", `turns:
  - text: I install.
    calls:
      - {tool: shell_exec, arguments: {command: "id -u; cat /etc/installed 2>/dev/null; echo yes > /etc/installed; echo $HOME; stat -c %U /workspace"}}
      - {tool: file_write, arguments: {path: note, content: "text\n"}}
      - {tool: shell_exec, arguments: {command: "stat -c %U note; chown 33 note && rm note && echo gone"}}
      - {tool: complete_task, arguments: {summary: done}}
`, "jail: {image: "+tag+", root: writable, user: root}")
	refused := f.Submit("admin")
	waittest.Until(t, time.Minute, "the task to fail", func() bool { return f.Task(refused).State == "TASK_STATE_FAILED" })
	f.CLI(0, "registry", "rules", "--allow-root")
	require.Contains(t, f.CLI(0, "registry", "rules").Out, "allowed")
	for i, found := range []string{"", "yes\n"} {
		id := f.Submit("admin")
		f.Ended(id)
		seen := observations(f, id)
		require.Equal(t, "exit status 0\n0\n"+found+"/root\nroot\n", seen[0], i)
		require.Equal(t, "exit status 0\nroot\ngone\n", seen[2])
	}
}

// The workspace's devcontainer.json names the image, its environment, its user, and what
// runs once in a new workspace; what would need a build is refused with what to do.
func TestADevcontainer(t *testing.T) {
	t.Parallel()
	f, r := withRegistry(t)
	tag, digest := r.Push(t, "team/tools:1", toolchain(t, "one"))
	f.Persona("builder", `turns:
  - text: I look.
    calls:
      - {tool: shell_exec, arguments: {command: "tool; echo $MODE $PWD; id -u; cat created"}}
      - {tool: complete_task, arguments: {summary: done}}
`, "jail: {image: devcontainer}")
	run := func(config string) string {
		file := filepath.Join(t.TempDir(), "devcontainer.json")
		require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
		return strings.TrimSpace(f.CLI(0, "run", "builder", "--input", file+"=.devcontainer/devcontainer.json", "-o", "name").Out)
	}
	fails := func(id, says string) {
		t.Helper()
		var task struct {
			ErrorMessage string `json:"errorMessage"`
			Reason       string
		}
		waittest.Until(t, time.Minute, "the task to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
		f.JSON(&task, "task", "show", id)
		require.Contains(t, task.ErrorMessage+task.Reason, says)
	}
	fails(f.Submit("builder"), "put the repository into the workspace first")
	fails(run(`{"build": {"dockerfile": "Dockerfile"}}`), `write "image": "REGISTRY/NAME:TAG" in place of build`)
	fails(run(`{"image": "`+tag+`"}`), "deckhand registry rules --allow")
	f.CLI(0, "agent", "resume", "builder") // three failures suspend it
	f.CLI(0, "registry", "rules", "--allow", r.Host+"/team/*")
	fails(run(`{"image": "`+tag+`", "remoteUser": "root"}`), "write jail.user: root in the persona")
	fails(run(`{"image": "`+tag+`", "postCreateCommand": "rm -rf /"}`), "postCreateCommand of devcontainer.json may not run by itself")
	f.CLI(0, "agent", "resume", "builder")
	fails(run(`{"image": "`+tag+`", "postCreateCommand": "echo it is broken; exit 3"}`), "command 1 of 1, exit status 3: echo it is broken; exit 3\nit is broken")
	f.CLI(0, "agent", "resume", "builder")

	config := `{
		// One for people and agents.
		"image": "` + tag + `",
		"containerEnv": {"MODE": "test at ${containerWorkspaceFolder}"},
		"postCreateCommand": {"a": "tool >> created", "b": ["/bin/sh", "-c", "id -u >> created"]},
	}`
	for range 2 { // the workspace is the agent's: the second task finds it created
		id := run(config)
		f.Ended(id)
		require.Equal(t, "exit status 0\ntool one\ntest at /workspace /workspace\n1000\ntool one\n1000\n", observations(f, id)[0])
		var task struct{ Image string }
		f.JSON(&task, "task", "show", id)
		require.Equal(t, digest, task.Image)
	}
	require.Equal(t, 1, commandsOf(t, f, "tool >> created"))

	// A command that the node refused has run nowhere: the next task runs it, and does not
	// fail with it. This is what the hub stores of it.
	db, err := pgx.Connect(t.Context(), f.Database)
	require.NoError(t, err)
	defer db.Close(t.Context())
	config = `{"image": "` + tag + `", "postCreateCommand": "echo once more >> again"}`
	f.Ended(run(config))
	changed, err := db.Exec(t.Context(), "UPDATE node_execs SET end_reason = 'refused', error = 'the disk is full' WHERE reason LIKE 'postCreateCommand%' AND argv::text LIKE '%once more%'")
	require.NoError(t, err)
	require.EqualValues(t, 1, changed.RowsAffected())
	f.Ended(run(config))
	require.Equal(t, 2, commandsOf(t, f, "once more"))
	f.Ended(run(config))
	require.Equal(t, 2, commandsOf(t, f, "once more"))
}

// A hub that dies during a setup leaves a command that runs, a jail and a row. The next one
// clears all three by itself, whether somebody wants the image or not.
func TestASetupWhoseHubDies(t *testing.T) {
	t.Parallel()
	if os.Getenv("DECKHAND_SOAK") == "" {
		t.Skip("it waits until a hub counts as dead: set DECKHAND_SOAK=1")
	}
	f, r := withRegistry(t)
	f.CLI(0, "registry", "rules", "--allow-root")
	tag, _ := r.Push(t, "team/tools:1", toolchain(t, "one"))
	f.Persona("slow", "turns: [{calls: [{tool: complete_task, arguments: {summary: done}}]}]", "jail: {image: "+tag+", setup: [sleep 86399]}")
	person := f.Person(t.Context(), "agent", "prepare", "slow")
	require.NoError(t, person.Start())
	var execs []struct{ ID, State string }
	running := func(n int) func() bool {
		return func() bool {
			f.JSON(&execs, "node", "execs", f.NodeName(), "--live")
			return len(execs) == n
		}
	}
	waittest.Until(t, time.Minute, "the setup to run", running(1))
	api, edge, bus := f.Hub.Addresses(t)
	f.Hub.Kill()
	require.Error(t, person.Wait())
	f.StartHub("--listen", api, "--edge-listen", edge, "--nats-listen", bus)
	f.Connected(1)
	require.True(t, running(1)(), "the command outlives its hub")
	waittest.Until(t, 3*time.Minute, "the next hub to end it", running(0))
	waittest.Until(t, time.Minute, "its root to be deleted", func() bool {
		left, err := filepath.Glob(filepath.Join(f.NodeDir, "jails", "setup_*", "layer*"))
		require.NoError(t, err)
		return len(left) == 0
	})
}
