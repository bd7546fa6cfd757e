package jail

import (
	"context"
	"fmt"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/image"
	"github.com/deckhand-sh/deckhand/node/initd"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Images returns the store of the images that jails are made from.
func (m *Manager) Images() *image.Store { return m.images }

// imageConfig completes the configuration of the image store with what jails
// need in every image.
func (m *Manager) imageConfig(ctx context.Context) image.Config {
	texts, cfg := etcTexts(), m.cfg.Images
	cfg.Client, cfg.Namespace, cfg.DataDir, cfg.Log = m.containerd, m.cfg.Namespace, m.cfg.DataDir, m.cfg.Log.Named("image")
	cfg.UIDBase, cfg.IDs, cfg.Accepting = m.cfg.UIDBase, uidRange, m.cfg.Reserve.Accepting
	if cfg.Snapshotter == "" {
		cfg.Snapshotter = m.snapshotter(ctx)
	}
	cfg.MountPoints = []string{
		"proc/", "sys/", "dev/", "tmp/", "var/tmp/", "workspace/", "run/deckhand/",
		strings.TrimPrefix(nodelink.OutputsPath, "/") + "/", strings.TrimPrefix(nodelink.TrustPath, "/") + "/", strings.TrimPrefix(nodelink.SkillsPath, "/") + "/",
		strings.TrimPrefix(nodelink.PacksPath, "/") + "/",
		strings.TrimPrefix(initMount, "/"), strings.TrimPrefix(nodelink.SkillPath, "/"),
	}
	cfg.Files = map[string]string{"etc/hosts": texts["hosts"], "etc/resolv.conf": texts["resolv.conf"]}
	cfg.User, cfg.Group = agentUser, agentGroup
	return cfg
}

// snapshotter returns the snapshotter for images: overlayfs, or native if containerd found
// that its file system does not support overlays.
func (m *Manager) snapshotter(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(m.namespaced(ctx), callTimeout)
	defer cancel()
	found, err := m.containerd.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1,id=="+image.DefaultSnapshotter)
	if err != nil {
		return image.DefaultSnapshotter // containerd does not answer; a pull will say so
	}
	for _, plugin := range found.GetPlugins() {
		if plugin.GetInitErr() == nil {
			return image.DefaultSnapshotter
		}
	}
	m.cfg.Log.Info("images use the snapshotter native: overlayfs does not work here")
	return "native"
}

// imageMounts returns what a jail made from an image shows besides the image. Our
// own places come last, so that nothing that was asked for covers them.
func (m *Manager) imageMounts(spec *nodev1.JailSpec, shown []specs.Mount) []specs.Mount {
	mounts := []specs.Mount{{
		Type: "tmpfs", Source: "tmpfs", Destination: "/var/tmp",
		Options: []string{"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", spec.GetTmpBytes())},
	}}
	mounts = append(mounts, shown...)
	return append(mounts, m.programs()...)
}

// ownVariables are those that a jail sets itself, whatever its image says.
var ownVariables = []string{"HOME", "USER", "LOGNAME", "PWD", "TERM", "TMPDIR", "HOSTNAME"}

// maxImageEnv bounds the environment of an image's configuration, in bytes.
const maxImageEnv = 64 << 10

// imageEnv returns the environment that commands get from an image and from a spec.
func imageEnv(one image.Image, own []string) ([]string, error) {
	var out []string
	size := 0
	for _, entry := range initd.MergeEnv(one.Env, own) {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || strings.Contains(entry, "\x00") || slices.Contains(ownVariables, name) {
			continue
		}
		size += len(entry) + 1
		out = append(out, strings.ToValidUTF8(entry, ""))
	}
	if size > maxImageEnv {
		return nil, fault.New(fault.Precondition, "the environment that commands get from image %s has %d bytes; at most %d are taken", one.Reference, size, maxImageEnv).
			WithCode(fault.ImageUnavailable).WithFix("build the image with fewer ENV lines")
	}
	return out, nil
}

// checkRoot checks which root a spec asks for.
func checkRoot(s *nodev1.JailSpec) error {
	switch s.GetRootfs() {
	case "":
		s.Rootfs = nodelink.RootHost
	case nodelink.RootHost, nodelink.RootImage:
	default:
		return fault.New(fault.Invalid, "rootfs %q is not known to this node", s.GetRootfs()).WithFix("use %q or %q", nodelink.RootHost, nodelink.RootImage)
	}
	if s.GetRootfs() == nodelink.RootHost {
		if s.GetWritableRoot() || s.GetRootUser() {
			return fault.New(fault.Invalid, "writable_root and root_user need an image, and rootfs is %q", nodelink.RootHost).WithFix("use rootfs %q and name an image", nodelink.RootImage)
		}
		if s.GetImage() != "" || s.GetSetup() != "" || len(s.GetEnv()) > 0 {
			return fault.New(fault.Invalid, "image is %q and rootfs is %q", s.GetImage(), nodelink.RootHost).WithFix("use rootfs %q, or leave the image out", nodelink.RootImage)
		}
		return nil
	}
	if named, err := imageref.Parse(s.GetImage()); err == nil && !imageref.HasDigest(named) {
		return fault.New(fault.Precondition, "the digest of image %s is not known yet", named).WithCode(fault.ImageUnavailable).
			WithFix("run a task of the agent, which looks it up, or name the digest in the persona").WithObject(s.GetImage())
	}
	ref, err := imageref.Pinned(s.GetImage())
	if err != nil {
		return err
	}
	s.Image = ref.String()
	return nil
}

// of notes what the jail's image gives to commands.
func (i *Init) of(rec *nodev1.JailRecord) {
	i.Image, i.Shell, i.Env = rec.GetSpec().GetImage(), rec.GetImageShell(), rec.GetImageEnv()
	i.Root = rec.GetSpec().GetRootUser()
	i.egress.Store(rec.GetSpec().GetEgress())
	if i.Root {
		i.Env = append(slices.Clone(i.Env), "USER=root", "LOGNAME=root")
		if rec.GetSpec().GetWritableRoot() {
			i.Env = append(i.Env, "HOME=/root")
		}
	}
}
