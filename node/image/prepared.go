package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/archive"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// A prepared image is an image with one more snapshot on top of its root: what the
// commands of a setup changed. In containerd it is an image record of its own with the
// same content, so that it is listed, kept and deleted like any other.

// Keep keeps what was changed in a writable root of an image as the image prepared with a
// setup, and returns that. files and work are the layer's, as for Below; no jail may use it
// any more. If the image was prepared already, the layer is not read.
func (s *Store) Keep(ctx context.Context, one Image, setup, files, work string) (Image, error) {
	if have, err := s.Get(ctx, one.Reference, setup); err == nil || !fault.Is(err, fault.Precondition) {
		return have, err
	}
	if err := s.cfg.Accepting(); err != nil {
		return Image{}, err
	}
	// Until something refers to the snapshot, containerd may delete it.
	ctx, release, err := s.cfg.Client.WithLease(s.namespaced(ctx))
	if err != nil {
		return Image{}, s.unavailable(err)
	}
	defer func() {
		if err := release(context.WithoutCancel(ctx)); err != nil {
			s.cfg.Log.Warn("cannot end the lease of a setup; it expires", "error", err)
		}
	}()
	ctx, stop := s.whileAccepting(ctx)
	defer stop()
	key := "deckhand-setup-" + digest.FromString(one.root+setup).Encoded()
	found, err := s.commit(ctx, one, key, files, work)
	if err != nil {
		lease, _ := leases.FromContext(ctx)
		return Image{}, s.full(ctx, lease, fmt.Errorf("keep the setup of image %s: %w", one.Reference, err))
	}
	config, err := one.image.Config(ctx)
	if err == nil {
		err = s.refer(ctx, config.Digest, setupReference(setup), key)
	}
	if err != nil {
		return Image{}, fmt.Errorf("keep the setup of image %s: %w", one.Reference, err)
	}
	labels := maps.Clone(one.image.Labels())
	delete(labels, labelTag)
	labels[labelRoot], labels[labelSetup], labels[labelDistribution], labels[labelShell] = key, setup, found.distribution, found.shell
	labels[labelUsed] = strconv.FormatInt(time.Now().Unix(), 10)
	record := images.Image{Name: recordOf(one.Reference, setup), Target: one.image.Target(), Labels: labels}
	if _, err := s.cfg.Client.ImageService().Create(ctx, record); errdefs.IsAlreadyExists(err) {
		_, err = s.cfg.Client.ImageService().Update(ctx, record)
		if err != nil {
			return Image{}, fmt.Errorf("keep the setup of image %s: %w", one.Reference, err)
		}
	} else if err != nil {
		return Image{}, fmt.Errorf("keep the setup of image %s: %w", one.Reference, err)
	}
	return s.Get(ctx, one.Reference, setup)
}

// setupReference returns the name of an image's reference to what a setup made of it.
func setupReference(setup string) string {
	return "deckhand-" + strings.ReplaceAll(setup, ":", "-")
}

// letGo removes the reference to a prepared image's snapshot, which its image would keep.
func (s *Store) letGo(ctx context.Context, one Image) error {
	if one.Setup == "" {
		return nil
	}
	config, err := one.image.Config(ctx)
	if err == nil {
		err = s.refer(ctx, config.Digest, setupReference(one.Setup), "")
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete the prepared image %s: %w", one.Reference, err)
	}
	return nil
}

// commit makes a snapshot with what a layer changed, and returns what is in it.
func (s *Store) commit(ctx context.Context, one Image, key, files, work string) (found contents, err error) {
	snapshots := s.cfg.Client.SnapshotService(s.cfg.Snapshotter)
	changed, err := s.Below(ctx, one, files, work)
	if err != nil {
		return found, err
	}
	making, view := key+"-making", ident.New("view")
	// A daemon that was killed may have left them.
	for _, left := range []string{making, key} {
		if err := snapshots.Remove(ctx, left); err != nil && !errdefs.IsNotFound(err) {
			return found, err
		}
	}
	into, err := snapshots.Prepare(ctx, making, one.root)
	if err != nil {
		return found, err
	}
	before, err := snapshots.View(ctx, view, one.root)
	if err == nil {
		err = mount.WithTempMount(ctx, before, func(before string) error {
			return mount.WithTempMount(ctx, changed, func(after string) error {
				return mount.WithTempMount(ctx, into, func(into string) error {
					if err := copyChanges(ctx, before, after, into); err != nil {
						return err
					}
					found = contents{distribution: distributionIn(into), shell: shellIn(into)}
					return s.Repair(into)
				})
			})
		})
	}
	if err == nil {
		err = snapshots.Commit(ctx, key, making)
	}
	clean := context.WithoutCancel(ctx)
	for _, left := range []string{making, view} {
		if rerr := snapshots.Remove(clean, left); rerr != nil && !errdefs.IsNotFound(rerr) && err == nil {
			err = rerr
		}
	}
	return found, err
}

// copyChanges applies to a folder the differences of two others.
func copyChanges(ctx context.Context, before, after, into string) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := archive.WriteDiff(ctx, w, before, after)
		_ = w.CloseWithError(err) // never fails
		done <- err
	}()
	_, err := archive.Apply(ctx, into, r)
	_ = r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // never fails
	return errors.Join(err, <-done)
}
