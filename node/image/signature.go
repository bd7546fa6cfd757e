package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
)

// Limits on the signatures of an image that are read. Anybody who can push to the
// repository can add any number of signatures of any size.
const (
	maxSignatures        = 64
	maxSignatureBytes    = 256 << 10 // of one: payload and annotations, or a bundle
	maxAllSignatureBytes = 4 << 20
	maxSignatureManifest = 2 << 20
	maxReferrers         = 256 // that may be signatures
	signatureTimeout     = 2 * time.Minute
)

// mediaBundle begins the media types of sigstore bundles of all versions.
const mediaBundle = "application/vnd.dev.sigstore.bundle"

// The annotations of a layer that is a signature of cosign
// (https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md).
const (
	annotationSignature   = "dev.cosignproject.cosign/signature"
	annotationCertificate = "dev.sigstore.cosign/certificate"
	annotationLogEntry    = "dev.sigstore.cosign/bundle"
	annotationTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"
)

// Annotations of a bundle's manifest that say what the bundle is about, and their value
// for a signature of an image: the others are attestations.
const (
	annotationPredicate = "dev.sigstore.bundle.predicateType"
	predicateCosign     = "https://sigstore.dev/cosign/sign/v1"
)

// Signatures are the signatures of an image as its registry has them. Nothing in them
// is verified.
type Signatures struct {
	// Reference is the image's pinned reference.
	Reference string
	Simple    []SimpleSigning
	// Bundles are sigstore bundles in JSON.
	Bundles [][]byte
	// LeftOut is how many there are besides, which were too many, too large or broken.
	LeftOut int
	// Incomplete is why some could not be read; nil if all could.
	Incomplete error
}

// SimpleSigning is a layer of the image that cosign stores under a tag: the payload that
// was signed, and the layer's annotations.
type SimpleSigning struct {
	Payload                                     []byte
	Signature, Certificate, LogEntry, Timestamp string
}

// Signatures reads the signatures of an image from its registry: those that cosign
// stores under the tag sha256-DIGEST.sig, and sigstore bundles that refer to the image.
// A tag is resolved first. An image that was imported is refused with a Precondition
// error: no registry has its signatures.
func (s *Store) Signatures(ctx context.Context, text string, way Way) (Signatures, error) {
	named, err := imageref.Parse(text)
	if err != nil {
		return Signatures{}, err
	}
	ctx, cancel := context.WithTimeout(s.namespaced(ctx), signatureTimeout)
	defer cancel()
	if err := s.refuseImported(ctx, named); err != nil {
		return Signatures{}, err
	}
	if err := s.allowed(named); err != nil {
		return Signatures{}, err
	}
	resolver := s.resolver(ctx, named, way)
	ref, err := s.pin(ctx, named, resolver, func(Progress) {})
	if err != nil {
		return Signatures{}, err
	}
	fetcher, err := resolver.Fetcher(ctx, ref.String())
	if err != nil {
		return Signatures{}, explain(ref.String(), err)
	}
	r := signatureReader{s: s, ref: ref, resolver: resolver, fetcher: fetcher, out: Signatures{Reference: ref.String()}}
	err = errors.Join(r.readTag(ctx), r.readReferrers(ctx))
	if ctx.Err() != nil {
		return Signatures{}, ctx.Err()
	}
	if err != nil && len(r.out.Simple)+len(r.out.Bundles) == 0 {
		return Signatures{}, err
	}
	r.out.Incomplete = err
	return r.out, nil
}

// refuseImported returns an error if an image came from an archive.
func (s *Store) refuseImported(ctx context.Context, named reference.Named) error {
	var from string
	if imageref.HasDigest(named) {
		ref, err := imageref.Pinned(named.String())
		if err != nil {
			return err
		}
		one, err := s.cfg.Client.GetImage(ctx, ref.String())
		if err != nil && !errdefs.IsNotFound(err) {
			return s.unavailable(err)
		}
		if err == nil && one.Labels()[labelTag] != "" {
			from = ref.String()
		}
	} else if ref, err := s.imported(ctx, named); err != nil {
		return err
	} else if ref != nil {
		from = ref.String()
	}
	if from == "" {
		return nil
	}
	return fault.New(fault.Precondition, "image %s was imported from an archive on this node: there is no registry to ask for its signatures", from).
		WithCode(fault.ImageUnavailable).WithObject(from).
		WithFix("delete the import with deckhand node image prune, so that the image is pulled from its registry, or have an administrator delete the signature rule that matches it")
}

// signatureReader reads the signatures of one image.
type signatureReader struct {
	s        *Store
	ref      reference.Canonical
	resolver remotes.Resolver
	fetcher  remotes.Fetcher
	out      Signatures
	bytes    int
}

// take reports whether a signature of a size is within the limits, and counts it.
func (r *signatureReader) take(size int64) bool {
	if size < 0 || size > maxSignatureBytes || int64(r.bytes)+size > maxAllSignatureBytes || len(r.out.Simple)+len(r.out.Bundles) >= maxSignatures {
		r.out.LeftOut++
		return false
	}
	r.bytes += int(size)
	return true
}

// skip reports whether an error is about one signature only, and counts that one.
func (r *signatureReader) skip(err error) bool {
	if !fault.Is(err, fault.Precondition) && !fault.Is(err, fault.NotFound) {
		return false
	}
	r.out.LeftOut++
	return true
}

// readTag reads the signatures that cosign stores as layers of one image.
func (r *signatureReader) readTag(ctx context.Context) error {
	tagged, err := reference.WithTag(reference.TrimNamed(r.ref), tagOf(r.ref.Digest())+".sig")
	if err != nil {
		return fmt.Errorf("name the signatures of image %s: %w", r.ref, err)
	}
	var desc ocispec.Descriptor
	err = r.s.patiently(ctx, r.ref, func() (err error) {
		_, desc, err = r.resolver.Resolve(ctx, tagged.String())
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var manifest ocispec.Manifest
	if err := r.readManifest(ctx, desc, &manifest); err != nil {
		return err
	}
	// The newest are last.
	for i := len(manifest.Layers) - 1; i >= 0; i-- {
		layer := manifest.Layers[i]
		one := SimpleSigning{
			Signature: layer.Annotations[annotationSignature], Certificate: layer.Annotations[annotationCertificate],
			LogEntry: layer.Annotations[annotationLogEntry], Timestamp: layer.Annotations[annotationTimestamp],
		}
		if one.Signature == "" || !r.take(layer.Size+int64(len(one.Signature)+len(one.Certificate)+len(one.LogEntry)+len(one.Timestamp))) {
			continue
		}
		if one.Payload, err = r.read(ctx, layer); r.skip(err) {
			continue
		} else if err != nil {
			return err
		}
		r.out.Simple = append(r.out.Simple, one)
	}
	return nil
}

// readReferrers reads the sigstore bundles that refer to the image.
func (r *signatureReader) readReferrers(ctx context.Context) error {
	referrers, ok := r.fetcher.(remotes.ReferrersFetcher)
	if !ok {
		return fmt.Errorf("read what refers to image %s: a %T cannot", r.ref, r.fetcher)
	}
	var all []ocispec.Descriptor
	err := r.s.patiently(ctx, r.ref, func() (err error) {
		all, err = referrers.FetchReferrers(ctx, r.ref.Digest())
		return err
	})
	if err != nil {
		return err
	}
	read := 0
	for _, desc := range all {
		if !mayBeBundle(desc) || attests(desc.Annotations) {
			continue
		}
		if read++; read > maxReferrers || len(r.out.Simple)+len(r.out.Bundles) >= maxSignatures {
			r.out.LeftOut++
			continue
		}
		var manifest ocispec.Manifest
		if err := r.readManifest(ctx, desc, &manifest); r.skip(err) {
			continue
		} else if err != nil {
			return err
		}
		if attests(manifest.Annotations) {
			continue
		}
		for _, layer := range manifest.Layers {
			if !strings.HasPrefix(layer.MediaType, mediaBundle) || !r.take(layer.Size) {
				continue
			}
			bundle, err := r.read(ctx, layer)
			if r.skip(err) {
				continue
			} else if err != nil {
				return err
			}
			r.out.Bundles = append(r.out.Bundles, bundle)
		}
	}
	return nil
}

// mayBeBundle reports whether what refers to an image may be a bundle. Lists that cosign
// keeps under a tag, for registries without the API, have the type of the configuration
// instead of the type of the artifact.
func mayBeBundle(desc ocispec.Descriptor) bool {
	return strings.HasPrefix(desc.ArtifactType, mediaBundle) || desc.ArtifactType == ocispec.MediaTypeEmptyJSON || desc.ArtifactType == ""
}

// attests reports whether annotations say that a bundle is an attestation. The hub
// verifies what it is.
func attests(annotations map[string]string) bool {
	kind, known := annotations[annotationPredicate]
	return known && kind != predicateCosign
}

// readManifest reads a manifest that lists signatures.
func (r *signatureReader) readManifest(ctx context.Context, desc ocispec.Descriptor, into *ocispec.Manifest) error {
	if desc.Size < 0 || desc.Size > maxSignatureManifest {
		return r.broken("a list of signatures has %d bytes; at most %d are read", desc.Size, maxSignatureManifest)
	}
	raw, err := r.read(ctx, desc)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return r.broken("a list of signatures is not valid: %s", last(err.Error()))
	}
	return nil
}

// read reads what a descriptor names, whose size the caller has checked.
func (r *signatureReader) read(ctx context.Context, desc ocispec.Descriptor) ([]byte, error) {
	var raw []byte
	err := r.s.patiently(ctx, r.ref, func() error {
		body, err := r.fetcher.Fetch(ctx, desc)
		if err != nil {
			return err
		}
		defer body.Close()
		raw, err = io.ReadAll(io.LimitReader(body, desc.Size+1))
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := desc.Digest.Validate(); err != nil || int64(len(raw)) != desc.Size || desc.Digest.Algorithm().FromBytes(raw) != desc.Digest {
		return nil, r.broken("a signature has other data than its digest %s promises", desc.Digest)
	}
	return raw, nil
}

// broken returns an error of signatures that the registry stores.
func (r *signatureReader) broken(format string, args ...any) error {
	return fault.New(fault.Precondition, "the signatures of image %s cannot be read: %s", r.ref, fmt.Sprintf(format, args...)).
		WithCode(fault.ImageUnavailable).WithObject(r.ref.String()).WithFix("have the image signed again")
}

// tagOf returns a digest as a part of a tag.
func tagOf(d digest.Digest) string { return d.Algorithm().String() + "-" + d.Encoded() }
