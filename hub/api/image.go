package api

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/image"
	"github.com/deckhand-sh/deckhand/hub/fleet/image/signature"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/setup"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Images serves ImageService.
type Images struct {
	Nodes  *node.Nodes
	Images *image.Images
	Agents *agent.Service
	Setups *setup.Setups
	// Link returns the live link to a node, or an error of kind Unavailable.
	Link func(nodeID string) (machine.Link, error)
}

func (h *Images) node(ctx context.Context, ref string) (db.Node, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Nodes.Find(ctx, org, ref)
	if err != nil {
		return db.Node{}, err
	}
	row, err := h.Nodes.Get(ctx, org, id)
	return row.Node, err
}

// ListImages returns the images on a node.
func (h *Images) ListImages(ctx context.Context, req *deckhandv1.ListImagesRequest) (*deckhandv1.ListImagesResponse, error) {
	on, err := h.node(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	all, kept, err := h.Images.List(ctx, on)
	if err != nil {
		return nil, err
	}
	images := imageMessages(all)
	slices.SortFunc(images, func(a, b *deckhandv1.NodeImage) int { return strings.Compare(imageKey(a), imageKey(b)) })
	res := &deckhandv1.ListImagesResponse{}
	if res.Images, res.NextPageToken, err = store.PageOf(images, cmp.Or(req.GetPageSize(), listPage), req.GetPageToken(), imageKey); err != nil {
		return nil, err
	}
	for _, one := range res.GetImages() {
		by := kept[one.GetReference()]
		one.Tasks, one.TaskIds = by.Tasks, by.TaskIDs
	}
	return res, nil
}

// imageKey is the key of the order in which images are listed.
func imageKey(one *deckhandv1.NodeImage) string { return one.GetReference() + "\x01" + one.GetSetup() }

// PullImage has a node pull an image.
func (h *Images) PullImage(ctx context.Context, req *deckhandv1.PullImageRequest, stream *connect.ServerStream[deckhandv1.PullImageResponse]) error {
	on, err := h.node(ctx, req.GetNodeId())
	if err != nil {
		return err
	}
	one, err := h.Images.PullByPerson(ctx, on, req.GetReference(), actor(auth.From(ctx)), func(p *nodev1.PullImageResponse_Progress) {
		// If the caller is gone, ctx ends as well.
		_ = stream.Send(pullMessage(p))
	})
	if err != nil {
		return err
	}
	return stream.Send(&deckhandv1.PullImageResponse{Image: imageMessage(one)})
}

func pullMessage(p *nodev1.PullImageResponse_Progress) *deckhandv1.PullImageResponse {
	return &deckhandv1.PullImageResponse{
		Phase:  image.PhaseOf(p),
		Layers: p.GetLayers(), LayersDone: p.GetLayersDone(), Bytes: p.GetBytes(), BytesDone: p.GetBytesDone(),
	}
}

// ImportImage has a node keep the image of an archive.
func (h *Images) ImportImage(ctx context.Context, in *connect.ClientStream[deckhandv1.ImportImageRequest]) (*deckhandv1.ImportImageResponse, error) {
	if !in.Receive() {
		if in.Err() != nil {
			return nil, in.Err()
		}
		return nil, fault.New(fault.Invalid, "the import is empty").WithFix("begin with node_id and name")
	}
	on, err := h.node(ctx, in.Msg().GetNodeId())
	if err != nil {
		return nil, err
	}
	one, err := h.Images.Import(ctx, on, in.Msg().GetName(), actor(auth.From(ctx)), dataOf(in))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.ImportImageResponse{Image: imageMessage(one)}, nil
}

// PruneImages deletes images from a node.
func (h *Images) PruneImages(ctx context.Context, req *deckhandv1.PruneImagesRequest) (*deckhandv1.PruneImagesResponse, error) {
	on, err := h.node(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	gone, err := h.Images.Prune(ctx, on, req.GetUnusedFor().AsDuration(), actor(auth.From(ctx)))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.PruneImagesResponse{Deleted: imageMessages(gone)}, nil
}

func imageMessages(all []*nodev1.Image) (out []*deckhandv1.NodeImage) {
	for _, one := range all {
		out = append(out, imageMessage(one))
	}
	return out
}

func imageMessage(one *nodev1.Image) *deckhandv1.NodeImage {
	return &deckhandv1.NodeImage{
		Reference: one.GetReference(), Platform: one.GetPlatform(), Bytes: one.GetBytes(), Layers: one.GetLayers(), UsedAt: one.GetUsedAt(), Setup: one.GetSetup(),
	}
}

// SetRegistry stores credentials and a mirror for a registry.
func (h *Images) SetRegistry(ctx context.Context, req *deckhandv1.SetRegistryRequest) (*deckhandv1.SetRegistryResponse, error) {
	who := auth.From(ctx)
	row, err := h.Images.SetRegistry(ctx, image.Registry{
		OrgID: who.OrgID, Host: req.GetHost(), User: req.GetUsername(), Password: config.Secret(req.GetPassword()),
		Mirror: req.GetMirror(), By: actor(who),
	})
	if err != nil {
		return nil, err
	}
	return &deckhandv1.SetRegistryResponse{Registry: registryMessage(row)}, nil
}

// ListRegistries returns the registries that something is stored for.
func (h *Images) ListRegistries(ctx context.Context, req *deckhandv1.ListRegistriesRequest) (*deckhandv1.ListRegistriesResponse, error) {
	rows, next, err := h.Images.ListRegistries(ctx, auth.From(ctx).OrgID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListRegistriesResponse{NextPageToken: next}
	for _, row := range rows {
		res.Registries = append(res.Registries, registryMessage(row))
	}
	return res, nil
}

func registryMessage(row db.Registry) *deckhandv1.Registry {
	return &deckhandv1.Registry{
		Host: row.Host, Username: row.Username, HasPassword: row.Sealed != nil, Mirror: row.Mirror, SetBy: row.SetBy, SetAt: timestamppb.New(row.SetAt),
	}
}

// DeleteRegistry deletes what is stored for a registry.
func (h *Images) DeleteRegistry(ctx context.Context, req *deckhandv1.DeleteRegistryRequest) (*deckhandv1.DeleteRegistryResponse, error) {
	who := auth.From(ctx)
	if err := h.Images.DeleteRegistry(ctx, who.OrgID, req.GetHost(), actor(who)); err != nil {
		return nil, err
	}
	return &deckhandv1.DeleteRegistryResponse{}, nil
}

// GetImageRules returns which images the organisation's agents may use.
func (h *Images) GetImageRules(ctx context.Context, _ *deckhandv1.GetImageRulesRequest) (*deckhandv1.GetImageRulesResponse, error) {
	rules, err := h.Images.Rules(ctx, auth.From(ctx).OrgID)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetImageRulesResponse{Rules: &deckhandv1.ImageRules{Allow: rules.Allow, RequireDigest: rules.RequireDigest, AllowRoot: rules.AllowRoot}}, nil
}

// SetImageRules replaces them.
func (h *Images) SetImageRules(ctx context.Context, req *deckhandv1.SetImageRulesRequest) (*deckhandv1.SetImageRulesResponse, error) {
	who, rules := auth.From(ctx), req.GetRules()
	if err := h.Images.SetRules(ctx, who.OrgID, image.Rules{Allow: rules.GetAllow(), RequireDigest: rules.GetRequireDigest(), AllowRoot: rules.GetAllowRoot()}, actor(who)); err != nil {
		return nil, err
	}
	return &deckhandv1.SetImageRulesResponse{Rules: rules}, nil
}

// SetSignatureRule says who must have signed the images of some repositories.
func (h *Images) SetSignatureRule(ctx context.Context, req *deckhandv1.SetSignatureRuleRequest) (*deckhandv1.SetSignatureRuleResponse, error) {
	who := auth.From(ctx)
	row, err := h.Images.SetSignatureRule(ctx, who.OrgID, signature.Rule{
		Pattern: req.GetPattern(), PublicKeys: req.GetPublicKeys(), Issuer: req.GetIssuer(), Identity: req.GetIdentity(),
		IdentityRegexp: req.GetIdentityRegexp(), TrustedRoot: req.GetTrustedRoot(),
	}, actor(who))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.SetSignatureRuleResponse{Rule: signatureRuleMessage(row)}, nil
}

// ListSignatureRules returns the rules about who must have signed images.
func (h *Images) ListSignatureRules(ctx context.Context, req *deckhandv1.ListSignatureRulesRequest) (*deckhandv1.ListSignatureRulesResponse, error) {
	rows, next, err := h.Images.ListSignatureRules(ctx, auth.From(ctx).OrgID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListSignatureRulesResponse{NextPageToken: next}
	for _, row := range rows {
		res.Rules = append(res.Rules, signatureRuleMessage(row))
	}
	return res, nil
}

func signatureRuleMessage(row db.SignatureRule) *deckhandv1.SignatureRule {
	return &deckhandv1.SignatureRule{
		Pattern: row.Pattern, PublicKeys: row.PublicKeys, Issuer: row.Issuer, Identity: row.Identity, IdentityRegexp: row.IdentityRegexp,
		TrustedRootDigest: image.SignatureRule(row).TrustedRootDigest(), Signer: image.SignatureRule(row).Signer(),
		SetBy: row.SetBy, SetAt: timestamppb.New(row.SetAt),
	}
}

// DeleteSignatureRule deletes a rule.
func (h *Images) DeleteSignatureRule(ctx context.Context, req *deckhandv1.DeleteSignatureRuleRequest) (*deckhandv1.DeleteSignatureRuleResponse, error) {
	who := auth.From(ctx)
	if err := h.Images.DeleteSignatureRule(ctx, who.OrgID, req.GetPattern(), actor(who)); err != nil {
		return nil, err
	}
	return &deckhandv1.DeleteSignatureRuleResponse{}, nil
}
