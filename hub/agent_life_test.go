package hub_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func sees(t *testing.T, c *sdk.Client, agent string) bool {
	t.Helper()
	res := do(t, c.Agents.ListAgents, &deckhandv1.ListAgentsRequest{})
	listed := false
	for _, a := range res.GetAgents() {
		listed = listed || a.GetName() == agent
	}
	_, err := c.Agents.GetAgent(t.Context(), &deckhandv1.GetAgentRequest{AgentId: agent})
	if !listed {
		require.Equal(t, connect.CodeNotFound, connect.CodeOf(err), "%v", err)
		return false
	}
	require.NoError(t, err)
	return true
}

// Who sees an agent, and who may change it, follows from its owner and its visibility.
func TestVisibilityFollowsTheOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	people := map[string]*sdk.Client{}
	for _, name := range []string{"ann", "tim", "eve"} {
		people[name] = r.as(name, "advanced")
	}
	do(t, r.user.Teams.CreateTeam, &deckhandv1.CreateTeamRequest{Name: "crew", Role: "viewer"})
	for _, name := range []string{"ann", "tim"} {
		do(t, r.user.Teams.AddTeamMember, &deckhandv1.AddTeamMemberRequest{TeamId: "crew", UserId: name})
	}
	do(t, people["ann"].Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{Markdown: scripted("mine"), Script: "turns: []\n", Visibility: "private"})
	transfer := func(owner, visibility string) *deckhandv1.Agent {
		return do(t, r.user.Agents.TransferAgent, &deckhandv1.TransferAgentRequest{AgentId: "mine", Owner: owner, Visibility: visibility}).GetAgent()
	}
	for _, c := range []struct{ owner, visibility, seenBy, managedBy string }{
		{"user:ann", "private", "ann", "ann"},
		{"ann", "team", "ann tim", "ann"},
		{"", "organisation", "ann tim eve", "ann"},
		{"team:crew", "private", "ann tim", "ann tim"},
		{"team:crew", "team", "ann tim", "ann tim"},
		{"team:crew", "organisation", "ann tim eve", "ann tim"},
		{"user:eve", "team", "eve", "eve"},
	} {
		a := transfer(c.owner, c.visibility)
		require.Equal(t, c.visibility, a.GetVisibility())
		for name, client := range people {
			require.Equal(t, strings.Contains(c.seenBy, name), sees(t, client, "mine"), "%s of an agent of %s that is %s", name, c.owner, c.visibility)
			_, err := client.Agents.DisableAgent(t.Context(), &deckhandv1.DisableAgentRequest{AgentId: "mine"})
			require.Equal(t, strings.Contains(c.managedBy, name), err == nil, "%s: %v", name, err)
			do(t, r.user.Agents.EnableAgent, &deckhandv1.EnableAgentRequest{AgentId: "mine"})
		}
		require.True(t, sees(t, r.user, "mine"), "an administrator")
	}

	// A dry run of a persona that is stored already stores no other owner either.
	try := &deckhandv1.ApplyAgentRequest{Markdown: scripted("mine"), Script: "turns: []\n", Owner: "user:tim", Visibility: "organisation", DryRun: true}
	require.Equal(t, "unchanged", do(t, people["eve"].Agents.ApplyAgent, try).GetChange())
	refuses(t, connect.CodePermissionDenied, people["eve"].Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{
		Markdown: scripted("mine"), Script: "turns: []\n", Owner: "team:crew", DryRun: true,
	})
	require.Equal(t, "user:eve", r.agent("mine").GetOwner())
	require.Equal(t, "team", r.agent("mine").GetVisibility())

	// A name that is taken is all that others learn of a hidden agent.
	_, err := people["tim"].Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{Markdown: scripted("mine"), Script: "turns: []\n"})
	require.True(t, fault.Is(err, fault.Exists), "%v", err)
	require.NotContains(t, err.Error(), "eve")
	refuses(t, connect.CodePermissionDenied, people["eve"].Agents.TransferAgent, &deckhandv1.TransferAgentRequest{AgentId: "mine", Owner: "team:crew"})
	refuses(t, connect.CodeNotFound, people["eve"].Agents.TransferAgent, &deckhandv1.TransferAgentRequest{AgentId: "mine", Owner: "user:nobody"})
	refuses(t, connect.CodeInvalidArgument, people["eve"].Agents.TransferAgent, &deckhandv1.TransferAgentRequest{AgentId: "mine"})

	// A team that owns agents is not deleted from under them.
	transfer("team:crew", "")
	refuses(t, connect.CodeFailedPrecondition, r.user.Teams.DeleteTeam, &deckhandv1.DeleteTeamRequest{TeamId: "crew"})
	// Whoever owns an agent applies its persona; its runs have the rights of who applied.
	do(t, people["tim"].Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{Markdown: scripted("mine") + "\nMore.\n", Script: "turns: []\n"})
	require.EqualValues(t, 2, r.agent("mine").GetVersion())
	require.Equal(t, "team:crew", r.agent("mine").GetOwner())
	transfer("user:eve", "private")
	do(t, r.user.Teams.DeleteTeam, &deckhandv1.DeleteTeamRequest{TeamId: "crew"})
}

// Tasks are seen by their submitter, the owners of their agent and administrators. An
// organisation may share them with whoever sees the agent: to read, and not the workspace
// that all tasks of an agent have.
func TestTasksAreSharedWhenTheOrganisationSaysSo(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	ann, carl, eve := r.as("ann", "advanced"), r.as("carl", "advanced"), r.as("eve", "advanced")
	for name, visibility := range map[string]string{"open": "organisation", "closed": "private"} {
		do(t, ann.Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{Markdown: scripted(name), Script: "turns: []\n", Visibility: visibility})
	}
	tasks := map[string]string{}
	for _, name := range []string{"open", "closed"} {
		tasks[name] = do(t, ann.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: name, Goal: "x"}).GetTask().GetId()
	}
	listed := func() (ids []string) {
		for _, task := range do(t, eve.Tasks.ListTasks, &deckhandv1.ListTasksRequest{}).GetTasks() {
			ids = append(ids, task.GetId())
		}
		return ids
	}
	require.Empty(t, listed())
	refuses(t, connect.CodePermissionDenied, ann.Organisations.SetTaskSharing, &deckhandv1.SetTaskSharingRequest{Shared: true})
	do(t, r.user.Organisations.SetTaskSharing, &deckhandv1.SetTaskSharingRequest{Shared: true})
	require.True(t, do(t, eve.Organisations.GetTaskSharing, &deckhandv1.GetTaskSharingRequest{}).GetShared())
	require.Equal(t, []string{tasks["open"]}, listed())
	do(t, eve.Tasks.GetTask, &deckhandv1.GetTaskRequest{TaskId: tasks["open"]})
	refuses(t, connect.CodeNotFound, eve.Tasks.GetTask, &deckhandv1.GetTaskRequest{TaskId: tasks["closed"]})
	require.Len(t, r.audited("organisation.tasks_shared"), 1)

	// A task of carl's in the one workspace that ann's agent has.
	common := strings.Replace(asking("common", "tools: [shell_exec]"), "limits:", "workspace: {scope: agent}\nlimits:", 1)
	do(t, ann.Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{Markdown: common, Script: "turns: []\n"})
	own := do(t, carl.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: "common", Goal: "x"}).GetTask().GetId()
	lease := r.begin(own, 1)
	r.turn(lease, 1)
	_, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	require.NoError(t, r.yield(lease))
	item := r.item(own).GetId()
	list := &deckhandv1.ListFilesRequest{Workspace: &deckhandv1.ListFilesRequest_TaskId{TaskId: own}}
	write := &deckhandv1.WriteFileRequest{Workspace: &deckhandv1.WriteFileRequest_TaskId{TaskId: own}, Path: "a", Content: []byte("a")}
	place := &deckhandv1.WorkspaceRef{Workspace: &deckhandv1.WorkspaceRef_TaskId{TaskId: own}}
	send := &deckhandv1.SendFilesRequest{From: place, To: place, Paths: []string{"a"}, Folder: "b"}
	command := &deckhandv1.StartNodeExecRequest{NodeId: "sim", Target: &deckhandv1.StartNodeExecRequest_TaskId{TaskId: own}, Argv: []string{"true"}}
	count := func(c *sdk.Client, mine bool) int {
		return len(do(t, c.Inbox.ListInbox, &deckhandv1.ListInboxRequest{Mine: mine}).GetItems())
	}

	require.Contains(t, listed(), own)
	do(t, eve.Tasks.ListSteps, &deckhandv1.ListStepsRequest{TaskId: own})
	require.Equal(t, 1, count(eve, false))
	require.Zero(t, count(eve, true))
	denied := connect.CodePermissionDenied
	refuses(t, denied, eve.Files.ListFiles, list)
	refuses(t, denied, eve.Files.WriteFile, write)
	refuses(t, denied, eve.Files.SendFiles, send)
	refuses(t, denied, eve.NodeExecs.StartNodeExec, command)
	// Where a task has its own workspace, it is read, and not changed.
	refuses(t, denied, eve.Files.WriteFile, &deckhandv1.WriteFileRequest{
		Workspace: &deckhandv1.WriteFileRequest_TaskId{TaskId: tasks["open"]}, Path: "a", Content: []byte("a"),
	})
	_, err = answerAs(t, eve, approve(item, ""))
	refusedAs(t, denied, err)
	refuses(t, denied, eve.Tasks.TellTask, &deckhandv1.TellTaskRequest{TaskId: own, Text: "x", IdempotencyKey: "1"})
	refuses(t, denied, eve.Tasks.PauseTask, &deckhandv1.PauseTaskRequest{TaskId: own})
	refuses(t, denied, eve.Tasks.CancelTask, &deckhandv1.CancelTaskRequest{TaskId: own})
	refuses(t, denied, eve.Tasks.RetryTask, &deckhandv1.RetryTaskRequest{TaskId: own})
	refuses(t, denied, eve.Tasks.ResumeTaskFrom, &deckhandv1.ResumeTaskFromRequest{TaskId: own, Iteration: 1})
	refuses(t, denied, eve.Tasks.KeepCheckpoint, &deckhandv1.KeepCheckpointRequest{TaskId: own, Iteration: 1, KeepFor: durationpb.New(time.Hour)})
	refuses(t, denied, eve.Tasks.KillJob, &deckhandv1.KillJobRequest{TaskId: own, JobId: "job_1"})
	refuses(t, denied, eve.Tasks.WithdrawMessage, &deckhandv1.WithdrawMessageRequest{TaskId: own, MessageId: "message_1"})
	refuses(t, denied, eve.Queue.ReorderTask, &deckhandv1.ReorderTaskRequest{TaskId: tasks["open"], Place: &deckhandv1.ReorderTaskRequest_First{First: true}})
	refuses(t, denied, eve.Queue.AssignTask, &deckhandv1.AssignTaskRequest{TaskId: own, AssignTo: "@human:eve"})
	refuses(t, denied, eve.TaskPlans.EditTaskPlan, &deckhandv1.EditTaskPlanRequest{
		TaskId: own, Change: &deckhandv1.EditTaskPlanRequest_Remove{Remove: &deckhandv1.RemovePlanItem{Id: "x"}},
	})
	refuses(t, denied, eve.Workspaces.UndoChanges, &deckhandv1.UndoChangesRequest{TaskId: own, Last: 1})

	for name, client := range map[string]*sdk.Client{"its submitter": carl, "the agent's owner": ann} {
		require.Equal(t, 1, count(client, true), name)
		do(t, client.Files.ListFiles, list)
		// The task waits, and its jail is frozen: it is asked, which is all that matters here.
		_, err := client.NodeExecs.StartNodeExec(t.Context(), command)
		require.NotEqual(t, denied, connect.CodeOf(err), name)
		// The simulated node takes no files.
		_, err = client.Files.WriteFile(t.Context(), write)
		require.NotEqual(t, denied, connect.CodeOf(err), name)
		_, err = client.Files.SendFiles(t.Context(), send)
		require.NotEqual(t, denied, connect.CodeOf(err), name)
	}
	_, err = answerAs(t, carl, approve(item, ""))
	require.NoError(t, err)

	do(t, r.user.Organisations.SetTaskSharing, &deckhandv1.SetTaskSharingRequest{})
	require.Empty(t, listed())
}

// A disabled agent takes no new tasks, and says who has disabled it and what to do.
func TestADisabledAgentTakesNoTasks(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Start(t, hubtest.Config(t)))
	waits := r.submit("watch")
	disabled := do(t, r.user.Agents.DisableAgent, &deckhandv1.DisableAgentRequest{AgentId: "watch", Reason: "it is wrong"}).GetAgent()
	require.Equal(t, deckhandv1.AgentStatus_AGENT_STATUS_DISABLED, disabled.GetStatus())
	_, err := r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "watch", Goal: "x"})
	refused := fault.As(fault.FromConnect(err))
	require.NotNil(t, refused)
	require.Equal(t, "agent watch is disabled by admin: it is wrong", refused.Message)
	require.Equal(t, "let it take tasks again: deckhand agent enable watch", refused.Fix)
	hook, secret := r.webhook("hook", &deckhandv1.TriggerSpec{})
	sent := r.post(hook, secret, "1", `{}`)
	require.Equal(t, http.StatusAccepted, sent.status)
	require.Contains(t, r.handled(sent.body.DeliveryID).GetReason(), "disabled by admin")
	require.Contains(t, r.task(waits.GetId()).GetReason(), "deckhand agent enable watch")
	do(t, r.user.Agents.EnableAgent, &deckhandv1.EnableAgentRequest{AgentId: "watch"})
	r.submit("watch")
}

// Tasks that have started go on to their end when their agent is disabled, or deleted so
// that they finish; those that have not wait.
func TestStartedTasksGoOnWithoutTheirAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	started, _, first := r.park("asker", "shell_exec", `{"command":"true"}`)
	do(t, r.user.Agents.DisableAgent, &deckhandv1.DisableAgentRequest{AgentId: "asker"})
	_, err := r.answer(approve(first.GetId(), ""))
	require.NoError(t, err)
	lease := r.begin(started.GetId(), 2)
	r.fail(lease, "INTERNAL", "it is enough")

	do(t, r.user.Agents.EnableAgent, &deckhandv1.EnableAgentRequest{AgentId: "asker"})
	other, _, second := r.park("asker", "shell_exec", `{"command":"true"}`)
	do(t, r.user.Agents.DeleteAgent, &deckhandv1.DeleteAgentRequest{AgentId: "asker", Confirm: "asker", Tasks: "finish"})
	_, err = r.answer(approve(second.GetId(), ""))
	require.NoError(t, err)
	r.begin(other.GetId(), 2)
}

// A deleted agent keeps its history and its name for seven days, in which the deletion can
// be undone; nothing starts it. Then its name is free, and nothing of it goes to the next
// agent that has it.
func TestADeletionCanBeUndoneForSevenDays(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Start(t, hubtest.Config(t)))
	hook, secret := r.webhook("hook", &deckhandv1.TriggerSpec{})
	task := r.submit("watch").GetId()
	do(t, r.user.Credentials.CreateCredential, &deckhandv1.CreateCredentialRequest{
		Name: "of-watch", Kind: "bearer", Hosts: []string{"api.example.com"}, Agents: []string{"watch"}, Value: &deckhandv1.CredentialValue{Token: "dGhlIHdhbGs9k2Lq"},
	})
	place := do(t, r.user.Destinations.CreateDestination, &deckhandv1.CreateDestinationRequest{Name: "ops", Spec: &deckhandv1.DestinationSpec{
		Events: []string{"failures"}, Agents: []string{"watch"}, To: &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: "https://example.com/hook"}},
		ForAgents: &deckhandv1.AgentAccess{Agents: []string{"watch", "other"}},
	}}).GetDestination().GetId()
	del := func(confirm, tasks string) (*deckhandv1.DeleteAgentResponse, error) {
		res, err := r.user.Agents.DeleteAgent(t.Context(), &deckhandv1.DeleteAgentRequest{AgentId: "watch", Confirm: confirm, Tasks: tasks, Reason: "old"})
		if err != nil {
			return nil, err
		}
		return res, nil
	}
	_, err := del("wach", "cancel")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = del("watch", "")
	require.ErrorContains(t, err, "has 1 tasks that have not ended")
	gone, err := del("watch", "cancel")
	require.NoError(t, err)
	require.Equal(t, []string{task}, gone.GetCancelledTaskIds())
	require.Equal(t, "admin", gone.GetAgent().GetDeletedBy())
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_CANCELLED, r.task(task).GetState())
	require.Equal(t, "watch", r.task(task).GetAgentName(), "its history is there")
	require.Equal(t, http.StatusGone, r.post(hook, secret, "1", `{}`).status)
	require.False(t, sees(t, r.user, "watch"))
	_, err = r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "watch", Goal: "x"})
	require.ErrorContains(t, err, "agent watch was deleted by admin")
	_, err = r.user.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{Markdown: scripted("watch"), Script: "turns: []\n"})
	require.ErrorContains(t, err, "deckhand agent undelete watch")
	past := do(t, r.user.Agents.ListAgents, &deckhandv1.ListAgentsRequest{Deleted: true}).GetAgents()
	require.Len(t, past, 1)
	require.Len(t, do(t, r.user.Tasks.ListTasks, &deckhandv1.ListTasksRequest{AgentId: "watch"}).GetTasks(), 1)

	back := do(t, r.user.Agents.UndeleteAgent, &deckhandv1.UndeleteAgentRequest{AgentId: "watch"})
	require.Equal(t, []string{"hook"}, back.GetTriggers())
	require.Equal(t, http.StatusAccepted, r.post(hook, secret, "2", `{}`).status)
	require.True(t, sees(t, r.user, "watch"))

	_, err = del("watch", "finish")
	require.NoError(t, err)
	r.exec("UPDATE agents SET deleted_at = now() - interval '7 days' WHERE name = 'watch'")
	refuses(t, connect.CodeFailedPrecondition, r.user.Agents.UndeleteAgent, &deckhandv1.UndeleteAgentRequest{AgentId: past[0].GetId()})
	r.apply("watch", scripted("watch"))
	require.NotEqual(t, past[0].GetId(), r.agent("watch").GetId())
	require.Empty(t, do(t, r.user.Tasks.ListTasks, &deckhandv1.ListTasksRequest{AgentId: "watch"}).GetTasks())
	require.NotEmpty(t, do(t, r.user.Tasks.ListTasks, &deckhandv1.ListTasksRequest{AgentId: past[0].GetId()}).GetTasks())
	require.Empty(t, do(t, r.user.Credentials.GetCredential, &deckhandv1.GetCredentialRequest{Name: "of-watch"}).GetCredential().GetAgents())
	left := do(t, r.user.Destinations.GetDestination, &deckhandv1.GetDestinationRequest{DestinationId: place}).GetDestination().GetSpec()
	require.Equal(t, []string{"other"}, left.GetForAgents().GetAgents())
	require.Equal(t, []string{"nobody@"}, left.GetAgents(), "events of none, and not of all")
	require.Equal(t, http.StatusNotFound, r.post(hook, secret, "3", `{}`).status)
	require.Len(t, r.audited("agent.deleted"), 2)
	require.Len(t, r.audited("agent.undeleted"), 1)
}

// A renamed agent keeps its history and its credentials, and its old name leads to it.
func TestARenamedAgentIsFoundByItsOldName(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	ann := r.as("ann", "advanced")
	do(t, ann.Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{Markdown: scripted("old"), Script: "turns: []\n"})
	id := r.agent("old").GetId()
	do(t, r.user.Credentials.CreateCredential, &deckhandv1.CreateCredentialRequest{
		Name: "of-old", Kind: "bearer", Hosts: []string{"api.example.com"}, Agents: []string{"old"}, Value: &deckhandv1.CredentialValue{Token: "dGhlIHdhbGs9k2Lq"},
	})
	task := do(t, ann.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: "old", Goal: "x"}).GetTask().GetId()
	spec := &deckhandv1.DestinationSpec{
		Events: []string{"failures"}, Agents: []string{"old"}, To: &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: "https://example.com/hook"}},
		ForAgents: &deckhandv1.AgentAccess{Agents: []string{"old", "other"}, CallsPerHour: 7},
	}
	place := do(t, r.user.Destinations.CreateDestination, &deckhandv1.CreateDestinationRequest{Name: "ops", Spec: spec}).GetDestination().GetId()
	open := func() *deckhandv1.DestinationSpec {
		return do(t, r.user.Destinations.GetDestination, &deckhandv1.GetDestinationRequest{DestinationId: place}).GetDestination().GetSpec()
	}
	refuses(t, connect.CodeInvalidArgument, ann.Agents.RenameAgent, &deckhandv1.RenameAgentRequest{AgentId: "old", Name: "No name"})
	renamed := do(t, ann.Agents.RenameAgent, &deckhandv1.RenameAgentRequest{AgentId: "old", Name: "new"}).GetAgent()
	require.Equal(t, id, renamed.GetId())
	require.EqualValues(t, 2, renamed.GetVersion())
	require.Equal(t, "new", r.agent("old").GetName(), "the old name leads to it")
	require.Equal(t, "new", r.task(task).GetAgentName())
	require.Contains(t, do(t, ann.Agents.GetAgent, &deckhandv1.GetAgentRequest{AgentId: "new"}).GetVersion().GetMarkdown(), "name: new\n")
	require.Equal(t, []string{"new"}, do(t, r.user.Credentials.GetCredential, &deckhandv1.GetCredentialRequest{Name: "of-old"}).GetCredential().GetAgents())

	require.Equal(t, []string{"new"}, open().GetAgents())
	require.Equal(t, []string{"new", "other"}, open().GetForAgents().GetAgents())
	require.EqualValues(t, 7, open().GetForAgents().GetCallsPerHour())
	// What names it as it was called goes to nobody else when the name is free.
	r.exec(`UPDATE destinations SET spec = jsonb_set(jsonb_set(spec, '{agents}', '["old"]'), '{forAgents,agents}', '["old"]') WHERE name = 'ops'`)
	r.exec("UPDATE egress_credentials SET agents = '{new,old}' WHERE name = 'of-old'")

	apply := func(c *sdk.Client) error {
		_, err := c.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{Markdown: scripted("old"), Script: "turns: []\n"})
		return err
	}
	require.ErrorContains(t, apply(ann), "which agent new had before")
	require.ErrorContains(t, apply(r.as("eve", "advanced")), "which agent new had before")
	do(t, ann.Agents.RenameAgent, &deckhandv1.RenameAgentRequest{AgentId: "new", Name: "new", Forget: true})
	require.Equal(t, []string{"new"}, open().GetAgents())
	require.Nil(t, open().GetForAgents())
	require.Equal(t, []string{"new"}, do(t, r.user.Credentials.GetCredential, &deckhandv1.GetCredentialRequest{Name: "of-old"}).GetCredential().GetAgents())
	require.NoError(t, apply(r.as("tim", "advanced")))
	require.NotEqual(t, id, r.agent("old").GetId())
	refuses(t, connect.CodeAlreadyExists, ann.Agents.RenameAgent, &deckhandv1.RenameAgentRequest{AgentId: "new", Name: "old"})
}

// A copy is its maker's, and may do no more than the original.
func TestADuplicateHasThePolicyAndNotTheTriggers(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	ann, tim := r.as("ann", "advanced"), r.as("tim", "advanced")
	markdown := strings.Replace(scripted("first"), "limits:", "triggers:\n  - name: nightly\n    cron: \"0 3 * * *\"\n    goal: Tidy up\n# The limits.\nlimits:", 1)
	do(t, ann.Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{Markdown: markdown, Script: "turns: []\n"})
	do(t, r.user.Policies.ApplyPolicy, &deckhandv1.ApplyPolicyRequest{AgentId: "first", Yaml: "rules:\n  - name: no shell\n    tool: shell_exec\n    effect: deny\n"})
	res := do(t, tim.Agents.DuplicateAgent, &deckhandv1.DuplicateAgentRequest{AgentId: "first", Name: "second"})
	require.True(t, res.GetDroppedTriggers())
	require.Equal(t, "user:tim", res.GetAgent().GetOwner())
	got := do(t, tim.Agents.GetAgent, &deckhandv1.GetAgentRequest{AgentId: "second"}).GetVersion().GetMarkdown()
	require.Equal(t, strings.Replace(scripted("first"), "limits:", "# The limits.\nlimits:", 1), strings.Replace(got, "name: second", "name: first", 1))
	require.Contains(t, do(t, tim.Policies.GetPolicy, &deckhandv1.GetPolicyRequest{AgentId: "second"}).GetPolicy().GetYaml(), "no shell")
	refuses(t, connect.CodeAlreadyExists, tim.Agents.DuplicateAgent, &deckhandv1.DuplicateAgentRequest{AgentId: "first", Name: "second"})
	do(t, ann.Agents.TransferAgent, &deckhandv1.TransferAgentRequest{AgentId: "first", Visibility: "private"})
	refuses(t, connect.CodeNotFound, tim.Agents.DuplicateAgent, &deckhandv1.DuplicateAgentRequest{AgentId: "first", Name: "third"})
	for _, a := range do(t, r.user.Agents.ListAgents, &deckhandv1.ListAgentsRequest{}).GetAgents() {
		require.NotEqual(t, "third", a.GetName(), "what was refused has left nothing")
	}
	copied := do(t, ann.Agents.DuplicateAgent, &deckhandv1.DuplicateAgentRequest{AgentId: "first", Name: "third"}).GetAgent()
	require.Equal(t, "private", copied.GetVisibility())
}

// Versions say what they changed, are compared, and can be restored.
func TestVersionsAreListedComparedAndRestored(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	first := scripted("many")
	second := strings.Replace(first, "iterations: 20", "iterations: 30", 1) + "And more.\n"
	r.apply("many", first)
	r.apply("many", second)
	list := do(t, r.user.Agents.ListAgentVersions, &deckhandv1.ListAgentVersionsRequest{AgentId: "many", PageSize: 1})
	require.Len(t, list.GetVersions(), 1)
	require.Equal(t, "limits.iterations, prompt (+1 -0 lines)", list.GetVersions()[0].GetChange())
	list = do(t, r.user.Agents.ListAgentVersions, &deckhandv1.ListAgentVersionsRequest{AgentId: "many", PageSize: 1, PageToken: list.GetNextPageToken()})
	require.Equal(t, "first version", list.GetVersions()[0].GetChange())
	require.Empty(t, list.GetNextPageToken())
	diff := do(t, r.user.Agents.DiffAgentVersions, &deckhandv1.DiffAgentVersionsRequest{AgentId: "many"})
	require.Contains(t, diff.GetDiff(), "--- many.md (version 1)\n+++ many.md (version 2)\n")
	require.Contains(t, diff.GetDiff(), "-limits: {iterations: 20}\n+limits: {iterations: 30}\n")
	refuses(t, connect.CodeNotFound, r.user.Agents.DiffAgentVersions, &deckhandv1.DiffAgentVersionsRequest{AgentId: "many", From: 1, To: 9})

	do(t, r.user.Agents.RenameAgent, &deckhandv1.RenameAgentRequest{AgentId: "many", Name: "several"})
	restored := do(t, r.user.Agents.RestoreAgentVersion, &deckhandv1.RestoreAgentVersionRequest{AgentId: "several", Version: 1})
	require.Empty(t, restored.GetTriggers())
	require.EqualValues(t, 4, restored.GetAgent().GetVersion())
	got := do(t, r.user.Agents.GetAgent, &deckhandv1.GetAgentRequest{AgentId: "several"})
	require.Equal(t, strings.Replace(first, "name: many", "name: several", 1), got.GetVersion().GetMarkdown())

	// A webhook that comes back with a version has a new secret, which is told once.
	hooked := strings.Replace(scripted("hooked"), "limits:", "triggers:\n  - name: pushed\n    webhook: token\n    goal: Look at it\nlimits:", 1)
	r.apply("hooked", hooked)
	r.apply("hooked", scripted("hooked"))
	triggers := do(t, r.user.Agents.RestoreAgentVersion, &deckhandv1.RestoreAgentVersionRequest{AgentId: "hooked", Version: 1}).GetTriggers()
	require.Len(t, triggers, 1)
	require.Equal(t, "created", triggers[0].GetChange())
	require.NotEmpty(t, triggers[0].GetSecret())
}

// A rule of the organisation's policy cannot be left behind with the name that it is about.
func TestAnAgentThatAPolicyNamesIsRenamedByAdministrators(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	ann := r.as("ann", "advanced")
	for _, name := range []string{"careful", "free"} {
		do(t, ann.Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{Markdown: scripted(name), Script: "turns: []\n"})
	}
	do(t, r.user.Policies.ApplyPolicy, &deckhandv1.ApplyPolicyRequest{
		Yaml: "rules:\n  - name: no shell\n    agent: careful*\n    tool: shell_exec\n    effect: deny\n  - name: rest\n    agent: \"*\"\n    tool: file_read\n    effect: allow\n",
	})
	rename := func(c *sdk.Client, from, to string, forget bool) error {
		_, err := c.Agents.RenameAgent(t.Context(), &deckhandv1.RenameAgentRequest{AgentId: from, Name: to, Forget: forget})
		return err
	}
	for _, err := range []error{rename(ann, "careful", "bold", false), rename(ann, "free", "careful-too", false)} {
		require.Equal(t, connect.CodePermissionDenied, connect.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "no shell")
	}
	require.NoError(t, rename(ann, "free", "freer", true))
	require.NoError(t, rename(r.user, "careful", "bold", false))
	require.ErrorContains(t, rename(ann, "bold", "bold", true), "no shell")
	require.NoError(t, rename(r.user, "bold", "bold", true))
}

// A task without a goal has that of its agent's persona, which the card shows.
func TestARunWithoutAGoalHasThePersonas(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("daily", strings.Replace(scripted("daily"), "limits: {iterations: 20}", "title: Reporter\navatar: \"\U0001F4F0\"\ngoal: Write the report of yesterday", 1))
	a := r.agent("daily")
	require.Equal(t, "Reporter", a.GetTitle())
	require.Equal(t, "\U0001F4F0", a.GetAvatar())
	require.Equal(t, "Write the report of yesterday", a.GetGoal())
	task := do(t, r.user.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: "daily"}).GetTask()
	require.Equal(t, "Write the report of yesterday", task.GetGoal())
}
