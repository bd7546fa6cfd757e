package api

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/session"
	"github.com/deckhand-sh/deckhand/hub/identity/team"
	"github.com/deckhand-sh/deckhand/hub/identity/user"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// leastRole is the default role of a new user.
const leastRole = "viewer"

// People serves UserService and TeamService.
type People struct {
	Users *user.Users
	Teams *team.Teams
	// Sessions counts passwords that are guessed.
	Sessions *session.Sessions
}

func userMessage(row db.GetUserRow) *deckhandv1.User {
	u := row.User
	return &deckhandv1.User{
		Id: u.ID, Name: u.Name, Role: u.Role, EffectiveRole: row.EffectiveRole, Teams: row.Teams, Disabled: u.DisabledAt != nil,
		HasPassword: u.PasswordHash != "", CreatedAt: timestamppb.New(u.CreatedAt),
	}
}

func (h *People) user(ctx context.Context, orgID, id string) (*deckhandv1.User, error) {
	row, err := h.Users.Get(ctx, orgID, id)
	if err != nil {
		return nil, err
	}
	return userMessage(row), nil
}

// CreateUser makes one.
func (h *People) CreateUser(ctx context.Context, req *deckhandv1.CreateUserRequest) (*deckhandv1.CreateUserResponse, error) {
	who := auth.From(ctx)
	id, err := h.Users.Create(ctx, who.OrgID, req.GetName(), cmp.Or(req.GetRole(), leastRole), actor(who))
	if err != nil {
		return nil, err
	}
	m, err := h.user(ctx, who.OrgID, id)
	return &deckhandv1.CreateUserResponse{User: m}, err
}

// GetUser returns one.
func (h *People) GetUser(ctx context.Context, req *deckhandv1.GetUserRequest) (*deckhandv1.GetUserResponse, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Users.Find(ctx, org, req.GetUserId())
	if err != nil {
		return nil, err
	}
	m, err := h.user(ctx, org, id)
	return &deckhandv1.GetUserResponse{User: m}, err
}

// ListUsers returns users by name, a page at a time.
func (h *People) ListUsers(ctx context.Context, req *deckhandv1.ListUsersRequest) (*deckhandv1.ListUsersResponse, error) {
	ctx, total := withTotal(ctx, req)
	after, _, err := store.ParseNameToken(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := cmp.Or(req.GetPageSize(), listPage)
	rows, err := h.Users.List(ctx, auth.From(ctx).OrgID, after, size+1)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListUsersResponse{}
	if len(rows) > int(size) {
		rows = rows[:size]
		res.NextPageToken = store.NameToken(rows[size-1].User.Name, "")
	}
	for _, row := range rows {
		res.Users = append(res.Users, userMessage(db.GetUserRow(row)))
	}
	res.Total, err = totalMessage(total, len(rows), res.GetNextPageToken())
	return res, err
}

// UpdateUser changes one.
func (h *People) UpdateUser(ctx context.Context, req *deckhandv1.UpdateUserRequest) (*deckhandv1.UpdateUserResponse, error) {
	who := auth.From(ctx)
	id, err := h.Users.Find(ctx, who.OrgID, req.GetUserId())
	if err != nil {
		return nil, err
	}
	change := user.Change{Disabled: req.Disabled}
	if role := req.GetRole(); role != "" {
		change.Role = &role
	}
	if err := h.Users.Update(ctx, who.OrgID, id, change, actor(who)); err != nil {
		return nil, err
	}
	m, err := h.user(ctx, who.OrgID, id)
	return &deckhandv1.UpdateUserResponse{User: m}, err
}

// SetPassword sets one's own password, or anybody's.
func (h *People) SetPassword(ctx context.Context, req *deckhandv1.SetPasswordRequest) (*deckhandv1.SetPasswordResponse, error) {
	who := auth.From(ctx)
	id := who.UserID
	if ref := req.GetUserId(); ref != "" {
		var err error
		if id, err = h.Users.Find(ctx, who.OrgID, ref); err != nil {
			return nil, err
		}
	}
	keep := ""
	switch {
	case !who.Scope.All():
		return nil, fault.New(fault.Denied, "a token with a scope, or a login with one, sets no password").WithCode(fault.PermissionDenied).
			WithFix("use one without")
	case id == who.UserID:
		keep = who.SessionID
		right, err := h.Sessions.Guess(ctx, who)
		if err != nil {
			return nil, err
		}
		if err := h.Users.CheckPassword(ctx, who.OrgID, id, req.GetCurrentPassword(), who.SignedIn(auth.SignInLasts)); err != nil {
			return nil, err
		}
		right()
	case who.Role != auth.Admin:
		return nil, fault.New(fault.Denied, "setting another user's password needs the role admin, and you have %s", who.Role).
			WithCode(fault.PermissionDenied).WithFix("ask an administrator")
	}
	err := h.Users.SetPassword(ctx, user.PasswordChange{
		OrgID: who.OrgID, UserID: id, Password: req.GetPassword(), Keep: keep, RevokeTokens: req.GetRevokeTokens(), By: actor(who),
	})
	return &deckhandv1.SetPasswordResponse{}, err
}

func teamMessage(row db.GetTeamRow) *deckhandv1.Team {
	return &deckhandv1.Team{
		Id: row.Team.ID, Name: row.Team.Name, Role: row.Team.Role, Members: row.Members, CreatedAt: timestamppb.New(row.Team.CreatedAt),
	}
}

// team finds a team, changes it with do, and returns it.
func (h *People) team(ctx context.Context, ref string, do func(id string) error) (*deckhandv1.Team, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Teams.Find(ctx, org, ref)
	if err == nil {
		err = do(id)
	}
	if err != nil {
		return nil, err
	}
	row, err := h.Teams.Get(ctx, org, id)
	if err != nil {
		return nil, err
	}
	return teamMessage(row), nil
}

// CreateTeam makes one.
func (h *People) CreateTeam(ctx context.Context, req *deckhandv1.CreateTeamRequest) (*deckhandv1.CreateTeamResponse, error) {
	who := auth.From(ctx)
	id, err := h.Teams.Create(ctx, who.OrgID, req.GetName(), cmp.Or(req.GetRole(), leastRole), actor(who))
	if err != nil {
		return nil, err
	}
	row, err := h.Teams.Get(ctx, who.OrgID, id)
	return &deckhandv1.CreateTeamResponse{Team: teamMessage(row)}, err
}

// ListTeams returns all by name.
func (h *People) ListTeams(ctx context.Context, req *deckhandv1.ListTeamsRequest) (*deckhandv1.ListTeamsResponse, error) {
	rows, next, err := h.Teams.List(ctx, auth.From(ctx).OrgID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListTeamsResponse{NextPageToken: next}
	for _, row := range rows {
		res.Teams = append(res.Teams, teamMessage(db.GetTeamRow(row)))
	}
	return res, nil
}

// UpdateTeam changes its role.
func (h *People) UpdateTeam(ctx context.Context, req *deckhandv1.UpdateTeamRequest) (*deckhandv1.UpdateTeamResponse, error) {
	who := auth.From(ctx)
	m, err := h.team(ctx, req.GetTeamId(), func(id string) error { return h.Teams.SetRole(ctx, who.OrgID, id, req.GetRole(), actor(who)) })
	return &deckhandv1.UpdateTeamResponse{Team: m}, err
}

// DeleteTeam ends one.
func (h *People) DeleteTeam(ctx context.Context, req *deckhandv1.DeleteTeamRequest) (*deckhandv1.DeleteTeamResponse, error) {
	who := auth.From(ctx)
	id, err := h.Teams.Find(ctx, who.OrgID, req.GetTeamId())
	if err == nil {
		err = h.Teams.Delete(ctx, who.OrgID, id, actor(who))
	}
	return &deckhandv1.DeleteTeamResponse{}, err
}

// AddTeamMember adds a user to a team.
func (h *People) AddTeamMember(ctx context.Context, req *deckhandv1.AddTeamMemberRequest) (*deckhandv1.AddTeamMemberResponse, error) {
	who := auth.From(ctx)
	m, err := h.team(ctx, req.GetTeamId(), func(id string) error {
		member, err := h.Users.Find(ctx, who.OrgID, req.GetUserId())
		if err != nil {
			return err
		}
		return h.Teams.Add(ctx, who.OrgID, id, member, actor(who))
	})
	return &deckhandv1.AddTeamMemberResponse{Team: m}, err
}

// RemoveTeamMember removes a user from a team.
func (h *People) RemoveTeamMember(ctx context.Context, req *deckhandv1.RemoveTeamMemberRequest) (*deckhandv1.RemoveTeamMemberResponse, error) {
	who := auth.From(ctx)
	m, err := h.team(ctx, req.GetTeamId(), func(id string) error {
		member, err := h.Users.Find(ctx, who.OrgID, req.GetUserId())
		if err != nil {
			return err
		}
		return h.Teams.Remove(ctx, who.OrgID, id, member, actor(who))
	})
	return &deckhandv1.RemoveTeamMemberResponse{Team: m}, err
}
