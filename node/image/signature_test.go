package image_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/image"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	typeSignature = "https://sigstore.dev/cosign/sign/v1"
	typeSBOM      = "https://spdx.dev/Document"
)

func payload(text string) *nodev1.ImageSignature_SimpleSigning {
	return &nodev1.ImageSignature_SimpleSigning{Payload: []byte(text), Signature: "c2lnbmF0dXJl"}
}

func payloads(found image.Signatures) (out []string) {
	for _, one := range found.Simple {
		out = append(out, string(one.Payload))
	}
	return out
}

// The signatures of an image are read from its registry as they are, in both forms, by a
// tag or a digest, and with credentials.
func TestSignaturesAreReadFromTheRegistry(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(*imagetest.Registry){
		"listed by a tag": func(*imagetest.Registry) {}, "listed by the API": (*imagetest.Registry).ServeReferrers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := imagetest.NewRegistry(t)
			serve(r)
			tag, digest := r.Push(t, "team/app:1", imagetest.Busybox(t))
			s := newStore(t, r)
			found, err := s.Signatures(t.Context(), tag, image.Way{})
			require.NoError(t, err)
			require.Equal(t, image.Signatures{Reference: digest}, found)

			full := payload("two")
			full.Certificate, full.LogEntry, full.Timestamp = "certificate", "entry", "timestamp"
			r.PushSignatures(t, digest, payload("one"), full)
			r.PushBundles(t, digest, imagetest.Bundle{JSON: []byte(`{"a":1}`), Predicate: typeSignature}, imagetest.Bundle{JSON: []byte(`{"b":1}`)},
				imagetest.Bundle{JSON: []byte(`{"sbom":1}`), Predicate: typeSBOM})
			want := image.Signatures{
				Reference: digest,
				Simple: []image.SimpleSigning{
					{Payload: []byte("two"), Signature: "c2lnbmF0dXJl", Certificate: "certificate", LogEntry: "entry", Timestamp: "timestamp"},
					{Payload: []byte("one"), Signature: "c2lnbmF0dXJl"},
				},
				Bundles: [][]byte{[]byte(`{"a":1}`), []byte(`{"b":1}`)},
			}
			for _, ref := range []string{tag, digest} {
				found, err := s.Signatures(t.Context(), ref, image.Way{})
				require.NoError(t, err)
				require.Equal(t, want, found)
			}

			r.RequirePassword("secret-of-the-robot")
			_, err = s.Signatures(t.Context(), digest, image.Way{})
			require.True(t, fault.Is(err, fault.Denied), "%v", err)
			found, err = s.Signatures(t.Context(), digest, image.Way{Logins: []image.Login{{Host: r.Host, User: "robot", Password: "secret-of-the-robot"}}})
			require.NoError(t, err)
			require.Equal(t, want, found)
			require.Zero(t, blobsOf(t, s), "no image was pulled")
		})
	}
}

func blobsOf(t *testing.T, s *image.Store) int {
	t.Helper()
	all, err := s.List(t.Context())
	require.NoError(t, err)
	return len(all)
}

// A mirror is asked for signatures first, and the registry itself for those that the
// mirror does not have.
func TestSignaturesComeFromAMirror(t *testing.T) {
	t.Parallel()
	origin, mirror := imagetest.NewRegistry(t), imagetest.NewRegistry(t)
	app := imagetest.Busybox(t)
	tag, digest := origin.Push(t, "team/app:1", app)
	_, mirrored := mirror.Push(t, "proxy/team/app:1", app)
	s := newStore(t, origin, func(c *image.Config) {
		require.NoError(t, os.CopyFS(c.DataDir, os.DirFS(origin.CertsDir)))
		require.NoError(t, os.CopyFS(c.DataDir, os.DirFS(mirror.CertsDir)))
		c.RegistryConfig = c.DataDir
	})
	mirror.PushSignatures(t, mirrored, payload("mirror"))
	origin.PushSignatures(t, digest, payload("origin"))
	origin.ServeReferrers()
	origin.PushBundles(t, digest, imagetest.Bundle{JSON: []byte(`{"origin":1}`)})
	found, err := s.Signatures(t.Context(), tag, image.Way{Mirror: mirror.Host + "/proxy"})
	require.NoError(t, err)
	require.Equal(t, digest, found.Reference)
	require.Equal(t, []string{"mirror"}, payloads(found))
	require.Equal(t, [][]byte{[]byte(`{"origin":1}`)}, found.Bundles)
}

// The number and size of the signatures that are read are limited, and the newest are read
// first.
func TestSignaturesHaveLimits(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	s := newStore(t, r)
	many := func(n, size int) (out []*nodev1.ImageSignature_SimpleSigning) {
		for i := range n {
			out = append(out, payload(strconv.Itoa(i)+" "+strings.Repeat("x", size)))
		}
		return out
	}
	for name, test := range map[string]struct {
		simple         []*nodev1.ImageSignature_SimpleSigning
		bundles        []imagetest.Bundle
		first          string
		found, leftOut int
	}{
		"too many":              {simple: many(70, 10), first: "69 ", found: 64, leftOut: 6},
		"one that is too large": {simple: append(many(1, 10), many(1, 300<<10)...), first: "0 ", found: 1, leftOut: 1},
		"a certificate that is too large": {simple: []*nodev1.ImageSignature_SimpleSigning{
			payload("small"), {Payload: []byte("large"), Signature: "c2ln", Certificate: strings.Repeat("x", 300<<10)},
		}, first: "small", found: 1, leftOut: 1},
		"too much together": {simple: many(30, 200<<10), first: "29 ", found: 20, leftOut: 10},
		"bundles that are too large": {simple: many(1, 10), first: "0 ", found: 1, leftOut: 1,
			bundles: []imagetest.Bundle{{JSON: bytes.Repeat([]byte("x"), 300<<10)}}},
		"bundles beyond the number": {simple: many(64, 10), first: "63 ", found: 64, leftOut: 1, bundles: []imagetest.Bundle{{JSON: []byte("{}")}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, digest := r.Push(t, "team/limits:"+strings.ReplaceAll(name, " ", "-"), imagetest.Busybox(t))
			r.PushSignatures(t, digest, test.simple...)
			if test.bundles != nil {
				r.PushBundles(t, digest, test.bundles...)
			}
			found, err := s.Signatures(t.Context(), digest, image.Way{})
			require.NoError(t, err)
			require.Len(t, found.Simple, test.found)
			require.Empty(t, found.Bundles)
			require.True(t, strings.HasPrefix(payloads(found)[0], test.first), "the newest is first: %.20s", payloads(found)[0])
			require.Equal(t, test.leftOut, found.LeftOut)
		})
	}
}

// A signature whose data is not what its digest promises is left out, and the others are
// read. If the registry fails on the way, the result says that it is not complete.
func TestSignaturesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	s := newStore(t, r)
	_, digest := r.Push(t, "team/app:1", imagetest.Busybox(t))
	r.PushSignatures(t, digest, payload("one"), payload("two"))
	r.PushBundles(t, digest, imagetest.Bundle{JSON: []byte(`{"a":1}`)})

	served := 0
	r.Fail(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.Contains(req.URL.Path, "/blobs/") {
			return false
		}
		if served++; served > 1 {
			return false
		}
		_, _ = io.WriteString(w, "xxx")
		return true
	})
	found, err := s.Signatures(t.Context(), digest, image.Way{})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, payloads(found))
	require.Equal(t, 1, found.LeftOut)
	require.NoError(t, found.Incomplete)

	r.Fail(func(w http.ResponseWriter, req *http.Request) bool {
		if strings.Contains(req.URL.Path, "/referrers/") || strings.HasSuffix(req.URL.Path, strings.Replace(digest[strings.Index(digest, "@")+1:], ":", "-", 1)) {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	found, err = s.Signatures(t.Context(), digest, image.Way{})
	require.NoError(t, err)
	require.Equal(t, []string{"two", "one"}, payloads(found))
	require.ErrorContains(t, found.Incomplete, "does not allow pulling image")

	r.Fail(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusForbidden); return true })
	_, err = s.Signatures(t.Context(), digest, image.Way{})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
}

// The operator's rules about registries hold for signatures as well, and no registry has
// those of an image that came from an archive.
func TestSignaturesAreReadOnlyFromRegistriesThatTheNodeUses(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	tag, digest := r.Push(t, "team/app:1", imagetest.Busybox(t))
	says := func(s *image.Store, ref, want string) {
		t.Helper()
		_, err := s.Signatures(t.Context(), ref, image.Way{})
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.ImageUnavailable, fault.As(err).Code)
	}
	says(newStore(t, r, func(c *image.Config) { c.Registries = []string{"ghcr.io"} }), digest, "this node does not pull images from "+r.Host)
	says(newStore(t, r, func(c *image.Config) { c.RegistryAddresses = nil }), digest, "at an address that this node does not connect to")
	says(newStore(t, r), "golang", "not a complete reference")

	s := newStore(t, r)
	archive := filepath.Join(t.TempDir(), "app.tar")
	imagetest.Save(t, archive, "whatever:1", imagetest.Busybox(t))
	file, err := os.Open(archive)
	require.NoError(t, err)
	defer file.Close()
	one, err := s.Import(t.Context(), tag, file)
	require.NoError(t, err)
	before := len(r.Requests())
	for _, ref := range []string{tag, one.Reference} {
		says(s, ref, "was imported from an archive on this node: there is no registry to ask for its signatures")
	}
	require.Len(t, r.Requests(), before)
}
