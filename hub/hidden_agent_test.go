package hub_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// ofAgents are the fields by which requests name agents and what hangs on them.
var ofAgents = []string{
	"agent_id", "task_id", "task_ids", "step_id", "subject_id", "exec_id", "item_id", "trigger_id", "delivery_id", "rule_id", "object_id", "open", "from", "begin",
}

// Every procedure, called by somebody who does not see an agent, behaves as if there were
// neither the agent nor anything of it: what names it is not found, and nothing that is
// returned, listed or streamed mentions it. A new procedure is walked by itself: only what
// concerns administrators, workers and nodes is left out, since they see all.
func TestAPrivateAgentDoesNotExistForOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("calls come one after the other: there is no race in it")
	}
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	s := openStore(t, h)
	in := housed(t, h, s, "hidden")
	conn, err := pgx.Connect(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	for _, sql := range []string{
		"UPDATE agents SET name = 'hidden-thing', visibility = 'private' WHERE org_id = $1",
		"UPDATE organisations SET tasks_shared = true WHERE id = $1", // which shares no more than the agents that one sees
		`INSERT INTO holds (id, org_id, scope, object_id, held_by, reason) SELECT 'hold_hidden', org_id, 'agent', id, 'ann', 'hidden-thing' FROM agents WHERE org_id = $1`,
		"UPDATE node_locks SET released_at = now(), released_by = 'ann' WHERE org_id = $1 AND released_at IS NULL",
		`INSERT INTO node_locks (id, org_id, node_id, user_id, user_name, reason, task_id, step_id, expires_at, agent_hidden)
		 SELECT 'lock_hidden', t.org_id, n.id, t.agent_id, 'agent hidden-thing', 'hidden-thing', t.id, s.id, now() + interval '1 hour', true
		 FROM tasks t JOIN steps s ON s.task_id = t.id JOIN nodes n ON n.org_id = t.org_id WHERE t.org_id = $1 LIMIT 1`,
	} {
		_, err := conn.Exec(t.Context(), sql, in.org)
		require.NoError(t, err, sql)
	}
	do(t, h.Client(t, in.tokens[admin]).Credentials.CreateCredential, &deckhandv1.CreateCredentialRequest{
		Name: "hidden", Kind: "bearer", Hosts: []string{"api.example.com"}, Agents: []string{"hidden-thing"},
		Value: &deckhandv1.CredentialValue{Token: "dGhlIHdhbGs9k2Lq"},
	})
	mentions := []string{"hidden-thing", in.agent, in.task, in.step, in.exec, in.item, in.trigger, in.delivery, in.rule}
	walked, named := 0, 0
	for _, m := range procedures() {
		name := string(m.Name())
		rule, ok := auth.RuleOf(path(m))
		require.True(t, ok, name)
		if rule.Public || rule.Kind != auth.User || rule.Operator || rule.Role == "admin" {
			continue
		}
		request := in.request(m.Input())
		bare := map[string]any{}
		for field, value := range request {
			if !slices.Contains(ofAgents, field) {
				bare[field] = value
			}
		}
		for _, who := range []string{peer, mate} {
			if len(bare) < len(request) {
				code, text := call(t, h.URL(), in.tokens[who], m, request)
				require.Equal(t, "not_found", code, "%s by %s: %s", name, who, text)
				named++
			}
			if auth.Reads(path(m)) {
				_, text := call(t, h.URL(), in.tokens[who], m, bare)
				for _, word := range mentions {
					require.NotContains(t, text, word, "%s by %s", name, who)
				}
				walked++
			}
		}
	}
	require.Greater(t, named, 100)
	require.Greater(t, walked, 80)

	// To its owner and administrators all of it is there.
	for _, who := range []string{owner, admin} {
		for _, name := range []string{"ListAgents", "ListTasks", "ListTriggers", "ListInbox", "ListAllowRules", "ListHolds", "ListCredentials", "Watch"} {
			code, text := call(t, h.URL(), in.tokens[who], procedure(t, name), map[string]any{})
			require.Empty(t, code, text)
			require.True(t, slices.ContainsFunc(mentions, func(word string) bool { return strings.Contains(text, word) }), "%s by %s: %s", name, who, text)
		}
	}
}
