package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/mount"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/image"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// A writable root is an overlay: below are the files of the image, which all its jails
// share, and above a layer of the jail's own, which has what its commands changed. The
// layer is a volume beside the workspace and outlives the jail's container, like the
// workspace; snapshots and undo do not cover it. A layer fits one image only.

// The parts of a layer.
const (
	layerFiles = "files" // what commands changed
	layerWork  = "work"  // the kernel's
	layerImage = "image" // which image's root it fits
)

// setupSlack is by how much the archive of what a setup changed may be larger than the file
// system that it is on.
const setupSlack = 256 << 20

// layerOf returns the volume of a jail's layer.
func layerOf(p paths) volume {
	return volume{noun: "writable root", dir: p.layer, image: p.layerFile, mode: 0o700}
}

// writableRoot returns the mounts of a jail's writable root.
func (m *Manager) writableRoot(ctx context.Context, p paths, spec *nodev1.JailSpec, from image.Image) ([]mount.Mount, error) {
	if _, err := m.ensureVolume(ctx, layerOf(p), spec.GetWorkspaceBytes()); err != nil {
		return nil, err
	}
	if err := m.fitLayer(p, from); err != nil {
		return nil, fmt.Errorf("lay out the writable root: %w", err)
	}
	mounts, err := m.images.Below(ctx, from, filepath.Join(p.layer, layerFiles), filepath.Join(p.layer, layerWork))
	if err != nil {
		return nil, err
	}
	// Commands may have put a link where the jail mounts something.
	if err := mount.WithTempMount(ctx, mounts, m.images.Repair); err != nil {
		return nil, fmt.Errorf("check the writable root: %w", err)
	}
	return mounts, nil
}

// FinishSetup stops a jail in whose writable root an image was set up, and deletes that root.
// With commit it first keeps what was changed as the image prepared with that setup, which
// it returns. It may be called again after it failed half-way.
func (m *Manager) FinishSetup(ctx context.Context, id, setup string, commit bool) (image.Image, error) {
	if _, err := m.Stop(ctx, id); err != nil {
		return image.Image{}, err
	}
	e := m.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	p, rec, err := m.known(id)
	if err != nil {
		return image.Image{}, err
	}
	spec := rec.GetSpec()
	switch {
	case !rec.GetStopped():
		return image.Image{}, fault.New(fault.Precondition, "jail %s was started again", id).WithFix("stop it first").WithObject(id)
	case !spec.GetWritableRoot() || spec.GetSetup() != "":
		return image.Image{}, fault.New(fault.Precondition, "jail %s has no writable root of an image as it was pulled", id).WithObject(id)
	}
	var kept image.Image
	if commit {
		from, err := m.images.Get(ctx, spec.GetImage(), "")
		if err != nil {
			return kept, err
		}
		layer := layerOf(p)
		if isDir(p.layer) { // else it was kept before
			if _, err := os.Stat(layer.image); err == nil {
				if err := layer.mount(); err != nil {
					return kept, err
				}
			}
		}
		if kept, err = m.images.Keep(ctx, from, setup, filepath.Join(p.layer, layerFiles), filepath.Join(p.layer, layerWork), spec.GetWorkspaceBytes()+setupSlack); err != nil {
			return kept, err
		}
	}
	for _, v := range []volume{m.workspaceOf(p), layerOf(p)} {
		if err := v.remove(); err != nil {
			return kept, err
		}
	}
	// What is left of the jail are the logs of its commands, which take none of the disk
	// that jails were promised.
	spec.WorkspaceBytes = 0
	return kept, m.writeRecord(p.record, rec)
}

// fitLayer makes the folders of a layer, and empties it if it is another image's.
func (m *Manager) fitLayer(p paths, from image.Image) error {
	marker, want := filepath.Join(p.layer, layerImage), []byte(from.Root())
	have, err := os.ReadFile(marker)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if !bytes.Equal(have, want) {
		for _, part := range []string{layerFiles, layerWork} {
			if err := os.RemoveAll(filepath.Join(p.layer, part)); err != nil {
				return err
			}
		}
		if err := writeFile(marker, want, 0o600); err != nil {
			return err
		}
	}
	for part, mode := range map[string]os.FileMode{layerFiles: 0o755, layerWork: 0o700} {
		dir := filepath.Join(p.layer, part)
		err := os.Mkdir(dir, mode)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil {
			err = errors.Join(os.Chmod(dir, mode), os.Lchown(dir, int(m.cfg.UIDBase), int(m.cfg.UIDBase)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
