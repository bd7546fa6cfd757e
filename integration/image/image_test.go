package image

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
)

// withRegistry starts a fleet whose node trusts a registry on loopback.
func withRegistry(t *testing.T) (*harness.Fleet, *imagetest.Registry) {
	t.Helper()
	r := imagetest.NewRegistry(t)
	f := harness.New(t)
	f.StartNodeIn(f.NodeDir, nodeFlags(r)...)
	f.StartWorker()
	return f, r
}

func nodeFlags(r *imagetest.Registry) []string {
	return []string{"--registry-addresses", "127.0.0.0/8", "--registry-config", r.CertsDir}
}

// toolchain is an image with a program that says its version.
func toolchain(t *testing.T, version string) v1.Image {
	t.Helper()
	script := imagetest.Text("opt/tool/bin/tool", "#!/bin/sh\necho tool "+version+"\n")
	script.Mode = 0o755
	return imagetest.Configured(t, imagetest.Busybox(t, imagetest.Layer(t, script)), func(c *v1.ConfigFile) {
		c.Config.Env = []string{"PATH=/opt/tool/bin:/bin", "TOOL_ROOT=/opt/tool"}
	})
}

// observations are what a task's steps returned, in order.
func observations(f *harness.Fleet, id string) (out []string) {
	var steps []struct{ Observation string }
	f.JSON(&steps, "task", "steps", id)
	for _, step := range steps {
		out = append(out, step.Observation)
	}
	return out
}

// A task runs the toolchain of its image. It keeps the digest that the tag had when it
// began: its retry runs the same, whatever the tag means by then, and a new task runs
// what the tag means now. Nothing is pulled twice, also after the node's restart.
func TestATaskKeepsItsImage(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	f := harness.New(t)
	node := f.StartNodeIn(f.NodeDir, nodeFlags(r)...)
	f.StartWorker()
	tag, first := r.Push(t, "team/tools:stable", toolchain(t, "one"))
	f.Persona("builder", `turns:
  - text: I use the toolchain.
    calls:
      - {tool: shell_exec, arguments: {command: "tool; echo $TOOL_ROOT; id -un; echo built > result; cat result"}}
      - {tool: semantic_grep, arguments: {query: "built"}}
      - {tool: complete_task, arguments: {summary: done}}
`, "jail: {image: "+tag+"}", "workspace: {scope: task}")

	ran := f.CLI(0, "run", "builder", "build it", "--wait", "--timeout", "2m")
	require.Contains(t, ran.Err+ran.Out, "pulling "+tag)
	var task struct{ ID, Image, State string }
	var tasks []struct{ ID, Image string }
	f.JSON(&tasks, "task", "list")
	id := tasks[0].ID
	f.JSON(&task, "task", "show", id)
	require.Equal(t, first, task.Image)
	seen := observations(f, id)
	require.Equal(t, "exit status 0\ntool one\n/opt/tool\nagent\nbuilt\n", seen[0])
	require.Contains(t, seen[1], "built", "skills run in the image as well")

	kinds := map[string]map[string]any{}
	for line := range strings.Lines(f.CLI(0, "task", "export", id).Out) {
		var e struct {
			Type    string
			Payload map[string]any
			Event   *struct {
				Type    string
				Payload map[string]any
			}
		}
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		if e.Event != nil {
			kinds[e.Event.Type] = e.Event.Payload
		} else {
			kinds[e.Type] = e.Payload
		}
	}
	require.Equal(t, first, kinds["image_ready"]["reference"])
	require.Equal(t, true, kinds["image_ready"]["pulled"])
	require.EqualValues(t, 2, kinds["image_ready"]["layers"])
	require.Contains(t, kinds["image_ready"]["platform"], "Toy Linux 3")
	require.NotNil(t, kinds["image_pulling"])
	require.Contains(t, f.CLI(0, "task", "receipt", id).Out, first)

	_, second := r.Push(t, "team/tools:stable", toolchain(t, "two"))
	require.NotEqual(t, first, second)
	pulls := len(r.Requests())
	node.Kill()
	f.StartNodeIn(f.NodeDir, nodeFlags(r)...)
	retried := strings.TrimSpace(f.CLI(0, "task", "retry", id, "-o", "name").Out)
	f.Ended(retried)
	require.Contains(t, observations(f, retried)[0], "tool one")
	require.Len(t, r.Requests(), pulls, "the registry is not asked for what is pinned and there")

	anew := f.Submit("builder")
	f.Ended(anew)
	require.Contains(t, observations(f, anew)[0], "tool two")
	f.JSON(&task, "task", "show", anew)
	require.Equal(t, second, task.Image)
}

// A task whose image cannot be had fails with the cause and what to do.
func TestATaskWithoutItsImageSaysWhy(t *testing.T) {
	t.Parallel()
	f, r := withRegistry(t)
	tag, _ := r.Push(t, "team/tools:1", toolchain(t, "one"))
	script := "turns:\n  - text: Never.\n    calls: [{tool: complete_task, arguments: {summary: done}}]\n"
	var task struct {
		ErrorCode    string `json:"errorCode"`
		ErrorMessage string `json:"errorMessage"`
		Reason       string
	}
	f.Persona("absent", script, "jail: {image: "+strings.Replace(tag, ":1", ":2", 1)+"}")
	failed := func(agent string) string {
		id := f.Submit(agent)
		waittest.Until(t, time.Minute, "the task to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
		return id
	}
	id := failed("absent")
	f.JSON(&task, "task", "show", id)
	require.Equal(t, "AGENT_031", task.ErrorCode)
	require.Contains(t, task.ErrorMessage, "does not exist")
	require.Contains(t, task.Reason, "check the registry, the name and the tag")

	r.Fail(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusForbidden); return true })
	f.Persona("private", script, "jail: {image: "+tag+"}")
	id = failed("private")
	f.JSON(&task, "task", "show", id)
	require.Contains(t, task.Reason, "store credentials for its registry")
}

// An image without a shell still runs programs; a command line that needs a shell is
// refused with what would run.
func TestAnImageWithoutAShell(t *testing.T) {
	t.Parallel()
	f, r := withRegistry(t)
	tag, _ := r.Push(t, "team/distroless:1", imagetest.Image(t, imagetest.Layer(t, imagetest.Program(t, "busybox"))))
	f.Persona("bare", `turns:
  - text: I run its program.
    calls:
      - {tool: shell_exec, arguments: {command: "/busybox echo 'one  two' three"}}
      - {tool: shell_exec, arguments: {command: "/busybox echo one | /busybox cat"}}
      - {tool: file_write, arguments: {path: a, content: "text\n"}}
      - {tool: shell_exec, arguments: {command: "/busybox cat a"}}
  - text: That is all.
    calls:
      - {tool: complete_task, arguments: {summary: done}}
`, "jail: {image: "+tag+"}")
	id := f.Submit("bare")
	f.Ended(id)
	seen := observations(f, id)
	require.Equal(t, "exit status 0\none  two three\n", seen[0])
	require.Contains(t, seen[1], "this jail's image has no shell: call one program with plain arguments")
	require.Equal(t, "exit status 0\ntext\n", seen[3])

	// People are told the same, and what they can do without one.
	node := f.NodeName()
	terminal := f.Person(t.Context(), "node", "shell", node, "--task", id)
	master, err := pty.Start(terminal)
	require.NoError(t, err)
	said, _ := io.ReadAll(master) // an error is how Linux says that the terminal has ended
	require.Error(t, terminal.Wait())
	require.Contains(t, strings.Join(strings.Fields(string(said)), " "), "this jail's image has no shell, which a terminal needs: run one program with deckhand node exec NODE --agent AGENT")
	require.Equal(t, "text\n", f.CLI(0, "node", "exec", node, "--task", id, "--", "/busybox", "cat", "a").Out)

	// A setup needs one.
	f.CLI(0, "registry", "rules", "--allow-root")
	f.Persona("prepared", "turns: [{calls: [{tool: complete_task, arguments: {summary: done}}]}]", "jail: {image: "+tag+", setup: [/busybox touch /x]}")
	prepare := harness.Run(t, []string{"DECKHAND_DATA_DIR=" + f.Dir}, "agent", "prepare", "prepared")
	require.NotZero(t, prepare.Code)
	require.Contains(t, prepare.Err, "command 1 of 1, this jail's image has no /bin/bash and no /bin/sh, one of which this command line needs: use an image that has a shell: /busybox touch /x")
}

// Jobs and terminals of agents and of people work in an image whose programs are static, and
// a job also in one without a shell.
func TestJobsAndTerminalsInAnImage(t *testing.T) {
	t.Parallel()
	f, r := withRegistry(t)
	static, _ := r.Push(t, "team/static:1", imagetest.Busybox(t))
	bare, _ := r.Push(t, "team/distroless:1", imagetest.Image(t, imagetest.Layer(t, imagetest.Program(t, "busybox"))))
	f.Persona("static", `turns:
  - text: I start a job.
    calls: [{tool: shell_exec, arguments: {command: "echo begun; read line; echo got $line", background: true}}]
    capture:
      job: '(job_\w+) runs'
  - calls:
      - {tool: job_input, arguments: {job: "${job}", text: "a line"}}
      - {tool: job_output, arguments: {job: "${job}", wait_seconds: 20, until: "got"}}
      - {tool: terminal_open, arguments: {command: "stty size 2>/dev/null; echo on a terminal; [ -t 0 ] && echo yes; read x"}}
  - calls: [{tool: complete_task, arguments: {summary: done}}]
`, "jail: {image: "+static+"}")
	f.Persona("bare", `turns:
  - text: I start a job.
    calls: [{tool: shell_exec, arguments: {command: "/busybox echo from a job", background: true}}]
    capture:
      job: '(job_\w+) runs'
  - calls:
      - {tool: job_output, arguments: {job: "${job}", wait_seconds: 20, until: "from"}}
      - {tool: terminal_open, arguments: {command: "/busybox echo a | /busybox cat"}}
      - {tool: terminal_open, arguments: {command: "/busybox sleep 600"}}
  - calls: [{tool: complete_task, arguments: {summary: done}}]
`, "jail: {image: "+bare+"}")
	first, second := f.Submit("static"), f.Submit("bare")
	f.Ended(first)
	seen := observations(f, first)
	// What a job writes may come with the call before.
	require.Contains(t, seen[1]+seen[2], "got a line")
	require.Contains(t, seen[3], "on a terminal")
	require.Contains(t, seen[3], "yes")
	f.Ended(second)
	seen = observations(f, second)
	require.Contains(t, seen[0]+seen[1], "from a job")
	require.Contains(t, seen[2], "this jail's image has no shell: call one program with plain arguments")
	require.NotContains(t, seen[3], "no shell")
}

// The second attempt of a task, on another worker, runs the image of the first one, although
// the tag has moved; and its events and receipt name that.
func TestAnotherWorkerGoesOnWithThePinnedImage(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	f := harness.New(t)
	node := f.StartNodeIn(f.NodeDir, nodeFlags(r)...)
	worker := f.StartWorker()
	tag, first := r.Push(t, "team/tools:stable", toolchain(t, "one"))
	f.Persona("builder", `turns:
  - text: I wait.
    calls: [{tool: shell_exec, arguments: {command: "tool; until [ -e go ]; do sleep 0.2; done"}}]
  - text: Once more.
    calls:
      - {tool: shell_exec, arguments: {command: "tool"}}
      - {tool: complete_task, arguments: {summary: done}}
`, "jail: {image: "+tag+"}", "workspace: {scope: task}")
	id := f.Submit("builder")
	f.Started(id)
	worker.Kill()
	_, second := r.Push(t, "team/tools:stable", toolchain(t, "two"))
	require.NotEqual(t, first, second)
	f.CLI(0, "node", "exec", f.NodeName(), "--task", id, "--", "/bin/touch", "go")
	// Nor does the node know what it pulled for the tag.
	node.Kill()
	f.StartNodeIn(f.NodeDir, nodeFlags(r)...)
	f.StartWorker()
	f.Ended(id)
	require.Equal(t, 2, f.Task(id).Attempt)
	require.Equal(t, "exit status 0\ntool one\n", observations(f, id)[1])
	exported := f.CLI(0, "task", "export", id).Out
	require.Contains(t, exported, first)
	require.NotContains(t, exported, second)
	require.Contains(t, f.CLI(0, "task", "receipt", id).Out, first)
}

// A node whose daemon is too old to know images is not asked for one: the task says which
// node it is and what to do.
func TestANodeThatIsTooOldForImages(t *testing.T) {
	t.Parallel()
	f, r := withRegistry(t)
	tag, _ := r.Push(t, "team/tools:1", toolchain(t, "one"))
	node := f.NodeName()
	db, err := pgx.Connect(t.Context(), f.Database)
	require.NoError(t, err)
	defer db.Close(t.Context())
	// As if it said so whenever it connects.
	old := func(capability string) {
		t.Helper()
		_, err := db.Exec(t.Context(), `CREATE OR REPLACE FUNCTION old() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN NEW.capability := `+capability+`; NEW.version := 'v0.6.0'; RETURN NEW; END $$`)
		require.NoError(t, err)
		_, err = db.Exec(t.Context(), "CREATE OR REPLACE TRIGGER old BEFORE UPDATE ON nodes FOR EACH ROW EXECUTE FUNCTION old()")
		require.NoError(t, err)
		_, err = db.Exec(t.Context(), "UPDATE nodes SET name = name")
		require.NoError(t, err)
	}
	old("6")
	f.Persona("builder", "turns: [{calls: [{tool: complete_task, arguments: {summary: done}}]}]", "jail: {image: "+tag+"}")
	id := f.Submit("builder")
	waittest.Until(t, time.Minute, "the task to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
	const says = " cannot make jails from images: its deckhand-node v0.6.0 is too old"
	require.Contains(t, f.Task(id).Reason, "node "+node+says)
	require.Contains(t, f.Task(id).Reason, "update deckhand-node on "+node)
	pull := harness.Run(t, []string{"DECKHAND_DATA_DIR=" + f.Dir}, "node", "image", "pull", node, tag)
	require.NotZero(t, pull.Code)
	require.Contains(t, pull.Err, node+says)
	require.Empty(t, r.Requests()[pushes(r):], "the registry was not asked")

	// One that knows images, and no writable roots.
	old("7")
	f.Persona("installer", "turns: [{calls: [{tool: complete_task, arguments: {summary: done}}]}]", "jail: {image: "+tag+", root: writable}")
	id = f.Submit("installer")
	waittest.Until(t, time.Minute, "the task to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
	require.Contains(t, f.Task(id).Reason, "node "+node+" cannot make jails with writable roots, of root, from prepared images or from a devcontainer.json")
}

// pushes counts the requests until the last one that stored something.
func pushes(r *imagetest.Registry) (n int) {
	for i, request := range r.Requests() {
		if strings.HasPrefix(request, "PUT ") {
			n = i + 1
		}
	}
	return n
}

// Administrators store credentials and a mirror for a registry, and say which images
// agents may use. Tasks that run keep their image when others are pruned.
func TestRegistriesAndRules(t *testing.T) {
	t.Parallel()
	f, r := withRegistry(t)
	tag, digest := r.Push(t, "team/tools:1", toolchain(t, "one"))
	other, otherDigest := r.Push(t, "elsewhere/tools:1", toolchain(t, "two"))
	node := f.NodeName()
	r.RequirePassword("a-robots-token-8fk2")
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("a-robots-token-8fk2\n"), 0o600))

	refused := func(args ...string) string {
		r := harness.Run(t, []string{"DECKHAND_DATA_DIR=" + f.Dir}, args...)
		require.NotZero(t, r.Code, r.Out)
		return r.Err
	}
	require.Contains(t, refused("node", "image", "pull", node, tag), "does not allow pulling image "+tag+" without other credentials")
	require.Contains(t, refused("registry", "set", "https://"+r.Host, "--mirror", "x"), "is not the host of a registry")
	require.Contains(t, refused("registry", "set", r.Host, "--mirror", "https://mirror"), "without a scheme")
	f.CLI(0, "registry", "set", r.Host, "--username", "robot", "--password-file", password)
	list := f.CLI(0, "registry", "list", "-o", "json").Out
	require.Contains(t, list, `"username": "robot"`)
	require.NotContains(t, list, "a-robots-token")
	require.Contains(t, f.CLI(0, "node", "image", "pull", node, tag).Out, digest)
	require.Contains(t, f.CLI(0, "node", "image", "pull", node, other).Out, otherDigest)
	require.NotContains(t, f.CLI(0, "audit", "list", "-o", "json").Out, "a-robots-token")
	for _, dir := range []string{f.NodeDir, filepath.Dir(f.Containerd)} {
		require.Empty(t, filesWith(t, dir, "a-robots-token"), "the password is not on the node's disk")
	}

	f.CLI(0, "registry", "rules", "--allow", r.Host+"/team/*", "--require-digest")
	require.Contains(t, refused("node", "image", "pull", node, other), "the organisation does not allow image "+other)
	require.Contains(t, refused("node", "image", "pull", node, tag), "names no digest, and the organisation requires one")
	require.Contains(t, refused("registry", "rules", "--allow", "team/tools"), "which no image can match")
	f.Persona("builder", `turns:
  - text: I wait.
    calls:
      - {tool: shell_exec, arguments: {command: "tool; until [ -e go ]; do sleep 0.2; done"}}
      - {tool: complete_task, arguments: {summary: done}}
`, "jail: {image: "+digest+"}")
	id := f.Submit("builder")
	f.Started(id)
	pruned := f.CLI(0, "node", "image", "prune", node).Out
	require.Contains(t, pruned, otherDigest)
	require.NotContains(t, pruned, digest, "a task that runs keeps it")
	var there []struct {
		Reference string
		Tasks     string
		TaskIDs   []string `json:"taskIds"`
	}
	f.JSON(&there, "node", "image", "list", node)
	require.Len(t, there, 1)
	require.Equal(t, digest, there[0].Reference)
	require.Equal(t, "1", there[0].Tasks)
	require.Equal(t, []string{id}, there[0].TaskIDs)
	f.CLI(0, "node", "exec", node, "--agent", "builder", "--", "/bin/touch", "go")
	f.Ended(id)
	f.CLI(0, "registry", "delete", r.Host)
	require.Contains(t, refused("registry", "delete", r.Host), "nothing is stored for registry")
}

// A node that reaches no registry runs tasks from images that were imported.
func TestAnImportedImage(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	archive := filepath.Join(t.TempDir(), "tools.tar")
	imagetest.Save(t, archive, "whatever:1", toolchain(t, "imported"))
	const name = "registry.internal/team/tools:1"
	imported := strings.Fields(f.CLI(0, "node", "image", "import", f.NodeName(), name, archive, "-o", "name").Out)[0]
	require.Regexp(t, "^registry.internal/team/tools@sha256:", imported)
	f.Persona("builder", `turns:
  - text: I use the toolchain.
    calls:
      - {tool: shell_exec, arguments: {command: "tool"}}
      - {tool: complete_task, arguments: {summary: done}}
`, "jail: {image: "+name+"}")
	id := f.Ended(f.Submit("builder"))
	require.Equal(t, "exit status 0\ntool imported\n", observations(f, id)[0])
}

// A task that is cancelled while its image is being pulled ends at once, and so does the
// pull.
func TestATaskIsCancelledWhileItsImageIsPulled(t *testing.T) {
	t.Parallel()
	f, r := withRegistry(t)
	tag, _ := r.Push(t, "team/slow:1", toolchain(t, "one"))
	begun, ended := make(chan struct{}, 100), make(chan struct{}, 100)
	r.Fail(func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.Contains(req.URL.Path, "/blobs/") {
			begun <- struct{}{}
			<-req.Context().Done()
			ended <- struct{}{}
		}
		return false
	})
	f.Persona("builder", "turns:\n  - text: Never.\n    calls: [{tool: complete_task, arguments: {summary: done}}]\n", "jail: {image: "+tag+"}")
	id := f.Submit("builder")
	<-begun
	f.CLI(0, "task", "cancel", id)
	require.Equal(t, "TASK_STATE_CANCELLED", f.Task(id).State)
	select {
	case <-ended:
	case <-time.After(waittest.Limit(30 * time.Second)):
		t.Fatal("the pull goes on though nobody wants it any more")
	}
}

// filesWith returns the files below a folder, of up to 16 MiB each, that contain a text.
func filesWith(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // deleted meanwhile
		}
		if info, err := entry.Info(); err != nil || info.Size() > 16<<20 {
			return nil //nolint:nilerr // deleted meanwhile
		}
		if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(text)) {
			found = append(found, path)
		}
		return nil
	}))
	return found
}
