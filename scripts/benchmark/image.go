package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"net/netip"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/image"
	"github.com/deckhand-sh/deckhand/node/jail"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// imageRig is a nodeRig with a registry that it trusts.
type imageRig struct {
	*nodeRig

	host string
}

func newImageRig(ctx context.Context) (_ *imageRig, err error) {
	certs, err := os.MkdirTemp("", "deckhand-bench-certs-")
	if err != nil {
		return nil, err
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	host := strings.TrimPrefix(server.URL, "http://")
	dir := filepath.Join(certs, strings.Replace(host, ":", "_", 1)+"_")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as in /etc
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), fmt.Appendf(nil, "[host.%q]\n", server.URL), 0o600); err != nil {
		return nil, err
	}
	m, err := newMachineWith(ctx, func(c *jail.Config) {
		c.Images = image.Config{RegistryConfig: certs, RegistryAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	})
	if err != nil {
		return nil, err
	}
	m.later(func() error { server.Close(); return os.RemoveAll(certs) })
	return &imageRig{m, host}, nil
}

// push stores an image in the registry and returns its reference by digest.
func (m *imageRig) push(repository string, img v1.Image) (string, error) {
	ref, err := imagename.ParseReference(m.host + "/" + repository + ":1")
	if err != nil {
		return "", err
	}
	img, err = mutate.ConfigFile(img, configFor(img))
	if err != nil {
		return "", err
	}
	if err := remote.Write(ref, img); err != nil {
		return "", err
	}
	digest, err := img.Digest()
	return ref.Context().Name() + "@" + digest.String(), err
}

// configFor is an image's configuration for this machine.
func configFor(img v1.Image) *v1.ConfigFile {
	config, err := img.ConfigFile()
	if err != nil {
		return &v1.ConfigFile{}
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = runtime.GOOS, runtime.GOARCH
	return config
}

// ctr runs containerd's own client in the peer's namespace.
func (m *imageRig) ctr(ctx context.Context, args ...string) error {
	out, err := osexec.CommandContext(ctx, "ctr", append([]string{"-a", m.containerd.Address(), "-n", m.namespace + "-peer"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr %s: %w: %s", args[0], err, out)
	}
	return nil
}

// imageCold measures from nothing to the exit of the first command of a jail that is
// made from an image which is there.
func imageCold(ctx context.Context) (_ result, err error) {
	m, err := newImageRig(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	ref, err := m.busybox(ctx)
	if err != nil {
		return nil, err
	}
	const n = 20
	made := 0
	a, b, err := pair(n,
		func() error {
			id := ident.New("jail")
			if _, err := m.jails.Ensure(ctx, &nodev1.JailSpec{JailId: id, Rootfs: nodelink.RootImage, Image: ref}); err != nil {
				return err
			}
			_, err := m.run(ctx, id, "/bin/true")
			return err
		},
		func() error {
			made++
			return m.ctr(ctx, "run", "--rm", "--read-only", ref, fmt.Sprintf("cold-%d", made), "/bin/true")
		})
	if err != nil {
		return nil, err
	}
	return compared("ms", percentile(a, 50), percentile(b, 50), "ctr run", n), nil
}

// busybox pushes an image with busybox, pulls it on both sides and returns its reference.
func (m *imageRig) busybox(ctx context.Context) (string, error) {
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return "", fmt.Errorf("apt-get install busybox-static: %w", err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(busybox)), Typeflag: tar.TypeReg}); err != nil {
		return "", err
	}
	if _, err := w.Write(busybox); err != nil {
		return "", err
	}
	if err := w.WriteHeader(&tar.Header{Name: "bin/true", Mode: 0o777, Linkname: "busybox", Typeflag: tar.TypeSymlink}); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	one, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return "", err
	}
	img, err := mutate.AppendLayers(empty.Image, one)
	if err != nil {
		return "", err
	}
	ref, err := m.push("bench/cold", img)
	if err != nil {
		return "", err
	}
	if _, err := m.jails.Images().Pull(ctx, ref, image.Way{}, nil); err != nil {
		return "", err
	}
	return ref, m.ctr(ctx, "image", "pull", "--plain-http", ref)
}

// imagePrepared measures the same from an image that a setup has changed, against the image
// as it was pulled, and what one more jail of it takes.
func imagePrepared(ctx context.Context) (_ result, err error) {
	m, err := newImageRig(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	ref, err := m.busybox(ctx)
	if err != nil {
		return nil, err
	}
	const setup, n, extra = "sha256:bench", 20, 5
	// 50 files of 1 MB.
	id := ident.New("jail")
	if _, err := m.jails.Ensure(ctx, &nodev1.JailSpec{JailId: id, Rootfs: nodelink.RootImage, Image: ref, WritableRoot: true, RootUser: true}); err != nil {
		return nil, err
	}
	if _, err := m.run(ctx, id, "/bin/busybox", "sh", "-ec", "for i in $(/bin/busybox seq 50); do /bin/busybox head -c 1000000 /dev/urandom > /tool$i; done"); err != nil {
		return nil, err
	}
	begin := time.Now()
	if _, err := m.jails.FinishSetup(ctx, id, setup, true); err != nil {
		return nil, err
	}
	kept := time.Since(begin)
	start := func(setup string) (string, error) {
		id := ident.New("jail")
		if _, err := m.jails.Ensure(ctx, &nodev1.JailSpec{JailId: id, Rootfs: nodelink.RootImage, Image: ref, Setup: setup}); err != nil {
			return "", err
		}
		_, err := m.run(ctx, id, "/bin/true")
		return id, err
	}
	a, b, err := pair(n, func() error { _, err := start(setup); return err }, func() error { _, err := start(""); return err })
	if err != nil {
		return nil, err
	}
	var disk, memory int64
	for range extra {
		id, err := start(setup)
		if err != nil {
			return nil, err
		}
		used, rss, err := m.taken(ctx, id)
		if err != nil {
			return nil, err
		}
		disk, memory = disk+used/extra, memory+rss/extra
	}
	out := compared("ms", percentile(a, 50), percentile(b, 50), "the image as it was pulled", n)
	out["keep_50_mb_ms"], out["jail_disk_bytes"], out["jail_init_rss_bytes"] = kept.Milliseconds(), disk, memory
	return out, nil
}

// taken returns what a jail's folder has on disk, and the memory of its init, in bytes.
func (m *imageRig) taken(ctx context.Context, id string) (disk, memory int64, err error) {
	out, err := osexec.CommandContext(ctx, "du", "-sx", "-B1", filepath.Join(m.dir, "node", "jails", id)).Output()
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscan(string(out), &disk); err != nil {
		return 0, 0, err
	}
	one, err := m.jails.Get(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", one.GetPid()))
	if err != nil {
		return 0, 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(raw), &size, &resident); err != nil {
		return 0, 0, err
	}
	return disk, resident * int64(os.Getpagesize()), nil
}

// pullImage measures the pull of an image of 500 MB in 12 layers. Each pull has an image
// of its own, since containerd keeps what it has.
func pullImage(ctx context.Context) (_ result, err error) {
	const n, layers, layerBytes = 3, 12, 500_000_000 / 12
	m, err := newImageRig(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	fresh := func() (string, error) {
		img := empty.Image
		for range layers {
			layer, err := random.Layer(layerBytes, types.OCILayer)
			if err != nil {
				return "", err
			}
			if img, err = mutate.AppendLayers(img, layer); err != nil {
				return "", err
			}
		}
		return m.push("bench/pull", img)
	}
	var ours, theirs []time.Duration
	for range n {
		for _, side := range []struct {
			pull func(ref string) error
			took *[]time.Duration
		}{
			{func(ref string) error { _, err := m.jails.Images().Pull(ctx, ref, image.Way{}, nil); return err }, &ours},
			{func(ref string) error { return m.ctr(ctx, "image", "pull", "--plain-http", ref) }, &theirs},
		} {
			ref, err := fresh()
			if err != nil {
				return nil, err
			}
			begin := time.Now()
			if err := side.pull(ref); err != nil {
				return nil, err
			}
			*side.took = append(*side.took, time.Since(begin))
		}
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	return compared("ms", percentile(ours, 50), percentile(theirs, 50), "ctr image pull", n), nil
}
