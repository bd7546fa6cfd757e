package jail_test

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// machineImage is an image that has the links of a merged /usr and nothing else: with the
// machine's /usr shown, its programs run.
func machineImage(t *testing.T) v1.Image {
	t.Helper()
	files := []imagetest.File{imagetest.Text("etc/hostname", "image\n")}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		files = append(files, imagetest.File{Header: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: "usr/" + name, Mode: 0o777}})
	}
	return imagetest.Image(t, imagetest.Layer(t, files...))
}

// ofRoot makes a spec's jail one of root with a writable root, which runc alone has.
func ofRoot(s *nodev1.JailSpec) { s.WritableRoot, s.RootUser, s.Runtime = true, true, "runc" }

// Root may do to the files of its jail what a package manager does, has five capabilities,
// and what it changed is there when the jail is woken, and in no other jail.
func TestRootChangesItsOwnRoot(t *testing.T) {
	t.Parallel()
	m, cfg, r := withRegistry(t)
	img := imagetest.Busybox(t, imagetest.Layer(t, imagetest.Text("opt/tool/data", "of the image\n"), imagetest.Text("etc/keep", "x")))
	use := from(t, m, r, img)
	id, other := ensure(t, m, use, ofRoot), ensure(t, m, use)
	end, text := sh(t, m, id, strings.Join([]string{
		"id -u; id -g; grep -E '^Cap(Eff|Bnd|Amb)|NoNewPrivs' /proc/self/status", "set -e",
		"mkdir -p /usr/local/lib && echo installed > /usr/local/lib/x && chown 33:33 /usr/local/lib/x && chmod 4755 /usr/local/lib/x",
		"echo changed > /opt/tool/data; rm /etc/keep; ln -s /nowhere /etc/link",
		"echo mine > /workspace/file; stat -c '%u %a' /workspace /workspace/file",
		"chown 0:65534 /workspace/file",
	}, "\n"))
	require.Zero(t, end.GetExitCode(), text)
	const five = "00000000000000cb" // CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID
	require.Equal(t, "0\n0\nCapEff:\t"+five+"\nCapBnd:\t"+five+"\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n0 700\n0 644\n", text)
	end, text = sh(t, m, id, "chown 65535 /workspace/file 2>&1")
	require.NotZero(t, end.GetExitCode(), "init's id is not mapped: %s", text)
	look := "exec 2> /dev/null; cat /usr/local/lib/x /opt/tool/data; ls /etc/keep; stat -c '%u %a' /usr/local/lib/x"
	_, text = sh(t, m, other, look)
	require.NotContains(t, text, "installed")
	require.Contains(t, text, "of the image\n/etc/keep\n")
	for _, wake := range []func(){
		func() {
			_, err := m.Stop(t.Context(), id)
			require.NoError(t, err)
		},
		func() {
			require.NoError(t, m.Shutdown(t.Context()))
			require.NoError(t, m.Close())
			m = jailtest.Manager(t, cfg)
		},
	} {
		wake()
		again(t, m, id, use, ofRoot)
		_, text = sh(t, m, id, look+"; cat /workspace/file")
		require.Contains(t, text, "installed\nchanged\n")
		require.NotContains(t, text, "/etc/keep\n")
		require.Contains(t, text, "33 4755\nmine\n")
	}
	dir := filepath.Join(cfg.DataDir, "jails", id)
	require.NoError(t, m.Remove(t.Context(), id))
	require.NoDirExists(t, dir)

	// The files that commands and the node write belong to the same user.
	as := ensure(t, m, use, ofRoot)
	uid, gid := m.Owner(as)
	sh(t, m, as, "touch /workspace/x")
	workspace, err := m.Workspace(as)
	require.NoError(t, err)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(workspace, "x"), &st))
	require.Equal(t, []uint32{uint32(uid), uint32(gid)}, []uint32{st.Uid, st.Gid})
}

// again asks once more for a jail.
func again(t *testing.T, m *jail.Manager, id string, change ...func(*nodev1.JailSpec)) {
	t.Helper()
	spec := jailtest.Spec(id)
	for _, fn := range change {
		fn(spec)
	}
	_, err := m.Ensure(t.Context(), spec)
	require.NoError(t, err)
}

// In a writable root, a command that is not root writes where the image lets the agent write.
// The root is limited to its size, and its changes are deleted when the image changes.
func TestAWritableRootIsBounded(t *testing.T) {
	t.Parallel()
	m, cfg, r := withRegistry(t)
	if !m.HardWorkspaces() {
		t.Skip("workspaces have no hard limit here: mkfs.ext4 is missing")
	}
	layer := func(text string) v1.Image {
		return imagetest.Busybox(t, imagetest.Layer(t,
			imagetest.File{Header: tar.Header{Name: "srv/", Typeflag: tar.TypeDir, Mode: 0o755, Uid: 1000, Gid: 1000}}, imagetest.Text("version", text)))
	}
	first, second := from(t, m, r, layer("1")), from(t, m, r, layer("2"))
	writable := func(s *nodev1.JailSpec) { s.WritableRoot = true }
	id := ensure(t, m, first, writable)
	_, text := sh(t, m, id, "id -u; touch /etc/x 2>/dev/null || echo no; echo kept > /srv/file && cat /srv/file /version; head -c 100000000 /dev/zero > /srv/fill 2> /dev/null || echo full at $(($(wc -c < /srv/fill) / 1000000)); rm /srv/fill; head -c 1048576 /dev/zero > /workspace/room && echo room")
	require.Contains(t, text, "1000\nno\nkept\n1")
	require.Regexp(t, "full at [3-6][0-9]\n", text)
	require.Contains(t, text, "room\n", "the workspace has its own")
	info, err := os.Stat(filepath.Join(cfg.DataDir, "jails", id, "layer.ext4"))
	require.NoError(t, err)
	require.EqualValues(t, 64<<20, info.Size())
	again(t, m, id, second, writable)
	_, text = sh(t, m, id, "cat /version; ls /srv; cat /workspace/room | wc -c")
	require.Equal(t, "21048576\n", text)
	// From root to the agent and back, init keeps its state.
	again(t, m, id, second, ofRoot)
	_, text = sh(t, m, id, "id -u")
	require.Equal(t, "0\n", text)
	again(t, m, id, second, writable)
	_, text = sh(t, m, id, "id -u")
	require.Equal(t, "1000\n", text)
}

// On a machine without loop devices a writable root is a plain folder: it has no limit of
// its own, which the jail says, and else is as any other, also for a setup.
func TestAWritableRootWithoutLoopDevices(t *testing.T) {
	t.Parallel()
	m, cfg, r := withRegistry(t, func(c *jail.Config) { c.SoftWorkspaces = true })
	require.False(t, m.HardWorkspaces())
	use := from(t, m, r, imagetest.Busybox(t, imagetest.Layer(t, imagetest.Text("opt/data", "of the image\n"))))
	id := ensure(t, m, use, ofRoot)
	end, text := sh(t, m, id, "echo changed > /opt/data && chown 33:44 /opt/data && mkdir -p /usr/local/lib && echo installed > /usr/local/lib/x && echo mine > /workspace/file")
	require.Zero(t, end.GetExitCode(), text)
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	require.False(t, one.GetWorkspaceLimitHard())
	require.NoFileExists(t, filepath.Join(cfg.DataDir, "jails", id, "layer.ext4"))
	_, _, bounded := m.WorkspaceUse(id)
	require.False(t, bounded)

	_, err = m.Stop(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, m.Close())
	m = jailtest.Manager(t, cfg)
	again(t, m, id, use, ofRoot)
	_, text = sh(t, m, id, "cat /opt/data /usr/local/lib/x /workspace/file; stat -c %u:%g /opt/data")
	require.Equal(t, "changed\ninstalled\nmine\n33:44\n", text)

	const setup = "sha256:50f7"
	_, err = m.FinishSetup(t.Context(), id, setup, true)
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(cfg.DataDir, "jails", id, "layer"))
	_, text = sh(t, m, ensure(t, m, use, func(s *nodev1.JailSpec) { s.Setup = setup }), "cat /opt/data /usr/local/lib/x; stat -c %u:%g /opt/data")
	require.Equal(t, "changed\ninstalled\n33:44\n", text)
	_, err = m.Stop(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, m.Remove(t.Context(), id))
	require.NoDirExists(t, filepath.Join(cfg.DataDir, "jails", id))
}

// What root puts where a jail mounts something does not lead init elsewhere, nor the node.
func TestLinksInAWritableRootLeadNowhere(t *testing.T) {
	t.Parallel()
	m, cfg, r := withRegistry(t)
	use := from(t, m, r, imagetest.Busybox(t))
	id := ensure(t, m, use, ofRoot)
	secret := filepath.Join(cfg.DataDir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("kept"), 0o666))
	_, text := sh(t, m, id, strings.Join([]string{
		"mv /run /away; mkdir /run; ln -s /workspace /run/deckhand; ln -s /workspace /run/deckhand.new",
		"mv /var /away2; ln -s " + cfg.DataDir + " /var", "mv /deckhand /away3; ln -s /etc /deckhand; ls -d /run/deckhand",
	}, "; "))
	require.Contains(t, text, "/run/deckhand")
	_, err := m.Stop(t.Context(), id)
	require.NoError(t, err)
	again(t, m, id, use, ofRoot)
	_, text = sh(t, m, id, "ls /run/deckhand 2>&1; ls -A /workspace; echo x > /deckhand/out/x; ls /etc/out 2>/dev/null; touch /var/tmp/x && echo tmp")
	require.Contains(t, text, "Permission denied", "it is init's own folder")
	require.Contains(t, text, "ead-only file system")
	require.Contains(t, text, "tmp\n")
	require.NotContains(t, text, "execs", "init's state is not in the workspace")
	raw, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "kept", string(raw))
}

// What a setup changed is in all jails of the prepared image, in no others, and goes with it.
func TestAPreparedImage(t *testing.T) {
	t.Parallel()
	m, cfg, r := withRegistry(t)
	use := from(t, m, r, imagetest.Busybox(t, imagetest.Layer(t, imagetest.Text("etc/keep", "x"), imagetest.Text("opt/data", "of the image\n"))))
	const setup = "sha256:0123"
	prepared := func(s *nodev1.JailSpec) { s.Setup = setup }
	_, err := m.Ensure(t.Context(), change(use, prepared))
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.Equal(t, fault.ImageUnavailable, fault.As(err).Code)

	before := snapshotsOf(t, cfg)
	failed := ensure(t, m, use, ofRoot)
	sh(t, m, failed, "echo half > /etc/half")
	_, err = m.FinishSetup(t.Context(), failed, setup, false)
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(cfg.DataDir, "jails", failed, "layer"))
	require.Equal(t, before, snapshotsOf(t, cfg))

	id := ensure(t, m, use, ofRoot)
	end, text := sh(t, m, id, strings.Join([]string{
		"set -e; mkdir -p /usr/local/bin; printf '#!/bin/sh\\necho installed\\n' > /usr/local/bin/tool; chmod 755 /usr/local/bin/tool; ln /usr/local/bin/tool /usr/local/bin/second",
		"rm /etc/keep; echo changed > /opt/data; ln -s tool /usr/local/bin/link; chown 33:44 /opt/data", "echo left > /workspace/file",
	}, "\n"))
	require.Zero(t, end.GetExitCode(), text)
	for range 2 {
		one, err := m.FinishSetup(t.Context(), id, setup, true)
		require.NoError(t, err)
		require.Equal(t, setup, one.Setup)
	}
	_, err = os.Stat(filepath.Join(cfg.DataDir, "jails", id, "layer.ext4"))
	require.ErrorIs(t, err, os.ErrNotExist, "its room is free")
	require.Equal(t, before+1, snapshotsOf(t, cfg))

	look := "exec 2>&1; /usr/local/bin/tool; /usr/local/bin/link; stat -c '%h' /usr/local/bin/second; cat /opt/data; stat -c %u:%g /opt/data; ls /etc/keep; ls -A /workspace; id -u; touch /etc/x"
	require.NoError(t, m.Close())
	m = jailtest.Manager(t, cfg)
	for _, mode := range []func(*nodev1.JailSpec){func(*nodev1.JailSpec) {}, ofRoot} {
		one := ensure(t, m, use, prepared, mode)
		_, text = sh(t, m, one, look)
		require.True(t, strings.HasPrefix(text, "installed\ninstalled\n2\nchanged\n33:44\nls: /etc/keep: No such file or directory\n"), text)
		require.NoError(t, m.Remove(t.Context(), one))
	}
	_, text = sh(t, m, ensure(t, m, use), "cat /opt/data; ls /etc/keep /usr/local 2>&1")
	require.Contains(t, text, "of the image\n")
	require.Contains(t, text, "/etc/keep\n")
	require.NotContains(t, text, "tool")

	all, err := m.Images().List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, []string{"", setup}, []string{all[0].Setup, all[1].Setup})
	require.Equal(t, all[0].Reference, all[1].Reference)
	jails, err := m.List(t.Context())
	require.NoError(t, err)
	for _, one := range jails {
		require.NoError(t, m.Remove(t.Context(), one.GetJailId()))
	}
	gone, err := m.Images().Prune(t.Context(), time.Now().Add(time.Hour), nil)
	require.NoError(t, err)
	require.Len(t, gone, 2)
	require.Zero(t, snapshotsOf(t, cfg))
}

// change returns the spec of a new jail.
func change(fns ...func(*nodev1.JailSpec)) *nodev1.JailSpec {
	spec := jailtest.Spec(ident.New("jail"))
	for _, fn := range fns {
		fn(spec)
	}
	return spec
}
