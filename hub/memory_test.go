package hub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

const (
	memoryFact        = deckhandv1.MemoryType_MEMORY_TYPE_FACT
	memoryInstruction = deckhandv1.MemoryType_MEMORY_TYPE_INSTRUCTION
	memoryPreference  = deckhandv1.MemoryType_MEMORY_TYPE_PREFERENCE
)

func scopeIn(kind, id string) *deckhandv1.Scope {
	return &deckhandv1.Scope{Kind: deckhandv1.ScopeKind(deckhandv1.ScopeKind_value["SCOPE_KIND_"+strings.ToUpper(kind)]), Id: id}
}

func setMemory(t *testing.T, c *sdk.Client, scope *deckhandv1.Scope, kind deckhandv1.MemoryType, key string, value any) (*deckhandv1.Memory, error) {
	t.Helper()
	v, err := structpb.NewValue(value)
	require.NoError(t, err)
	res, err := c.Memories.SetMemory(t.Context(), &deckhandv1.SetMemoryRequest{Scope: scope, Type: kind, Key: key, Value: v})
	return res.GetMemory(), err
}

func memoryKeys(list []*deckhandv1.Memory) (out []string) {
	for _, m := range list {
		out = append(out, m.GetKey())
	}
	return out
}

func listMemories(t *testing.T, c *sdk.Client, req *deckhandv1.ListMemoriesRequest) []string {
	t.Helper()
	res, err := c.Memories.ListMemories(t.Context(), req)
	require.NoError(t, err)
	return memoryKeys(res.GetMemories())
}

const rememberer = `---
name: %s
description: Remembers
provider: script
script: %s.script.yaml
tools: [shell_exec, http_get, memory_store, memory_retrieve, memory_forget]
limits: {iterations: 5}
%s
---
Remember.
`

// An entry is created, changed, listed, found, deleted and restored; its versions are kept, and
// what cannot be stored is refused with the reason.
func TestMemoriesAreKeptWithTheirVersions(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	ann := r.as("ann", "basic")
	_, err := setMemory(t, r.as("eve", "viewer"), scopeIn("user", ""), memoryFact, "x", "x")
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	own := scopeIn("user", "")
	first, err := setMemory(t, ann, own, memoryFact, "staging database", "db-1.staging.example.com")
	require.NoError(t, err)
	require.Equal(t, "ann", first.GetScopeName())
	require.Equal(t, "ann", first.GetConfirmedBy())
	second, err := setMemory(t, ann, own, memoryFact, "staging database", map[string]any{"host": "db-2.staging.example.com", "port": 5433})
	require.NoError(t, err)
	require.Equal(t, first.GetId(), second.GetId())
	require.EqualValues(t, 2, second.GetVersion())
	_, err = ann.Memories.SetMemory(t.Context(), &deckhandv1.SetMemoryRequest{
		Scope: own, Type: memoryFact, Key: "staging database", Value: structpb.NewStringValue("x"), ExpectedVersion: 1,
	})
	require.True(t, fault.Is(err, fault.Aborted), "%v", err)

	// By a word of the key, of the value, a part of the key, and a key that is mistyped.
	for _, query := range []string{"database", "db-2.staging.example.com", "stag"} {
		require.Equal(t, []string{"staging database"}, listMemories(t, ann, &deckhandv1.ListMemoriesRequest{Query: query}), query)
	}
	for _, text := range []string{"what is the database of staging?", "stagin databse"} {
		found, err := ann.Memories.RecallMemories(t.Context(), &deckhandv1.RecallMemoriesRequest{Text: text})
		require.NoError(t, err)
		require.Len(t, found.GetHits(), 1, text)
		require.Equal(t, second.GetId(), found.GetHits()[0].GetMemory().GetId())
	}
	versions, err := ann.Memories.ListMemoryVersions(t.Context(), &deckhandv1.ListMemoryVersionsRequest{MemoryId: first.GetId()})
	require.NoError(t, err)
	require.Len(t, versions.GetVersions(), 2)
	require.Equal(t, "db-1.staging.example.com", versions.GetVersions()[1].GetValue().GetStringValue())

	_, err = ann.Memories.DeleteMemories(t.Context(), &deckhandv1.DeleteMemoriesRequest{MemoryIds: []string{first.GetId()}})
	require.NoError(t, err)
	require.Empty(t, listMemories(t, ann, &deckhandv1.ListMemoriesRequest{}))
	require.Equal(t, []string{"staging database"}, listMemories(t, ann, &deckhandv1.ListMemoriesRequest{Deleted: true}))
	back, err := ann.Memories.RestoreMemories(t.Context(), &deckhandv1.RestoreMemoriesRequest{MemoryIds: []string{first.GetId()}})
	require.NoError(t, err)
	require.EqualValues(t, 5433, back.GetMemories()[0].GetValue().GetStructValue().GetFields()["port"].GetNumberValue())
	back, err = ann.Memories.RestoreMemories(t.Context(), &deckhandv1.RestoreMemoriesRequest{MemoryIds: []string{first.GetId()}, Version: 1})
	require.NoError(t, err)
	require.Equal(t, "db-1.staging.example.com", back.GetMemories()[0].GetValue().GetStringValue())
	require.EqualValues(t, 3, back.GetMemories()[0].GetVersion())
	require.Len(t, r.audited("memory.restored"), 2)
	require.NotContains(t, fmt.Sprint(r.audited("memory.set"), r.audited("memory.restored")), "staging database", "administrators read the audit log")

	// An entry that is over is told to nobody.
	_, err = ann.Memories.SetMemory(t.Context(), &deckhandv1.SetMemoryRequest{
		Scope: own, Type: memoryFact, Key: "freeze", Value: structpb.NewStringValue("no deployments"), Ttl: durationpb.New(time.Hour),
	})
	require.NoError(t, err)
	require.Contains(t, listMemories(t, ann, &deckhandv1.ListMemoriesRequest{}), "freeze")
	r.exec("UPDATE memories SET expires_at = now() - interval '1 minute' WHERE key = 'freeze' AND org_id = '" + r.OrgID + "'")
	require.NotContains(t, listMemories(t, ann, &deckhandv1.ListMemoriesRequest{}), "freeze")

	key := "ghp_" + strings.Repeat("aB3dE5gH7k", 4)[:36]
	for name, c := range map[string]struct {
		kind  deckhandv1.MemoryType
		key   string
		value any
		says  string
	}{
		"a key of a known shape":   {memoryFact, "github", map[string]any{"login": []any{key}}, "looks like a secret"},
		"a password by its name":   {memoryFact, "database password", "9sK2lLqWzX4v", "looks like a secret"},
		"a value that is too long": {memoryFact, "log", strings.Repeat("x", 65<<10), "65536 are the most"},
		"an unknown speed":         {memoryPreference, "execution_speed", "hasty", "use fast, normal, careful"},
		"a time that is none":      {memoryPreference, "default_timeout", "soon", "from 1m to 168h"},
	} {
		_, err := setMemory(t, ann, own, c.kind, c.key, c.value)
		require.ErrorContains(t, err, c.says, name)
		require.NotContains(t, err.Error(), key)
	}
}

// What is one user's is never another's: neither in a list, nor by its id, nor in a search, nor
// in what a run is told or looks up, in any scope.
func TestMemoriesOfOneUserNeverAppearForAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	ann, bob := r.as("ann", "advanced"), r.as("bob", "advanced")
	team, err := r.user.Teams.CreateTeam(t.Context(), &deckhandv1.CreateTeamRequest{Name: "payments"})
	require.NoError(t, err)
	users, err := r.user.Users.ListUsers(t.Context(), &deckhandv1.ListUsersRequest{})
	require.NoError(t, err)
	ids := map[string]string{}
	for _, u := range users.GetUsers() {
		ids[u.GetName()] = u.GetId()
	}
	_, err = r.user.Teams.AddTeamMember(t.Context(), &deckhandv1.AddTeamMemberRequest{TeamId: team.GetTeam().GetId(), UserId: ids["ann"]})
	require.NoError(t, err)
	for _, name := range []string{"shared", "private"} {
		_, err := ann.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{
			Filename: name + ".md", Markdown: fmt.Sprintf(rememberer, name, name, ""), Script: "turns: []\n",
		})
		require.NoError(t, err)
	}
	r.exec("UPDATE agents SET visibility = 'private' WHERE name = 'private' AND org_id = '" + r.OrgID + "'")
	shared := r.agent("shared")
	var hidden []*deckhandv1.Memory
	for i, scope := range []*deckhandv1.Scope{scopeIn("user", ""), scopeIn("team", "payments"), scopeIn("agent", "private"), scopeIn("workspace", strings.Replace(r.agent("private").GetId(), "agent_", "jail_", 1))} {
		m, err := setMemory(t, ann, scope, memoryFact, fmt.Sprintf("kumquat %d", i), "only ann knows the kumquat")
		require.NoError(t, err)
		hidden = append(hidden, m)
		_, err = setMemory(t, bob, m.GetScope(), memoryFact, m.GetKey(), "taken over")
		require.Error(t, err, "bob does not write there")
	}
	// What a run of the shared agent for ann remembers is for ann's runs.
	begin := func(c *sdk.Client, goal string) (*deckhandv1.ClaimTaskResponse, *deckhandv1.Lease) {
		t.Helper()
		res, err := c.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "shared", Goal: goal})
		require.NoError(t, err)
		claim := r.claim(res.GetTask().GetId(), 1)
		_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: claim.GetLease()})
		require.NoError(t, err)
		return claim, claim.GetLease()
	}
	call := func(lease *deckhandv1.Lease, turn int32, tool, arguments string) *deckhandv1.Step {
		t.Helper()
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, tool, arguments)
		require.NoError(t, err)
		if step.GetState() == deckhandv1.StepState_STEP_STATE_GRANTED {
			step, err = r.execute(lease, step.GetId())
			require.NoError(t, err)
		}
		return step
	}
	_, lease := begin(ann, "learn")
	stored := call(lease, 1, "memory_store", `{"type":"fact","key":"kumquat 9","value":"ann's run found a kumquat"}`)
	require.Contains(t, stored.GetObservation(), "remembered as memory_", stored)
	r.finish(lease)
	for _, c := range []*sdk.Client{bob, r.user} {
		for _, key := range listMemories(t, c, &deckhandv1.ListMemoriesRequest{Query: "kumquat"}) {
			require.Contains(t, []string{"kumquat 1", "kumquat 2", "kumquat 3"}, key, "administrators see teams, agents and workspaces")
			require.Equal(t, r.user, c)
		}
		found, err := c.Memories.RecallMemories(t.Context(), &deckhandv1.RecallMemoriesRequest{Text: "kumquat", AgentId: "shared"})
		require.NoError(t, err)
		require.Empty(t, found.GetHits())
		for _, m := range hidden[:1] {
			_, err := c.Memories.GetMemory(t.Context(), &deckhandv1.GetMemoryRequest{MemoryId: m.GetId()})
			require.True(t, fault.Is(err, fault.NotFound), "%v", err)
		}
	}
	for _, m := range hidden {
		_, err := bob.Memories.GetMemory(t.Context(), &deckhandv1.GetMemoryRequest{MemoryId: m.GetId()})
		require.True(t, fault.Is(err, fault.NotFound), "%v", err)
		_, err = bob.Memories.DeleteMemories(t.Context(), &deckhandv1.DeleteMemoriesRequest{MemoryIds: []string{m.GetId()}})
		require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	}
	claim, lease := begin(bob, "find the kumquat")
	require.Empty(t, claim.GetMemories())
	require.Contains(t, call(lease, 1, "memory_retrieve", `{"query":"kumquat"}`).GetObservation(), "nothing is remembered")
	require.Contains(t, call(lease, 2, "memory_forget", `{"type":"fact","key":"kumquat 9"}`).GetObservation(), "remembers no fact")
	r.finish(lease)

	// To ann all of it appears, and her next run is told of it.
	require.Len(t, listMemories(t, ann, &deckhandv1.ListMemoriesRequest{Query: "kumquat"}), 5)
	claim, lease = begin(ann, "find the kumquat")
	require.Len(t, claim.GetMemories(), 3, "hers, her team's, and what the agent remembers for her: %v", claim.GetMemories())
	r.finish(lease)
	known, err := ann.Memories.ListTaskMemories(t.Context(), &deckhandv1.ListTaskMemoriesRequest{TaskId: lease.GetTaskId()})
	require.NoError(t, err)
	require.Len(t, known.GetMemories(), 3)
	known, err = r.user.Memories.ListTaskMemories(t.Context(), &deckhandv1.ListTaskMemoriesRequest{TaskId: lease.GetTaskId()})
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, []int{len(known.GetMemories()), int(known.GetHidden())}, "an administrator sees the team's")

	// Sharing what the agent remembers is its owner's decision, and then bob's runs get it, too.
	all, err := ann.Memories.ListMemories(t.Context(), &deckhandv1.ListMemoriesRequest{Scope: scopeIn("agent", shared.GetId())})
	require.NoError(t, err)
	require.Len(t, all.GetMemories(), 1)
	require.Equal(t, "ann", all.GetMemories()[0].GetOnlyFor())
	_, err = ann.Memories.ConfirmMemories(t.Context(), &deckhandv1.ConfirmMemoriesRequest{MemoryIds: []string{all.GetMemories()[0].GetId()}, Versions: []int32{1}, Share: true})
	require.NoError(t, err)
	claim, lease = begin(bob, "find the kumquat")
	require.Len(t, claim.GetMemories(), 1)
	require.Equal(t, "kumquat 9", claim.GetMemories()[0].GetKey())

	// What ann's agent remembers for bob, bob corrects, and nothing else in its scope.
	require.Contains(t, call(lease, 1, "memory_store", `{"type":"fact","key":"fig","value":"wrong"}`).GetObservation(), "remembered as")
	r.finish(lease)
	corrected, err := setMemory(t, bob, scopeIn("agent", shared.GetId()), memoryFact, "fig", "right")
	require.NoError(t, err)
	require.Equal(t, "bob", corrected.GetOnlyFor())
	require.EqualValues(t, 2, corrected.GetVersion())
	_, err = setMemory(t, bob, scopeIn("agent", shared.GetId()), memoryFact, "date", "new")
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	require.NotContains(t, fmt.Sprint(r.audited("memory.set")), "fig")

	// A later attempt is told nothing of a team that its user has left, and with the team goes
	// what it remembered.
	claim, lease = begin(ann, "find the kumquat")
	require.Len(t, claim.GetMemories(), 3)
	_, err = r.user.Teams.RemoveTeamMember(t.Context(), &deckhandv1.RemoveTeamMemberRequest{TeamId: team.GetTeam().GetId(), UserId: ids["ann"]})
	require.NoError(t, err)
	_, err = r.workers.Workers.ReleaseTask(t.Context(), &deckhandv1.ReleaseTaskRequest{Lease: lease, Reason: "test"})
	require.NoError(t, err)
	require.Len(t, r.claim(lease.GetTaskId(), 2).GetMemories(), 2)
	_, err = r.user.Teams.DeleteTeam(t.Context(), &deckhandv1.DeleteTeamRequest{TeamId: team.GetTeam().GetId()})
	require.NoError(t, err)
	require.Zero(t, r.count("SELECT count(*) FROM memories WHERE scope_id = '"+team.GetTeam().GetId()+"'"))
}

// count returns the number that a query returns.
func (r *rig) count(sql string) (n int) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.DatabaseURL)
	require.NoError(r.t, err)
	defer conn.Close(r.t.Context())
	require.NoError(r.t, conn.QueryRow(r.t.Context(), sql).Scan(&n))
	return n
}

const networker = `---
name: %s
description: Works with the others
provider: script
script: s.yaml
tools: [shell_exec, delegate, handoff_to_agent, memory_store]
workspace: {scope: task}
limits: {iterations: 10}
agents: {delegate: [%s], handoff: [%s]}
%s
---
Work.
`

// What a task stores is marked if any of its lineage has read untrusted text: the task below it,
// the one above, the one that handed off to it, and the one that it retries or is resumed from.
// Members of a team with the role basic write its facts, and no instructions for the others; a
// scope has a bound that deleted entries do not evade.
// Poisoned input does not become memory that acts: what an agent writes after untrusted input is
// marked, told to no run, and no standing instruction; it overwrites nothing of a person, and
// a wider scope needs an approval.
// Preferences act: on the mode and the time of a run, and on what it is told. None takes away
// what the persona asks for.
func TestPreferencesAct(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("plain", fmt.Sprintf(rememberer, "plain", "plain", ""))
	r.apply("careful", fmt.Sprintf(rememberer, "careful", "careful", "mode: review"))
	prefer := func(key string, value any) {
		t.Helper()
		_, err := setMemory(t, r.user, scopeIn("user", ""), memoryPreference, key, value)
		require.NoError(t, err)
	}
	submit := func(agent string) *deckhandv1.TaskOverride {
		t.Helper()
		res, err := r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: agent, Goal: "x"})
		require.NoError(t, err)
		o := r.task(res.GetTask().GetId()).GetOverride()
		r.cancel(res.GetTask().GetId())
		return o
	}
	require.Empty(t, submit("plain").GetMode())
	prefer("confirmation_level", "never")
	require.Empty(t, submit("careful").GetMode())
	prefer("confirmation_level", "always")
	prefer("default_timeout", "7m")
	require.Equal(t, "supervised", submit("plain").GetMode())
	require.Equal(t, 7*time.Minute, submit("plain").GetLimits().GetActiveTime().AsDuration())
	require.Empty(t, submit("careful").GetMode(), "review asks more")
	prefer("default_timeout", "20h")
	require.Zero(t, submit("plain").GetLimits().GetActiveTime().AsDuration(), "the persona's limit stays")

	prefer("execution_speed", "careful")
	prefer("language", "German")
	prefer("preferred_tools", []any{"file_edit", "shell_exec"})
	prefer("favourite colour", "teal")
	claim := r.claim(r.submit("plain").GetId(), 1)
	require.Equal(t, "careful", claim.GetSpeed(), "its model thinks more")
	_, err := setMemory(t, r.user, scopeIn("user", ""), memoryPreference, "notifications", "loud")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	var standing, data []string
	for _, m := range claim.GetMemories() {
		if m.GetStanding() {
			standing = append(standing, m.GetText())
		} else {
			data = append(data, m.GetKey()+" "+m.GetText())
		}
	}
	require.Contains(t, data, "favourite colour teal")
	said := strings.Join(standing, "\n")
	require.Contains(t, said, "Work carefully")
	require.Contains(t, said, "in this language: German")
	require.Contains(t, said, "file_edit, shell_exec")
}

// An import stores all or nothing, says what conflicts, and marks nothing as trusted that was
// not.
func TestAnImportStoresAllOrNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	own := scopeIn("user", "")
	_, err := setMemory(t, r.user, own, memoryFact, "port", 1)
	require.NoError(t, err)
	entry := func(key string, value any) *deckhandv1.ImportMemoriesRequest_Entry {
		v, err := structpb.NewValue(value)
		require.NoError(t, err)
		return &deckhandv1.ImportMemoriesRequest_Entry{Type: memoryFact, Key: key, Value: v, Confidence: 1}
	}
	doubtful := entry("doubtful", "x")
	doubtful.Untrusted = true
	load := func(on deckhandv1.MemoryConflict, dry bool, entries ...*deckhandv1.ImportMemoriesRequest_Entry) (out []string, stored bool) {
		t.Helper()
		res, err := r.user.Memories.ImportMemories(t.Context(), &deckhandv1.ImportMemoriesRequest{Scope: own, Entries: entries, OnConflict: on, DryRun: dry})
		require.NoError(t, err)
		for _, one := range res.GetResults() {
			out = append(out, one.GetOutcome())
		}
		return out, res.GetStored()
	}
	outcomes, stored := load(0, false, entry("host", "a"), entry("port", 2), entry("database password", "9sK2lLqWzX4v"))
	require.Equal(t, []string{"created", "conflict", "refused"}, outcomes)
	require.False(t, stored)
	require.Equal(t, []string{"port"}, listMemories(t, r.user, &deckhandv1.ListMemoriesRequest{}))
	outcomes, stored = load(deckhandv1.MemoryConflict_MEMORY_CONFLICT_REPLACE, true, entry("port", 2))
	require.Equal(t, []string{"replaced"}, outcomes)
	require.False(t, stored)
	outcomes, stored = load(deckhandv1.MemoryConflict_MEMORY_CONFLICT_KEEP, false, entry("host", "a"), entry("port", 2), doubtful)
	require.Equal(t, []string{"created", "kept", "created"}, outcomes)
	require.True(t, stored)
	outcomes, _ = load(0, false, entry("port", 1.0))
	require.Equal(t, []string{"unchanged"}, outcomes)
	list, err := r.user.Memories.ListMemories(t.Context(), &deckhandv1.ListMemoriesRequest{Unconfirmed: true})
	require.NoError(t, err)
	require.Equal(t, []string{"doubtful"}, memoryKeys(list.GetMemories()))
	_, err = r.as("bob", "basic").Memories.ImportMemories(t.Context(), &deckhandv1.ImportMemoriesRequest{
		Scope: scopeIn("organisation", ""), Entries: []*deckhandv1.ImportMemoriesRequest_Entry{entry("host", "b")},
	})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
}

// After a purge, no row of any table has a byte of what was the user's: not its versions, nor
// the calls and transcripts of the runs that stored or read it.
func TestAPurgeLeavesNoByte(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("learner", fmt.Sprintf(rememberer, "learner", "learner", ""))
	ann := r.as("ann", "advanced")
	const secretly = "zanzibar-rhubarb"
	m, err := setMemory(t, ann, scopeIn("user", ""), memoryFact, "place", secretly+"-one")
	require.NoError(t, err)
	_, err = setMemory(t, ann, scopeIn("user", ""), memoryFact, "place", secretly+"-two")
	require.NoError(t, err)
	_, err = ann.Memories.DeleteMemories(t.Context(), &deckhandv1.DeleteMemoriesRequest{MemoryIds: []string{m.GetId()}})
	require.NoError(t, err)
	res, err := ann.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "learner", Goal: "learn"})
	require.NoError(t, err)
	lease := r.begin(res.GetTask().GetId(), 1)
	for turn, c := range []struct{ tool, arguments string }{
		{"memory_store", `{"type":"fact","key":"spice","value":"` + secretly + `-three"}`}, {"memory_retrieve", `{"query":"spice"}`},
	} {
		r.turn(lease, int32(turn+1))
		step, err := r.propose(lease, int32(turn+1), 0, c.tool, c.arguments)
		require.NoError(t, err)
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
	}
	r.finish(lease)
	// A run that was only told an entry has it in its checkpoints.
	_, err = setMemory(t, ann, scopeIn("user", ""), memoryFact, "harbour", secretly+"-four")
	require.NoError(t, err)
	res, err = ann.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "learner", Goal: "find the harbour"})
	require.NoError(t, err)
	told := r.claim(res.GetTask().GetId(), 1)
	require.Len(t, told.GetMemories(), 1)
	_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: told.GetLease()})
	require.NoError(t, err)
	r.turn(told.GetLease(), 1)
	r.checkpoint(told.GetLease(), 1)
	r.exec(fmt.Sprintf(`UPDATE checkpoints SET state = '{"summary": {"text": "the harbour is %s-four"}}' WHERE task_id = '%s'`, secretly, res.GetTask().GetId()))
	_, err = ann.Memories.PurgeMemories(t.Context(), &deckhandv1.PurgeMemoriesRequest{})
	require.True(t, fault.Is(err, fault.Precondition), "a run that goes on would write it down again: %v", err)
	r.finish(told.GetLease())
	require.Contains(t, tablesWith(t, r, secretly), "checkpoints")

	everybodys, err := setMemory(t, r.user, scopeIn("organisation", ""), memoryFact, "harbour", "Hamburg")
	require.NoError(t, err)
	do(t, ann.Feedback.GiveFeedback, &deckhandv1.GiveFeedbackRequest{
		Subject: deckhandv1.FeedbackSubject_FEEDBACK_SUBJECT_MEMORY, SubjectId: everybodys.GetId(), Verdict: deckhandv1.FeedbackVerdict_FEEDBACK_VERDICT_REJECT,
	})
	_, err = r.as("bob", "advanced").Memories.PurgeMemories(t.Context(), &deckhandv1.PurgeMemoriesRequest{UserId: "ann"})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	purged, err := r.user.Memories.PurgeMemories(t.Context(), &deckhandv1.PurgeMemoriesRequest{UserId: "ann"})
	require.NoError(t, err)
	require.Equal(t, []int64{3, 4, 2}, []int64{purged.GetMemories(), purged.GetVersions(), purged.GetSteps()})
	require.Empty(t, tablesWith(t, r, secretly))
	require.EqualValues(t, 1, purged.GetVerdicts())
	require.Empty(t, do(t, r.user.Feedback.ListFeedback, &deckhandv1.ListFeedbackRequest{MemoryId: everybodys.GetId()}).GetFeedback())
	left := do(t, r.user.Memories.GetMemory, &deckhandv1.GetMemoryRequest{MemoryId: everybodys.GetId()}).GetMemory()
	require.InDelta(t, 1, left.GetConfidence(), 0.001, "what ann said of it does not count any more")
	require.Len(t, r.audited("memory.purged"), 1)
}

// tablesWith returns the tables that have a text anywhere in a row.
func tablesWith(t *testing.T, r *rig, text string) (out []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), r.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "SELECT format('%I', table_name) FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1")
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(tables), 60)
	for _, table := range tables {
		var n int
		require.NoError(t, conn.QueryRow(t.Context(), fmt.Sprintf("SELECT count(*) FROM %s x WHERE position($1 IN x::text) > 0 OR position(encode($1::bytea, 'hex') IN x::text) > 0", table), text).Scan(&n), table)
		if n > 0 {
			out = append(out, table)
		}
	}
	return out
}
