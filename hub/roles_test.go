package hub_test

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func do[Req, Res any](t *testing.T, call func(context.Context, *Req) (*Res, error), req *Req) *Res {
	t.Helper()
	res, err := call(t.Context(), req)
	require.NoError(t, err)
	return res
}

func refuses[Req, Res any](t *testing.T, code connect.Code, call func(context.Context, *Req) (*Res, error), req *Req) {
	t.Helper()
	_, err := call(t.Context(), req)
	refusedAs(t, code, err)
}

// A user has the highest of their own role and those of their teams, from
// one call to the next, and the last administrator stays one.
func TestRolesAreTheHighestOfOnesOwnAndOnesTeams(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	admin := h.Client(t, h.AdminToken)
	alice := do(t, admin.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "alice"}).GetUser()
	require.Equal(t, "viewer", alice.GetEffectiveRole())
	refuses(t, connect.CodeAlreadyExists, admin.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "alice"})
	refuses(t, connect.CodeInvalidArgument, admin.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "a\nb"})

	made := do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "laptop", UserId: "alice"})
	in := h.Client(t, made.GetSecret())
	role := func() string {
		who, err := whoAmI(t, in)
		require.NoError(t, err)
		return who.GetRole()
	}
	require.Equal(t, "viewer", role())
	do(t, admin.Teams.CreateTeam, &deckhandv1.CreateTeamRequest{Name: "ops", Role: "advanced"})
	do(t, admin.Teams.AddTeamMember, &deckhandv1.AddTeamMemberRequest{TeamId: "ops", UserId: "alice"})
	require.Equal(t, "advanced", role())
	team := do(t, admin.Teams.AddTeamMember, &deckhandv1.AddTeamMemberRequest{TeamId: "ops", UserId: "alice"}).GetTeam()
	require.Equal(t, []string{"alice"}, team.GetMembers(), "once more is harmless")
	do(t, admin.Users.UpdateUser, &deckhandv1.UpdateUserRequest{UserId: "alice", Role: "basic"})
	require.Equal(t, "advanced", role(), "the higher one counts")
	do(t, admin.Teams.UpdateTeam, &deckhandv1.UpdateTeamRequest{TeamId: "ops", Role: "viewer"})
	require.Equal(t, "basic", role())
	do(t, admin.Teams.UpdateTeam, &deckhandv1.UpdateTeamRequest{TeamId: "ops", Role: "admin"})
	require.Equal(t, "admin", role())

	// Alice is one now, by her team, and may end the other's rights, not her own.
	do(t, in.Users.UpdateUser, &deckhandv1.UpdateUserRequest{UserId: "admin", Role: "viewer"})
	for what, err := range map[string]error{
		"her team's role":   second(in.Teams.UpdateTeam(t.Context(), &deckhandv1.UpdateTeamRequest{TeamId: "ops", Role: "basic"})),
		"her membership":    second(in.Teams.RemoveTeamMember(t.Context(), &deckhandv1.RemoveTeamMemberRequest{TeamId: "ops", UserId: "alice"})),
		"her team":          second(in.Teams.DeleteTeam(t.Context(), &deckhandv1.DeleteTeamRequest{TeamId: "ops"})),
		"herself, disabled": second(in.Users.UpdateUser(t.Context(), &deckhandv1.UpdateUserRequest{UserId: "alice", Disabled: new(true)})),
	} {
		require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err), "%s: %v", what, err)
	}
	do(t, in.Users.UpdateUser, &deckhandv1.UpdateUserRequest{UserId: "admin", Role: "admin"})
	do(t, in.Teams.DeleteTeam, &deckhandv1.DeleteTeamRequest{TeamId: "ops"})
	require.Equal(t, "basic", role())

	cookie := login(t, h, made.GetSecret())
	do(t, admin.Users.UpdateUser, &deckhandv1.UpdateUserRequest{UserId: "alice", Disabled: new(true)})
	_, err := whoAmI(t, in)
	refusedAs(t, connect.CodeUnauthenticated, err)
	_, err = whoAmI(t, browser(t, h, cookie))
	refusedAs(t, connect.CodeUnauthenticated, err)
	do(t, admin.Users.UpdateUser, &deckhandv1.UpdateUserRequest{UserId: "alice", Disabled: new(false)})
	require.Equal(t, "basic", role())
	_, err = whoAmI(t, browser(t, h, cookie))
	refusedAs(t, connect.CodeUnauthenticated, err)

	entries := do(t, admin.Audit.ListAuditEntries, &deckhandv1.ListAuditEntriesRequest{ObjectId: alice.GetId(), Action: "user.changed", PageSize: 100}).GetEntries()
	require.Len(t, entries, 3)
	require.Equal(t, "viewer", entries[2].GetBefore().GetFields()["role"].GetStringValue())
	require.Equal(t, "basic", entries[2].GetAfter().GetFields()["role"].GetStringValue())
}

func second[T any](_ T, err error) error { return err }

// A token is its user's or fewer rights, ends when told to and by itself,
// and gives nobody a way to more.
func TestTokensAreNarrowAndEnd(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	admin := h.Client(t, h.AdminToken)
	for _, name := range []string{"alice", "bob"} {
		do(t, admin.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: name, Role: "basic"})
	}
	of := func(name string) *sdk.Client {
		return h.Client(t, do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "for " + name, UserId: name}).GetSecret())
	}
	alice, bob := of("alice"), of("bob")

	own := do(t, alice.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "own", Role: "admin"})
	who, err := whoAmI(t, h.Client(t, own.GetSecret()))
	require.NoError(t, err)
	require.Equal(t, "basic", who.GetRole(), "a token gives no rights")
	refuses(t, connect.CodePermissionDenied, alice.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "hers", UserId: "bob"})
	refuses(t, connect.CodePermissionDenied, alice.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "w", Kind: deckhandv1.TokenKind_TOKEN_KIND_WORKER})
	refuses(t, connect.CodePermissionDenied, alice.Tokens.ListTokens, &deckhandv1.ListTokensRequest{All: true})
	refuses(t, connect.CodeNotFound, bob.Tokens.RevokeToken, &deckhandv1.RevokeTokenRequest{TokenId: own.GetToken().GetId()})
	refuses(t, connect.CodePermissionDenied, bob.Users.SetPassword, &deckhandv1.SetPasswordRequest{UserId: "alice", Password: "correct horse battery"})
	refuses(t, connect.CodeInvalidArgument, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "x", Services: []string{"NoService"}})
	refuses(t, connect.CodeInvalidArgument, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "x", Services: []string{"WorkerService"}})

	// A token with a scope makes nothing that has none.
	narrow := do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "narrow", Services: []string{"TokenService", "UserService", "TaskService"}})
	refuses(t, connect.CodePermissionDenied, h.Client(t, narrow.GetSecret()).Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "wide"})
	refuses(t, connect.CodePermissionDenied, h.Client(t, narrow.GetSecret()).Users.SetPassword, &deckhandv1.SetPasswordRequest{Password: "correct horse battery"})
	cookie := login(t, h, narrow.GetSecret())
	refuses(t, connect.CodePermissionDenied, browser(t, h, cookie).Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "wide"})
	refuses(t, connect.CodePermissionDenied, browser(t, h, cookie).Nodes.ListNodes, &deckhandv1.ListNodesRequest{})
	do(t, browser(t, h, cookie).Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
	code := do(t, browser(t, h, cookie).Sessions.CreateLoginCode, &deckhandv1.CreateLoginCodeRequest{}).GetCode()
	again := do(t, h.Client(t, "").Sessions.CreateSession, &deckhandv1.CreateSessionRequest{With: &deckhandv1.CreateSessionRequest_Code{Code: code}})
	require.Equal(t, []string{"TokenService", "UserService", "TaskService"}, again.GetSession().GetServices())

	list := do(t, alice.Tokens.ListTokens, &deckhandv1.ListTokensRequest{}).GetTokens()
	require.Len(t, list, 2)
	require.Equal(t, "own", list[0].GetName())
	require.NotNil(t, list[0].GetUsedAt())
	require.NotContains(t, list[0].String(), own.GetSecret())
	do(t, admin.Tokens.RevokeToken, &deckhandv1.RevokeTokenRequest{TokenId: own.GetToken().GetId()})
	_, err = whoAmI(t, h.Client(t, own.GetSecret()))
	refusedAs(t, connect.CodeUnauthenticated, err)
	_, err = whoAmI(t, alice)
	require.NoError(t, err, "her other token stays")

	short := do(t, alice.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "short", Ttl: durationpb.New(time.Minute)})
	made := do(t, h.Client(t, "").Sessions.CreateSession, &deckhandv1.CreateSessionRequest{With: &deckhandv1.CreateSessionRequest_Token{Token: short.GetSecret()}})
	require.WithinDuration(t, short.GetToken().GetExpiresAt().AsTime(), made.GetSession().GetExpiresAt().AsTime(), time.Second, "a login ends with its token")
	admin2 := do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "late", Ttl: durationpb.New(time.Hour)})
	shift(t, h, "UPDATE api_tokens SET expires_at = now() WHERE id = $1", admin2.GetToken().GetId())
	_, err = whoAmI(t, h.Client(t, admin2.GetSecret()))
	refusedAs(t, connect.CodeUnauthenticated, err)

	// A worker's token is a worker's, and no person's.
	worker := do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "rack", Kind: deckhandv1.TokenKind_TOKEN_KIND_WORKER})
	refuses(t, connect.CodePermissionDenied, h.Client(t, worker.GetSecret()).Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
	do(t, h.Client(t, worker.GetSecret()).Workers.RegisterWorker, &deckhandv1.RegisterWorkerRequest{Name: "rack", Slots: 1})
	refuses(t, connect.CodeInvalidArgument, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{
		Name: "w", Kind: deckhandv1.TokenKind_TOKEN_KIND_WORKER, ReadOnly: true,
	})
	require.NotContains(t, auth.Services(), "WorkerService")
}

// A new password ends all other logins, and one's own needs the one before.
func TestAPasswordIsChangedByWhoKnowsIt(t *testing.T) {
	if testing.Short() {
		t.Skip("hashing passwords takes minutes with the race detector, and there is no race in it")
	}
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	admin := h.Client(t, h.AdminToken)
	do(t, admin.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "alice", Role: "basic"})
	refuses(t, connect.CodeInvalidArgument, admin.Users.SetPassword, &deckhandv1.SetPasswordRequest{UserId: "alice", Password: "short"})
	do(t, admin.Users.SetPassword, &deckhandv1.SetPasswordRequest{UserId: "alice", Password: "correct horse battery"})
	enter := func(password string) (*sdk.Client, error) {
		ctx, call := connect.NewClientContext(t.Context())
		_, err := h.Client(t, "").Sessions.CreateSession(ctx, &deckhandv1.CreateSessionRequest{
			With: &deckhandv1.CreateSessionRequest_Password{Password: &deckhandv1.Password{Name: "alice", Password: password}},
		})
		if err != nil {
			return nil, err
		}
		return browser(t, h, call.ResponseHeader().Get("Set-Cookie")), nil
	}
	first, err := enter("correct horse battery")
	require.NoError(t, err)
	second, err := enter("correct horse battery")
	require.NoError(t, err)
	refuses(t, connect.CodePermissionDenied, first.Users.SetPassword, &deckhandv1.SetPasswordRequest{Password: "another horse battery"})
	do(t, first.Users.SetPassword, &deckhandv1.SetPasswordRequest{Password: "another horse battery", CurrentPassword: "correct horse battery"})
	_, err = whoAmI(t, first)
	require.NoError(t, err, "this login goes on")
	_, err = whoAmI(t, second)
	refusedAs(t, connect.CodeUnauthenticated, err)
	_, err = enter("correct horse battery")
	refusedAs(t, connect.CodeUnauthenticated, err)
	_, err = enter("another horse battery")
	require.NoError(t, err)
}

// What a task may is what its submitter may still: less as soon as they are
// given less, and nothing once they are disabled.
func TestATaskLosesTheRightsThatItsSubmitterLoses(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("worker", scripted("worker"))
	ann := r.as("ann", "advanced")
	res, err := ann.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "worker", Goal: "go on"})
	require.NoError(t, err)
	lease := r.begin(res.GetTask().GetId(), 1)
	r.turn(lease, 1)
	index := int32(-1)
	propose := func(tool, arguments string) *deckhandv1.Step {
		index++
		step, err := r.propose(lease, 1, index, tool, arguments)
		require.NoError(t, err)
		return step
	}
	change := func(req *deckhandv1.UpdateUserRequest) {
		req.UserId = "ann"
		_, err := r.user.Users.UpdateUser(t.Context(), req)
		require.NoError(t, err)
	}
	require.Equal(t, stepGranted, propose("shell_exec", command("true")).GetState())
	change(&deckhandv1.UpdateUserRequest{Role: "admin"})
	require.Equal(t, stepGranted, propose("shell_exec", command("true")).GetState())
	change(&deckhandv1.UpdateUserRequest{Role: "basic"})
	denied := propose("shell_exec", command("true"))
	require.Equal(t, stepDenied, denied.GetState())
	require.Contains(t, denied.GetObservation(), "the role basic of the one who submitted the task does not allow it")
	require.Equal(t, stepGranted, propose("file_read", `{"path":"x"}`).GetState())
	change(&deckhandv1.UpdateUserRequest{Disabled: new(true)})
	denied = propose("file_read", `{"path":"x"}`)
	require.Equal(t, stepDenied, denied.GetState())
	require.Contains(t, denied.GetObservation(), "the one who submitted the task is disabled")
}
