package image

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/containerd"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// downloads counts the requests for a layer.
func downloads(t *testing.T, r *imagetest.Registry, layer v1.Layer) (n int) {
	t.Helper()
	id, err := layer.Digest()
	require.NoError(t, err)
	for _, request := range r.Requests() {
		if strings.HasPrefix(request, "GET ") && strings.HasSuffix(request, id.String()) {
			n++
		}
	}
	return n
}

// A task whose node's daemon is killed during the pull of its image runs once the daemon is
// back. Layers that were there before are not downloaded again. While the pull lasts, the
// worker's only slot is another task's.
func TestAPullGoesOnAfterTheDaemonWasKilled(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	f := harness.New(t)
	node := f.StartNodeIn(f.NodeDir, nodeFlags(r)...)
	f.StartWorker("--slots", "1")
	first, err := random.Layer(2<<20, types.OCILayer)
	require.NoError(t, err)
	last, err := random.Layer(1<<20, types.OCILayer)
	require.NoError(t, err)
	tag, pinned := r.Push(t, "team/large:1", imagetest.Busybox(t, first, last))
	id, err := last.Digest()
	require.NoError(t, err)
	firstID, err := first.Digest()
	require.NoError(t, err)
	c, err := client.New(f.Containerd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	r.Fail(func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.HasSuffix(req.URL.Path, id.String()) {
			<-req.Context().Done() // it never comes by itself
		}
		return false
	})
	f.Persona("builder", "turns: [{calls: [{tool: shell_exec, arguments: {command: id -u}}, {tool: complete_task, arguments: {summary: done}}]}]", "jail: {image: "+tag+"}")
	task := f.Submit("builder")
	waittest.Until(t, time.Minute, "the first layer to be there, and the last one to be asked for", func() bool {
		_, err := c.ContentStore().Info(namespaces.WithNamespace(t.Context(), f.Namespace()), digest.Digest(firstID.String()))
		return err == nil && downloads(t, r, last) > 0
	})
	f.Persona("other", "turns: [{calls: [{tool: shell_exec, arguments: {command: id -u}}, {tool: complete_task, arguments: {summary: done}}]}]")
	f.Ended(f.Submit("other"))
	require.Equal(t, "TASK_STATE_STARTING", f.Task(task).State, "its image is still being pulled")
	node.Kill()
	r.Fail(nil)
	f.StartNodeIn(f.NodeDir, nodeFlags(r)...)
	f.Ended(task)
	require.Equal(t, 1, downloads(t, r, first))
	require.Contains(t, f.CLI(0, "node", "image", "list", f.NodeName()).Out, pinned)
}

// A task whose image does not fit onto the file system of containerd fails with what is to
// be done.
func TestATaskWhoseImageHasNoSpace(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	dir := filepath.Join(jailtest.Dir(t), "ctr")
	require.NoError(t, os.Mkdir(dir, 0o711))
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=24m,mode=0711"))
	own, err := containerd.Config{DataDir: dir}.Complete(t.Context())
	require.NoError(t, err)
	require.NoError(t, own.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(func() { own.Stop() })
	f := harness.New(t)
	f.Containerd = own.Address()
	f.StartNodeIn(f.NodeDir, nodeFlags(r)...)
	f.StartWorker()
	large, err := random.Layer(40<<20, types.OCILayer)
	require.NoError(t, err)
	tag, pinned := r.Push(t, "team/large:1", imagetest.Image(t, large))
	f.Persona("builder", "turns: [{calls: [{tool: complete_task, arguments: {summary: done}}]}]", "jail: {image: "+tag+"}")
	id := f.Submit("builder")
	waittest.Until(t, time.Minute, "the task to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
	var task struct {
		ErrorCode string `json:"errorCode"`
		Reason    string
	}
	f.JSON(&task, "task", "show", id)
	require.Equal(t, "AGENT_031", task.ErrorCode)
	require.Contains(t, task.Reason, "the node has no disk space for image "+pinned)
	require.Contains(t, task.Reason, "free some: deckhand node image prune NODE deletes images that nothing uses")
}

// A daemon that is killed while it keeps what a setup changed leaves the image prepared or
// not, and never in part: the task then runs with all of it.
func TestTheDaemonIsKilledWhileItKeepsASetup(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	f := harness.New(t)
	node := f.StartNodeIn(f.NodeDir, nodeFlags(r)...)
	f.StartWorker()
	f.CLI(0, "registry", "rules", "--allow-root")
	tag, _ := r.Push(t, "team/tools:1", toolchain(t, "one"))
	// Enough that keeping it takes a while; the first and the last file in order are among it.
	f.Persona("builder", `turns:
  - calls:
      - {tool: shell_exec, arguments: {command: "ls /data | wc -l; cat /data/* | wc -c; cat /etc/first /zz"}}
      - {tool: complete_task, arguments: {summary: done}}
`, `jail:
  image: `+tag+`
  setup:
    - echo first > /etc/first; echo last > /zz; mkdir /data
    - for i in $(seq 2000); do head -c 50000 /dev/zero > /data/$i; done`)
	c, err := client.New(f.Containerd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	keeping := func() (found bool) {
		ctx := namespaces.WithNamespace(t.Context(), f.Namespace())
		err := c.SnapshotService("overlayfs").Walk(ctx, func(_ context.Context, info snapshots.Info) error {
			found = found || info.Kind == snapshots.KindActive && (strings.Contains(info.Name, "deckhand-setup-") || strings.Contains(info.Labels["containerd.io/snapshot.ref"], "deckhand-setup-"))
			return nil
		})
		require.NoError(t, err)
		return found
	}
	task := f.Submit("builder")
	for deadline := time.Now().Add(waittest.Limit(2 * time.Minute)); !keeping(); {
		require.True(t, time.Now().Before(deadline), "the setup is never kept")
	}
	node.Kill()
	require.True(t, keeping(), "it was killed too late for this test")
	f.StartNodeIn(f.NodeDir, nodeFlags(r)...)
	f.Ended(task)
	require.Equal(t, "exit status 0\n2000\n100000000\nfirst\nlast\n", observations(f, task)[0])
	list := f.CLI(0, "node", "image", "list", f.NodeName(), "-o", "json").Out
	require.Equal(t, 1, strings.Count(list, `"setup": "sha256`), list)
	require.False(t, keeping())
}
