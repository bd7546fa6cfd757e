package imagetest

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// PushSignatures stores signatures of an image, which is named by its digest, as cosign
// does: as layers of an image under the tag sha256-DIGEST.sig. It replaces earlier
// signatures.
func (r *Registry) PushSignatures(tb testing.TB, byDigest string, signatures ...*nodev1.ImageSignature_SimpleSigning) {
	tb.Helper()
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	for _, one := range signatures {
		annotations := map[string]string{"dev.cosignproject.cosign/signature": one.GetSignature()}
		for key, value := range map[string]string{
			"dev.sigstore.cosign/certificate": one.GetCertificate(), "dev.sigstore.cosign/bundle": one.GetLogEntry(), "dev.sigstore.cosign/rfc3161timestamp": one.GetTimestamp(),
		} {
			if value != "" {
				annotations[key] = value
			}
		}
		var err error
		img, err = mutate.Append(img, mutate.Addendum{
			Layer: static.NewLayer(one.GetPayload(), "application/vnd.dev.cosign.simplesigning.v1+json"), Annotations: annotations,
		})
		require.NoError(tb, err)
	}
	repository, sum, _ := strings.Cut(strings.TrimPrefix(byDigest, r.Host+"/"), "@")
	r.Push(tb, repository+":"+strings.ReplaceAll(sum, ":", "-")+".sig", img)
}

// Bundle is a sigstore bundle that refers to an image, and the type of its statement as
// the manifest says it; empty for none.
type Bundle struct {
	JSON      []byte
	Predicate string
}

const mediaBundle = "application/vnd.dev.sigstore.bundle.v0.3+json"

// PushBundles stores sigstore bundles that refer to an image, which is named by its
// digest. It replaces earlier bundles. The registry lists the referrers under the tag
// sha256-DIGEST, like registries without the referrers API, or after ServeReferrers by
// that API (https://github.com/opencontainers/distribution-spec/blob/main/spec.md#listing-referrers).
func (r *Registry) PushBundles(tb testing.TB, byDigest string, bundles ...Bundle) {
	tb.Helper()
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	repository, sum, _ := strings.Cut(byDigest, "@")
	r.mu.Lock()
	serves := r.referrers != nil
	r.mu.Unlock()
	for _, one := range bundles {
		layer := static.NewLayer(one.JSON, mediaBundle)
		config := static.NewLayer([]byte("{}"), ocispec.MediaTypeEmptyJSON)
		manifest := ocispec.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: mediaBundle,
			Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{{MediaType: mediaBundle, Digest: digest.FromBytes(one.JSON), Size: int64(len(one.JSON))}},
			Subject: &ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.Digest(sum)},
		}
		if one.Predicate != "" {
			manifest.Annotations = map[string]string{"dev.sigstore.bundle.predicateType": one.Predicate}
		}
		raw, err := json.Marshal(manifest)
		require.NoError(tb, err)
		at := repository + "@" + digest.FromBytes(raw).String()
		for _, blob := range []v1.Layer{layer, config} {
			ref, err := name.NewRepository(repository)
			require.NoError(tb, err)
			require.NoError(tb, remote.WriteLayer(ref, blob, r.trusting()))
		}
		r.put(tb, at, rawManifest{raw, ocispec.MediaTypeImageManifest})
		listed := ocispec.Descriptor{
			MediaType: manifest.MediaType, ArtifactType: mediaBundle, Digest: digest.FromBytes(raw), Size: int64(len(raw)), Annotations: manifest.Annotations,
		}
		if !serves { // as cosign 2.6 writes the list
			listed.ArtifactType, listed.Annotations = ocispec.MediaTypeEmptyJSON, nil
		}
		index.Manifests = append(index.Manifests, listed)
	}
	raw, err := json.Marshal(index)
	require.NoError(tb, err)
	if serves {
		r.mu.Lock()
		r.referrers[sum] = raw
		r.mu.Unlock()
	}
	if !serves {
		r.put(tb, repository+":"+strings.ReplaceAll(sum, ":", "-"), rawManifest{raw, ocispec.MediaTypeImageIndex})
	}
}

// ServeReferrers has the registry offer the API of what refers to an image.
func (r *Registry) ServeReferrers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.referrers = map[string][]byte{}
}

// listReferrers replies to a call of that API, and reports whether it has.
func (r *Registry) listReferrers(w http.ResponseWriter, req *http.Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.referrers == nil || path.Base(path.Dir(req.URL.Path)) != "referrers" {
		return false
	}
	w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
	list := r.referrers[path.Base(req.URL.Path)]
	if list == nil {
		list = []byte(`{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `","manifests":[]}`)
	}
	_, _ = w.Write(list)
	return true
}

// rawManifest is a manifest that is stored as it is.
type rawManifest struct {
	raw  []byte
	kind types.MediaType
}

// RawManifest implements remote.Taggable.
func (m rawManifest) RawManifest() ([]byte, error) { return m.raw, nil }

// MediaType says what the manifest is.
func (m rawManifest) MediaType() (types.MediaType, error) { return m.kind, nil }

func (r *Registry) put(tb testing.TB, at string, manifest remote.Taggable) {
	tb.Helper()
	ref, err := name.ParseReference(at)
	require.NoError(tb, err)
	require.NoError(tb, remote.Put(ref, manifest, r.trusting()))
}
