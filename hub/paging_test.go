package hub_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// A task of thousands of long steps is listed in pages of a few megabytes, in
// order, each step once; what is sealed is not read.
func TestStepsAreListedInPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	task := r.submit("walker").GetId()
	const steps, each = 5000, 10 << 10
	// Their text does not compress, as that of commands does not much.
	r.exec(fmt.Sprintf(`INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments, arguments_sealed,
		arguments_digest, observation, state)
		SELECT 'step_' || lpad(n::text, 6, '0'), t.org_id, t.id, n, n, 0, 'c', 1, 'file_list', 'safe', jsonb_build_object('path', left(x.long, %d)), '\x00', '\x00', x.long, 'granted'
		FROM tasks t, generate_series(1, %d) AS n,
			(SELECT string_agg(md5(i::text), '') AS long FROM generate_series(1, %d) AS i) AS x
		WHERE t.id = '%s'`, each, steps, each/32, task))
	list := func(token string, size int32) (*deckhandv1.ListStepsResponse, error) {
		res, err := r.user.Tasks.ListSteps(t.Context(), &deckhandv1.ListStepsRequest{TaskId: task, PageToken: token, PageSize: size})
		if err != nil {
			return nil, err
		}
		return res, nil
	}
	first, err := list("", 0)
	require.NoError(t, err)
	require.Len(t, first.GetSteps(), 100)
	next, pages := int32(1), 0
	require.NoError(t, sdk.Pages(func(token string) (string, error) {
		page, err := list(token, 500)
		if err != nil {
			return "", err
		}
		pages++
		require.Less(t, proto.Size(page), 5<<20)
		for _, step := range page.GetSteps() {
			require.Equal(t, next, step.GetNumber())
			require.Len(t, step.GetObservation(), each)
			next++
		}
		return page.GetNextPageToken(), nil
	}))
	require.EqualValues(t, steps+1, next)
	require.Greater(t, pages, steps/500, "a page of long steps has fewer")

	one, err := r.user.Tasks.ListSteps(t.Context(), &deckhandv1.ListStepsRequest{TaskId: task, StepId: "step_004711"})
	require.NoError(t, err)
	require.Len(t, one.GetSteps(), 1)
	require.EqualValues(t, 4711, one.GetSteps()[0].GetNumber())
	require.Empty(t, one.GetNextPageToken())
	brief, err := r.user.Tasks.ListSteps(t.Context(), &deckhandv1.ListStepsRequest{TaskId: task, StepId: "step_004711", Brief: true})
	require.NoError(t, err)
	require.Empty(t, brief.GetSteps()[0].GetObservation())
	require.NotEmpty(t, brief.GetSteps()[0].GetTool())
	// One step that is longer than a page is a page.
	r.exec("UPDATE steps SET observation = repeat('x', 5000000) WHERE id = 'step_000002'")
	page, err := list("", 0)
	require.NoError(t, err)
	require.Len(t, page.GetSteps(), 2)
	page, err = list(page.GetNextPageToken(), 1)
	require.NoError(t, err)
	require.EqualValues(t, 3, page.GetSteps()[0].GetNumber())
	for _, token := range []string{"garbage", "LTEg", "!"} {
		_, err = list(token, 0)
		require.True(t, fault.Is(fault.FromConnect(err), fault.Invalid), "%s: %v", token, err)
	}
}

// The lists of an organisation come in pages, each row once, also where rows have
// the same name or time.
func TestListsComeInPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	r.exec(`INSERT INTO users (id, org_id, name, role) SELECT 'user_' || n, o.id, 'u' || n, 'viewer' FROM organisations o, generate_series(1, 130) AS n`)
	r.exec(`INSERT INTO nodes (id, org_id, name, key_fingerprint) SELECT 'node_' || n, o.id, 'n' || n, 'k' || n FROM organisations o, generate_series(1, 130) AS n`)
	r.exec(`INSERT INTO api_tokens (id, org_id, kind, user_id, name, hash, created_by)
		SELECT 'token_' || n, u.org_id, 'user', u.id, 't', decode(md5(n::text), 'hex'), 'admin' FROM users u, generate_series(1, 130) AS n WHERE u.name = 'admin'`)
	r.exec(`INSERT INTO node_execs (id, org_id, node_id, target, terminal, agent_id, jail_id, argv, spec_sealed, reason, user_id, user_name)
		SELECT 'nexec_' || n, a.org_id, 'node_1', 'jail', false, a.id, 'jail_x', '{true}', '\x00', '', u.id, u.name
		FROM agents a, users u, generate_series(1, 130) AS n WHERE a.name = 'walker' AND u.name = 'admin'`)
	r.exec(`INSERT INTO sessions (id, org_id, user_id, hash, method, address, user_agent, expires_at)
		SELECT 'session_' || n, u.org_id, u.id, decode(md5(n::text), 'hex'), 'token', '', '', now() + interval '1 day'
		FROM users u, generate_series(1, 130) AS n WHERE u.name = 'admin'`)
	task := r.submit("walker").GetId()
	r.exec(fmt.Sprintf(`INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments, arguments_sealed, arguments_digest, state)
		SELECT 'step_' || n, t.org_id, t.id, n, n, 0, 'c', 1, 'file_write', 'safe', '{}', '\x00', '\x00', 'granted' FROM tasks t, generate_series(1, 130) AS n WHERE t.id = '%s'`, task))
	r.exec(`INSERT INTO step_changes (step_id, org_id, task_id, node_id, jail_id, change_id, state_before, state_after, files, changes, shared_with, unkept)
		SELECT s.id, s.org_id, s.task_id, 'node_1', 'jail_x', s.id, 1, 2, 1, '[]', '{}', 0 FROM steps s`)
	for name, c := range map[string]struct {
		first int
		page  func(token string, size int32) (ids []string, next string, err error)
	}{
		"users": {100, func(token string, size int32) (ids []string, next string, err error) {
			res, err := r.user.Users.ListUsers(t.Context(), &deckhandv1.ListUsersRequest{PageToken: token, PageSize: size})
			if err != nil {
				return nil, "", err
			}
			for _, one := range res.GetUsers() {
				ids = append(ids, one.GetId())
			}
			return ids, res.GetNextPageToken(), nil
		}},
		"nodes": {100, func(token string, size int32) (ids []string, next string, err error) {
			res, err := r.user.Nodes.ListNodes(t.Context(), &deckhandv1.ListNodesRequest{PageToken: token, PageSize: size})
			if err != nil {
				return nil, "", err
			}
			for _, one := range res.GetNodes() {
				ids = append(ids, one.GetId())
			}
			return ids, res.GetNextPageToken(), nil
		}},
		"tokens": {100, func(token string, size int32) (ids []string, next string, err error) {
			res, err := r.user.Tokens.ListTokens(t.Context(), &deckhandv1.ListTokensRequest{PageToken: token, PageSize: size})
			if err != nil {
				return nil, "", err
			}
			for _, one := range res.GetTokens() {
				ids = append(ids, one.GetId())
			}
			return ids, res.GetNextPageToken(), nil
		}},
		"sessions": {100, func(token string, size int32) (ids []string, next string, err error) {
			res, err := r.user.Sessions.ListSessions(t.Context(), &deckhandv1.ListSessionsRequest{PageToken: token, PageSize: size})
			if err != nil {
				return nil, "", err
			}
			for _, one := range res.GetSessions() {
				ids = append(ids, one.GetId())
			}
			return ids, res.GetNextPageToken(), nil
		}},
		"changes": {100, func(token string, size int32) (ids []string, next string, err error) {
			res, err := r.user.Workspaces.ListChanges(t.Context(), &deckhandv1.ListChangesRequest{TaskId: task, PageToken: token, PageSize: size})
			if err != nil {
				return nil, "", err
			}
			for _, one := range res.GetSteps() {
				ids = append(ids, one.GetStepId())
			}
			return ids, res.GetNextPageToken(), nil
		}},
		"commands": {50, func(token string, size int32) (ids []string, next string, err error) {
			res, err := r.user.NodeExecs.ListNodeExecs(t.Context(), &deckhandv1.ListNodeExecsRequest{PageToken: token, PageSize: size})
			if err != nil {
				return nil, "", err
			}
			for _, one := range res.GetExecs() {
				ids = append(ids, one.GetId())
			}
			return ids, res.GetNextPageToken(), nil
		}},
	} {
		ids, _, err := c.page("", 0)
		require.NoError(t, err, name)
		require.Len(t, ids, c.first, name)
		seen, largest := map[string]bool{}, 0
		require.NoError(t, sdk.Pages(func(token string) (string, error) {
			ids, next, err := c.page(token, 7)
			for _, id := range ids {
				require.False(t, seen[id], "%s: %s comes twice", name, id)
				seen[id] = true
			}
			largest = max(largest, len(ids))
			return next, err
		}), name)
		require.GreaterOrEqual(t, len(seen), 130, name)
		require.Equal(t, 7, largest, name)
		_, _, err = c.page(strings.Repeat("x", 9), 0)
		require.True(t, fault.Is(fault.FromConnect(err), fault.Invalid), "%s: %v", name, err)
		_, _, err = c.page("", 501)
		require.True(t, fault.Is(fault.FromConnect(err), fault.Invalid), "%s: %v", name, err)
	}
}

// bounded are the lists without pages, and why they need none.
var bounded = map[string]string{
	"ListEvents":      "they are numbered: before_seq and after_seq go on, and page_size bounds a page",
	"ListPacks":       "a node has a few, each of hundreds of megabytes",
	"SearchKnowledge": "the best passages, at most 50: what follows fits worse",
	"SearchNodeLog":   "the log is searched from offset on, and next_offset goes on",
}

// Every list can be read in pages, in the one way in which all of them can, but those
// that are bounded otherwise.
func TestEveryListHasPages(t *testing.T) {
	t.Parallel()
	exceptions := maps.Clone(bounded)
	for _, m := range procedures() {
		name := string(m.Name())
		if !strings.HasPrefix(name, "List") && !strings.HasPrefix(name, "Search") {
			continue
		}
		if _, is := exceptions[name]; is {
			delete(exceptions, name)
			continue
		}
		kinds := map[string]protoreflect.Kind{}
		for _, fields := range []protoreflect.FieldDescriptors{m.Input().Fields(), m.Output().Fields()} {
			for i := range fields.Len() {
				kinds[string(fields.Get(i).Name())] = fields.Get(i).Kind()
			}
		}
		require.Equal(t, protoreflect.Int32Kind, kinds["page_size"], "%s returns everything at once", name)
		require.Equal(t, protoreflect.StringKind, kinds["page_token"], name)
		require.Equal(t, protoreflect.StringKind, kinds["next_page_token"], name)
	}
	require.Empty(t, exceptions, "there are no such lists")
}

// What an organisation has set up is listed in pages as well, in one order, each row
// once, also where rows have the same time.
func TestWhatIsSetUpIsListedInPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	task := r.submit("walker").GetId()
	const many = "generate_series(1, 130) AS n"
	for _, sql := range []string{
		`INSERT INTO access_rules (org_id, what, networks, changed_by) SELECT 'org_default', 'NodeService/Method' || n, '{10.0.0.0/8}', 'admin' FROM ` + many,
		`INSERT INTO organisations (id, name) SELECT 'org_' || n, 'o' || n FROM ` + many,
		`INSERT INTO teams (id, org_id, name, role) SELECT 'team_' || n, 'org_default', 't' || n, 'viewer' FROM ` + many,
		`INSERT INTO destinations (id, org_id, name, kind, spec, state, reason, after_xid, after_id, created_by)
			SELECT 'dest_' || n, 'org_default', 'd' || n, 'nats', '{}', 'disabled', 'x', '0', 0, 'admin' FROM ` + many,
		`INSERT INTO workers (id, org_id, name, pool, slots, version) SELECT 'worker_' || n, 'org_default', 'w' || n % 3, 'default', 1, 'x' FROM ` + many,
		`INSERT INTO allow_rules (id, org_id, tool, scope, description, item_id, created_by, created_at, expires_at)
			SELECT 'rule_' || n, 'org_default', 'shell_exec', 'tool', 'x', 'i', 'admin', now() - n % 3 * interval '1 second', now() + interval '1 day' FROM ` + many,
		`INSERT INTO credentials (org_id, provider, base_url, hint, connected_by) SELECT 'org_default', 'p' || n, 'http://x', '', 'admin' FROM ` + many,
		`INSERT INTO egress_credentials (org_id, name, kind, hosts, ports, methods, paths, private, agents, settings, variable, roots, sealed, version, created_by, rotated_by)
			SELECT 'org_default', 'c' || n, 'bearer', '{a.example}', '{}', '{}', '{}', false, '{}', '{}', '', '', '\x00', 'v', 'admin', 'admin' FROM ` + many,
		`INSERT INTO credential_requests (org_id, id, credential, node_id, jail_id, exec_id, task_id, method, host, path, status, sent_bytes, received_bytes, at, duration, problem)
			SELECT 'org_default', 'n' || n, 'c', 'n', 'j', '', '` + task + `', 'GET', 'a.example:443', '/', 200, 0, 0, now() - n % 3 * interval '1 second', '1 second', '' FROM ` + many,
		`INSERT INTO prices (org_id, provider, model, input, output, cache_read, cache_write, set_by)
			SELECT 'org_default', 'p', 'm' || n, 1, 1, 1, 1, 'admin' FROM ` + many,
		`INSERT INTO budgets (org_id, scope, object_id, every, limit_micros, set_by)
			SELECT 'org_default', 'user', 'u ' || n, CASE n % 2 WHEN 0 THEN 'day' ELSE 'month' END, 1, 'admin' FROM ` + many,
		`INSERT INTO holds (id, org_id, scope, object_id, held_by, reason, created_at, released_at, released_by)
			SELECT 'hold_' || n, 'org_default', 'lineage', 'x' || n, 'admin', 'x', now() - n % 3 * interval '1 second', CASE n % 2 WHEN 0 THEN now() END,
			       CASE n % 2 WHEN 0 THEN 'admin' ELSE '' END FROM ` + many,
		`INSERT INTO node_locks (id, org_id, node_id, user_id, user_name, reason, taken_at, released_at, released_by)
			SELECT 'lock_' || n, 'org_default', (SELECT id FROM nodes LIMIT 1), 'u', 'admin', 'x', now() - n % 3 * interval '1 second', now(), 'admin' FROM ` + many,
		`INSERT INTO patterns (id, org_id, owner, title, task_type, domain, keywords, approach, changed_at)
			SELECT 'pattern_' || n, 'org_default', 'admin', 'x', 'x', 'x', '{x}', '{}', now() - n % 3 * interval '1 second' FROM ` + many,
		`INSERT INTO feedback (id, org_id, subject, subject_id, verdict, given_by, given_at)
			SELECT 'feedback_' || n, 'org_default', 'pattern', 'pattern_' || n, 'correct', 'admin', now() - n % 3 * interval '1 second' FROM ` + many,
		`INSERT INTO learn_proposals (id, org_id, feedback_id, owner, note, proposed_by, created_at)
			SELECT 'proposal_' || n, 'org_default', 'feedback_' || n, 'admin', 'x', 'admin', now() - n % 3 * interval '1 second' FROM ` + many,
		`INSERT INTO checkpoints (id, task_id, iteration, org_id, attempt, state) SELECT 'ckpt_' || n, '` + task + `', n, 'org_default', 1, '{}' FROM ` + many,
		`INSERT INTO artifact_transfers (id, org_id, from_task_id, from_node_id, from_jail_id, to_jail_id, entries, files, bytes, created_by)
			SELECT 'at_' || n, 'org_default', '` + task + `', 'n', 'j', 'k', '{}', 0, 0, 'admin' FROM ` + many,
		`INSERT INTO triggers (id, org_id, agent_id, name, kind, spec, state, reason, hint, created_by)
			SELECT 'trig_' || n, a.org_id, a.id, 'g' || n, 'manual', '{}', 'disabled', 'x', '', 'admin' FROM agents a, generate_series(0, 2) AS n WHERE a.name = 'walker'`,
		`INSERT INTO node_rollouts (id, org_id, version, digests, labels, percent, max_failures, state, created_by, created_at, ended_at)
			SELECT 'rollout_' || n, 'org_default', '1.0.0', '{}', '{}', 100, 0, 'done', 'admin', now() - n / 4 * interval '1 second', now() FROM ` + many,
		`INSERT INTO deliveries (id, org_id, trigger_id, key, source, headers, body, state, reason, received_at, handled_at)
			SELECT 'dlv_' || n, 'org_default', 'trig_' || n % 3, 'k' || n, 'manual', '{}', '', 'filtered', 'x', now() - n / 4 * interval '1 second', now() FROM ` + many,
		`INSERT INTO knowledge_collections (id, org_id, scope_kind, scope_id, name, created_by) SELECT 'coll_' || n, 'org_default', 'organisation', 'org_default', 'c' || n, 'admin' FROM ` + many,
		`INSERT INTO knowledge_sources (id, org_id, collection_id, kind, created_by) VALUES ('src_1', 'org_default', 'coll_1', 'upload', 'admin')`,
		`INSERT INTO knowledge_documents (id, org_id, collection_id, source_id, path, title, format, digest, bytes, passages, length, skipped)
			SELECT 'doc_' || n, 'org_default', 'coll_1', 'src_1', 'd' || n || '.md', '', 'markdown', '', 0, 0, 0, '' FROM ` + many,
	} {
		r.exec(sql)
	}
	teams, err := sdk.All(t.Context(), r.user.Teams.ListTeams, func(token string) *deckhandv1.ListTeamsRequest {
		return &deckhandv1.ListTeamsRequest{PageToken: token}
	}, (*deckhandv1.ListTeamsResponse).GetTeams)
	require.NoError(t, err)
	require.Len(t, teams, 130, "who follows the pages has them all")
	for name, request := range map[string]map[string]any{
		"ListPatterns": {}, "ListFeedback": {}, "ListProposals": {}, "ListAccessRules": {}, "ListOrganisations": {}, "ListTeams": {}, "ListDestinations": {}, "ListWorkers": {}, "ListAllowRules": {},
		"ListProviders": {}, "ListPrices": {}, "ListBudgets": {}, "ListHolds": {"released": true}, "ListNodeLocks": {"released": true},
		"ListCredentials": {}, "ListCredentialRequests": {"taskId": task}, "ListCheckpoints": {"taskId": task}, "ListArtifacts": {"taskId": task}, "ListDeliveries": {}, "ListNodeRollouts": {},
		"ListCollections": {}, "ListDocuments": {"collectionId": "coll_1"},
	} {
		m := procedure(t, name)
		page := func(token string, size int) (rows []string, next, code string) {
			in := maps.Clone(request)
			in["pageToken"], in["pageSize"] = token, size
			code, text := call(t, r.URL(), r.AdminToken, m, in)
			if code != "" {
				return nil, "", code
			}
			var out map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(text), &out), "%s: %s", name, text)
			for field, value := range out {
				if field == "nextPageToken" {
					require.NoError(t, json.Unmarshal(value, &next))
					continue
				}
				var all []map[string]any
				require.NoError(t, json.Unmarshal(value, &all), "%s: %s", name, field)
				for _, row := range all {
					delete(row, "lastSeenAt") // it moves
					text, err := json.Marshal(row)
					require.NoError(t, err)
					rows = append(rows, string(text))
				}
			}
			return rows, next, ""
		}
		all, next, code := page("", 500)
		require.Empty(t, code, name)
		require.Empty(t, next, name)
		require.GreaterOrEqual(t, len(all), 130, name)
		first, next, _ := page("", 0)
		if require.NotEmpty(t, next, name); name == "ListDeliveries" || name == "ListCredentialRequests" {
			require.Len(t, first, 50)
		} else {
			require.Len(t, first, 100, name)
		}
		var paged []string
		require.NoError(t, sdk.Pages(func(token string) (string, error) {
			rows, next, code := page(token, 7)
			require.Empty(t, code, name)
			if next != "" {
				require.Len(t, rows, 7, name)
			}
			paged = append(paged, rows...)
			return next, nil
		}))
		require.Equal(t, all, paged, name)
		slices.Sort(paged)
		require.Len(t, slices.Compact(paged), len(all), "%s: a row comes twice", name)
		for _, bad := range []string{"xxxxxxxxx", "!"} {
			_, _, code = page(bad, 7)
			require.Equal(t, "invalid_argument", code, name)
		}
		_, _, code = page("", 501)
		require.Equal(t, "invalid_argument", code, name)
	}
}
