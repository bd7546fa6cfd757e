package hub_test

import (
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// via is a client whose calls come through a proxy on the hub's machine, which
// says from where it has them.
func via(t *testing.T, h *hubtest.Hub, token, from string) *sdk.Client {
	t.Helper()
	client, err := sdk.New(sdk.Config{URL: h.URL(), Token: token, HTTPClient: &http.Client{Transport: proxied{from}}, Retries: -1})
	require.NoError(t, err)
	return client
}

type proxied struct{ from string }

func (p proxied) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Forwarded-For", p.from)
	return http.DefaultTransport.RoundTrip(req)
}

// Calls come from the networks that the organisation says, and who is
// locked out gets in on the hub's own machine.
func TestCallsComeFromAllowedNetworks(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.TrustedProxies = "127.0.0.1, 192.0.2.1"
	h := hubtest.Start(t, cfg)
	local := h.Client(t, h.AdminToken)
	inside, outside := via(t, h, h.AdminToken, "10.1.2.3"), via(t, h, h.AdminToken, "203.0.113.9")
	do(t, outside.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "a"})
	refuses(t, connect.CodeInvalidArgument, inside.Access.SetAccessRule, &deckhandv1.SetAccessRuleRequest{What: "admin", Networks: []string{"10.1.0.0/33"}})
	refuses(t, connect.CodeInvalidArgument, inside.Access.SetAccessRule, &deckhandv1.SetAccessRuleRequest{What: "NoService", Networks: []string{"10.1.0.0/16"}})
	refuses(t, connect.CodeFailedPrecondition, outside.Access.SetAccessRule, &deckhandv1.SetAccessRuleRequest{What: "admin", Networks: []string{"10.1.0.0/16"}})
	do(t, inside.Access.SetAccessRule, &deckhandv1.SetAccessRuleRequest{What: "admin", Networks: []string{"10.1.0.0/16"}})

	refuses(t, connect.CodePermissionDenied, outside.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "b"})
	do(t, outside.Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
	do(t, inside.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "b"})
	// The last address that no proxy has counts: what is before it anybody may say.
	do(t, via(t, h, h.AdminToken, "203.0.113.9, 10.1.2.3, 192.0.2.1").Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "c"})
	refuses(t, connect.CodePermissionDenied, via(t, h, h.AdminToken, "10.1.2.3, 203.0.113.9").Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "d"})
	refuses(t, connect.CodePermissionDenied, via(t, h, h.AdminToken, "127.0.0.1").Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "d"})

	do(t, inside.Access.SetAccessRule, &deckhandv1.SetAccessRuleRequest{What: "TaskService/ListTasks", Networks: []string{"2001:db8::/32"}})
	refuses(t, connect.CodePermissionDenied, inside.Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
	do(t, via(t, h, h.AdminToken, "2001:db8::7").Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
	refuses(t, connect.CodePermissionDenied, via(t, h, h.AdminToken, "2001:db8::7").Access.ListAccessRules, &deckhandv1.ListAccessRulesRequest{})

	// All are locked out but those on the hub's own machine.
	do(t, local.Access.SetAccessRule, &deckhandv1.SetAccessRuleRequest{What: "*", Networks: []string{"192.0.2.200"}, Force: true})
	refuses(t, connect.CodePermissionDenied, inside.Access.DeleteAccessRule, &deckhandv1.DeleteAccessRuleRequest{What: "*"})
	rules := do(t, local.Access.ListAccessRules, &deckhandv1.ListAccessRulesRequest{}).GetRules()
	require.Len(t, rules, 3)
	require.Equal(t, []string{"192.0.2.200/32"}, rules[0].GetNetworks())
	do(t, local.Access.DeleteAccessRule, &deckhandv1.DeleteAccessRuleRequest{What: "*"})
	do(t, inside.Access.ListAccessRules, &deckhandv1.ListAccessRulesRequest{})

	entries := do(t, local.Audit.ListAuditEntries, &deckhandv1.ListAuditEntriesRequest{Action: "access.set"}).GetEntries()
	require.Len(t, entries, 3)
	require.Equal(t, "10.1.2.3:0", entries[1].GetAddress())
}

// Nobody but a proxy is believed about where a call comes from.
func TestOnlyProxiesAreBelieved(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	do(t, h.Client(t, h.AdminToken).Access.SetAccessRule, &deckhandv1.SetAccessRuleRequest{What: "*", Networks: []string{"10.1.0.0/16"}, Force: true})
	refuses(t, connect.CodePermissionDenied, via(t, h, h.AdminToken, "10.1.2.3").Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
	do(t, h.Client(t, h.AdminToken).Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
}

// Calls are bounded by token and by address, and say when to try again.
func TestCallsAreBoundedByTokenAndAddress(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.APIRate, cfg.TrustedProxies = 1, "127.0.0.1"
	h := hubtest.Start(t, cfg)
	until := func(what string, client *sdk.Client, ordinary connect.Code) {
		for range 200 {
			_, err := whoAmI(t, client)
			if connect.CodeOf(err) == connect.CodeResourceExhausted {
				var refused *connect.Error
				require.ErrorAs(t, err, &refused)
				require.Equal(t, "1", refused.Meta().Get("Retry-After"), what)
				require.Contains(t, err.Error(), what)
				return
			}
			if ordinary == 0 {
				require.NoError(t, err)
			} else {
				require.Equal(t, ordinary, connect.CodeOf(err))
			}
		}
		require.Fail(t, "nobody stopped it", what)
	}
	other := do(t, via(t, h, h.AdminToken, "10.0.0.9").Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "other"}).GetSecret()
	until("with this token", via(t, h, h.AdminToken, "10.0.0.1"), 0)
	_, err := whoAmI(t, via(t, h, other, "10.0.0.2"))
	require.NoError(t, err, "another token, from another address")
	until("from your address", via(t, h, "dhu_made_up", "10.0.0.3"), connect.CodeUnauthenticated)
	until("from your address", via(t, h, "", "2001:db8::1"), connect.CodeUnauthenticated)
	refuses(t, connect.CodeResourceExhausted, via(t, h, "", "2001:db8::2").Sessions.GetSession, &deckhandv1.GetSessionRequest{})
	refuses(t, connect.CodeUnauthenticated, via(t, h, "", "10.0.0.4").Sessions.GetSession, &deckhandv1.GetSessionRequest{})
	for range 20 {
		do(t, via(t, h, h.WorkerToken, "10.0.0.3").Workers.RegisterWorker, &deckhandv1.RegisterWorkerRequest{Name: "w", Slots: 1})
	}
}
