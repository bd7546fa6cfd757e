// Package imagetest provides tests with images and a registry on loopback. The
// registry speaks TLS with a certificate authority of its own, can ask for a
// token, and can fail in the ways in which registries fail.
package imagetest

import (
	"archive/tar"
	"bytes"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/ident"
)

// busybox is Debian's static build, from the package busybox-static.
const busybox = "/bin/busybox"

// Registry is a registry on loopback.
type Registry struct {
	// Host is its host:port.
	Host string
	// CertsDir is a folder that makes its certificate trusted, for
	// image.Config.RegistryConfig.
	CertsDir string

	server *httptest.Server

	mu sync.Mutex
	// fault is called before a request is served; guarded by mu.
	fault func(w http.ResponseWriter, r *http.Request) (done bool)
	// password is what it takes a token for; guarded by mu.
	password string
	requests []string // guarded by mu
	// referrers are the lists of what refers to an image, by its digest; nil if the
	// registry has no API for it; guarded by mu.
	referrers map[string][]byte
}

// NewRegistry starts a registry that ends with the test.
func NewRegistry(tb testing.TB) *Registry {
	tb.Helper()
	r := &Registry{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		fault, password := r.fault, r.password
		r.requests = append(r.requests, req.Method+" "+req.URL.Path)
		r.mu.Unlock()
		if fault != nil && fault(w, req) {
			return
		}
		if password != "" && !r.permits(w, req, password) {
			return
		}
		if r.listReferrers(w, req) {
			return
		}
		if req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/blobs/") {
			ranged(inner, w, req)
			return
		}
		inner.ServeHTTP(w, req)
	}))
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.server.StartTLS()
	tb.Cleanup(r.server.Close)
	at, err := url.Parse(r.server.URL)
	require.NoError(tb, err)
	r.Host, r.CertsDir = at.Host, tb.TempDir()
	dir := filepath.Join(r.CertsDir, strings.Replace(r.Host, ":", "_", 1)+"_")
	require.NoError(tb, os.MkdirAll(dir, 0o755))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
	require.NoError(tb, os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o600))
	return r
}

// ranged serves a part of a blob, as registries do and the handler does not.
func ranged(inner http.Handler, w http.ResponseWriter, req *http.Request) {
	whole := httptest.NewRecorder()
	plain := req.Clone(req.Context())
	plain.Header.Del("Range")
	inner.ServeHTTP(whole, plain)
	body := whole.Body.Bytes()
	from, _, ok := strings.Cut(strings.TrimPrefix(req.Header.Get("Range"), "bytes="), "-")
	start, err := strconv.Atoi(from)
	if whole.Code != http.StatusOK || !ok || err != nil || start > len(body) {
		for key, values := range whole.Header() {
			w.Header()[key] = values
		}
		w.WriteHeader(whole.Code)
		_, _ = w.Write(body)
		return
	}
	w.Header().Set("Content-Range", "bytes "+from+"-"+strconv.Itoa(len(body)-1)+"/"+strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write(body[start:])
}

// permits asks for a token (https://distribution.github.io/distribution/spec/auth/token/),
// which it gives to the user "robot" with the password.
func (r *Registry) permits(w http.ResponseWriter, req *http.Request, password string) bool {
	if req.URL.Path == "/token" {
		user, given, _ := req.BasicAuth()
		if req.Method == http.MethodPost {
			user, given = req.FormValue("username"), req.FormValue("password")
		}
		if user != "robot" || subtle.ConstantTimeCompare([]byte(given), []byte(password)) != 1 {
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"wrong credentials"}]}`, http.StatusUnauthorized)
			return false
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"token": "token-of-" + password, "access_token": "token-of-" + password})
		return false
	}
	if req.Header.Get("Authorization") == "Bearer token-of-"+password {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+r.Host+`/token",service="registry",scope="repository:any:pull"`)
	http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
	return false
}

// Fail has fn look at every request from now on; it returns true for those that it
// has replied to. nil ends that.
func (r *Registry) Fail(fn func(w http.ResponseWriter, req *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = fn
}

// RequirePassword has the registry ask for a token of the user "robot".
func (r *Registry) RequirePassword(password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.password = password
}

// Requests returns the requests so far, as "GET /v2/…".
func (r *Registry) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.requests...)
}

// trusting has a client trust the registry.
func (r *Registry) trusting() remote.Option {
	return remote.WithTransport(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}) //nolint:errcheck // it is one
}

// Push stores an image as repository:tag and returns its references by tag and by
// digest.
func (r *Registry) Push(tb testing.TB, tag string, img remote.Taggable) (byTag, byDigest string) {
	tb.Helper()
	ref, err := name.ParseReference(r.Host + "/" + tag)
	require.NoError(tb, err)
	digested, ok := img.(interface{ Digest() (v1.Hash, error) })
	require.True(tb, ok)
	switch img := img.(type) {
	case v1.Image:
		require.NoError(tb, remote.Write(ref, img, r.trusting()))
	case v1.ImageIndex:
		require.NoError(tb, remote.WriteIndex(ref, img, r.trusting()))
	}
	digest, err := digested.Digest()
	require.NoError(tb, err)
	return ref.Name(), ref.Context().Name() + "@" + digest.String()
}

// File is one entry of a layer.
type File struct {
	tar.Header

	Content string
}

// Text returns a file that everyone may read.
func Text(path, content string) File {
	return File{Header: tar.Header{Name: path, Typeflag: tar.TypeReg, Mode: 0o644}, Content: content}
}

// Link returns a symbolic link.
func Link(path, to string) File {
	return File{Header: tar.Header{Name: path, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}}
}

// Layer returns a layer of files.
func Layer(tb testing.TB, files ...File) v1.Layer {
	tb.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		header := f.Header
		header.Size = int64(len(f.Content))
		require.NoError(tb, w.WriteHeader(&header))
		_, err := io.WriteString(w, f.Content)
		require.NoError(tb, err)
	}
	require.NoError(tb, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	require.NoError(tb, err)
	return layer
}

// applets are the programs of the image that Busybox returns.
var applets = []string{"sh", "cat", "chmod", "cp", "echo", "env", "head", "id", "ln", "ls", "mkdir", "mount", "mv", "pwd", "rm", "seq", "sleep", "stat", "touch", "true", "wc", "whoami"}

// Program returns busybox itself, under a name.
func Program(tb testing.TB, path string) File {
	tb.Helper()
	raw, err := os.ReadFile(busybox)
	require.NoError(tb, err, "tests of images need the package busybox-static")
	return File{Header: tar.Header{Name: path, Typeflag: tar.TypeReg, Mode: 0o755}, Content: string(raw)}
}

// Busybox returns a small image with a shell, and more layers on top. No two have
// the same layers: containerd has each layer once for all tests.
func Busybox(tb testing.TB, layers ...v1.Layer) v1.Image {
	tb.Helper()
	files := []File{
		Program(tb, "bin/busybox"),
		Text("etc/serial", ident.New("image")),
		Text("etc/os-release", "ID=toy\nPRETTY_NAME=\"Toy Linux 3\"\n"),
		Text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
	}
	for _, applet := range applets {
		files = append(files, Link("bin/"+applet, "busybox"))
	}
	return Image(tb, append([]v1.Layer{Layer(tb, files...)}, layers...)...)
}

// Image returns an image of layers for this machine's kind.
func Image(tb testing.TB, layers ...v1.Layer) v1.Image {
	tb.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	require.NoError(tb, err)
	return Configured(tb, img, func(c *v1.ConfigFile) { c.OS, c.Architecture = platform() })
}

// Configured returns an image with another configuration.
func Configured(tb testing.TB, img v1.Image, change func(c *v1.ConfigFile)) v1.Image {
	tb.Helper()
	config, err := img.ConfigFile()
	require.NoError(tb, err)
	config = config.DeepCopy()
	change(config)
	img, err = mutate.ConfigFile(img, config)
	require.NoError(tb, err)
	return img
}

func platform() (system, architecture string) { return runtime.GOOS, runtime.GOARCH }

// Save writes an image as `docker save` does.
func Save(tb testing.TB, path, tag string, img v1.Image) {
	tb.Helper()
	ref, err := name.NewTag(tag)
	require.NoError(tb, err)
	require.NoError(tb, tarball.WriteToFile(path, ref, img))
}
