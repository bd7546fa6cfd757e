package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/passkey"
	"github.com/deckhand-sh/deckhand/hub/identity/session"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Sessions serves SessionService.
type Sessions struct {
	Store    *store.Store
	Sessions *session.Sessions
	Passkeys *passkey.Service
	// Path is what browsers find the hub below; empty for the root.
	Path string
	// Public is where browsers find the hub, as far as it is known.
	Public auth.PublicURL
}

// cookie returns the header that sets the session's cookie; an empty secret deletes it.
func (h *Sessions) cookie(ctx context.Context, secret string) string {
	c := &http.Cookie{ //nolint:gosec // Secure depends on the call
		Name: auth.CookieName, Value: secret, Path: h.Path + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: auth.Secure(ctx),
	}
	if secret == "" {
		c.MaxAge = -1
	}
	return c.String()
}

// callInfo returns what is known of the call that a handler serves: its peer and headers.
func callInfo(ctx context.Context) (connect.CallInfo, error) {
	call, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return nil, errors.New("there is no call in this context")
	}
	return call, nil
}

// CreateSession logs a user in.
func (h *Sessions) CreateSession(ctx context.Context, req *deckhandv1.CreateSessionRequest) (*deckhandv1.CreateSessionResponse, error) {
	call, err := callInfo(ctx)
	if err != nil {
		return nil, err
	}
	from := session.From{Address: call.Peer().Addr, UserAgent: call.RequestHeader().Get("User-Agent")}
	var secret string
	var row db.GetSessionRow
	switch with := req.GetWith().(type) {
	case *deckhandv1.CreateSessionRequest_Token:
		secret, row, err = h.Sessions.ByToken(ctx, with.Token, from)
	case *deckhandv1.CreateSessionRequest_Code:
		secret, row, err = h.Sessions.ByCode(ctx, with.Code, from)
	case *deckhandv1.CreateSessionRequest_Password:
		p := with.Password
		secret, row, err = h.Sessions.ByPassword(ctx, p.GetOrganisation(), p.GetName(), p.GetPassword(), from)
	case *deckhandv1.CreateSessionRequest_Passkey:
		p := passkey.Proof{Challenge: with.Passkey.GetChallengeId(), Credential: with.Passkey.GetCredentialJson()}
		secret, row, err = h.Sessions.ByPasskey(ctx, from, func(ctx context.Context) (db.PasskeyOwnerRow, string, error) { return h.Passkeys.Login(ctx, p) })
	}
	if err != nil {
		return nil, err
	}
	m, err := sessionMessage(row)
	if err != nil {
		return nil, err
	}
	call.ResponseHeader().Set("Set-Cookie", h.cookie(ctx, secret))
	return &deckhandv1.CreateSessionResponse{Session: m}, nil
}

func sessionMessage(row db.GetSessionRow) (*deckhandv1.Session, error) {
	s := row.Session
	id := auth.Identity{Role: row.Role}
	if err := id.Narrow(s.Scope); err != nil {
		return nil, err
	}
	return &deckhandv1.Session{
		Id: s.ID, UserId: s.UserID, UserName: row.UserName, OrganisationId: s.OrgID, OrganisationName: row.OrganisationName,
		Role: id.Role, ReadOnly: id.Scope.ReadOnly, Services: id.Scope.Services, Method: s.Method,
		Address: s.Address, UserAgent: s.UserAgent,
		CreatedAt: timestamppb.New(s.CreatedAt), SeenAt: timestamppb.New(s.SeenAt), ExpiresAt: timestamppb.New(s.ExpiresAt),
		SignedInAt: timestamp(s.SignedInAt),
	}, nil
}

// GetSession returns who calls.
func (h *Sessions) GetSession(ctx context.Context, _ *deckhandv1.GetSessionRequest) (*deckhandv1.GetSessionResponse, error) {
	id := auth.From(ctx)
	if id.SessionID != "" {
		row, err := h.Sessions.Get(ctx, id.OrgID, id.SessionID)
		if err != nil {
			return nil, err
		}
		m, err := sessionMessage(row)
		return &deckhandv1.GetSessionResponse{Session: m}, err
	}
	org, err := h.Store.GetOrganisation(ctx, id.OrgID)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetSessionResponse{Session: &deckhandv1.Session{
		UserId: id.UserID, UserName: id.UserName, OrganisationId: id.OrgID, OrganisationName: org.Name, Role: id.Role,
		ReadOnly: id.Scope.ReadOnly, Services: id.Scope.Services, ExpiresAt: timestamp(id.ExpiresAt),
	}}, nil
}

// ListSessions returns the caller's sessions.
func (h *Sessions) ListSessions(ctx context.Context, req *deckhandv1.ListSessionsRequest) (*deckhandv1.ListSessionsResponse, error) {
	id := auth.From(ctx)
	rows, next, err := h.Sessions.List(ctx, id.OrgID, id.UserID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListSessionsResponse{NextPageToken: next}
	for _, row := range rows {
		m, err := sessionMessage(db.GetSessionRow(row))
		if err != nil {
			return nil, err
		}
		res.Sessions = append(res.Sessions, m)
	}
	return res, nil
}

// DeleteSession logs out.
func (h *Sessions) DeleteSession(ctx context.Context, req *deckhandv1.DeleteSessionRequest) (*deckhandv1.DeleteSessionResponse, error) {
	id := auth.From(ctx)
	end := req.GetSessionId()
	if end == "" {
		if end = id.SessionID; end == "" {
			return nil, fault.New(fault.Invalid, "session_id is empty, and the call came with a token and not with a session").
				WithFix("name one of ListSessions")
		}
	}
	if err := h.Sessions.End(ctx, id.OrgID, id.UserID, end, actor(id)); err != nil {
		return nil, err
	}
	if end == id.SessionID {
		call, err := callInfo(ctx)
		if err != nil {
			return nil, err
		}
		call.ResponseHeader().Set("Set-Cookie", h.cookie(ctx, ""))
	}
	return &deckhandv1.DeleteSessionResponse{}, nil
}

// CreateLoginCode creates a code for one login.
func (h *Sessions) CreateLoginCode(ctx context.Context, _ *deckhandv1.CreateLoginCodeRequest) (*deckhandv1.CreateLoginCodeResponse, error) {
	code, expires, err := h.Sessions.CreateCode(ctx, auth.From(ctx))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.CreateLoginCodeResponse{Code: code, ExpiresAt: timestamppb.New(expires), PublicUrl: h.Public.String()}, nil
}

// GetLoginMethods returns how people can log in.
func (h *Sessions) GetLoginMethods(context.Context, *deckhandv1.GetLoginMethodsRequest) (*deckhandv1.GetLoginMethodsResponse, error) {
	ok, missing := h.Passkeys.Available()
	return &deckhandv1.GetLoginMethodsResponse{Passkeys: ok, PasskeysMissing: missing, PublicUrl: h.Public.String()}, nil
}

// BeginPasskeyLogin returns a challenge for a login.
func (h *Sessions) BeginPasskeyLogin(ctx context.Context, _ *deckhandv1.BeginPasskeyLoginRequest) (*deckhandv1.BeginPasskeyLoginResponse, error) {
	call, err := callInfo(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.Sessions.Begin(ctx, call.Peer().Addr); err != nil {
		return nil, err
	}
	challenge, options, err := h.Passkeys.BeginLogin(ctx)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.BeginPasskeyLoginResponse{ChallengeId: challenge, OptionsJson: options}, nil
}
