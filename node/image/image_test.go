package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocidigest "github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/image"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// newStore returns a store in a namespace of its own that trusts a registry.
func newStore(t *testing.T, r *imagetest.Registry, change ...func(*image.Config)) *image.Store {
	t.Helper()
	c, err := client.New(jailtest.Containerd(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	cfg := image.Config{
		Client: c, Namespace: strings.ReplaceAll(ident.New("test"), "_", "-"), DataDir: t.TempDir(),
		UIDBase: 1_000_000_000, IDs: 65536, RegistryAddresses: loopback, RegistryConfig: r.CertsDir,
		MountPoints: []string{"tmp/", "workspace/", ".init"}, Files: map[string]string{"etc/hosts": "127.0.0.1 localhost\n"},
		User: "agent:x:1000:1000::/workspace:/bin/sh", Group: "agent:x:1000:",
	}
	for _, fn := range change {
		fn(&cfg)
	}
	s := image.New(cfg)
	t.Cleanup(func() {
		_, err := s.Prune(context.Background(), time.Now().Add(time.Hour), nil)
		require.NoError(t, err)
	})
	return s
}

// blobs counts the requests for layers and configurations.
func blobs(r *imagetest.Registry) int {
	n := 0
	for _, request := range r.Requests() {
		if strings.HasPrefix(request, "GET ") && strings.Contains(request, "/blobs/") {
			n++
		}
	}
	return n
}

// However many want an image at the same time, it is downloaded once; everyone
// sees the progress; and one that is there is not downloaded again, even if its
// registry is gone.
func TestAnImageIsPulledOnce(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	tag, digest := r.Push(t, "team/tools:1", imagetest.Configured(t, imagetest.Busybox(t, imagetest.Layer(t, imagetest.Text("greeting", "hello\n"))), func(c *v1.ConfigFile) {
		c.Config.Env = []string{"PATH=/opt/bin:/bin", "GREETING=hello"}
	}))
	s := newStore(t, r)
	// Nothing is sent until all five have seen that the pull is in progress.
	var all, seen sync.WaitGroup
	seen.Add(5)
	r.Fail(func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.Contains(req.URL.Path, "/blobs/") {
			seen.Wait()
		}
		return false
	})
	for range 5 {
		all.Go(func() {
			var phases []image.Phase
			var last image.Progress
			one, err := s.Pull(context.Background(), tag, image.Way{}, func(p image.Progress) {
				if phases, last = append(phases, p.Phase), p; len(phases) == 3 {
					seen.Done()
				}
			})
			if !noError(t, err) {
				return
			}
			if one.Reference != digest || last.Reference != digest || last.Layers != 2 || last.Bytes < 500_000 || phases[0] != image.Resolving || len(phases) < 3 {
				t.Errorf("pulled %s, saw %v and at last %+v", one.Reference, phases, last)
			}
		})
	}
	all.Wait()
	require.Equal(t, 3, blobs(r), "two layers and a configuration: %v", r.Requests())

	one, err := s.Get(t.Context(), digest, "")
	require.NoError(t, err)
	require.Equal(t, "linux/amd64, Toy Linux 3", one.Platform)
	require.Equal(t, []string{"PATH=/opt/bin:/bin", "GREETING=hello"}, one.Env)
	require.Equal(t, 2, one.Layers)
	require.Greater(t, one.Bytes, int64(500_000))
	require.WithinDuration(t, time.Now(), one.UsedAt, time.Minute)

	r.Fail(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusTeapot); return true })
	_, err = s.Pull(t.Context(), digest, image.Way{}, nil)
	require.NoError(t, err, "what is there is not asked for")
	list, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func noError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Errorf("unexpected error: %v", err)
	}
	return err == nil
}

// A tag that moves is another image; the first one stays what it was.
func TestATagMoves(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	tag, first := r.Push(t, "team/app:stable", imagetest.Busybox(t))
	s := newStore(t, r)
	one, err := s.Pull(t.Context(), tag, image.Way{}, nil)
	require.NoError(t, err)
	require.Equal(t, first, one.Reference)
	_, second := r.Push(t, "team/app:stable", imagetest.Busybox(t, imagetest.Layer(t, imagetest.Text("new", "new"))))
	two, err := s.Pull(t.Context(), tag, image.Way{}, nil)
	require.NoError(t, err)
	require.Equal(t, second, two.Reference)
	require.NotEqual(t, first, second)
	_, err = s.Get(t.Context(), first, "")
	require.NoError(t, err)
}

// Each way in which a pull fails has its own error, which says what to do.
func TestAPullThatFailsSaysWhatToDo(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	app := imagetest.Busybox(t)
	tag, digest := r.Push(t, "team/app:1", app)
	manifest, err := app.Manifest()
	require.NoError(t, err)
	arm, _ := r.Push(t, "team/arm:1", imagetest.Configured(t, imagetest.Busybox(t), func(c *v1.ConfigFile) { c.OS, c.Architecture = "linux", "riscv64" }))
	other, err := random.Image(100, 1)
	require.NoError(t, err)
	index, _ := r.Push(t, "team/index:1", mutate.IndexMediaType(mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}},
	}), types.OCIImageIndex))
	big, _ := r.Push(t, "team/big:1", imagetest.Image(t, imagetest.Layer(t, imagetest.File{Header: tar.Header{Name: "file", Typeflag: tar.TypeReg, Uid: 70000, Mode: 0o644}})))
	status := func(code int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	for _, c := range []struct {
		name, ref string
		fault     func(http.ResponseWriter, *http.Request) bool
		change    func(*image.Config)
		kind      fault.Kind
		says, fix string
	}{
		{name: "a short name", ref: "golang", kind: fault.Invalid, says: `"golang" is not a complete reference`, fix: "docker.io/library/golang:latest"},
		{name: "no tag", ref: r.Host + "/team/app", kind: fault.Invalid, says: "not a complete reference", fix: r.Host + "/team/app:latest"},
		{name: "no reference", ref: "https://example.com/x", kind: fault.Invalid, says: "not a complete reference", fix: "docker.io/library/debian:12"},
		{name: "no such tag", ref: r.Host + "/team/app:2", kind: fault.NotFound, says: "does not exist", fix: "check the registry, the name and the tag"},
		{name: "no such digest", ref: r.Host + "/team/app@sha256:" + strings.Repeat("0", 64), kind: fault.NotFound, says: "does not exist"},
		{name: "denied", ref: tag, fault: status(http.StatusForbidden, `{"errors":[{"code":"DENIED"}]}`), kind: fault.Denied, says: "does not allow", fix: "store credentials"},
		{name: "rate limit", ref: tag, fault: status(http.StatusTooManyRequests, `{"errors":[{"code":"TOOMANYREQUESTS"}]}`), kind: fault.Exhausted, says: "limits how often", fix: "mirror"},
		{name: "another machine's image", ref: arm, kind: fault.Precondition, says: "is for linux/riscv64", fix: "nodes.labels"},
		{name: "an index without this machine", ref: index, kind: fault.Precondition, says: "has no variant for linux/", fix: "nodes.labels"},
		{name: "user ids out of range", ref: big, kind: fault.Precondition, says: `"/file" belongs to user 70000`, fix: "below 65536"},
		{name: "more data than promised", ref: digest, fault: func(w http.ResponseWriter, req *http.Request) bool {
			if !strings.Contains(req.URL.Path, "/blobs/") {
				return false
			}
			_, _ = io.WriteString(w, strings.Repeat("x", int(manifest.Layers[0].Size)+1))
			return true
		}, kind: fault.Precondition, says: "other data than the digest"},
		{name: "other data than promised", ref: digest, fault: func(w http.ResponseWriter, req *http.Request) bool {
			if !strings.HasSuffix(req.URL.Path, manifest.Layers[0].Digest.String()) {
				return false
			}
			_, _ = io.WriteString(w, strings.Repeat("x", int(manifest.Layers[0].Size)))
			return true
		}, kind: fault.Precondition, says: "other data than the digest"},
		{name: "an address that is not public", ref: tag, change: func(c *image.Config) { c.RegistryAddresses = nil }, kind: fault.Denied, says: "127.0.0.1 is not a public address", fix: "registry-addresses"},
		{name: "a registry that the operator does not allow", ref: tag, change: func(c *image.Config) { c.Registries = []string{"registry.example.com", "*.example.org"} }, kind: fault.Denied, says: "does not pull images from " + r.Host, fix: "registries in node.yaml"},
		{name: "a certificate that is not trusted", ref: tag, change: func(c *image.Config) { c.RegistryConfig = t.TempDir() }, kind: fault.Denied, says: "certificate", fix: "certs.d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t, r, func(cfg *image.Config) {
				if c.change != nil {
					c.change(cfg)
				}
			})
			r.Fail(c.fault)
			defer r.Fail(nil)
			_, err := s.Pull(t.Context(), c.ref, image.Way{}, nil)
			e := fault.As(err)
			require.NotNil(t, e, "%v", err)
			require.Equal(t, c.kind, e.Kind, "%v: %v", e, e.Err)
			require.Equal(t, fault.ImageUnavailable, e.Code)
			require.Contains(t, e.Message, c.says)
			require.Contains(t, e.Fix, c.fix)
			list, err := s.List(t.Context())
			require.NoError(t, err)
			require.Empty(t, list, "an image is there whole or not at all")
		})
	}
}

// Credentials of one pull are used for it, and are nowhere afterwards.
func TestCredentialsAreForOnePull(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	tag, _ := r.Push(t, "team/private:1", imagetest.Busybox(t))
	r.RequirePassword("s3cret-word")
	s := newStore(t, r)
	login := func(password string) image.Way {
		return image.Way{Logins: []image.Login{{Host: "registry.example.com", User: "x", Password: "x"}, {Host: r.Host, User: "robot", Password: password}}}
	}
	_, err := s.Pull(t.Context(), tag, image.Way{}, nil)
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	_, err = s.Pull(t.Context(), tag, login("wrong"), nil)
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	require.NotContains(t, err.Error(), "wrong")
	_, err = s.Pull(t.Context(), tag, login("s3cret-word"), nil)
	require.NoError(t, err)
	_, err = s.Pull(t.Context(), strings.Replace(tag, ":1", ":2", 1), image.Way{}, nil)
	require.True(t, fault.Is(err, fault.Denied), "the next pull has none: %v", err)
}

// A registry that breaks off in the middle of a layer is asked for the rest.
func TestAPullGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	layer, err := random.Layer(8<<20, types.OCILayer)
	require.NoError(t, err)
	_, digest := r.Push(t, "team/large:1", imagetest.Busybox(t, layer))
	s := newStore(t, r)
	id, err := layer.Digest()
	require.NoError(t, err)
	var mu sync.Mutex
	var from []string
	r.Fail(func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodGet || !strings.HasSuffix(req.URL.Path, id.String()) {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		from = append(from, req.Header.Get("Range"))
		if len(from) > 1 {
			return false
		}
		w.Header().Set("Content-Length", "8000000")
		_, _ = io.Copy(w, io.LimitReader(must(layer.Compressed()), 5<<20))
		panic(http.ErrAbortHandler) // the connection breaks
	})
	_, err = s.Pull(t.Context(), digest, image.Way{}, nil)
	require.NoError(t, err)
	require.Greater(t, len(from), 1)
	require.NotEmpty(t, from[1])
	require.NotEqual(t, "bytes=0-", from[1], "the first 5 MiB are not downloaded again")
}

func must(r io.ReadCloser, err error) io.ReadCloser {
	if err != nil {
		panic(err)
	}
	return r
}

// When nobody waits any more the download ends, and can be begun again.
func TestAPullEndsWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	_, digest := r.Push(t, "team/slow:1", imagetest.Busybox(t))
	s := newStore(t, r)
	asked, ended := make(chan struct{}, 10), make(chan struct{}, 10)
	r.Fail(func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.Contains(req.URL.Path, "/blobs/") {
			asked <- struct{}{}
			<-req.Context().Done()
			ended <- struct{}{}
		}
		return false
	})
	ctx, cancel := context.WithCancel(t.Context())
	second, cancelSecond := context.WithCancel(t.Context())
	defer cancelSecond()
	results := make(chan error, 2)
	for _, c := range []context.Context{ctx, second} {
		go func() { _, err := s.Pull(c, digest, image.Way{}, nil); results <- err }()
	}
	<-asked
	cancel()
	require.ErrorIs(t, <-results, context.Canceled)
	select {
	case <-ended:
		t.Fatal("the pull ended while somebody waited for it")
	case <-time.After(300 * time.Millisecond):
	}
	cancelSecond()
	require.ErrorIs(t, <-results, context.Canceled)
	<-ended
	r.Fail(nil)
	_, err := s.Pull(t.Context(), digest, image.Way{}, nil)
	require.NoError(t, err)
}

// Prune deletes what nothing needs, and the layers with it.
func TestPruneKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	var refs []string
	var c *client.Client
	var namespace string
	s := newStore(t, r, func(cfg *image.Config) { c, namespace = cfg.Client, cfg.Namespace })
	for _, tag := range []string{"a", "b", "c"} {
		_, digest := r.Push(t, "team/app:"+tag, imagetest.Image(t, imagetest.Layer(t, imagetest.Program(t, "bin/"+tag))))
		_, err := s.Pull(t.Context(), digest, image.Way{}, nil)
		require.NoError(t, err)
		refs = append(refs, digest)
	}
	gone, err := s.Prune(t.Context(), time.Now().Add(-time.Hour), nil)
	require.NoError(t, err)
	require.Empty(t, gone, "they were used just now")
	gone, err = s.Prune(t.Context(), time.Now().Add(time.Hour), refs[:1])
	require.NoError(t, err)
	require.Len(t, gone, 2)
	_, err = s.Get(t.Context(), refs[0], "")
	require.NoError(t, err)
	_, err = s.Get(t.Context(), refs[1], "")
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.Equal(t, refs[1], fault.As(err).ObjectID)
	var left []string
	require.NoError(t, c.SnapshotService("overlayfs").Walk(namespaces.WithNamespace(t.Context(), namespace), func(_ context.Context, info snapshots.Info) error {
		left = append(left, info.Name)
		return nil
	}))
	require.Len(t, left, 2, "the layer and the root of the image that was kept")
}

// A mirror is asked first, with its own credentials only, and the registry itself if
// the mirror does not have the image.
func TestAMirrorIsAskedFirst(t *testing.T) {
	t.Parallel()
	origin, mirror := imagetest.NewRegistry(t), imagetest.NewRegistry(t)
	app := imagetest.Busybox(t)
	tag, digest := origin.Push(t, "team/app:1", app)
	mirror.Push(t, "proxy/team/app:1", app)
	other, _ := origin.Push(t, "team/other:1", imagetest.Busybox(t))
	mirror.RequirePassword("of-the-mirror")
	s := newStore(t, origin, func(c *image.Config) {
		require.NoError(t, os.CopyFS(c.DataDir, os.DirFS(origin.CertsDir)))
		require.NoError(t, os.CopyFS(c.DataDir, os.DirFS(mirror.CertsDir)))
		c.RegistryConfig = c.DataDir
	})
	way := image.Way{Mirror: mirror.Host + "/proxy", Logins: []image.Login{{Host: mirror.Host, User: "robot", Password: "of-the-mirror"}, {Host: origin.Host, User: "robot", Password: "of-the-origin"}}}
	before := len(origin.Requests())
	one, err := s.Pull(t.Context(), tag, way, nil)
	require.NoError(t, err)
	require.Equal(t, digest, one.Reference, "it is known by its own name")
	require.Len(t, origin.Requests(), before, "the registry itself is not asked")
	_, err = s.Pull(t.Context(), other, way, nil)
	require.NoError(t, err)
	require.Greater(t, len(origin.Requests()), before)
}

// A pull ends when the disk becomes full, and gives back what it has taken.
func TestAPullEndsOnAFullDisk(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	large, err := random.Layer(4<<20, types.OCILayer)
	require.NoError(t, err)
	slow, err := random.Layer(1<<20, types.OCILayer)
	require.NoError(t, err)
	_, digest := r.Push(t, "team/large:1", imagetest.Image(t, large, slow))
	var full atomic.Bool
	var c *client.Client
	var namespace string
	s := newStore(t, r, func(cfg *image.Config) {
		c, namespace = cfg.Client, cfg.Namespace
		cfg.Accepting = func() error {
			if full.Load() {
				return fault.New(fault.Exhausted, "the node's disk is full").WithFix("make room")
			}
			return nil
		}
	})
	id, err := slow.Digest()
	require.NoError(t, err)
	r.Fail(func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.HasSuffix(req.URL.Path, id.String()) {
			<-req.Context().Done() // it never ends by itself
		}
		return false
	})
	_, err = s.Pull(t.Context(), digest, image.Way{}, func(p image.Progress) {
		if p.LayersDone == 1 {
			full.Store(true)
		}
	})
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	require.Contains(t, err.Error(), "the node's disk is full")
	large4, err := large.Digest()
	require.NoError(t, err)
	_, err = c.ContentStore().Info(namespaces.WithNamespace(t.Context(), namespace), ocidigest.Digest(large4.String()))
	require.True(t, errdefs.IsNotFound(err), "what was downloaded is deleted: %v", err)
	_, err = s.Pull(t.Context(), digest, image.Way{}, nil)
	require.True(t, fault.Is(err, fault.Exhausted), "and nothing is begun: %v", err)
}

// An archive is imported under a name, which then means its image without a registry.
func TestAnArchiveIsImported(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	s := newStore(t, r)
	archive := func(img v1.Image, names ...string) io.Reader {
		var buf bytes.Buffer
		all := map[name.Tag]v1.Image{}
		for _, text := range names {
			tag, err := name.NewTag(text)
			require.NoError(t, err)
			all[tag] = img
			img = imagetest.Busybox(t) // another for the next name
		}
		require.NoError(t, tarball.MultiWrite(all, &buf))
		return &buf
	}
	const as = "registry.internal/team/tools:1"
	first, err := s.Import(t.Context(), as, archive(imagetest.Busybox(t, imagetest.Layer(t, imagetest.Text("a", "a"))), "anything:2"))
	require.NoError(t, err)
	require.Regexp(t, "^registry.internal/team/tools@sha256:", first.Reference)
	require.Equal(t, "/bin/sh", first.Shell)
	require.Greater(t, first.Bytes, int64(500_000))
	one, err := s.Pull(t.Context(), as, image.Way{}, nil)
	require.NoError(t, err, "no registry of that name exists")
	require.Equal(t, first.Reference, one.Reference)
	list, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1, "names in the archive are not taken over")

	second, err := s.Import(t.Context(), as, archive(imagetest.Busybox(t), "anything:2"))
	require.NoError(t, err)
	one, err = s.Pull(t.Context(), as, image.Way{}, nil)
	require.NoError(t, err)
	require.Equal(t, second.Reference, one.Reference)
	require.NotEqual(t, first.Reference, second.Reference)
	_, err = s.Get(t.Context(), first.Reference, "")
	require.NoError(t, err, "the one before is there still, by its digest")

	for what, c := range map[string]struct {
		name    string
		archive io.Reader
		says    string
	}{
		"no archive":      {as, strings.NewReader("this is no archive"), "is not one of an image"},
		"an empty one":    {as, strings.NewReader(""), "is not one of an image"},
		"two images":      {as, archive(imagetest.Busybox(t), "a:1", "b:1"), "has 2 images"},
		"another machine": {as, archive(imagetest.Configured(t, imagetest.Busybox(t), func(c *v1.ConfigFile) { c.Architecture = "riscv64" }), "a:1"), "has no image for linux/"},
		"a digest":        {first.Reference, archive(imagetest.Busybox(t), "a:1"), "imported under a tag"},
		"a short name":    {"tools:1", archive(imagetest.Busybox(t), "a:1"), "not a complete reference"},
	} {
		_, err := s.Import(t.Context(), c.name, c.archive)
		e := fault.As(err)
		require.NotNil(t, e, "%s: %v", what, err)
		require.Contains(t, e.Error(), c.says, what)
		list, err := s.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2, what)
	}
}

// Links that commands put where a jail mounts something are replaced, and nothing outside of
// the root is touched.
func TestARootIsRepaired(t *testing.T) {
	t.Parallel()
	s := newStore(t, imagetest.NewRegistry(t), func(c *image.Config) { c.MountPoints = []string{"tmp/", "run/state/", "a/b/file", ".init"} })
	outside, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "kept"), []byte("kept"), 0o600))
	for name, to := range map[string]string{"run": outside, "tmp": "/", ".init": filepath.Join(outside, "new")} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b", "file"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "other"), nil, 0o600))
	for range 2 {
		require.NoError(t, s.Repair(dir))
		for name, isDir := range map[string]bool{"run/state": true, "tmp": true, "a/b/file": false, ".init": false, "a/other": false} {
			info, err := os.Lstat(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, isDir, info.IsDir(), name)
			require.Zero(t, info.Mode()&os.ModeSymlink, name)
		}
	}
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
