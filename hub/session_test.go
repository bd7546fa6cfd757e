package hub_test

import (
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/user"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/redact"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// browser is a client that has a cookie and says that it is a page of the hub.
func browser(t *testing.T, h *hubtest.Hub, cookie string) *sdk.Client {
	t.Helper()
	client, err := sdk.New(sdk.Config{URL: h.URL(), HTTPClient: &http.Client{Transport: page{cookie}}, Retries: -1})
	require.NoError(t, err)
	return client
}

type page struct{ cookie string }

func (p page) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Cookie", p.cookie)
	req.Header.Set("Origin", "http://"+req.URL.Host)
	return http.DefaultTransport.RoundTrip(req)
}

func refusedAs(t *testing.T, code connect.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, connect.CodeOf(err), "%s", err)
}

// shift runs a statement on the hub's database, for what would take hours.
func shift(t *testing.T, h *hubtest.Hub, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func whoAmI(t *testing.T, c *sdk.Client) (*deckhandv1.Session, error) {
	t.Helper()
	res, err := c.Sessions.GetSession(t.Context(), &deckhandv1.GetSessionRequest{})
	if err != nil {
		return nil, err
	}
	return res.GetSession(), nil
}

// A session is made with a token, a code or a password, says who calls, and
// ends by logging out, by time, when idle and with its token.
func TestASessionLastsUntilItIsEnded(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	admin := h.Client(t, h.AdminToken)

	ctx, call := connect.NewClientContext(t.Context())
	res, err := h.Client(t, "").Sessions.CreateSession(ctx, &deckhandv1.CreateSessionRequest{
		With: &deckhandv1.CreateSessionRequest_Token{Token: h.AdminToken},
	})
	require.NoError(t, err)
	set, err := http.ParseSetCookie(call.ResponseHeader().Get("Set-Cookie"))
	require.NoError(t, err)
	require.Equal(t, "deckhand_session", set.Name)
	require.True(t, set.HttpOnly)
	require.False(t, set.Secure, "this hub speaks plain HTTP on loopback")
	require.Equal(t, http.SameSiteStrictMode, set.SameSite)
	require.Equal(t, "/", set.Path)
	made := res.GetSession()
	require.Equal(t, "admin", made.GetUserName())
	require.Equal(t, "default", made.GetOrganisationName())
	require.Equal(t, "token", made.GetMethod())
	require.NotContains(t, res.String(), set.Value, "scripts do not see it")

	in := browser(t, h, set.Name+"="+set.Value)
	who, err := whoAmI(t, in)
	require.NoError(t, err)
	require.Equal(t, made.GetId(), who.GetId())
	require.Equal(t, "admin", who.GetRole())
	byToken, err := whoAmI(t, admin)
	require.NoError(t, err)
	require.Equal(t, who.GetUserId(), byToken.GetUserId())
	require.Empty(t, byToken.GetId())

	// The database has no more than a hash of it.
	conn, err := pgx.Connect(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var row string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT s::text FROM sessions s WHERE id = $1", made.GetId()).Scan(&row))
	require.NotContains(t, row, set.Value)

	_, err = in.Sessions.DeleteSession(t.Context(), &deckhandv1.DeleteSessionRequest{})
	require.NoError(t, err)
	_, err = whoAmI(t, in)
	refusedAs(t, connect.CodeUnauthenticated, err)

	for what, sql := range map[string]string{
		"too old":           "UPDATE sessions SET expires_at = now() - interval '1 s' WHERE ended_at IS NULL",
		"idle for too long": "UPDATE sessions SET seen_at = now() - interval '12 h 1 s' WHERE ended_at IS NULL",
	} {
		cookie := login(t, h, h.AdminToken)
		shift(t, h, sql)
		_, err = whoAmI(t, browser(t, h, cookie))
		refusedAs(t, connect.CodeUnauthenticated, err)
		list, err := admin.Sessions.ListSessions(t.Context(), &deckhandv1.ListSessionsRequest{})
		require.NoError(t, err)
		require.Empty(t, list.GetSessions(), what)
	}
	cookie := login(t, h, h.AdminToken)
	shift(t, h, "UPDATE sessions SET seen_at = now() - interval '2 min' WHERE ended_at IS NULL")
	_, err = whoAmI(t, browser(t, h, cookie))
	require.NoError(t, err)
	list, err := admin.Sessions.ListSessions(t.Context(), &deckhandv1.ListSessionsRequest{})
	require.NoError(t, err)
	require.False(t, list.GetSessions()[0].GetSeenAt().AsTime().Before(list.GetSessions()[0].GetCreatedAt().AsTime()), "it was seen")

	// A code works once, and what it makes has the rights of who made it.
	code, err := admin.Sessions.CreateLoginCode(t.Context(), &deckhandv1.CreateLoginCodeRequest{})
	require.NoError(t, err)
	use := &deckhandv1.CreateSessionRequest{With: &deckhandv1.CreateSessionRequest_Code{Code: code.GetCode()}}
	ctx, call = connect.NewClientContext(t.Context())
	res, err = h.Client(t, "").Sessions.CreateSession(ctx, use)
	require.NoError(t, err)
	require.Equal(t, "code", res.GetSession().GetMethod())
	require.Equal(t, "admin", res.GetSession().GetUserName())
	_, err = h.Client(t, "").Sessions.CreateSession(t.Context(), use)
	refusedAs(t, connect.CodeUnauthenticated, err)

	// The token's end is the end of what was made with it.
	set, err = http.ParseSetCookie(call.ResponseHeader().Get("Set-Cookie"))
	require.NoError(t, err)
	shift(t, h, "UPDATE api_tokens SET revoked_at = now() WHERE kind = 'user'")
	_, err = whoAmI(t, browser(t, h, set.Name+"="+set.Value))
	refusedAs(t, connect.CodeUnauthenticated, err)

	_, err = h.Client(t, "").Sessions.CreateSession(t.Context(), &deckhandv1.CreateSessionRequest{
		With: &deckhandv1.CreateSessionRequest_Token{Token: h.WorkerToken},
	})
	refusedAs(t, connect.CodeUnauthenticated, err)
}

// A login with a password tells nobody whether there is such a user, and
// can be tried ten times.
func TestPasswordsCannotBeGuessed(t *testing.T) {
	if testing.Short() {
		t.Skip("hashing passwords takes minutes with the race detector, and there is no race in it")
	}
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	s, err := store.Open(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	org, err := s.OrganisationByName(t.Context(), "default")
	require.NoError(t, err)
	for _, name := range []string{"alice", "bob", "gone"} {
		u, err := s.CreateUser(t.Context(), db.CreateUserParams{ID: ident.New("user"), OrgID: org.ID, Name: name, Role: "basic"})
		require.NoError(t, err)
		if name == "bob" {
			continue
		}
		users := user.New(user.Config{Store: s, Recorder: event.NewRecorder(event.RecorderConfig{
			Store: s, Redact: &redact.Redactor{}, Notify: func(string, string) {},
		})})
		require.NoError(t, users.SetPassword(t.Context(), user.PasswordChange{OrgID: org.ID, UserID: u.ID, Password: "correct horse battery", By: event.Hub}))
	}
	shift(t, h, "UPDATE users SET disabled_at = now() WHERE name = 'gone'")
	try := func(organisation, name, password string) (*deckhandv1.CreateSessionResponse, error) {
		return h.Client(t, "").Sessions.CreateSession(t.Context(), &deckhandv1.CreateSessionRequest{
			With: &deckhandv1.CreateSessionRequest_Password{Password: &deckhandv1.Password{Organisation: organisation, Name: name, Password: password}},
		})
	}
	res, err := try("", "alice", "correct horse battery")
	require.NoError(t, err)
	require.Equal(t, "basic", res.GetSession().GetRole())

	heard := map[string]bool{}
	for _, who := range [][3]string{
		{"", "alice", "wrong"},
		{"", "nobody", "correct horse battery"},
		{"", "bob", "correct horse battery"},
		{"", "gone", "correct horse battery"},
		{"elsewhere", "alice", "correct horse battery"},
		{"", "alice' OR '1'='1", "x"},
		{"", "alice", strings.Repeat("x", 72)},
	} {
		_, err = try(who[0], who[1], who[2])
		refusedAs(t, connect.CodeUnauthenticated, err)
		heard[err.Error()] = true
	}
	require.Len(t, heard, 1, "all hear the same")

	// Two were alice's. Guesses at names that do not exist are counted, too.
	for _, name := range []string{"alice", "nobody"} {
		for range 8 {
			_, err = try("", name, "wrong")
			refusedAs(t, connect.CodeUnauthenticated, err)
		}
		if name == "nobody" {
			_, err = try("", name, "wrong")
			refusedAs(t, connect.CodeUnauthenticated, err)
		}
		_, err = try("", name, "correct horse battery")
		refusedAs(t, connect.CodeResourceExhausted, err)
		var refused *connect.Error
		require.ErrorAs(t, err, &refused)
		require.NotEmpty(t, refused.Meta().Get("Retry-After"))
	}
	_, err = whoAmI(t, h.Client(t, h.AdminToken))
	require.NoError(t, err, "who has a token goes on")

	shift(t, h, "UPDATE login_attempts SET since = since - interval '10 min'")
	_, err = try("", "alice", "correct horse battery")
	require.NoError(t, err, "after a while it may be tried again")

	// From one address thirty may fail, whatever is tried.
	bad := &deckhandv1.CreateSessionRequest{With: &deckhandv1.CreateSessionRequest_Code{Code: "dhc_x"}}
	for range 30 {
		_, err = h.Client(t, "").Sessions.CreateSession(t.Context(), bad)
		refusedAs(t, connect.CodeUnauthenticated, err)
	}
	_, err = h.Client(t, "").Sessions.CreateSession(t.Context(), bad)
	refusedAs(t, connect.CodeResourceExhausted, err)

	entries, err := h.Client(t, h.AdminToken).Audit.ListAuditEntries(t.Context(), &deckhandv1.ListAuditEntriesRequest{
		Action: "session.refused", PageSize: 100,
	})
	require.NoError(t, err)
	require.Len(t, entries.GetEntries(), 6+8+9+30, "passwords that were tried in an organisation that there is, and codes")
	for _, e := range entries.GetEntries() {
		require.NotContains(t, e.String(), "horse")
		require.NotEmpty(t, e.GetAddress())
	}
}

// pgExec runs statements on the hub's database.
func pgExec(t *testing.T, h *hubtest.Hub, sql string) (int64, error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	tag, err := conn.Exec(t.Context(), sql)
	return tag.RowsAffected(), err
}

func openStore(t *testing.T, h *hubtest.Hub) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func userToken(t *testing.T, s *store.Store, orgID, name, role string) string {
	t.Helper()
	u, err := s.CreateUser(t.Context(), db.CreateUserParams{ID: ident.New("user"), OrgID: orgID, Name: name, Role: role})
	require.NoError(t, err)
	token, err := auth.NewTokens(s).Create(t.Context(), orgID, auth.User, u.ID, name, 0)
	require.NoError(t, err)
	return token
}

// login returns the Cookie header of a session that was made with a token.
func login(t *testing.T, h *hubtest.Hub, token string) string {
	t.Helper()
	ctx, call := connect.NewClientContext(t.Context())
	_, err := h.Client(t, "").Sessions.CreateSession(ctx, &deckhandv1.CreateSessionRequest{
		With: &deckhandv1.CreateSessionRequest_Token{Token: token},
	})
	require.NoError(t, err)
	set, err := http.ParseSetCookie(call.ResponseHeader().Get("Set-Cookie"))
	require.NoError(t, err)
	return set.Name + "=" + set.Value
}
