package hub_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// untouched requires that nobody has changed the objects of an organisation.
func (o others) untouched(t *testing.T, s *store.Store) {
	t.Helper()
	row, err := s.GetTask(t.Context(), db.GetTaskParams{OrgID: o.org, ID: o.task})
	require.NoError(t, err)
	require.Equal(t, "running", row.Task.State)
	require.Zero(t, row.Task.TurnCount)
	steps, err := s.StepsUpTo(t.Context(), db.StepsUpToParams{OrgID: o.org, TaskID: o.task, UpTo: 1000})
	require.NoError(t, err)
	require.Len(t, steps, 1, "no step was added")
	exec, err := s.GetNodeExec(t.Context(), db.GetNodeExecParams{OrgID: o.org, ID: o.exec})
	require.NoError(t, err)
	require.Equal(t, "pending", exec.NodeExec.State)
	item, err := s.GetInboxItem(t.Context(), db.GetInboxItemParams{OrgID: o.org, ID: o.item})
	require.NoError(t, err)
	require.Equal(t, "open", item.InboxItem.State)
	hold, err := s.GetHold(t.Context(), db.GetHoldParams{OrgID: o.org, ID: o.hold})
	require.NoError(t, err)
	require.Nil(t, hold.ReleasedAt)
	trigger, err := s.GetTrigger(t.Context(), db.GetTriggerParams{OrgID: o.org, ID: o.trigger})
	require.NoError(t, err)
	require.Equal(t, "enabled", trigger.Trigger.State)
	require.EqualValues(t, 1, trigger.Trigger.Revision)
	destination, err := s.GetDestination(t.Context(), db.GetDestinationParams{OrgID: o.org, ID: o.destination})
	require.NoError(t, err)
	require.Equal(t, "disabled", destination.State)
	notification, err := s.GetNotification(t.Context(), db.GetNotificationParams{OrgID: o.org, ID: o.notification})
	require.NoError(t, err)
	require.Equal(t, "pending", notification.Notification.State)
	pattern, err := s.GetPattern(t.Context(), db.GetPatternParams{OrgID: o.org, ID: o.pattern})
	require.NoError(t, err)
	require.Nil(t, pattern.Pattern.DeletedAt)
	require.EqualValues(t, 1, pattern.Pattern.Version)
	lock, err := s.HeldNodeLock(t.Context(), db.HeldNodeLockParams{OrgID: o.org, NodeID: o.node})
	require.NoError(t, err)
	require.Equal(t, "x", lock.UserName)
	memory, err := s.LockMemoryByID(t.Context(), db.LockMemoryByIDParams{OrgID: o.org, ID: o.memory})
	require.NoError(t, err)
	require.Nil(t, memory.DeletedAt)
	require.EqualValues(t, 1, memory.Version)
}

// organisation makes one with an object of each kind, its task leased.
func organisation(t *testing.T, h *hubtest.Hub, s *store.Store, name string) others {
	t.Helper()
	ctx := t.Context()
	org, err := s.CreateOrganisation(ctx, db.CreateOrganisationParams{ID: ident.New("org"), Name: name})
	require.NoError(t, err)
	o := others{org: org.ID, lease: ident.Secret("dhl"), node: ident.New("node"), worker: ident.New("worker"), step: ident.New("step"),
		exec: ident.New("nexec"), item: ident.New("inbox"), hold: ident.New("hold"), trigger: ident.New("trig"), delivery: ident.New("dlv"),
		destination: ident.New("dest"), notification: ident.New("ntc"), rule: ident.New("rule"), pattern: ident.New("pattern"), proposal: ident.New("proposal")}
	o.token = userToken(t, s, org.ID, "admin", "admin")
	client := h.Client(t, o.token)
	login(t, h, o.token)
	sessions, err := client.Sessions.ListSessions(ctx, &deckhandv1.ListSessionsRequest{})
	require.NoError(t, err)
	o.session = sessions.GetSessions()[0].GetId()
	users, err := client.Users.ListUsers(ctx, &deckhandv1.ListUsersRequest{})
	require.NoError(t, err)
	o.user = users.GetUsers()[0].GetId()
	team, err := client.Teams.CreateTeam(ctx, &deckhandv1.CreateTeamRequest{Name: "walkers"})
	require.NoError(t, err)
	o.team = team.GetTeam().GetId()
	tokens, err := client.Tokens.ListTokens(ctx, &deckhandv1.ListTokensRequest{})
	require.NoError(t, err)
	o.apiToken = tokens.GetTokens()[0].GetId()
	applied, err := client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{
		Filename: "walker.md", Markdown: scripted("walker"), Script: "turns: []\n",
	})
	require.NoError(t, err)
	o.agent = applied.GetAgent().GetId()
	collection, err := client.Knowledge.CreateCollection(ctx, &deckhandv1.CreateCollectionRequest{
		Name: "walked", Scope: &deckhandv1.Scope{Kind: deckhandv1.ScopeKind_SCOPE_KIND_AGENT, Id: "walker"},
	})
	require.NoError(t, err)
	o.collection = collection.GetCollection().GetId()
	uploaded, err := client.Knowledge.UploadDocument(ctx, &deckhandv1.UploadDocumentRequest{CollectionId: o.collection, Path: "walk.md", Content: []byte("walk")})
	require.NoError(t, err)
	o.source = uploaded.GetSource().GetId()
	document := ident.New("doc")
	require.NoError(t, s.PutKnowledgeDocuments(ctx, db.PutKnowledgeDocumentsParams{
		OrgID: org.ID, CollectionID: o.collection, SourceID: o.source, Ids: []string{document}, Paths: []string{"walk.md"}, Titles: []string{""},
		Formats: []string{"markdown"}, Digests: []string{"x"}, Sizes: []int64{4}, Counts: []int32{1}, Lengths: []int64{1}, Reasons: []string{""},
	}))
	require.NoError(t, s.PutKnowledgePassages(ctx, db.PutKnowledgePassagesParams{
		OrgID: org.ID, CollectionID: o.collection, DocumentIds: []string{document}, Numbers: []int32{1}, Headings: []string{""}, Bodies: []string{"walk"},
		FirstLines: []int32{1}, LastLines: []int32{1}, Pages: []int32{0}, Words: []string{"'walk':1"}, Lengths: []int32{1},
	}))
	require.NoError(t, s.CountKnowledgeWords(ctx, db.CountKnowledgeWordsParams{CollectionID: o.collection, DocumentIds: []string{document}}))
	passages, err := client.Knowledge.SearchKnowledge(ctx, &deckhandv1.SearchKnowledgeRequest{Query: "walk"})
	require.NoError(t, err)
	o.passage = passages.GetPassages()[0].GetId()
	submitted, err := client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "walker", Goal: "walk"})
	require.NoError(t, err)
	o.task = submitted.GetTask().GetId()
	_, err = s.CreateNode(ctx, db.CreateNodeParams{
		ID: o.node, OrgID: org.ID, Name: "n-" + name, KeyFingerprint: name, Labels: json.RawMessage("{}"), PinnedLabels: json.RawMessage("{}"),
	})
	require.NoError(t, err)
	require.NoError(t, s.RegisterWorker(ctx, db.RegisterWorkerParams{ID: o.worker, OrgID: org.ID, Name: "w", Pool: "default", Slots: 1}))
	require.NoError(t, s.AdmitTask(ctx, db.AdmitTaskParams{OrgID: org.ID, ID: o.task, NodeID: &o.node, Reason: "test"}))
	_, err = s.ClaimTask(ctx, db.ClaimTaskParams{
		OrgID: org.ID, ID: o.task, Attempt: 1, WorkerID: &o.worker, LeaseHash: ident.Hash(o.lease), Ttl: time.Hour, Reason: "test",
	})
	require.NoError(t, err)
	_, err = s.MoveTask(ctx, db.MoveTaskParams{OrgID: org.ID, ID: o.task, State: "running"})
	require.NoError(t, err)
	_, err = s.CreateStep(ctx, db.CreateStepParams{
		ID: o.step, OrgID: org.ID, TaskID: o.task, Turn: 1, CallIndex: 0, Tool: "file_list", Category: "safe",
		Arguments: json.RawMessage("{}"), ArgumentsSealed: []byte{0}, ArgumentsDigest: []byte{0}, State: "granted", NodeID: &o.node,
	})
	require.NoError(t, err)
	_, err = s.CreateInboxItem(ctx, db.CreateInboxItemParams{
		ID: o.item, OrgID: org.ID, Kind: "unknown", TaskID: o.task, StepID: &o.step, AgentID: o.agent, Tool: "file_list", Category: "safe",
		Arguments: json.RawMessage(`{"command":"true"}`), Binding: json.RawMessage("{}"),
	})
	require.NoError(t, err)
	_, err = s.CreateAllowRule(ctx, db.CreateAllowRuleParams{
		ID: o.rule, OrgID: org.ID, AgentID: o.agent, Tool: "file_list", Scope: "tool", Commands: []string{}, Description: "x", ItemID: o.item, CreatedBy: "x", Lasts: time.Hour,
	})
	require.NoError(t, err)
	_, err = s.CreatePattern(ctx, db.CreatePatternParams{
		ID: o.pattern, OrgID: org.ID, Owner: "admin", Title: "walk", TaskType: "walker", Domain: "general", Keywords: []string{"walk"}, Approach: json.RawMessage("{}"),
	})
	require.NoError(t, err)
	given, err := s.GiveFeedback(ctx, db.GiveFeedbackParams{
		ID: ident.New("feedback"), OrgID: org.ID, Subject: "pattern", SubjectID: o.pattern, Verdict: "correct", Correction: "walk", GivenBy: "admin",
	})
	require.NoError(t, err)
	_, err = s.CreateProposal(ctx, db.CreateProposalParams{
		ID: o.proposal, OrgID: org.ID, FeedbackID: given.ID, PatternID: o.pattern, Owner: "admin", Note: "walk", ProposedBy: "admin",
	})
	require.NoError(t, err)
	_, err = s.CreateNodeExec(ctx, db.CreateNodeExecParams{
		ID: o.exec, OrgID: org.ID, NodeID: o.node, Target: "jail", AgentID: &o.agent, JailID: "jail_x", Argv: []string{"true"}, SpecSealed: []byte{0},
	})
	require.NoError(t, err)
	_, err = s.TakeNodeLock(ctx, db.TakeNodeLockParams{
		ID: ident.New("lock"), OrgID: org.ID, NodeID: o.node, UserID: "user_x", UserName: "x", Reason: "walk",
	})
	require.NoError(t, err)
	_, err = s.CreateHold(ctx, db.CreateHoldParams{
		ID: o.hold, OrgID: org.ID, Scope: "lineage", ObjectID: "task_none", HeldBy: "x",
	})
	require.NoError(t, err)
	_, err = s.CreateTrigger(ctx, db.CreateTriggerParams{
		ID: o.trigger, OrgID: org.ID, AgentID: o.agent, Name: "walk", Kind: "webhook", Spec: json.RawMessage("{}"), State: "enabled", CreatedBy: "x",
	})
	require.NoError(t, err)
	_, err = s.CreateDelivery(ctx, db.CreateDeliveryParams{
		ID: o.delivery, OrgID: org.ID, TriggerID: o.trigger, Key: "walk", Source: "manual", Headers: json.RawMessage("{}"), Body: []byte{},
	})
	require.NoError(t, err)
	_, err = s.CreateDestination(ctx, db.CreateDestinationParams{
		ID: o.destination, OrgID: org.ID, Name: "walk", Kind: "nats", Spec: json.RawMessage(`{"nats":{}}`), State: "disabled", Reason: "x", CreatedBy: "x",
	})
	require.NoError(t, err)
	require.NoError(t, s.OweNotifications(ctx, db.OweNotificationsParams{
		OrgID: org.ID, Keep: time.Hour, Ids: []string{o.notification}, Destinations: []string{o.destination}, Happenings: []string{"x"},
		Types: []string{"walk"}, Tasks: []string{o.task}, Bodies: []string{"{}"},
	}))
	memory, err := client.Memories.SetMemory(ctx, &deckhandv1.SetMemoryRequest{
		Scope: &deckhandv1.Scope{Kind: deckhandv1.ScopeKind_SCOPE_KIND_USER}, Type: deckhandv1.MemoryType_MEMORY_TYPE_FACT,
		Key: "theirs", Value: structpb.NewStringValue("x"),
	})
	require.NoError(t, err)
	o.memory = memory.GetMemory().GetId()
	require.NoError(t, s.AppendAudit(ctx, db.AppendAuditParams{
		OrgID: org.ID, ActorKind: "user", ActorID: "x", Action: "walk", ObjectKind: "task", ObjectID: o.task, Severity: "low",
		Before: json.RawMessage("{}"), After: json.RawMessage("{}"),
	}))
	return o
}

func scripted(name string) string {
	return strings.TrimSpace(fmt.Sprintf(`
---
name: %s
description: For tests.
provider: script
script: %s.script.yaml
limits: {iterations: 20}
tools: [shell_exec, file_read, file_write, file_list, update_plan, manage_scratchpad, complete_task]
---
Do what the script says.
`, name, name)) + "\n"
}
