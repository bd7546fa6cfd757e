package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	dockerconfig "github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
)

const (
	// pullTimeout bounds one pull, however many wait for it.
	pullTimeout = 2 * time.Hour
	// pullTries is how often a pull is tried that fails for a reason that may pass.
	pullTries = 4
	// resumable is for how long the parts of a pull that failed are kept.
	resumable = 24 * time.Hour
	// progressEvery is how often those who wait are told.
	progressEvery = 500 * time.Millisecond
)

// Phase is what a pull does.
type Phase string

// The phases of a pull, in their order.
const (
	Resolving   Phase = "resolving"   // asking the registry for the digest
	Downloading Phase = "downloading" // downloading and unpacking layers
	Preparing   Phase = "preparing"   // giving the files to the jails' user ids
)

// Progress says how far a pull is.
type Progress struct {
	// Reference is the pinned reference, once it is known.
	Reference string
	Phase     Phase
	// Layers and Bytes are those of the image's layers that are known, compressed;
	// LayersDone and BytesDone are on the node.
	Layers, LayersDone int
	Bytes, BytesDone   int64
}

// Way is how the registry of one pull is reached. The zero value is for the registry
// itself, without credentials.
type Way struct {
	// Mirror is asked before the registry: a host with a port and a path if it has
	// them.
	Mirror string
	// Logins are credentials, each for one host.
	Logins []Login
}

// Login is a user name and password, or a token as password, for one host.
type Login struct{ Host, User, Password string }

// pull is one download of an image, which several callers may wait for.
type pull struct {
	done   chan struct{} // closed when image and err are set
	image  Image
	err    error
	cancel context.CancelFunc

	waiting int // guarded by Store.mu

	mu       sync.Mutex
	progress Progress             // guarded by mu
	layers   []ocispec.Descriptor // guarded by mu
}

// Pull resolves a reference and returns its image once the node has it. tell, if
// not nil, is called with the progress from time to time. The pull itself ends
// when nobody waits for it any more.
func (s *Store) Pull(ctx context.Context, text string, way Way, tell func(Progress)) (Image, error) {
	named, err := imageref.Parse(text)
	if err != nil {
		return Image{}, err
	}
	ctx = s.namespaced(ctx)
	if tell == nil {
		tell = func(Progress) {}
	}
	resolver := s.resolver(ctx, named, way)
	ref, err := s.pin(ctx, named, resolver, tell)
	if err != nil {
		return Image{}, err
	}
	one, err := s.Get(ctx, ref.String(), "")
	if err == nil {
		return one, s.used(ctx, one.image)
	}
	if !fault.Is(err, fault.Precondition) {
		return Image{}, err
	}
	if err := s.allowed(named); err != nil {
		return Image{}, err
	}
	if err := s.cfg.Accepting(); err != nil {
		return Image{}, err
	}
	return s.join(ctx, ref, resolver, tell)
}

// allowed refuses a registry that the node's operator does not allow.
func (s *Store) allowed(named reference.Named) error {
	host := imageref.Registry(named)
	if len(s.cfg.Registries) == 0 || slices.ContainsFunc(s.cfg.Registries, func(pattern string) bool {
		below, wild := strings.CutPrefix(pattern, "*")
		return pattern == host || wild && strings.HasSuffix(host, below)
	}) {
		return nil
	}
	return fault.New(fault.Denied, "this node does not pull images from %s; it pulls from: %s", host, strings.Join(s.cfg.Registries, ", ")).
		WithCode(fault.ImageUnavailable).WithFix("use an image from one of these registries, or have the node's operator add it to registries in node.yaml")
}

// resolver returns what asks a registry, with the node's own configuration of
// that registry, through the guard.
func (s *Store) resolver(ctx context.Context, named reference.Named, way Way) remotes.Resolver {
	hosts := dockerconfig.ConfigureHosts(ctx, dockerconfig.HostOptions{
		HostDir:       dockerconfig.HostDirFromRoot(s.cfg.RegistryConfig),
		DefaultScheme: "https", // also for localhost: plain HTTP is the operator's choice
		Credentials: func(host string) (string, string, error) {
			if host == "registry-1.docker.io" {
				host = "docker.io" // as references name it
			}
			if at := slices.IndexFunc(way.Logins, func(l Login) bool { return l.Host == host }); at >= 0 {
				return way.Logins[at].User, way.Logins[at].Password, nil
			}
			return "", "", nil
		},
		UpdateClient: func(c *http.Client) error {
			t, ok := c.Transport.(*http.Transport)
			if !ok {
				return fmt.Errorf("a registry's transport is a %T", c.Transport)
			}
			t.DialContext = s.guard.Dialer(false).DialContext
			t.ResponseHeaderTimeout = time.Minute
			return nil
		},
	})
	own := imageref.Registry(named)
	return docker.NewResolver(docker.ResolverOptions{Hosts: func(host string) ([]docker.RegistryHost, error) {
		list, err := hosts(host)
		if err != nil || way.Mirror == "" || host != own {
			return list, err
		}
		mirror, path, _ := strings.Cut(way.Mirror, "/")
		first, err := hosts(mirror)
		if err != nil {
			return nil, err
		}
		for i := range first {
			first[i].Path = strings.TrimSuffix(first[i].Path+"/"+path, "/")
			first[i].Capabilities = docker.HostCapabilityPull | docker.HostCapabilityResolve | docker.HostCapabilityReferrers
		}
		return append(first, list...), nil
	}})
}

// pin returns a reference with its digest: its own, that of the image which was
// imported under its tag, or the one that its registry names.
func (s *Store) pin(ctx context.Context, named reference.Named, resolver remotes.Resolver, tell func(Progress)) (reference.Canonical, error) {
	if imageref.HasDigest(named) {
		return imageref.Pinned(named.String())
	}
	if ref, err := s.imported(ctx, named); err != nil || ref != nil {
		return ref, err
	}
	if err := s.allowed(named); err != nil {
		return nil, err
	}
	tell(Progress{Phase: Resolving})
	return s.resolve(ctx, resolver, named)
}

// resolve asks the registry which digest a tag has now.
func (s *Store) resolve(ctx context.Context, resolver remotes.Resolver, named reference.Named) (reference.Canonical, error) {
	var desc ocispec.Descriptor
	err := s.patiently(ctx, named, func() (err error) {
		_, desc, err = resolver.Resolve(ctx, named.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	return reference.WithDigest(reference.TrimNamed(named), desc.Digest)
}

// patiently runs what asks a registry, again where that may help, and returns its
// error in a user's words.
func (s *Store) patiently(ctx context.Context, named reference.Named, fn func() error) error {
	waits := backoff.Policy{Base: time.Second, Max: 20 * time.Second}
	for try := 1; ; try++ {
		err := explain(named.String(), fn())
		if err == nil || !fault.Is(err, fault.Unavailable) || try == pullTries || ctx.Err() != nil {
			return err
		}
		s.cfg.Log.Warn("a pull failed; it is tried again", "image", named.String(), "try", try, "error", err)
		if werr := backoff.Wait(ctx, waits.Delay(try)); werr != nil {
			return err
		}
	}
}

// join waits for the pull of a reference. If none is in progress, it starts one.
func (s *Store) join(ctx context.Context, ref reference.Canonical, resolver remotes.Resolver, tell func(Progress)) (Image, error) {
	s.mu.Lock()
	p := s.pulls[ref.String()]
	if p == nil {
		work, cancel := context.WithTimeout(context.WithoutCancel(ctx), pullTimeout)
		p = &pull{done: make(chan struct{}), cancel: cancel, progress: Progress{Reference: ref.String(), Phase: Downloading}}
		s.pulls[ref.String()] = p
		go s.run(work, p, ref, resolver)
	}
	p.waiting++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.waiting--; p.waiting == 0 {
			p.cancel()
			// The next caller starts another pull: this one is ending.
			if s.pulls[ref.String()] == p {
				delete(s.pulls, ref.String())
			}
		}
	}()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		tell(s.progressOf(ctx, p))
		select {
		case <-p.done:
			return p.image, p.err
		case <-ctx.Done():
			return Image{}, ctx.Err()
		case <-tick.C:
		}
	}
}

func (s *Store) pulling(ref string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pulls[ref] != nil
}

// run downloads an image and makes its root.
func (s *Store) run(ctx context.Context, p *pull, ref reference.Canonical, resolver remotes.Resolver) {
	defer close(p.done)
	defer p.cancel()
	p.err = func() error {
		// What was downloaded is kept until this lease expires, so that the next try
		// does not begin at the start.
		lease := "deckhand-pull-" + ref.Digest().Encoded()
		ls := s.cfg.Client.LeasesService()
		if _, err := ls.Create(ctx, leases.WithID(lease), leases.WithExpiration(resumable)); err != nil && !errdefs.IsAlreadyExists(err) {
			return s.unavailable(err)
		}
		ctx = leases.WithLease(ctx, lease)
		ctx, stop := s.whileAccepting(ctx)
		defer stop()
		var one client.Image
		if err := s.patiently(ctx, ref, func() (err error) {
			one, err = s.cfg.Client.Pull(ctx, ref.String(),
				client.WithResolver(resolver), client.WithPlatformMatcher(platform()),
				client.WithPullUnpack, client.WithPullSnapshotter(s.cfg.Snapshotter),
				client.WithImageHandlerWrapper(func(next images.Handler) images.Handler { return s.observe(p, ref.String(), next) }))
			return err
		}); err != nil {
			return s.full(ctx, lease, err)
		}
		p.mu.Lock()
		p.progress.Phase = Preparing
		p.mu.Unlock()
		var err error
		if p.image, err = s.finish(ctx, one); err != nil {
			return s.full(ctx, lease, err)
		}
		if err := ls.Delete(ctx, leases.Lease{ID: lease}); err != nil && !errdefs.IsNotFound(err) {
			s.cfg.Log.Warn("cannot end the lease of a pull; it expires", "image", ref.String(), "error", err)
		}
		return nil
	}()
}

// diskEvery is how often a pull looks whether the disk is full.
const diskEvery = time.Second

// errFull is the cause of errors of a pull or an import for which the disk had no
// space.
var errFull = errors.New("the disk is full")

// whileAccepting returns a context that ends with errFull when the disk is full.
func (s *Store) whileAccepting(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(diskEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if err := s.cfg.Accepting(); err != nil {
				cancel(errors.Join(errFull, err))
				return
			}
		}
	}()
	return ctx, func() { close(done); cancel(nil) }
}

// full returns the error of a pull. If the disk was full, what the pull has
// downloaded is deleted at once.
func (s *Store) full(ctx context.Context, lease string, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errFull) {
		why := fault.As(cause)
		err = fault.New(fault.Exhausted, "%s", why.Message).WithCode(fault.ImageUnavailable).WithFix("%s", why.Fix).WithCause(errors.Join(errFull, err))
	}
	if !errors.Is(err, errFull) {
		return err
	}
	if derr := s.cfg.Client.LeasesService().Delete(context.WithoutCancel(ctx), leases.Lease{ID: lease}, leases.SynchronousDelete); derr != nil && !errdefs.IsNotFound(derr) {
		s.cfg.Log.Warn("cannot delete what a pull has downloaded; it is deleted within a day", "error", derr)
	}
	return err
}

// observe has a pull note the image's layers, and end when they are not for this
// machine.
func (s *Store) observe(p *pull, ref string, next images.Handler) images.Handler {
	return images.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		children, err := next.Handle(ctx, desc)
		if err != nil {
			return nil, err
		}
		if images.IsConfigType(desc.MediaType) {
			if err := s.fits(ctx, ref, desc); err != nil {
				return nil, err
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, child := range children {
			if images.IsLayerType(child.MediaType) && !slices.ContainsFunc(p.layers, func(l ocispec.Descriptor) bool { return l.Digest == child.Digest }) {
				p.layers = append(p.layers, child)
			}
		}
		return children, nil
	})
}

// fits refuses an image for another kind of machine. An index of images for
// several has been searched for this one before.
func (s *Store) fits(ctx context.Context, ref string, desc ocispec.Descriptor) error {
	has, err := s.readConfig(ctx, ref, desc)
	if err == nil && has.OS != "" && !platform().Match(has.Platform) {
		return wrongPlatform(ref, has.OS+"/"+has.Architecture)
	}
	return err
}

// finish creates the root of an image that was unpacked, and labels the image as
// complete and as this node's.
func (s *Store) finish(ctx context.Context, one client.Image) (Image, error) {
	manifest, err := images.Manifest(ctx, one.ContentStore(), one.Target(), platform())
	if err != nil {
		return Image{}, explain(one.Name(), err)
	}
	var size int64
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	root, found, err := s.makeRoot(ctx, one)
	if err != nil {
		return Image{}, explain(one.Name(), err)
	}
	labels := map[string]string{
		labelOwner: s.cfg.DataDir, labelRoot: root, labelDistribution: found.distribution, labelShell: found.shell, labelBytes: strconv.FormatInt(size, 10),
		labelUsed: strconv.FormatInt(time.Now().Unix(), 10),
	}
	var paths []string
	for key := range labels {
		paths = append(paths, "labels."+key)
	}
	if _, err := s.cfg.Client.ImageService().Update(ctx, images.Image{Name: one.Name(), Target: one.Target(), Labels: labels}, paths...); err != nil {
		return Image{}, fmt.Errorf("label image %s: %w", one.Name(), err)
	}
	return s.Get(ctx, one.Name(), "")
}

// progressOf counts what a pull has downloaded.
func (s *Store) progressOf(ctx context.Context, p *pull) Progress {
	p.mu.Lock()
	out, layers := p.progress, slices.Clone(p.layers)
	p.mu.Unlock()
	store := s.cfg.Client.ContentStore()
	active, err := store.ListStatuses(ctx)
	if err != nil {
		return out // containerd does not answer; the pull will say so
	}
	for _, layer := range layers {
		out.Layers, out.Bytes = out.Layers+1, out.Bytes+layer.Size
		key := remotes.MakeRefKey(ctx, layer)
		at := slices.IndexFunc(active, func(status content.Status) bool { return status.Ref == key })
		if at >= 0 {
			out.BytesDone += min(active[at].Offset, layer.Size)
			continue
		}
		if _, err := store.Info(ctx, layer.Digest); err == nil || out.Phase == Preparing {
			out.LayersDone, out.BytesDone = out.LayersDone+1, out.BytesDone+layer.Size
		}
	}
	return out
}
