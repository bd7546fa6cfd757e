package hub_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// What a public procedure takes is small once it is unpacked, too.
func TestACompressedBodyIsNoLargerThanAPlainOne(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	_, _ = z.Write([]byte(`{"token":"` + strings.Repeat("x", 40<<20) + `"}`))
	require.NoError(t, z.Close())
	require.Less(t, body.Len(), 64<<10)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL()+deckhandv1connect.SessionServiceCreateSessionProcedure, &body)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Encoding", "gzip")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusTooManyRequests, res.StatusCode, "resource_exhausted")
}

// Senders that announce much and send nothing keep no room from others.
func TestAnnouncedBodiesTakeNoRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	made, err := r.user.Triggers.CreateTrigger(t.Context(), connect.NewRequest(&deckhandv1.CreateTriggerRequest{
		Name: "large", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK, AgentId: "walker",
		Spec: &deckhandv1.TriggerSpec{Goal: "look", Webhook: &deckhandv1.WebhookSpec{Verify: "token", MaxBytes: 25 << 20}},
	}))
	require.NoError(t, err)
	url := r.URL() + "/webhooks/" + made.Msg.GetTrigger().GetId()
	address := strings.TrimPrefix(r.URL(), "http://")
	for range 50 {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "POST /webhooks/%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 26214400\r\n\r\n", made.Msg.GetTrigger().GetId())
	}
	for i := range 10 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(fmt.Sprintf(`{"n":%d}`, i)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Deckhand-Token", made.Msg.GetSecret())
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		_ = res.Body.Close()
		require.NotEqual(t, http.StatusServiceUnavailable, res.StatusCode)
	}
}

// Nobody locks another out of an account by failing to log in to it.
func TestFailedLoginsFromElsewhereLockNobodyOut(t *testing.T) {
	if testing.Short() {
		t.Skip("hashing passwords takes minutes with the race detector, and there is no race in it")
	}
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.TrustedProxies = "127.0.0.1"
	h := hubtest.Start(t, cfg)
	admin := h.Client(t, h.AdminToken)
	const password = "correct horse 7 battery"
	do(t, admin.Users.SetPassword, &deckhandv1.SetPasswordRequest{Password: password})
	login := func(from, password string) error {
		_, err := via(t, h, "", from).Sessions.CreateSession(t.Context(), connect.NewRequest(&deckhandv1.CreateSessionRequest{
			With: &deckhandv1.CreateSessionRequest_Password{Password: &deckhandv1.Password{Name: "admin", Password: password}},
		}))
		return err
	}
	for range 10 {
		require.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(login("203.0.113.9", "wrong")))
	}
	require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(login("203.0.113.9", password)))
	require.NoError(t, login("198.51.100.7", password))

	// Who is logged in guesses no password either.
	for range 10 {
		refuses(t, connect.CodePermissionDenied, admin.Users.SetPassword, &deckhandv1.SetPasswordRequest{CurrentPassword: "wrong", Password: "another long one 1"})
	}
	refuses(t, connect.CodeResourceExhausted, admin.Users.SetPassword, &deckhandv1.SetPasswordRequest{CurrentPassword: password, Password: "another long one 1"})
}

// A login that fails is on record, however it was tried.
func TestFailedLoginsAreOnRecord(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	nobody := h.Client(t, "")
	for _, with := range []*deckhandv1.CreateSessionRequest{
		{With: &deckhandv1.CreateSessionRequest_Token{Token: "dhu_00000000000000000000000000"}},
		{With: &deckhandv1.CreateSessionRequest_Token{Token: h.WorkerToken}},
		{With: &deckhandv1.CreateSessionRequest_Code{Code: "dhc_00000000000000000000000000"}},
		{With: &deckhandv1.CreateSessionRequest_Password{Password: &deckhandv1.Password{Name: "admin", Password: "wrong"}}},
	} {
		refuses(t, connect.CodeUnauthenticated, nobody.Sessions.CreateSession, with)
	}
	entries := do(t, h.Client(t, h.AdminToken).Audit.ListAuditEntries, &deckhandv1.ListAuditEntriesRequest{Action: "session.refused"}).GetEntries()
	var how []string
	for _, e := range entries {
		how = append(how, e.GetObjectId())
		require.NotEmpty(t, e.GetAddress())
		require.NotEmpty(t, e.GetReason())
	}
	require.ElementsMatch(t, []string{"token", "token", "code", "password"}, how)
}

// An access rule holds for callers on the hub's machine, such as a proxy that
// says nothing of itself, and for logins.
func TestAccessRulesHoldOnTheHubsMachine(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	local := h.Client(t, h.AdminToken)
	made := do(t, local.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "file of mine"})
	mine := h.Client(t, made.GetSecret())
	do(t, mine.Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
	do(t, local.Access.SetAccessRule, &deckhandv1.SetAccessRuleRequest{What: "*", Networks: []string{"10.1.0.0/16"}, Force: true})
	refuses(t, connect.CodePermissionDenied, mine.Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
	refuses(t, connect.CodePermissionDenied, h.Client(t, "").Sessions.CreateSession, &deckhandv1.CreateSessionRequest{
		With: &deckhandv1.CreateSessionRequest_Token{Token: made.GetSecret()},
	})
	do(t, local.Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
}
