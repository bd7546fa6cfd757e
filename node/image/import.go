package image

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/imageref"
)

// labelTag is the tag under which an image was imported: Pull does not ask a
// registry what that tag is.
const labelTag = "sh.deckhand.tag"

// Import reads an archive of one image, as `docker save` or an OCI layout writes it,
// and keeps the image under a name with a tag. From then on the tag is this image on
// this node, until another is imported under it or the image is pruned.
func (s *Store) Import(ctx context.Context, name string, archive io.Reader) (Image, error) {
	named, err := imageref.Parse(name)
	if err != nil {
		return Image{}, err
	}
	tagged, ok := named.(reference.Tagged)
	if !ok || imageref.HasDigest(named) {
		return Image{}, fault.New(fault.Invalid, "an image is imported under a tag, and %q has none or a digest", name).
			WithCode(fault.ImageUnavailable).WithFix("write REGISTRY/NAME:TAG")
	}
	if err := s.cfg.Accepting(); err != nil {
		return Image{}, err
	}
	ctx = s.namespaced(ctx)
	lease := ident.New("deckhand-import")
	ls := s.cfg.Client.LeasesService()
	if _, err := ls.Create(ctx, leases.WithID(lease), leases.WithExpiration(pullTimeout)); err != nil {
		return Image{}, s.unavailable(err)
	}
	// What is not part of an image by then goes with the lease.
	defer func() {
		if err := ls.Delete(context.WithoutCancel(ctx), leases.Lease{ID: lease}); err != nil && !errdefs.IsNotFound(err) {
			s.cfg.Log.Warn("cannot end the lease of an import; it expires", "error", err)
		}
	}()
	ctx, stop := s.whileAccepting(leases.WithLease(ctx, lease))
	defer stop()
	one, err := s.unpackArchive(ctx, named, archive)
	if err != nil {
		return Image{}, s.full(ctx, lease, explainArchive(name, err))
	}
	kept, err := s.finish(ctx, one)
	if err != nil {
		return Image{}, s.full(ctx, lease, err)
	}
	return kept, s.tag(ctx, named, tagged.Tag(), one)
}

// unpackArchive stores and unpacks the one image of an archive.
func (s *Store) unpackArchive(ctx context.Context, named reference.Named, archive io.Reader) (client.Image, error) {
	pinned := func(d digest.Digest) string { return reference.TrimNamed(named).Name() + "@" + d.String() }
	all, err := s.cfg.Client.Import(ctx, archive, client.WithImportPlatform(platform()), client.WithSkipMissing(), client.WithDigestRef(pinned))
	if err != nil {
		return nil, err
	}
	var own []images.Image
	for _, one := range all {
		if strings.HasPrefix(one.Name, named.Name()+"@") {
			own = append(own, one)
			continue
		}
		// By a name of the archive's own choice, which nobody asked for.
		if err := s.cfg.Client.ImageService().Delete(ctx, one.Name); err != nil && !errdefs.IsNotFound(err) {
			return nil, err
		}
	}
	if len(own) != 1 {
		for _, one := range own {
			if err := s.cfg.Client.ImageService().Delete(ctx, one.Name); err != nil && !errdefs.IsNotFound(err) {
				return nil, err
			}
		}
		return nil, fault.New(fault.Invalid, "the archive has %d images for this kind of machine", len(own)).
			WithCode(fault.ImageUnavailable).WithFix("export one image: docker save NAME:TAG")
	}
	one := client.NewImageWithPlatform(s.cfg.Client, own[0], platform())
	config, err := one.Config(ctx)
	if err == nil {
		err = s.fits(ctx, one.Name(), config)
	}
	if err == nil {
		err = one.Unpack(ctx, s.cfg.Snapshotter)
	}
	if err != nil {
		if derr := s.cfg.Client.ImageService().Delete(context.WithoutCancel(ctx), one.Name()); derr != nil && !errdefs.IsNotFound(derr) {
			s.cfg.Log.Warn("cannot delete an image that was not imported", "image", one.Name(), "error", derr)
		}
		return nil, err
	}
	return one, nil
}

// explainArchive returns an error of an import in a user's words.
func explainArchive(name string, err error) error {
	e := fault.As(explain(name, err))
	if e == nil || fault.As(err) != nil || e.Kind == fault.Exhausted {
		return explain(name, err)
	}
	if strings.Contains(err.Error(), "might be filtered out") {
		return fault.New(fault.Precondition, "the archive has no image for %s/%s", runtime.GOOS, runtime.GOARCH).WithCode(fault.ImageUnavailable).
			WithFix("export the image of this kind of machine: docker pull --platform %s/%s", runtime.GOOS, runtime.GOARCH).WithCause(err)
	}
	return fault.New(fault.Invalid, "the archive is not one of an image: %s", last(err.Error())).WithCode(fault.ImageUnavailable).
		WithFix("give what `docker save NAME:TAG` or an OCI layout in a tar file has").WithCause(err)
}

// tag gives a tag to an image, and takes it from any other image of the repository.
func (s *Store) tag(ctx context.Context, named reference.Named, tag string, one client.Image) error {
	before, err := s.tagged(ctx, named, tag)
	if err != nil {
		return err
	}
	service := s.cfg.Client.ImageService()
	for _, other := range before {
		if other.Name() == one.Name() {
			continue
		}
		if _, err := service.Update(ctx, images.Image{Name: other.Name(), Target: other.Target(), Labels: map[string]string{labelTag: ""}}, "labels."+labelTag); err != nil {
			return fmt.Errorf("take tag %s from image %s: %w", tag, other.Name(), err)
		}
	}
	if _, err := service.Update(ctx, images.Image{Name: one.Name(), Target: one.Target(), Labels: map[string]string{labelTag: tag}}, "labels."+labelTag); err != nil {
		return fmt.Errorf("give tag %s to image %s: %w", tag, one.Name(), err)
	}
	return nil
}

// tagged returns the images that were imported under a tag: one or none.
func (s *Store) tagged(ctx context.Context, named reference.Named, tag string) ([]client.Image, error) {
	all, err := s.cfg.Client.ListImages(ctx, fmt.Sprintf("labels.%q==%q,labels.%q==%q", labelOwner, s.cfg.DataDir, labelTag, tag))
	if err != nil {
		return nil, s.unavailable(err)
	}
	var out []client.Image
	for _, one := range all {
		if strings.HasPrefix(one.Name(), named.Name()+"@") {
			out = append(out, one)
		}
	}
	return out, nil
}

// imported returns the pinned reference of a tag that was imported; nil if it was
// not.
func (s *Store) imported(ctx context.Context, named reference.Named) (reference.Canonical, error) {
	tagged, ok := named.(reference.Tagged)
	if !ok {
		return nil, nil
	}
	all, err := s.tagged(ctx, named, tagged.Tag())
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return imageref.Pinned(all[0].Name())
}
