package api

import (
	"cmp"
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/access"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Access serves AccessService.
type Access struct{ Lists *access.Lists }

// ListAccessRules returns the rules.
func (h *Access) ListAccessRules(ctx context.Context, req *connect.Request[deckhandv1.ListAccessRulesRequest]) (*connect.Response[deckhandv1.ListAccessRulesResponse], error) {
	rows, next, err := h.Lists.List(ctx, auth.From(ctx).OrgID, req.Msg.GetPageToken(), cmp.Or(req.Msg.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListAccessRulesResponse{NextPageToken: next}
	for _, r := range rows {
		res.Rules = append(res.Rules, &deckhandv1.AccessRule{
			What: r.What, Networks: r.Networks, ChangedBy: r.ChangedBy, ChangedAt: timestamppb.New(r.ChangedAt),
		})
	}
	return connect.NewResponse(res), nil
}

// SetAccessRule has calls come from some networks only.
func (h *Access) SetAccessRule(ctx context.Context, req *connect.Request[deckhandv1.SetAccessRuleRequest]) (*connect.Response[deckhandv1.SetAccessRuleResponse], error) {
	who := auth.From(ctx)
	err := h.Lists.Set(ctx, who, req.Msg.GetWhat(), req.Msg.GetNetworks(), req.Msg.GetForce(), actor(who))
	return connect.NewResponse(&deckhandv1.SetAccessRuleResponse{}), err
}

// DeleteAccessRule lets calls come from everywhere again.
func (h *Access) DeleteAccessRule(ctx context.Context, req *connect.Request[deckhandv1.DeleteAccessRuleRequest]) (*connect.Response[deckhandv1.DeleteAccessRuleResponse], error) {
	who := auth.From(ctx)
	err := h.Lists.Delete(ctx, who.OrgID, req.Msg.GetWhat(), actor(who))
	return connect.NewResponse(&deckhandv1.DeleteAccessRuleResponse{}), err
}
