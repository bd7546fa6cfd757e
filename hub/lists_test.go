package hub_test

import (
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// A task of thousands of long steps is listed in pages of a few megabytes, in
// order, each step once; what is sealed is not read.
func TestStepsAreListedInPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Config(t), nil)
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
		res, err := r.user.Tasks.ListSteps(t.Context(), connect.NewRequest(&deckhandv1.ListStepsRequest{TaskId: task, PageToken: token, PageSize: size}))
		if err != nil {
			return nil, err
		}
		return res.Msg, nil
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

	one, err := r.user.Tasks.ListSteps(t.Context(), connect.NewRequest(&deckhandv1.ListStepsRequest{TaskId: task, StepId: "step_004711"}))
	require.NoError(t, err)
	require.Len(t, one.Msg.GetSteps(), 1)
	require.EqualValues(t, 4711, one.Msg.GetSteps()[0].GetNumber())
	require.Empty(t, one.Msg.GetNextPageToken())
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
	r := newRig(t, hubtest.Config(t), nil)
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
			res, err := r.user.Users.ListUsers(t.Context(), connect.NewRequest(&deckhandv1.ListUsersRequest{PageToken: token, PageSize: size}))
			if err != nil {
				return nil, "", err
			}
			for _, one := range res.Msg.GetUsers() {
				ids = append(ids, one.GetId())
			}
			return ids, res.Msg.GetNextPageToken(), nil
		}},
		"nodes": {100, func(token string, size int32) (ids []string, next string, err error) {
			res, err := r.user.Nodes.ListNodes(t.Context(), connect.NewRequest(&deckhandv1.ListNodesRequest{PageToken: token, PageSize: size}))
			if err != nil {
				return nil, "", err
			}
			for _, one := range res.Msg.GetNodes() {
				ids = append(ids, one.GetId())
			}
			return ids, res.Msg.GetNextPageToken(), nil
		}},
		"tokens": {100, func(token string, size int32) (ids []string, next string, err error) {
			res, err := r.user.Tokens.ListTokens(t.Context(), connect.NewRequest(&deckhandv1.ListTokensRequest{PageToken: token, PageSize: size}))
			if err != nil {
				return nil, "", err
			}
			for _, one := range res.Msg.GetTokens() {
				ids = append(ids, one.GetId())
			}
			return ids, res.Msg.GetNextPageToken(), nil
		}},
		"sessions": {100, func(token string, size int32) (ids []string, next string, err error) {
			res, err := r.user.Sessions.ListSessions(t.Context(), connect.NewRequest(&deckhandv1.ListSessionsRequest{PageToken: token, PageSize: size}))
			if err != nil {
				return nil, "", err
			}
			for _, one := range res.Msg.GetSessions() {
				ids = append(ids, one.GetId())
			}
			return ids, res.Msg.GetNextPageToken(), nil
		}},
		"changes": {100, func(token string, size int32) (ids []string, next string, err error) {
			res, err := r.user.Workspaces.ListChanges(t.Context(), connect.NewRequest(&deckhandv1.ListChangesRequest{TaskId: task, PageToken: token, PageSize: size}))
			if err != nil {
				return nil, "", err
			}
			for _, one := range res.Msg.GetSteps() {
				ids = append(ids, one.GetStepId())
			}
			return ids, res.Msg.GetNextPageToken(), nil
		}},
		"commands": {50, func(token string, size int32) (ids []string, next string, err error) {
			res, err := r.user.NodeExecs.ListNodeExecs(t.Context(), connect.NewRequest(&deckhandv1.ListNodeExecsRequest{PageToken: token, PageSize: size}))
			if err != nil {
				return nil, "", err
			}
			for _, one := range res.Msg.GetExecs() {
				ids = append(ids, one.GetId())
			}
			return ids, res.Msg.GetNextPageToken(), nil
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
