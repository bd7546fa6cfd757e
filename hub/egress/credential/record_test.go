package credential_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// events returns the payloads of the events of a task.
func (r *rig) events(taskID string) (out []map[string]any) {
	r.t.Helper()
	var raw []string
	require.NoError(r.t, r.conn.QueryRow(r.t.Context(), "SELECT coalesce(array_agg(payload::text ORDER BY seq), '{}') FROM events WHERE task_id = $1 AND type = 'credential_used'", taskID).Scan(&raw))
	for _, text := range raw {
		var p map[string]any
		require.NoError(r.t, json.Unmarshal([]byte(text), &p))
		out = append(out, p)
	}
	return out
}

// Records are stored once, with the task and the step of their command, and are an event of
// the task for each report and credential.
func TestRequestsAreRecordedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(bearer("api"))
	r.exec(`INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments, arguments_sealed, arguments_digest, state, node_id, jail_id)
		VALUES ('step_a', 'org_1', 'task_1', 1, 1, 0, 'c', 1, 'shell_exec', 'safe', '{}', '\x00', '\x00', 'granted', 'node_1', 'jail_1'),
		       ('step_b', 'org_1', 'task_1', 2, 2, 0, 'c', 1, 'shell_exec', 'safe', '{}', '\x00', '\x00', 'granted', 'node_1', 'jail_2')`)
	at := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	one := egresslink.Record{
		ID: "r1", JailID: jail, ExecID: "step_a", Credential: "api", Method: "POST", Host: "api.example.com:443", Path: "/v1/items?key=" + secret,
		Status: 201, SentBytes: 10, ReceivedBytes: 20, At: at, Duration: 1500 * time.Millisecond,
	}
	two, person, foreign, elsewhere := one, one, one, one
	two.ID, two.ExecID, two.Status, two.Problem = "r2", "", 0, "the server said "+secret
	person.ID, person.ExecID = "r3", "nexec_1"
	foreign.ID, foreign.JailID = "r4", "jail_9"
	elsewhere.ID, elsewhere.ExecID = "r5", "step_b" // of another jail
	report := []egresslink.Record{one, two, person, foreign, elsewhere}
	require.NoError(t, r.Record(t.Context(), org, node, report))
	require.NoError(t, r.Record(t.Context(), org, node, report))

	all, next, err := r.Requests(t.Context(), task.Viewer{OrgID: org, All: true}, "", "", "", 10)
	require.NoError(t, err)
	require.Empty(t, next)
	require.Len(t, all, 4)
	byID := map[string]string{}
	for _, m := range all {
		byID[strings.TrimPrefix(m.GetId(), node+"-")] = m.GetTaskId() + "/" + m.GetStepId()
		require.NotContains(t, m.String(), secret)
	}
	require.Equal(t, map[string]string{"r1": "task_1/step_a", "r2": "task_1/", "r3": "/", "r5": "task_1/"}, byID)
	events := r.events("task_1")
	require.Len(t, events, 1)
	require.EqualValues(t, 3, events[0]["requests"])
	require.EqualValues(t, 1, events[0]["problems"])
	require.Equal(t, []any{"step_a"}, events[0]["step_ids"])
	r.nowhere(secret)

	got, err := r.Get(t.Context(), org, "api")
	require.NoError(t, err)
	require.WithinDuration(t, at, got.GetUsedAt().AsTime(), time.Millisecond)

	// A node of another organisation says nothing of this one's.
	require.NoError(t, r.Record(t.Context(), "org_2", "node_9", []egresslink.Record{{ID: "r1", JailID: jail, Credential: "api", At: at}}))
	all, _, err = r.Requests(t.Context(), task.Viewer{OrgID: "org_2", All: true}, "", "", "", 10)
	require.NoError(t, err)
	require.Empty(t, all)
}

// People see the requests of their tasks, in pages.
func TestRequestsAreListedForThoseWhoSeeTheirTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := time.Now().Add(-time.Hour)
	var report []egresslink.Record
	for i := range 25 {
		report = append(report, egresslink.Record{ID: fmt.Sprint(i), JailID: jail, Credential: []string{"a", "b"}[i%2], Method: "GET", Host: "h:443", Path: "/", At: at.Add(time.Duration(i/3) * time.Second)})
	}
	require.NoError(t, r.Record(t.Context(), org, node, report))
	list := func(v task.Viewer, credential, taskID string) (n int) {
		t.Helper()
		page, seen := "", map[string]bool{}
		for {
			all, next, err := r.Requests(t.Context(), v, credential, taskID, page, 4)
			require.NoError(t, err)
			for _, m := range all {
				require.False(t, seen[m.GetId()])
				seen[m.GetId()] = true
			}
			if page = next; page == "" {
				return len(seen)
			}
		}
	}
	ann, bob := task.Viewer{OrgID: org, Name: "ann"}, task.Viewer{OrgID: org, Name: "bob"}
	require.Equal(t, 25, list(ann, "", ""))
	require.Equal(t, 13, list(ann, "a", "task_1"))
	require.Equal(t, 0, list(ann, "a", "task_2"))
	require.Equal(t, 0, list(bob, "", ""))
	require.Equal(t, 25, list(task.Viewer{OrgID: org, All: true}, "", ""))
	require.Len(t, r.events("task_1"), 2, "one for each credential")
	_, _, err := r.Requests(t.Context(), ann, "", "", "garbage", 4)
	refused(t, err, fault.Invalid, "page_token")
	r.exec("UPDATE credential_requests SET stored_at = now() - interval '3 days' WHERE credential = 'a'")
	require.NoError(t, r.Prune(t.Context(), 0))
	require.Equal(t, 25, list(ann, "", ""))
	require.NoError(t, r.Prune(t.Context(), 48*time.Hour))
	require.Equal(t, 12, list(ann, "", ""))
}

// What a node says is bounded: it may be anything.
func TestAReportOfANodeIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	long := strings.Repeat("\xff\x00\x1b[31m", 100_000)
	require.NoError(t, r.Record(t.Context(), org, node, []egresslink.Record{
		{ID: long, JailID: jail, ExecID: long, Credential: "api", Method: long, Host: long, Path: long, Problem: long, Status: -7, SentBytes: -1, Duration: -1, At: time.Now().Add(time.Hour)},
		{JailID: jail, Credential: "api"}, {ID: "x", Credential: "api"}, {ID: "x", JailID: jail, Credential: long}, {ID: "x", JailID: "a\x00b", Credential: "api"},
		{ID: "y", JailID: jail, Credential: "api", ExecID: "step_\x00", At: time.Now()},
	}))
	all, _, err := r.Requests(t.Context(), task.Viewer{OrgID: org, All: true}, "", "", "", 10)
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, one := range all {
		require.LessOrEqual(t, len(one.GetPath()), 2<<10)
		require.LessOrEqual(t, len(one.GetHost()), 255)
		require.Zero(t, one.GetStatus())
		require.WithinDuration(t, time.Now(), one.GetAt().AsTime(), time.Minute)
	}
	_, err = r.Token(t.Context(), org, node, "a\x00b", "api", "")
	refused(t, err, fault.Invalid, "is not a jail")
	refused(t, r.Record(t.Context(), org, node, make([]egresslink.Record, 1001)), fault.Invalid, "1001 records")
}

// items returns the inbox items about credentials: title, reason and state.
func (r *rig) items() (out []string) {
	r.t.Helper()
	require.NoError(r.t, r.conn.QueryRow(r.t.Context(), `SELECT coalesce(array_agg(subject || ' ' || preview || ' ' || state ORDER BY asked_at, id), '{}') FROM inbox_items WHERE kind = 'credential'`).Scan(&out))
	return out
}

// A credential that its server refuses, or that has expired, is one item in the inbox until it
// is rotated or deleted.
func TestACredentialThatEndedIsAnItem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(bearer("api"))
	report := func(id string, status int) {
		t.Helper()
		require.NoError(t, r.Record(t.Context(), org, node, []egresslink.Record{{
			ID: id, JailID: jail, Credential: "api", Method: "GET", Host: "api.example.com:443", Path: "/v1", Status: status, At: time.Now(),
		}}))
	}
	report("r1", 403)
	require.Empty(t, r.items(), "it may lack a right only")
	report("r2", 401)
	report("r3", 401)
	const refused = "api api.example.com:443 refuses credential api (HTTP 401) "
	require.Equal(t, []string{refused + "open"}, r.items())

	rotate := func(expires time.Time) {
		t.Helper()
		in := &deckhandv1.RotateCredentialRequest{Name: "api", Value: bearer("api").GetValue()}
		if !expires.IsZero() {
			in.ExpiresAt = timestamppb.New(expires)
		}
		_, err := r.Rotate(t.Context(), org, in, admin)
		require.NoError(t, err)
	}
	rotate(time.Now().Add(time.Hour))
	require.Equal(t, []string{refused + "withdrawn"}, r.items())
	// A request that was sent before says nothing of the new value.
	require.NoError(t, r.Record(t.Context(), org, node, []egresslink.Record{{ID: "r4", JailID: jail, Credential: "api", Host: "h", Status: 401, At: time.Now().Add(-time.Hour)}}))
	require.Len(t, r.items(), 1)

	require.NoError(t, stop.Sweep(t.Context(), r.store, r.recorder))
	require.Len(t, r.items(), 1)
	r.exec("UPDATE egress_credentials SET expires_at = clock_timestamp() - interval '1 second'")
	for range 2 {
		require.NoError(t, stop.Sweep(t.Context(), r.store, r.recorder))
	}
	require.Equal(t, []string{refused + "withdrawn", "api Credential api has expired open"}, r.items())
	// Dismissed, it does not come again for the same value.
	r.exec("UPDATE inbox_items SET state = 'answered', answer = 'dismiss', answered_by = 'ann', answered_at = clock_timestamp() WHERE state = 'open'")
	require.NoError(t, stop.Sweep(t.Context(), r.store, r.recorder))
	report("r5", 401)
	require.Len(t, r.items(), 2)
	rotate(time.Time{})
	report("r6", 401)
	require.Equal(t, refused+"open", r.items()[2])
	require.NoError(t, r.Delete(t.Context(), org, "api", admin))
	require.Equal(t, refused+"withdrawn", r.items()[2])
}

// An update that replaces the value of a credential withdraws its item, be it refused or
// expired; one that keeps the value leaves it.
func TestAnUpdateThatMendsACredentialWithdrawsItsItem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(bearer("api"))
	update := func(change func(*deckhandv1.UpdateCredentialRequest)) {
		t.Helper()
		now, err := r.Get(t.Context(), org, "api")
		require.NoError(t, err)
		in := &deckhandv1.UpdateCredentialRequest{
			Name: "api", Version: now.GetVersion(), Hosts: now.GetHosts(), Ports: now.GetPorts(), Methods: now.GetMethods(), Paths: now.GetPaths(), Private: now.GetPrivate(),
			Agents: now.GetAgents(), Settings: now.GetSettings(), Variable: now.GetVariable(), Roots: now.GetRoots(), ExpiresAt: now.GetExpiresAt(),
		}
		change(in)
		_, err = r.Update(t.Context(), org, in, admin)
		require.NoError(t, err)
	}
	report := func(id string) {
		t.Helper()
		require.NoError(t, r.Record(t.Context(), org, node, []egresslink.Record{{
			ID: id, JailID: jail, Credential: "api", Method: "GET", Host: "api.example.com:443", Path: "/v1", Status: 401, At: time.Now(),
		}}))
	}
	report("r1")
	const refused = "api api.example.com:443 refuses credential api (HTTP 401) "
	update(func(in *deckhandv1.UpdateCredentialRequest) { in.Methods = []string{"GET"} })
	require.Equal(t, []string{refused + "open"}, r.items(), "the same value is refused again")
	update(func(in *deckhandv1.UpdateCredentialRequest) { in.Value = bearer("api").GetValue() })
	require.Equal(t, []string{refused + "withdrawn"}, r.items())

	update(func(in *deckhandv1.UpdateCredentialRequest) {
		in.ExpiresAt = timestamppb.New(time.Now().Add(time.Hour))
	})
	r.exec("UPDATE egress_credentials SET expires_at = clock_timestamp() - interval '1 second'")
	require.NoError(t, stop.Sweep(t.Context(), r.store, r.recorder))
	const expired = "api Credential api has expired "
	require.Equal(t, []string{refused + "withdrawn", expired + "open"}, r.items())
	update(func(in *deckhandv1.UpdateCredentialRequest) {
		in.ExpiresAt, in.Value = timestamppb.New(time.Now().Add(time.Hour)), bearer("api").GetValue()
	})
	require.Equal(t, []string{refused + "withdrawn", expired + "withdrawn"}, r.items())
}
