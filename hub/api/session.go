package api

import (
	"cmp"
	"context"
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

// CreateSession logs a user in.
func (h *Sessions) CreateSession(ctx context.Context, req *connect.Request[deckhandv1.CreateSessionRequest]) (*connect.Response[deckhandv1.CreateSessionResponse], error) {
	from := session.From{Address: req.Peer().Addr, UserAgent: req.Header().Get("User-Agent")}
	var secret string
	var row db.GetSessionRow
	var err error
	switch with := req.Msg.GetWith().(type) {
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
	res := connect.NewResponse(&deckhandv1.CreateSessionResponse{Session: m})
	res.Header().Set("Set-Cookie", h.cookie(ctx, secret))
	return res, nil
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
func (h *Sessions) GetSession(ctx context.Context, _ *connect.Request[deckhandv1.GetSessionRequest]) (*connect.Response[deckhandv1.GetSessionResponse], error) {
	id := auth.From(ctx)
	if id.SessionID != "" {
		row, err := h.Sessions.Get(ctx, id.OrgID, id.SessionID)
		if err != nil {
			return nil, err
		}
		m, err := sessionMessage(row)
		return connect.NewResponse(&deckhandv1.GetSessionResponse{Session: m}), err
	}
	org, err := h.Store.GetOrganisation(ctx, id.OrgID)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&deckhandv1.GetSessionResponse{Session: &deckhandv1.Session{
		UserId: id.UserID, UserName: id.UserName, OrganisationId: id.OrgID, OrganisationName: org.Name, Role: id.Role,
		ReadOnly: id.Scope.ReadOnly, Services: id.Scope.Services, ExpiresAt: timestamp(id.ExpiresAt),
	}}), nil
}

// ListSessions returns the caller's sessions.
func (h *Sessions) ListSessions(ctx context.Context, req *connect.Request[deckhandv1.ListSessionsRequest]) (*connect.Response[deckhandv1.ListSessionsResponse], error) {
	id := auth.From(ctx)
	rows, next, err := h.Sessions.List(ctx, id.OrgID, id.UserID, req.Msg.GetPageToken(), cmp.Or(req.Msg.GetPageSize(), listPage))
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
	return connect.NewResponse(res), nil
}

// DeleteSession logs out.
func (h *Sessions) DeleteSession(ctx context.Context, req *connect.Request[deckhandv1.DeleteSessionRequest]) (*connect.Response[deckhandv1.DeleteSessionResponse], error) {
	id := auth.From(ctx)
	end := req.Msg.GetSessionId()
	if end == "" {
		if end = id.SessionID; end == "" {
			return nil, fault.New(fault.Invalid, "session_id is empty, and the call came with a token and not with a session").
				WithFix("name one of ListSessions")
		}
	}
	if err := h.Sessions.End(ctx, id.OrgID, id.UserID, end, actor(id)); err != nil {
		return nil, err
	}
	res := connect.NewResponse(&deckhandv1.DeleteSessionResponse{})
	if end == id.SessionID {
		res.Header().Set("Set-Cookie", h.cookie(ctx, ""))
	}
	return res, nil
}

// CreateLoginCode creates a code for one login.
func (h *Sessions) CreateLoginCode(ctx context.Context, _ *connect.Request[deckhandv1.CreateLoginCodeRequest]) (*connect.Response[deckhandv1.CreateLoginCodeResponse], error) {
	code, expires, err := h.Sessions.CreateCode(ctx, auth.From(ctx))
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&deckhandv1.CreateLoginCodeResponse{Code: code, ExpiresAt: timestamppb.New(expires), PublicUrl: h.Public.String()}), nil
}

// GetLoginMethods returns how people can log in.
func (h *Sessions) GetLoginMethods(context.Context, *connect.Request[deckhandv1.GetLoginMethodsRequest]) (*connect.Response[deckhandv1.GetLoginMethodsResponse], error) {
	ok, missing := h.Passkeys.Available()
	return connect.NewResponse(&deckhandv1.GetLoginMethodsResponse{Passkeys: ok, PasskeysMissing: missing, PublicUrl: h.Public.String()}), nil
}

// BeginPasskeyLogin returns a challenge for a login.
func (h *Sessions) BeginPasskeyLogin(ctx context.Context, req *connect.Request[deckhandv1.BeginPasskeyLoginRequest]) (*connect.Response[deckhandv1.BeginPasskeyLoginResponse], error) {
	if err := h.Sessions.Begin(ctx, req.Peer().Addr); err != nil {
		return nil, err
	}
	challenge, options, err := h.Passkeys.BeginLogin(ctx)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&deckhandv1.BeginPasskeyLoginResponse{ChallengeId: challenge, OptionsJson: options}), nil
}
