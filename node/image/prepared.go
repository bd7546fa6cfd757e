package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/archive"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// A prepared image is an image with one more snapshot on top of its root: what the
// commands of a setup changed. In containerd it is an image record of its own with the
// same content, so that it is listed, kept and deleted like any other.

// Keep keeps what was changed in a writable root of an image as the image prepared with a
// setup, and returns that. files and work are the layer's, as for Below; no jail may use it
// any more. If the image was prepared already, the layer is not read. most bounds what is kept, in
// bytes: a layer may have sparse files.
func (s *Store) Keep(ctx context.Context, one Image, setup, files, work string, most int64) (Image, error) {
	s.keeping.Lock()
	defer s.keeping.Unlock()
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
	// Of this node and this reference alone: others may have prepared the same layers with
	// other rights, or delete theirs.
	key := "deckhand-setup-" + s.preparation(one.Reference, setup)
	found, err := s.commit(ctx, one, key, files, work, most)
	if err != nil {
		lease, _ := leases.FromContext(ctx)
		return Image{}, s.full(ctx, lease, fmt.Errorf("keep the setup of image %s: %w", one.Reference, err))
	}
	config, err := one.image.Config(ctx)
	if err == nil {
		err = s.refer(ctx, config.Digest, s.setupReference(one.Reference, setup), key)
	}
	if err != nil {
		return Image{}, fmt.Errorf("keep the setup of image %s: %w", one.Reference, err)
	}
	labels := maps.Clone(one.image.Labels())
	delete(labels, labelTag)
	labels[labelRoot], labels[labelSetup], labels[labelDistribution], labels[labelShell] = key, setup, found.distribution, found.shell
	labels[labelUsed] = strconv.FormatInt(time.Now().Unix(), 10)
	record := images.Image{Name: s.recordOf(one.Reference, setup), Target: one.image.Target(), Labels: labels}
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

// preparation identifies what a setup made of an image on this node.
func (s *Store) preparation(ref, setup string) string {
	return digest.FromString(fmt.Sprintf("%q %q %q", s.cfg.DataDir, ref, setup)).Encoded()
}

// setupReference returns the name of an image's reference to what a setup made of it.
func (s *Store) setupReference(ref, setup string) string {
	return "deckhand-" + s.preparation(ref, setup)
}

// letGo removes the reference to a prepared image's snapshot, which its image would keep.
func (s *Store) letGo(ctx context.Context, one Image) error {
	if one.Setup == "" {
		return nil
	}
	config, err := one.image.Config(ctx)
	if err == nil {
		err = s.refer(ctx, config.Digest, s.setupReference(one.Reference, one.Setup), "")
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete the prepared image %s: %w", one.Reference, err)
	}
	return nil
}

// commit makes a snapshot with what a layer changed, and returns what is in it.
func (s *Store) commit(ctx context.Context, one Image, key, files, work string, most int64) (found contents, err error) {
	changed, err := s.Below(ctx, one, files, work)
	if err != nil {
		return found, err
	}
	// A daemon that was killed may have left it without a record.
	if err := s.cfg.Client.SnapshotService(s.cfg.Snapshotter).Remove(ctx, key); err != nil && !errdefs.IsNotFound(err) {
		return found, err
	}
	err = s.grow(ctx, key, one.root, func(into string) error {
		err := s.view(ctx, one.root, func(before []mount.Mount) error {
			return mount.WithTempMount(ctx, before, func(before string) error {
				return mount.WithTempMount(ctx, changed, func(after string) error { return copyChanges(ctx, before, after, into, most) })
			})
		})
		found = contents{distribution: distributionIn(into), shell: shellIn(into)}
		return errors.Join(err, s.Repair(into))
	})
	return found, err
}

// copyChanges applies to a folder the differences of two others, of at most so many bytes.
func copyChanges(ctx context.Context, before, after, into string, most int64) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := archive.WriteDiff(ctx, &bounded{w: w, left: most}, before, after)
		_ = w.CloseWithError(err) // never fails
		done <- err
	}()
	_, err := archive.Apply(ctx, into, r)
	_ = r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // never fails
	return errors.Join(err, <-done)
}

// bounded is a writer that fails after so many bytes.
type bounded struct {
	w    io.Writer
	left int64
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, fault.New(fault.Exhausted, "what the setup changed is larger than its file system: it has sparse files").
			WithCode(fault.ImageUnavailable).WithFix("have the setup remove its sparse files, or raise workspace.size")
	}
	return b.w.Write(p)
}
