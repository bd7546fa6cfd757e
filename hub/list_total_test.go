package hub_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// The total of a list is that of its filters and of who asks, and exact as far as is counted.
func TestListsSayHowManyThereAre(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	vera := r.as("vera", "viewer")
	first := r.submit("walker").GetId()
	tasks := func(client *sdk.Client, req *deckhandv1.ListTasksRequest) *deckhandv1.ListTasksResponse {
		t.Helper()
		return do(t, client.Tasks.ListTasks, req)
	}
	more := func(n int) {
		r.exec(fmt.Sprintf(`INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, summary, state, reason, workspace_scope, jail_id, created_by, created_by_role, correlation_id, lineage_id, created_at, finished_at)
			SELECT 'task_more_' || n, t.org_id, t.agent_id, 1, 'more', 'x', '', 'succeeded', 'done', 'agent', t.jail_id, 'admin', 'admin', 'c', 'task_more_' || n, now(), now()
			FROM tasks t, generate_series(1, %d) AS n WHERE t.id = '%s' ON CONFLICT DO NOTHING`, n, first))
	}
	more(41)
	page := tasks(r.user, &deckhandv1.ListTasksRequest{PageSize: 10, WithTotal: true})
	require.EqualValues(t, 42, page.GetTotal().GetCount())
	require.False(t, page.GetTotal().GetAtLeast())
	require.Len(t, page.GetTasks(), 10)
	require.Nil(t, tasks(r.user, &deckhandv1.ListTasksRequest{PageSize: 10, PageToken: page.GetNextPageToken(), WithTotal: true}).GetTotal(), "only the first page says it")
	require.Nil(t, tasks(r.user, &deckhandv1.ListTasksRequest{}).GetTotal(), "nobody asked")
	filtered := &deckhandv1.ListTasksRequest{Query: "MORE", States: []deckhandv1.TaskState{deckhandv1.TaskState_TASK_STATE_SUCCEEDED}, WithTotal: true}
	require.EqualValues(t, 41, tasks(r.user, filtered).GetTotal().GetCount())
	require.EqualValues(t, 0, tasks(vera, &deckhandv1.ListTasksRequest{WithTotal: true}).GetTotal().GetCount(), "what somebody does not see is not counted")
	more(store.MaxCounted + 1)
	many := tasks(r.user, &deckhandv1.ListTasksRequest{WithTotal: true}).GetTotal()
	require.EqualValues(t, store.MaxCounted, many.GetCount())
	require.True(t, many.GetAtLeast())

	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	r.park("asker", "shell_exec", `{"command":"rm -rf build"}`)
	inbox := do(t, r.user.Inbox.ListInbox, &deckhandv1.ListInboxRequest{WithTotal: true})
	require.EqualValues(t, 1, inbox.GetTotal().GetCount())
	byPlace := do(t, r.user.Inbox.ListInbox, &deckhandv1.ListInboxRequest{WithTotal: true, Order: deckhandv1.InboxOrder_INBOX_ORDER_TIME_LEFT})
	require.EqualValues(t, 1, byPlace.GetTotal().GetCount())
	// Each of the others says what its pages have together.
	for name, c := range map[string]struct{ total, rows int }{
		"agents": of(do(t, r.user.Agents.ListAgents, &deckhandv1.ListAgentsRequest{WithTotal: true}), (*deckhandv1.ListAgentsResponse).GetAgents),
		"users":  of(do(t, r.user.Users.ListUsers, &deckhandv1.ListUsersRequest{WithTotal: true}), (*deckhandv1.ListUsersResponse).GetUsers),
		"nodes":  of(do(t, r.user.Nodes.ListNodes, &deckhandv1.ListNodesRequest{WithTotal: true}), (*deckhandv1.ListNodesResponse).GetNodes),
		"tokens": of(do(t, r.user.Tokens.ListTokens, &deckhandv1.ListTokensRequest{WithTotal: true, All: true}), (*deckhandv1.ListTokensResponse).GetTokens),
		"audit entries": of(do(t, r.user.Audit.ListAuditEntries, &deckhandv1.ListAuditEntriesRequest{WithTotal: true, PageSize: 500}),
			(*deckhandv1.ListAuditEntriesResponse).GetEntries),
	} {
		require.Positive(t, c.rows, name)
		require.Equal(t, c.rows, c.total, name)
	}
	for name, total := range map[string]*deckhandv1.Total{
		"triggers":      do(t, r.user.Triggers.ListTriggers, &deckhandv1.ListTriggersRequest{WithTotal: true}).GetTotal(),
		"deliveries":    do(t, r.user.Triggers.ListDeliveries, &deckhandv1.ListDeliveriesRequest{WithTotal: true}).GetTotal(),
		"notifications": do(t, r.user.Destinations.ListNotifications, &deckhandv1.ListNotificationsRequest{WithTotal: true}).GetTotal(),
		"commands":      do(t, r.user.NodeExecs.ListNodeExecs, &deckhandv1.ListNodeExecsRequest{WithTotal: true}).GetTotal(),
		"memories":      do(t, r.user.Memories.ListMemories, &deckhandv1.ListMemoriesRequest{WithTotal: true}).GetTotal(),
		"requests":      do(t, r.user.Credentials.ListCredentialRequests, &deckhandv1.ListCredentialRequestsRequest{WithTotal: true}).GetTotal(),
	} {
		require.NotNil(t, total, name)
		require.Zero(t, total.GetCount(), name)
	}
}

// of returns the total that a page says, and how many rows it has.
func of[Page interface{ GetTotal() *deckhandv1.Total }, Row any](page Page, rows func(Page) []Row) struct{ total, rows int } {
	return struct{ total, rows int }{int(page.GetTotal().GetCount()), len(rows(page))}
}

// What a node, a task or a user has few of is listed in pages as well.
func TestShortListsComeInPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	task := r.submit("walker").GetId()
	for _, sql := range []string{
		`INSERT INTO passkeys (id, org_id, user_id, name, relying_party, credential_id, public_key, record, created_at)
			SELECT 'passkey_' || n, u.org_id, u.id, 'p' || n, 'x', decode(md5(n::text), 'hex'), '\x00', '{}', now() - n / 3 * interval '1 second' FROM users u, generate_series(1, 12) AS n WHERE u.name = 'admin'`,
		`INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments, arguments_sealed, arguments_digest, state)
			SELECT 'step_j' || n, t.org_id, t.id, n, n, 0, 'c', 1, 'shell_exec', 'safe', '{}', '\x00', '\x00', 'granted' FROM tasks t, generate_series(1, 230) AS n WHERE t.id = '` + task + `'`,
		`INSERT INTO jobs (id, org_id, task_id, step_id, exec_id, node_id, jail_id, command, state, started_at, ended_at)
			SELECT 'job_' || n, s.org_id, s.task_id, s.id, s.id, 'node_x', 'jail_x', 'true', CASE n % 5 WHEN 0 THEN 'running' ELSE 'ended' END, now() - n / 3 * interval '1 second',
			       CASE n % 5 WHEN 0 THEN NULL ELSE now() END FROM steps s, generate_series(1, 230) AS n WHERE s.id = 'step_j' || n`,
	} {
		r.exec(sql)
	}
	const files = 30
	for i := range files {
		_, err := r.node.WriteFile(t.Context(), &nodev1.WriteFileRequest{JailId: "jail_x", Path: fmt.Sprintf("f%02d", (i*7)%files), Content: []byte("x")})
		require.NoError(t, err)
	}
	jail := &deckhandv1.ListFilesRequest_Jail{Jail: &deckhandv1.JailRef{NodeId: "sim", JailId: "jail_x"}}
	for name, c := range map[string]struct {
		all  int
		page func(token string) (ids []string, next string, err error)
	}{
		"passkeys": {12, func(token string) ([]string, string, error) {
			res, err := r.user.Passkeys.ListPasskeys(t.Context(), &deckhandv1.ListPasskeysRequest{PageSize: 7, PageToken: token})
			return ids(res.GetPasskeys()), res.GetNextPageToken(), err
		}},
		"jobs": {230, func(token string) ([]string, string, error) {
			res, err := r.user.Tasks.ListJobs(t.Context(), &deckhandv1.ListJobsRequest{TaskId: task, PageSize: 7, PageToken: token})
			return ids(res.GetJobs()), res.GetNextPageToken(), err
		}},
		"files": {files, func(token string) (out []string, next string, err error) {
			res, err := r.user.Files.ListFiles(t.Context(), &deckhandv1.ListFilesRequest{Workspace: jail, PageSize: 7, PageToken: token})
			for _, f := range res.GetFiles() {
				out = append(out, f.GetPath())
			}
			return out, res.GetNextPageToken(), err
		}},
	} {
		seen := map[string]bool{}
		require.NoError(t, sdk.Pages(func(token string) (string, error) {
			ids, next, err := c.page(token)
			for _, id := range ids {
				require.False(t, seen[id], "%s: %s comes twice", name, id)
				seen[id] = true
			}
			require.LessOrEqual(t, len(ids), 7, name)
			return next, err
		}), name)
		require.Len(t, seen, c.all, name)
		_, _, err := c.page("xxxxxxxxx")
		require.True(t, fault.Is(fault.FromConnect(err), fault.Invalid), "%s: %v", name, err)
	}
	jobs := do(t, r.user.Tasks.ListJobs, &deckhandv1.ListJobsRequest{TaskId: task, PageSize: 47}).GetJobs()
	require.Equal(t, deckhandv1.JobState_JOB_STATE_RUNNING, jobs[45].GetState(), "those that run come first")
	require.Equal(t, deckhandv1.JobState_JOB_STATE_ENDED, jobs[46].GetState())
	require.Empty(t, do(t, r.user.Push.ListPushDevices, &deckhandv1.ListPushDevicesRequest{PageSize: 1}).GetNextPageToken())
	require.Empty(t, do(t, r.user.Memories.ListTaskMemories, &deckhandv1.ListTaskMemoriesRequest{TaskId: task, PageSize: 1}).GetNextPageToken())
}

// ids returns the ids of things.
func ids[T interface{ GetId() string }](things []T) (out []string) {
	for _, one := range things {
		out = append(out, one.GetId())
	}
	return out
}
