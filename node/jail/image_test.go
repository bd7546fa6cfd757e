package jail_test

import (
	"archive/tar"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/image"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// withRegistry returns a manager that trusts a registry on loopback.
func withRegistry(t *testing.T, change ...func(*jail.Config)) (*jail.Manager, jail.Config, *imagetest.Registry) {
	t.Helper()
	r := imagetest.NewRegistry(t)
	cfg := jailtest.Config(t)
	for _, fn := range change {
		fn(&cfg)
	}
	cfg.Images = image.Config{RegistryConfig: r.CertsDir, RegistryAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	return jailtest.Manager(t, cfg), cfg, r
}

// from has a spec's jail made from an image, which it pulls.
func from(t *testing.T, m *jail.Manager, r *imagetest.Registry, img v1.Image) func(*nodev1.JailSpec) {
	t.Helper()
	_, ref := r.Push(t, "team/image:"+ident.New("tag"), img)
	_, err := m.Images().Pull(t.Context(), ref, image.Way{}, nil)
	require.NoError(t, err)
	return func(s *nodev1.JailSpec) { s.Rootfs, s.Image = nodelink.RootImage, ref }
}

// A jail from an image has the image's files and environment, and everything of a
// jail: its user, its workspace, its own /etc/hosts, and nothing of the machine.
func TestAJailFromAnImage(t *testing.T) {
	t.Parallel()
	m, cfg, r := withRegistry(t)
	img := imagetest.Configured(t, imagetest.Busybox(t, imagetest.Layer(t,
		imagetest.Text("opt/tool/data", "of the image\n"),
		imagetest.File{Header: tar.Header{Name: "opt/tool/set", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 0}, Content: "#!/bin/sh\nid -u\n"},
	)), func(c *v1.ConfigFile) {
		c.Config.Env = []string{"PATH=/opt/tool:/bin", "TOOL_HOME=/opt/tool", "HOME=/root", "ODD", "=x"}
		c.Config.User, c.Config.WorkingDir, c.Config.Entrypoint = "nobody-such", "/nowhere", []string{"/not/run"}
		c.Config.Volumes = map[string]struct{}{"/data": {}}
	})
	use := from(t, m, r, img)
	id := ensure(t, m, use)
	conn, err := m.Init(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []string{"PATH=/opt/tool:/bin", "TOOL_HOME=/opt/tool"}, conn.Env)
	end, text := sh(t, m, id, strings.Join([]string{
		"cat /opt/tool/data", "id -u", "whoami", "pwd", "cat /etc/hosts | head -n 1", "set -- /proc/[0-9]*; test $# -lt 9 && echo few",
		"touch /opt/tool/new 2>/dev/null || echo root is read-only", "echo kept > /workspace/file", "touch /tmp/a /var/tmp/b && echo tmp",
		"test -e /usr/bin/git || echo no git of the machine", "/opt/tool/set",
	}, "; "))
	require.Zero(t, end.GetExitCode(), text)
	require.Equal(t, "of the image\n1000\nagent\n/workspace\n127.0.0.1\tlocalhost\nfew\nroot is read-only\ntmp\nno git of the machine\n1000\n", text)
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "linux/amd64, Toy Linux 3", one.GetPlatform())

	// Another jail shares the image, and has a workspace of its own; the next daemon
	// finds both again.
	other := ensure(t, m, use)
	_, text = sh(t, m, other, "ls /workspace; cat /opt/tool/data")
	require.Equal(t, "of the image\n", text)
	require.NoError(t, m.Close())
	m = jailtest.Manager(t, cfg)
	conn, err = m.Init(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, conn.Env, "TOOL_HOME=/opt/tool")
	_, text = sh(t, m, id, "cat /workspace/file")
	require.Equal(t, "kept\n", text)

	// With a jail its snapshot goes; the image stays, for as long as it is wanted.
	before := snapshotsOf(t, cfg)
	require.NoError(t, m.Remove(t.Context(), other))
	require.Equal(t, before-1, snapshotsOf(t, cfg))
	_, err = m.Images().Prune(t.Context(), time.Now().Add(time.Hour), nil)
	require.NoError(t, err)
	_, text = sh(t, m, id, "cat /opt/tool/data")
	require.Equal(t, "of the image\n", text, "an image that a jail has is not pruned")
}

// snapshotsOf counts the snapshots of a node.
func snapshotsOf(t *testing.T, cfg jail.Config) int {
	t.Helper()
	c, err := client.New(cfg.Containerd)
	require.NoError(t, err)
	defer c.Close()
	n := 0
	require.NoError(t, c.SnapshotService(image.DefaultSnapshotter).Walk(namespaces.WithNamespace(t.Context(), cfg.Namespace), func(context.Context, snapshots.Info) error {
		n++
		return nil
	}))
	return n
}

// An image that is not on the node, a reference without a digest, and a root that
// does not fit are refused with what to do.
func TestAnImageMustBeThere(t *testing.T) {
	t.Parallel()
	m, _, r := withRegistry(t)
	tag, ref := r.Push(t, "team/image:1", imagetest.Busybox(t))
	for _, c := range []struct {
		change func(*nodev1.JailSpec)
		kind   fault.Kind
		says   string
	}{
		{func(s *nodev1.JailSpec) { s.Rootfs, s.Image = nodelink.RootImage, ref }, fault.Precondition, "is not on this node"},
		{func(s *nodev1.JailSpec) { s.Rootfs, s.Image = nodelink.RootImage, tag }, fault.Precondition, "is not known yet"},
		{func(s *nodev1.JailSpec) { s.Rootfs = nodelink.RootImage }, fault.Invalid, "not a complete reference"},
		{func(s *nodev1.JailSpec) { s.Image = ref }, fault.Invalid, `rootfs is "host"`},
		{func(s *nodev1.JailSpec) { s.Rootfs = "docker" }, fault.Invalid, `"docker" is not known`},
	} {
		spec := jailtest.Spec(ident.New("jail"))
		c.change(spec)
		_, err := m.Ensure(t.Context(), spec)
		e := fault.As(err)
		require.NotNil(t, e, "%v", err)
		require.Equal(t, c.kind, e.Kind, "%v", err)
		require.Contains(t, e.Message, c.says)
		require.NotEmpty(t, e.Fix)
	}
}

// deckhand-init runs in images that have next to nothing, or very much.
func TestInitRunsInAnyImage(t *testing.T) {
	t.Parallel()
	m, _, r := withRegistry(t)
	many := []v1.Layer{imagetest.Layer(t, imagetest.Text("serial", ident.New("image")), imagetest.Program(t, "busybox"))}
	for i := range 119 {
		many = append(many, imagetest.Layer(t, imagetest.Text("count", fmt.Sprint(i))))
	}
	for name, img := range map[string]v1.Image{
		"one file":           imagetest.Image(t, imagetest.Layer(t, imagetest.Text("serial", ident.New("image")), imagetest.Program(t, "busybox"))),
		"120 layers":         imagetest.Image(t, many...),
		"odd configuration":  imagetest.Configured(t, imagetest.Image(t, imagetest.Layer(t, imagetest.Program(t, "busybox"))), func(c *v1.ConfigFile) { c.Config.Env, c.Config.Cmd = []string{"PATH="}, []string{"x"} }),
		"closed permissions": imagetest.Image(t, imagetest.Layer(t, imagetest.File{Header: tar.Header{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o700}}, imagetest.Program(t, "busybox"))),
	} {
		t.Run(name, func(t *testing.T) {
			id := ensure(t, m, from(t, m, r, img))
			conn, err := m.Init(t.Context(), id)
			require.NoError(t, err)
			uid, gid := conn.User()
			execID := ident.New("step")
			// There is no shell: the program is started by itself.
			_, err = conn.Start(t.Context(), &initv1.StartRequest{ExecId: execID, Argv: []string{"/busybox", "id", "-u"}, Uid: uid, Gid: gid})
			require.NoError(t, err)
			resp, err := conn.Wait(t.Context(), &initv1.WaitRequest{ExecId: execID, TimeoutMs: 60_000})
			require.NoError(t, err)
			require.Empty(t, resp.GetStatus().GetStartError())
			require.Contains(t, output(t, m, id, execID), "1000\n")
		})
	}
}

// Links in an image do not redirect what the jail mounts or what the node reads and writes,
// and its device nodes are deleted.
func TestAHostileImage(t *testing.T) {
	t.Parallel()
	m, cfg, r := withRegistry(t)
	secret := filepath.Join(cfg.DataDir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("root:x:0:0:of the machine\n"), 0o600))
	device := func(name string, kind byte, major, minor int64) imagetest.File {
		return imagetest.File{Header: tar.Header{Name: name, Typeflag: kind, Mode: 0o666, Devmajor: major, Devminor: minor}}
	}
	root := unix.Stat_t{}
	require.NoError(t, unix.Stat("/", &root))
	id := ensure(t, m, from(t, m, r, imagetest.Busybox(t, imagetest.Layer(t,
		// Where init's program, state and socket will be, links to where the agent writes.
		imagetest.Link(".deckhand-init", "/workspace/init"),
		imagetest.Link("run", "/workspace"),
		imagetest.Link("deckhand", "/workspace"),
		imagetest.Link("proc", "/tmp"),
		imagetest.Link("tmp", "/workspace"),
		imagetest.Text("workspace", "a file in the workspace's place"),
		// Where files are read and written while the root is made.
		imagetest.Link("etc/passwd", secret),
		imagetest.Link("etc/group", "../../../../../../../../"+secret),
		imagetest.Link("etc/os-release", secret),
		imagetest.Link("etc/hosts", secret),
		imagetest.Link("etc/resolv.conf", "/proc/self/exe"),
		// Whatever device the machine has.
		device("disk", tar.TypeBlock, int64(unix.Major(root.Dev)), int64(unix.Minor(root.Dev))),
		device("memory", tar.TypeChar, 1, 1),
	))))
	end, text := sh(t, m, id, strings.Join([]string{
		"ls -d /disk /memory 2>&1 | wc -l", "cat /disk /memory 2>/dev/null", "cat /etc/passwd /etc/group /etc/os-release 2>/dev/null", "cat /etc/hosts | wc -l",
		"ls -ld /.deckhand-init /run/deckhand /deckhand/out /workspace /proc /tmp | head -c 6000", "cat /proc/self/comm", "echo evil > /workspace/init; ls /workspace",
	}, "; "))
	require.Zero(t, end.GetExitCode(), text)
	require.NotContains(t, text, "of the machine")
	require.NotContains(t, text, "->", "no link is left in the place of a mount")
	require.Contains(t, text, "cat\ninit\n", "%s", text)
	raw, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "root:x:0:0:of the machine\n", string(raw), "nothing was written through a link")
	var owner unix.Stat_t
	require.NoError(t, unix.Stat(secret, &owner))
	require.Zero(t, owner.Uid, "nothing was given away through a link")
	require.Contains(t, text, "2\n", "both device nodes are gone: %s", text)
}
