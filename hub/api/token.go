package api

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/token"
	"github.com/deckhand-sh/deckhand/hub/identity/user"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Tokens serves TokenService.
type Tokens struct {
	Tokens *token.Service
	Users  *user.Users
}

func tokenMessage(t db.ListTokensRow) (*deckhandv1.Token, error) {
	var id auth.Identity
	if err := id.Narrow(t.Scope); err != nil {
		return nil, fmt.Errorf("token %s: %w", t.ID, err)
	}
	return &deckhandv1.Token{
		Id: t.ID, Kind: deckhandv1.TokenKind(enumValue(deckhandv1.TokenKind_value, "TOKEN_KIND_", t.Kind)), Name: t.Name, UserName: t.UserName,
		Role: id.Scope.Role, ReadOnly: id.Scope.ReadOnly, Services: id.Scope.Services, Pools: id.Scope.Pools, Decide: id.Scope.Decide, Mcp: id.Scope.MCP, CreatedAt: timestamppb.New(t.CreatedAt),
		CreatedBy: t.CreatedBy, ExpiresAt: timestamp(t.ExpiresAt), UsedAt: timestamp(t.UsedAt),
	}, nil
}

// CreateToken makes one.
func (h *Tokens) CreateToken(ctx context.Context, req *deckhandv1.CreateTokenRequest) (*deckhandv1.CreateTokenResponse, error) {
	who, m := auth.From(ctx), req
	d := token.Draft{
		OrgID: who.OrgID, Kind: auth.User, Name: m.GetName(), UserID: who.UserID, By: actor(who), TTL: m.GetTtl().AsDuration(),
		Scope: auth.Scope{Role: m.GetRole(), ReadOnly: m.GetReadOnly(), Services: m.GetServices(), Pools: m.GetPools(), Decide: m.GetDecide()},
	}
	if ref := m.GetUserId(); ref != "" {
		var err error
		if d.UserID, err = h.Users.Find(ctx, who.OrgID, ref); err != nil {
			return nil, err
		}
	}
	if m.GetKind() == deckhandv1.TokenKind_TOKEN_KIND_WORKER {
		if m.GetUserId() != "" {
			return nil, fault.New(fault.Invalid, "user_id is set, but a worker's token belongs to no user").WithFix("leave it out")
		}
		d.Kind, d.UserID = auth.Worker, ""
	}
	switch {
	case !who.Scope.All():
		return nil, fault.New(fault.Denied, "a token with a scope, or a login with one, makes no tokens").WithCode(fault.PermissionDenied).
			WithFix("use one without")
	case d.UserID != who.UserID && who.Role != auth.Admin:
		return nil, fault.New(fault.Denied, "creating a token for another user needs the role admin, and you have %s", who.Role).
			WithCode(fault.PermissionDenied).WithFix("ask an administrator")
	}
	id, secret, err := h.Tokens.Create(ctx, d)
	if err != nil {
		return nil, err
	}
	row, err := h.Tokens.Get(ctx, who.OrgID, id)
	if err != nil {
		return nil, err
	}
	made, err := tokenMessage(row)
	return &deckhandv1.CreateTokenResponse{Token: made, Secret: secret}, err
}

// ListTokens returns one's own tokens, or all, a page at a time.
func (h *Tokens) ListTokens(ctx context.Context, req *deckhandv1.ListTokensRequest) (*deckhandv1.ListTokensResponse, error) {
	ctx, total := withTotal(ctx, req)
	who := auth.From(ctx)
	whose := who.UserID
	if req.GetAll() {
		if who.Role != auth.Admin {
			return nil, fault.New(fault.Denied, "to list everybody's tokens needs the role admin, and you have %s", who.Role).
				WithCode(fault.PermissionDenied).WithFix("leave out all for your own")
		}
		whose = ""
	}
	rows, next, err := h.Tokens.List(ctx, who.OrgID, whose, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListTokensResponse{NextPageToken: next}
	for _, row := range rows {
		m, err := tokenMessage(row)
		if err != nil {
			return nil, err
		}
		res.Tokens = append(res.Tokens, m)
	}
	res.Total, err = totalMessage(total, len(rows), res.GetNextPageToken())
	return res, err
}

// RevokeToken ends one.
func (h *Tokens) RevokeToken(ctx context.Context, req *deckhandv1.RevokeTokenRequest) (*deckhandv1.RevokeTokenResponse, error) {
	who := auth.From(ctx)
	whose := who.UserID
	if who.Role == auth.Admin {
		whose = ""
	}
	err := h.Tokens.Revoke(ctx, who.OrgID, whose, req.GetTokenId(), actor(who))
	return &deckhandv1.RevokeTokenResponse{}, err
}

// GetTokenLimits returns how long tokens may be used.
func (h *Tokens) GetTokenLimits(ctx context.Context, _ *deckhandv1.GetTokenLimitsRequest) (*deckhandv1.GetTokenLimitsResponse, error) {
	limits, err := h.Tokens.Limits(ctx, auth.From(ctx).OrgID)
	return &deckhandv1.GetTokenLimitsResponse{Limits: tokenLimits(limits)}, err
}

// SetTokenLimits changes that.
func (h *Tokens) SetTokenLimits(ctx context.Context, req *deckhandv1.SetTokenLimitsRequest) (*deckhandv1.SetTokenLimitsResponse, error) {
	who, m := auth.From(ctx), req.GetLimits()
	limits := token.Limits{MaxTTL: m.GetMaxTtl().AsDuration(), LoginWithin: m.GetLoginWithin().AsDuration()}
	if err := h.Tokens.SetLimits(ctx, who.OrgID, limits, actor(who)); err != nil {
		return nil, err
	}
	limits, err := h.Tokens.Limits(ctx, who.OrgID)
	return &deckhandv1.SetTokenLimitsResponse{Limits: tokenLimits(limits)}, err
}

func tokenLimits(l token.Limits) *deckhandv1.TokenLimits {
	m := &deckhandv1.TokenLimits{LoginWithin: durationpb.New(l.LoginWithin)}
	if l.MaxTTL > 0 {
		m.MaxTtl = durationpb.New(l.MaxTTL)
	}
	return m
}
