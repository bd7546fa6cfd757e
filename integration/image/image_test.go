package image

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
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
