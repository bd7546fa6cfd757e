// Package image brings container images to nodes. Images is its service.
//
// The node pulls, lists and deletes; this package decides which images an
// organisation's agents may use, verifies their signatures before they are pulled where a
// rule asks for it (verify.go), stores the credentials and mirrors of its registries
// (passwords are encrypted at rest and never returned), and deletes from the nodes what
// nothing needs any more. Errors about an image have the code fault.ImageUnavailable and
// say what to do. If the database is not reachable, nothing is pulled or deleted.
package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/bytestream"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Config holds the dependencies of Images.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Vault    *vault.Vault
	Redact   *redact.Redactor
	// Node returns the live link to a node, or an error of kind Unavailable.
	Node func(nodeID string) (machine.Link, error)
	Log  hclog.Logger
}

// Images brings images to nodes.
type Images struct{ cfg Config }

// New creates Images.
func New(cfg Config) *Images { return &Images{cfg} }

// Wanted is an image that is to be on a node.
type Wanted struct {
	// Name is what a persona or a person calls it.
	Name string
	// Pinned is the reference with the digest that the name had before; empty for the one
	// that it has now.
	Pinned string
	// Jail is the persona's jail that is to be made from it; the zero value for none. If the
	// node has the image prepared with the jail's setup, Pull returns that.
	Jail persona.Jail
	// Found says that the name comes from a file of the workspace and not from a person.
	Found bool
}

// Pull has a node pull an image, unless it has it, and returns it. tell is called with
// the progress of the pull, if there is one.
func (i *Images) Pull(ctx context.Context, orgID string, link machine.Link, want Wanted, tell func(*nodev1.PullImageResponse_Progress)) (*nodev1.Image, error) {
	named, err := imageref.Parse(want.Name)
	if err != nil {
		return nil, err
	}
	rules, err := i.Rules(ctx, orgID)
	if err != nil {
		return nil, err
	}
	if err := rules.check(named, want); err != nil {
		return nil, err
	}
	req := &nodev1.PullImageRequest{Reference: cmp.Or(want.Pinned, want.Name), Setup: want.Jail.SetupDigest()}
	if req.Mirror, req.Logins, err = i.way(ctx, orgID, imageref.Registry(named)); err != nil {
		return nil, err
	}
	if req.Reference, err = i.verify(ctx, orgID, link, named, req); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := link.Images().PullImage(ctx, req)
	if err != nil {
		return nil, fault.FromGRPC(err)
	}
	for {
		res, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, fault.New(fault.Unavailable, "the node ended the pull of %s without a result", req.GetReference()).WithCode(fault.ImageUnavailable)
		case err != nil:
			return nil, fault.FromGRPC(err)
		case res.GetImage() != nil:
			return res.GetImage(), nil
		}
		tell(res.GetProgress())
	}
}

// way returns the mirror of a registry and the credentials for both.
func (i *Images) way(ctx context.Context, orgID, host string) (mirror string, logins []*nodev1.RegistryLogin, err error) {
	rows, err := i.cfg.Store.Registries(ctx, db.RegistriesParams{OrgID: orgID, Hosts: []string{host}})
	if err != nil {
		return "", nil, fmt.Errorf("load the registry %s: %w", host, err)
	}
	if len(rows) == 1 && rows[0].Mirror != "" {
		mirror = rows[0].Mirror
		at, _, _ := strings.Cut(mirror, "/")
		own, err := i.cfg.Store.Registries(ctx, db.RegistriesParams{OrgID: orgID, Hosts: []string{at}})
		if err != nil {
			return "", nil, fmt.Errorf("load the registry %s: %w", at, err)
		}
		rows = append(rows, own...)
	}
	for _, row := range rows {
		if row.Sealed == nil {
			continue
		}
		password, err := i.cfg.Vault.Open(row.Sealed, object(orgID, row.Host))
		if err != nil {
			return "", nil, fmt.Errorf("open the password of registry %s: %w", row.Host, err)
		}
		logins = append(logins, &nodev1.RegistryLogin{Host: row.Host, User: row.Username, Password: string(password)})
	}
	return mirror, logins, nil
}

// link returns the link to a node that knows images.
func (i *Images) link(on db.Node) (machine.Link, error) {
	if err := Require(on); err != nil {
		return nil, err
	}
	return i.cfg.Node(on.ID)
}

// Require returns an error if a node knows no images.
func Require(row db.Node) error { return node.Require(row, nodelink.Images, "make jails from images") }

// RequireFor returns an error if a node cannot make a persona's jail from an image.
func RequireFor(row db.Node, jail persona.Jail) error {
	// A devcontainer may give variables to commands, which came with them.
	if jail.WritableRoot || jail.RootUser || len(jail.Setup) > 0 || jail.Image == persona.DevcontainerImage {
		return node.Require(row, nodelink.WritableRoots, "make jails with writable roots, of root, from prepared images or from a devcontainer.json")
	}
	return Require(row)
}

// PhaseOf returns the phase of a pull in a word: resolving, downloading or preparing.
func PhaseOf(p *nodev1.PullImageResponse_Progress) string {
	return strings.ToLower(strings.TrimPrefix(p.GetPhase().String(), "PHASE_"))
}

// PullByPerson is Pull for a person who names the node, and is audited.
func (i *Images) PullByPerson(ctx context.Context, on db.Node, name string, by event.Actor, tell func(*nodev1.PullImageResponse_Progress)) (*nodev1.Image, error) {
	link, err := i.link(on)
	if err != nil {
		return nil, err
	}
	one, err := i.Pull(ctx, on.OrgID, link, Wanted{Name: name}, tell)
	if err != nil {
		return nil, err
	}
	return one, i.audited(ctx, on, by, "node.image_pulled", map[string]any{"reference": one.GetReference()})
}

// Import has a node keep the image of an archive under a name with a tag. next returns
// the archive's bytes, and io.EOF at the end.
func (i *Images) Import(ctx context.Context, on db.Node, name string, by event.Actor, next func() ([]byte, error)) (*nodev1.Image, error) {
	link, err := i.link(on)
	if err != nil {
		return nil, err
	}
	named, err := imageref.Parse(name)
	if err != nil {
		return nil, err
	}
	rules, err := i.Rules(ctx, on.OrgID)
	if err != nil {
		return nil, err
	}
	if err := allowed(Rules{Allow: rules.Allow}, named); err != nil {
		return nil, err
	}
	if err := i.refuseImport(ctx, on.OrgID, named); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := link.Images().ImportImage(ctx)
	if err != nil {
		return nil, fault.FromGRPC(err)
	}
	if out.Send(&nodev1.ImportImageRequest{Name: name}) == nil {
		if err := bytestream.Forward(next, func(data []byte) error { return out.Send(&nodev1.ImportImageRequest{Data: data}) }); err != nil {
			return nil, err
		}
	}
	// The response has the cause of an error of Send.
	res, err := out.CloseAndRecv()
	if err != nil {
		return nil, fault.FromGRPC(err)
	}
	return res.GetImage(), i.audited(ctx, on, by, "node.image_imported", map[string]any{"name": name, "reference": res.GetImage().GetReference()})
}

// Kept are the tasks which have not ended and keep an image on a node.
type Kept struct {
	// Tasks is how many there are, TaskIDs the ids of the oldest ones, at most 20.
	Tasks   int64
	TaskIDs []string
}

// maxKept is how many tasks of an image are named.
const maxKept = 20

// List returns the images on a node, and by their references which tasks keep them.
func (i *Images) List(ctx context.Context, on db.Node) ([]*nodev1.Image, map[string]Kept, error) {
	link, err := i.link(on)
	if err != nil {
		return nil, nil, err
	}
	res, err := link.Images().ListImages(ctx, &nodev1.ListImagesRequest{})
	if err != nil {
		return nil, nil, fault.FromGRPC(err)
	}
	kept, err := i.kept(ctx, on)
	return res.GetImages(), kept, err
}

// kept returns which tasks keep the images of a node, by pinned reference.
func (i *Images) kept(ctx context.Context, on db.Node) (map[string]Kept, error) {
	rows, err := i.cfg.Store.PinnedImages(ctx, db.PinnedImagesParams{OrgID: on.OrgID, NodeID: on.ID, MaxIds: maxKept})
	if err != nil {
		return nil, fmt.Errorf("load the images that tasks keep on node %s: %w", on.Name, err)
	}
	out := map[string]Kept{}
	for _, row := range rows {
		pinned, err := imageref.Pin(row.Image, row.ImageDigest)
		if err != nil {
			return nil, err
		}
		// Several tags may have the digest.
		all := out[pinned]
		all.Tasks += row.Tasks
		all.TaskIDs = append(all.TaskIDs, row.TaskIds[:min(len(row.TaskIds), maxKept-len(all.TaskIDs))]...)
		out[pinned] = all
	}
	return out, nil
}

// Prune deletes the images on a node that were not used for a time, except those that a
// task which has not ended keeps, and those that a jail has.
func (i *Images) Prune(ctx context.Context, on db.Node, unused time.Duration, by event.Actor) ([]*nodev1.Image, error) {
	link, err := i.link(on)
	if err != nil {
		return nil, err
	}
	gone, err := i.prune(ctx, on, link, unused)
	if err != nil || len(gone) == 0 {
		return gone, err
	}
	var names []string
	for _, one := range gone {
		names = append(names, one.GetReference())
	}
	return gone, i.audited(ctx, on, by, "node.images_pruned", map[string]any{"references": names})
}

func (i *Images) prune(ctx context.Context, on db.Node, link machine.Link, unused time.Duration) ([]*nodev1.Image, error) {
	kept, err := i.kept(ctx, on)
	if err != nil {
		return nil, err
	}
	req := &nodev1.PruneImagesRequest{Before: timestamppb.New(time.Now().Add(-unused)), Keep: slices.Sorted(maps.Keys(kept))}
	res, err := link.Images().PruneImages(ctx, req)
	return res.GetDeleted(), fault.FromGRPC(err)
}

func (i *Images) audited(ctx context.Context, on db.Node, by event.Actor, action string, after map[string]any) error {
	return i.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{OrgID: on.OrgID, By: by, Action: action, ObjectKind: "node", ObjectID: on.ID, After: after})
	})
}

const (
	// CollectEvery is how often Collect is to be called.
	CollectEvery = time.Hour
	// keepUnused is for how long an image is kept that nothing uses; under disk pressure
	// it is keepUnderPressure.
	keepUnused        = 14 * 24 * time.Hour
	keepUnderPressure = time.Hour
	collectTimeout    = 2 * time.Minute
)

// Collect deletes the images that were not used for two weeks, or where the disk is
// nearly full for an hour, from all connected nodes. It also forgets which images were
// verified long ago.
func (i *Images) Collect(ctx context.Context) error {
	if err := i.cfg.Store.DeleteOldVerifiedImages(ctx, time.Now().Add(-keepVerified)); err != nil {
		return fmt.Errorf("delete old verifications of images: %w", err)
	}
	nodes, err := i.cfg.Store.NodesWithImages(ctx, nodelink.Images)
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	byNode := map[string][]db.Node{}
	for _, one := range nodes {
		byNode[one.ID] = []db.Node{one}
	}
	machine.Each(ctx, byNode, i.cfg.Node, collectTimeout, func(ctx context.Context, link machine.Link, one []db.Node) {
		unused := keepUnused
		if strings.Contains(one[0].Pressure, "disk") {
			unused = keepUnderPressure
		}
		gone, err := i.prune(ctx, one[0], link, unused)
		if err != nil {
			i.cfg.Log.Warn("cannot delete old images; will try again", "node_id", one[0].ID, "error", err)
		}
		for _, image := range gone {
			i.cfg.Log.Info("deleted an image that nothing used", "node_id", one[0].ID, "image", image.GetReference(), "bytes", image.GetBytes())
		}
	})
	return nil
}

// Rules say which images an organisation's agents may use.
type Rules struct {
	// Allow are repositories with their registries, or all below a path with /* at the
	// end; none for all.
	Allow         []string
	RequireDigest bool
	// AllowRoot lets personas have commands run as root, and set up their image.
	AllowRoot bool
}

// Rules returns the rules of an organisation.
func (i *Images) Rules(ctx context.Context, orgID string) (Rules, error) {
	return rulesOf(ctx, i.cfg.Store.Queries, orgID)
}

func rulesOf(ctx context.Context, q *db.Queries, orgID string) (Rules, error) {
	row, err := q.GetImageRules(ctx, orgID)
	if store.IsNotFound(err) {
		return Rules{}, nil
	}
	if err != nil {
		return Rules{}, fmt.Errorf("load the rules for images: %w", err)
	}
	return Rules{Allow: row.Allow, RequireDigest: row.RequireDigest, AllowRoot: row.AllowRoot}, nil
}

// SetRules replaces the rules of an organisation.
func (i *Images) SetRules(ctx context.Context, orgID string, rules Rules, by event.Actor) error {
	for _, pattern := range rules.Allow {
		if err := checkPattern("allow", pattern); err != nil {
			return err
		}
	}
	return i.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		before, err := rulesOf(ctx, tx.Queries, orgID)
		if err != nil {
			return err
		}
		if _, err := tx.PutImageRules(ctx, db.PutImageRulesParams{OrgID: orgID, Allow: append([]string{}, rules.Allow...), RequireDigest: rules.RequireDigest, AllowRoot: rules.AllowRoot, SetBy: by.ID}); err != nil {
			return fmt.Errorf("store the rules for images: %w", err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "image_rules.set", ObjectKind: "organisation", ObjectID: orgID,
			Before: map[string]any{"allow": before.Allow, "require_digest": before.RequireDigest, "allow_root": before.AllowRoot},
			After:  map[string]any{"allow": rules.Allow, "require_digest": rules.RequireDigest, "allow_root": rules.AllowRoot},
		})
	})
}

// check refuses an image that the rules do not allow, or not for such a jail.
func (r Rules) check(named imageref.Named, want Wanted) error {
	// The name alone may tell a registry something, and credentials are sent for it.
	if want.Found && len(r.Allow) == 0 {
		return fault.New(fault.Denied, "devcontainer.json names the image, and the organisation allows every image").WithCode(fault.PermissionDenied).
			WithFix("ask an administrator to say which may be used: deckhand registry rules --allow 'REGISTRY/PATH/*'")
	}
	if err := allowed(r, named); err != nil {
		return err
	}
	return r.checkRoot(want.Jail)
}

// checkRoot refuses a jail in which something runs as root, unless the rules allow it.
func (r Rules) checkRoot(jail persona.Jail) error {
	if r.AllowRoot || !jail.RootUser && len(jail.Setup) == 0 {
		return nil
	}
	key := "jail.setup"
	if jail.RootUser {
		key = "jail.user: root"
	}
	return fault.New(fault.Denied, "%s runs commands as root in the jail, and your organisation does not allow that", key).WithCode(fault.PermissionDenied).
		WithFix("ask an administrator to run: deckhand registry rules --allow-root")
}

// AllowRoot refuses a jail in which something runs as root, unless the organisation's rules
// allow it.
func (i *Images) AllowRoot(ctx context.Context, orgID string, jail persona.Jail) error {
	rules, err := i.Rules(ctx, orgID)
	if err != nil {
		return err
	}
	return rules.checkRoot(jail)
}

// checkPattern refuses a pattern that matches no image. field is where it was given.
func checkPattern(field, pattern string) error {
	name := pattern
	if above, wild := strings.CutSuffix(pattern, "/*"); wild {
		name = above + "/name"
	}
	if !imageref.IsRepository(name) {
		return fault.New(fault.Invalid, "%s has %q, which no image can match", field, pattern).
			WithFix("write a repository with its registry, such as ghcr.io/team/app, or ghcr.io/team/* for all below it")
	}
	return nil
}

// allowed refuses an image that the rules do not allow.
func allowed(rules Rules, named imageref.Named) error {
	ok := len(rules.Allow) == 0 || slices.ContainsFunc(rules.Allow, func(pattern string) bool {
		below, wild := strings.CutSuffix(pattern, "*")
		return pattern == named.Name() || wild && strings.HasPrefix(named.Name(), below)
	})
	switch {
	case !ok:
		return fault.New(fault.Denied, "the organisation does not allow image %s; it allows: %s", named, strings.Join(rules.Allow, ", ")).
			WithCode(fault.ImageUnavailable).WithFix("use an image that is allowed, or have an administrator allow it: deckhand registry rules --allow %s", named.Name())
	case rules.RequireDigest && !imageref.HasDigest(named):
		return fault.New(fault.Denied, "image %s names no digest, and the organisation requires one", named).
			WithCode(fault.ImageUnavailable).WithFix("write it as %s@sha256:DIGEST; deckhand node image pull NODE %s shows the digest", named.Name(), named)
	}
	return nil
}
