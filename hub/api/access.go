package api

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/access"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Access serves AccessService.
type Access struct{ Lists *access.Lists }

// ListAccessRules returns the rules.
func (h *Access) ListAccessRules(ctx context.Context, req *deckhandv1.ListAccessRulesRequest) (*deckhandv1.ListAccessRulesResponse, error) {
	rows, next, err := h.Lists.List(ctx, auth.From(ctx).OrgID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListAccessRulesResponse{NextPageToken: next}
	for _, r := range rows {
		res.Rules = append(res.Rules, &deckhandv1.AccessRule{
			What: r.What, Networks: r.Networks, ChangedBy: r.ChangedBy, ChangedAt: timestamppb.New(r.ChangedAt),
		})
	}
	return res, nil
}

// SetAccessRule has calls come from some networks only.
func (h *Access) SetAccessRule(ctx context.Context, req *deckhandv1.SetAccessRuleRequest) (*deckhandv1.SetAccessRuleResponse, error) {
	who := auth.From(ctx)
	err := h.Lists.Set(ctx, who, req.GetWhat(), req.GetNetworks(), req.GetForce(), actor(who))
	return &deckhandv1.SetAccessRuleResponse{}, err
}

// DeleteAccessRule lets calls come from everywhere again.
func (h *Access) DeleteAccessRule(ctx context.Context, req *deckhandv1.DeleteAccessRuleRequest) (*deckhandv1.DeleteAccessRuleResponse, error) {
	who := auth.From(ctx)
	err := h.Lists.Delete(ctx, who.OrgID, req.GetWhat(), actor(who))
	return &deckhandv1.DeleteAccessRuleResponse{}, err
}
