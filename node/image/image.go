// Package image keeps the OCI images that a node's jails are made from.
//
// A Store pulls images from registries through containerd's client, which
// downloads, verifies and unpacks the layers. An image is identified by its
// registry, its repository and its digest: what a tag means is looked up once,
// by Pull, and never again. For each image the store makes one root filesystem
// on top of the unpacked layers (see root.go), which all jails of the image
// share.
//
// Guarantees: an image is there completely or not at all. At most one pull of a
// digest runs at a time, and everyone who wants the image waits for it and sees
// its progress. A pull that failed or was cancelled goes on where it ended if it
// is tried again within a day. Credentials are used for one pull and are never
// written to disk.
//
// Everything in an image is untrusted. Layers are unpacked by containerd; what
// this package itself reads and writes in them, it does without following a link
// out of the image. Registries are reached through a guard: an address that is
// not public must be allowed by the node's operator.
//
// When the daemon is killed during a pull, the next pull goes on. When
// containerd is not reachable, calls fail with an Unavailable error.
package image

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/platforms"
	"github.com/hashicorp/go-hclog"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"

	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
)

// Defaults of a Config.
const (
	DefaultSnapshotter = "overlayfs"
	// DefaultRegistryConfig is where containerd's own tools look for the
	// configuration of registries, too.
	DefaultRegistryConfig = "/etc/containerd/certs.d"
)

// Labels of an image in containerd.
const (
	labelOwner        = "sh.deckhand.image"        // the data folder of the node that it belongs to
	labelDistribution = "sh.deckhand.distribution" // the name of the distribution in it
	labelShell        = "sh.deckhand.shell"        // the path of its shell
	labelRoot         = "sh.deckhand.root"         // the snapshot that jails start from
	labelUsed         = "sh.deckhand.used"         // when it was last used, in Unix seconds
	labelBytes        = "sh.deckhand.bytes"        // compressed size of its layers
	labelSetup        = "sh.deckhand.setup"        // digest of the setup that it was prepared with
)

// Config holds what a Store needs.
type Config struct {
	// Client is the connection to containerd, Namespace the node's namespace there.
	Client    *client.Client
	Namespace string
	// DataDir is the node's data folder: several nodes may share one containerd.
	DataDir string
	// Snapshotter is containerd's snapshotter; empty for DefaultSnapshotter.
	Snapshotter string
	// UIDBase is the first host id of the jails' user namespace, IDs how many
	// there are.
	UIDBase, IDs uint32
	// Registries are the registries that images may be pulled from, as host names
	// with a port if need be, or *.example.com; empty for every one.
	Registries []string
	// RegistryAddresses are the networks that registries may be reached in besides
	// public addresses.
	RegistryAddresses []netip.Prefix
	// RegistryConfig is a folder that has a hosts.toml per registry, as containerd
	// reads it (https://github.com/containerd/containerd/blob/main/docs/hosts.md);
	// empty for DefaultRegistryConfig. It names mirrors and certificates.
	RegistryConfig string
	// MountPoints are the folders and files that jails mount over; a name that ends
	// with a slash is a folder.
	MountPoints []string
	// Files are written into each image's root, by their paths in it.
	Files map[string]string
	// User and Group are the lines that /etc/passwd and /etc/group get, unless the
	// image has an entry of that id.
	User, Group string
	// Accepting refuses what is new while the node's disk is full; nil for never.
	Accepting func() error
	Log       hclog.Logger
}

// Store keeps a node's images. Its methods may be called concurrently.
type Store struct {
	cfg   Config
	guard dialguard.Guard

	mu    sync.Mutex
	pulls map[string]*pull // by pinned reference; guarded by mu

	keeping sync.Mutex // held while a prepared image is made
}

// New creates a Store. It does not call containerd.
func New(cfg Config) *Store {
	if cfg.Snapshotter == "" {
		cfg.Snapshotter = DefaultSnapshotter
	}
	if cfg.RegistryConfig == "" {
		cfg.RegistryConfig = DefaultRegistryConfig
	}
	if cfg.Accepting == nil {
		cfg.Accepting = func() error { return nil }
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	return &Store{
		cfg: cfg, pulls: map[string]*pull{},
		guard: dialguard.Guard{Allow: cfg.RegistryAddresses, Flag: "--registry-addresses of deckhand-node"},
	}
}

// Image is an image that is on the node.
type Image struct {
	// Reference is registry/repository@digest.
	Reference string
	// Setup is the digest of the setup that it was prepared with; empty for the image as it
	// was pulled.
	Setup string
	// Platform is what its programs run on, such as "linux/amd64, Debian GNU/Linux
	// 12 (bookworm)".
	Platform string
	// Shell is the path of a shell in it, /bin/bash if it has that; empty for none.
	Shell string
	// Env is the environment of its configuration.
	Env []string
	// Bytes is the compressed size of its layers, Layers their number.
	Bytes  int64
	Layers int
	// UsedAt is when it was last pulled or a jail was last made from it.
	UsedAt time.Time

	image client.Image
	root  string
}

// recordOf returns the name under which containerd has an image. Nodes that share a
// containerd share images as they were pulled, and no prepared ones.
func (s *Store) recordOf(ref, setup string) string {
	if setup == "" {
		return ref
	}
	return ref + setupMark + s.preparation(ref, setup)
}

// setupMark stands between reference and setup in the name of a prepared image. No
// reference has it.
const setupMark = "#"

// Get returns an image by its pinned reference and the digest of the setup that it was
// prepared with, empty for none. One that is not there is a Precondition error whose
// object is the reference.
func (s *Store) Get(ctx context.Context, pinned, setup string) (Image, error) {
	ref, err := imageref.Pinned(pinned)
	if err != nil {
		return Image{}, err
	}
	ctx = s.namespaced(ctx)
	one, err := s.cfg.Client.GetImage(ctx, s.recordOf(ref.String(), setup))
	if errdefs.IsNotFound(err) {
		return Image{}, absent(ref.String())
	}
	if err != nil {
		return Image{}, s.unavailable(err)
	}
	out, err := s.describe(ctx, one)
	if err != nil {
		return Image{}, err
	}
	if out.root == "" {
		return Image{}, absent(ref.String())
	}
	if _, err := s.cfg.Client.SnapshotService(s.cfg.Snapshotter).Stat(ctx, out.root); errdefs.IsNotFound(err) {
		return Image{}, absent(ref.String())
	} else if err != nil {
		return Image{}, s.unavailable(err)
	}
	return out, nil
}

func absent(ref string) error {
	return fault.New(fault.Precondition, "image %s is not on this node", ref).WithCode(fault.ImageUnavailable).
		WithFix("pull it: deckhand node image pull NODE %s", ref).WithObject(ref)
}

// describe reads what containerd knows of an image.
func (s *Store) describe(ctx context.Context, one client.Image) (Image, error) {
	labels := one.Labels()
	out := Image{Setup: labels[labelSetup], image: one, root: labels[labelRoot], Shell: labels[labelShell]}
	out.Reference, _, _ = strings.Cut(one.Name(), setupMark)
	out.Bytes, _ = strconv.ParseInt(labels[labelBytes], 10, 64)
	if used, err := strconv.ParseInt(labels[labelUsed], 10, 64); err == nil {
		out.UsedAt = time.Unix(used, 0).UTC()
	}
	config, err := s.config(ctx, one)
	if err != nil {
		return out, err
	}
	out.Platform = config.OS + "/" + config.Architecture
	if name := labels[labelDistribution]; name != "" {
		out.Platform += ", " + name
	}
	out.Env, out.Layers = config.Config.Env, len(config.RootFS.DiffIDs)
	return out, nil
}

// maxConfig bounds an image's configuration; that of a normal one is a few KiB.
const maxConfig = 4 << 20

// config reads an image's configuration.
func (s *Store) config(ctx context.Context, one client.Image) (ocispec.Image, error) {
	desc, err := one.Config(ctx)
	if err != nil {
		return ocispec.Image{}, fmt.Errorf("read the configuration of image %s: %w", one.Name(), err)
	}
	return s.readConfig(ctx, one.Name(), desc)
}

// readConfig reads the configuration of an image by its descriptor.
func (s *Store) readConfig(ctx context.Context, name string, desc ocispec.Descriptor) (ocispec.Image, error) {
	var out ocispec.Image
	if desc.Size > maxConfig {
		return out, fault.New(fault.Precondition, "the configuration of image %s has %d bytes; at most %d are read", name, desc.Size, maxConfig).WithCode(fault.ImageUnavailable)
	}
	raw, err := content.ReadBlob(ctx, s.cfg.Client.ContentStore(), desc)
	if err != nil {
		return out, fmt.Errorf("read the configuration of image %s: %w", name, err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fault.New(fault.Precondition, "the configuration of image %s is not valid", name).WithCode(fault.ImageUnavailable).WithCause(err)
	}
	return out, nil
}

// List returns the node's images, sorted by reference and setup.
func (s *Store) List(ctx context.Context) ([]Image, error) {
	ctx = s.namespaced(ctx)
	all, err := s.cfg.Client.ListImages(ctx, fmt.Sprintf("labels.%q==%q", labelOwner, s.cfg.DataDir))
	if err != nil {
		return nil, s.unavailable(err)
	}
	var out []Image
	for _, one := range all {
		described, err := s.describe(ctx, one)
		if err != nil {
			s.cfg.Log.Warn("an image cannot be read; pull it again or prune it", "image", one.Name(), "error", err)
		}
		out = append(out, described)
	}
	slices.SortFunc(out, func(a, b Image) int {
		return cmp.Or(strings.Compare(a.Reference, b.Reference), strings.Compare(a.Setup, b.Setup))
	})
	return out, nil
}

// Prune deletes the images that were last used before a time, except those to
// keep, which are pinned references, and those that a jail of this node was made
// from and still has. It returns what it deleted. containerd frees their layers
// where no other image has them.
func (s *Store) Prune(ctx context.Context, before time.Time, keep []string) ([]Image, error) {
	all, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	ctx = s.namespaced(ctx)
	containers, err := s.cfg.Client.ContainerService().List(ctx)
	if err != nil {
		return nil, s.unavailable(err)
	}
	for _, ctr := range containers {
		keep = append(keep, ctr.Image)
	}
	var out []Image
	for _, one := range all {
		if slices.Contains(keep, one.Reference) || !one.UsedAt.Before(before) || s.pulling(one.Reference) {
			continue
		}
		if err := s.letGo(ctx, one); err != nil {
			return out, err
		}
		// Synchronous: the room is free when Prune returns.
		if err := s.cfg.Client.ImageService().Delete(ctx, s.recordOf(one.Reference, one.Setup), images.SynchronousDelete()); err != nil && !errdefs.IsNotFound(err) {
			return out, fmt.Errorf("delete image %s: %w", one.Reference, err)
		}
		s.cfg.Log.Info("deleted an image", "image", one.Reference, "bytes", one.Bytes, "used_at", one.UsedAt)
		out = append(out, one)
	}
	return out, nil
}

// used writes down that an image is used now.
func (s *Store) used(ctx context.Context, one client.Image) error {
	_, err := s.cfg.Client.ImageService().Update(ctx, images.Image{
		Name: one.Name(), Target: one.Target(), Labels: map[string]string{labelUsed: strconv.FormatInt(time.Now().Unix(), 10)},
	}, "labels."+labelUsed)
	if err != nil {
		return fmt.Errorf("write down the use of image %s: %w", one.Name(), err)
	}
	return nil
}

// namespaced returns a context in this node's namespace of containerd, in which its
// client logs nothing: what went wrong is in the error.
func (s *Store) namespaced(ctx context.Context) context.Context {
	return log.WithLogger(namespaces.WithNamespace(ctx, s.cfg.Namespace), quiet())
}

var quiet = sync.OnceValue(func() *log.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
})

// unavailable says that it is containerd that is missing, when it is.
func (s *Store) unavailable(err error) error {
	if errdefs.IsUnavailable(err) {
		return fault.New(fault.Unavailable, "containerd does not answer").WithCause(err)
	}
	return fmt.Errorf("ask containerd: %w", err)
}

// platform matches images whose programs run on this machine.
func platform() platforms.MatchComparer { return platforms.Only(platforms.DefaultSpec()) }
