package hub_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/deckhand-sh/deckhand/hub/auth"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/store"
)

// shared are what people of one organisation change together, by their roles:
// agents, workspaces of agents, what runs there by hand, what is tried only, and what one makes of
// one's own. Stopping something is in it, too. A persona of somebody else's agent
// is not: see TestAnothersPersonaHasNotAnAdministratorsRights.
var shared = []string{
	"ApplyAgent", "PauseAgent", "ResumeAgent", "SubmitTask", "ReorderTask", "CreateTrigger", "DisableTrigger", "CreateToken", "CreateLoginCode",
	"TestPolicy", "TestTrigger", "UploadFiles", "SendFiles", "StartNodeExec", "KillNodeExec", "UndoNodeExec", "OpenTerminal",
}

// O2, G1: what is somebody else's, nobody changes who is no administrator, by any
// RPC.
func TestNobodyChangesWhatIsSomebodyElses(t *testing.T) {
	if testing.Short() {
		t.Skip("calls come one after the other: there is no race in it")
	}
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	s, err := store.Open(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	ann := organisation(t, h, s, "all")
	bob := userToken(t, s, ann.org, "bob", "advanced")
	walked := 0
	for _, m := range procedures() {
		rule, _ := auth.RuleOf(path(m))
		if rule.Kind != auth.User || rule.Public || auth.Reads(path(m)) || !auth.AtLeast("advanced", rule.Role) || slices.Contains(shared, string(m.Name())) {
			continue
		}
		walked++
		code, text := call(t, h.URL(), bob, m, ann.request(m.Input()))
		// Much that is somebody else's is not even found.
		want := []string{"permission_denied"}
		if name := m.Parent().Name(); name != "AgentService" {
			want = append(want, "not_found")
		}
		assert.Contains(t, want, code, "%s: %s", m.Name(), text)
	}
	require.Greater(t, walked, 20)
}

// What is somebody else's, nobody reads who is no administrator, by any RPC: to
// them it is not there.
func TestNobodyReadsWhatIsSomebodyElses(t *testing.T) {
	if testing.Short() {
		t.Skip("calls come one after the other: there is no race in it")
	}
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	s, err := store.Open(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	ann := organisation(t, h, s, "all")
	eve := userToken(t, s, ann.org, "eve", "advanced")
	walked := 0
	for _, m := range procedures() {
		rule, _ := auth.RuleOf(path(m))
		if rule.Kind != auth.User || rule.Public || !auth.Reads(path(m)) || !auth.AtLeast("advanced", rule.Role) || m.IsStreamingClient() {
			continue
		}
		request := ann.request(m.Input())
		owned := false
		for _, field := range []string{"task_id", "task_ids", "step_id", "item_id", "exec_id"} {
			_, has := request[field]
			owned = owned || has
		}
		if !owned || slices.Contains(named, string(m.Name())) {
			continue
		}
		walked++
		code, text := call(t, h.URL(), eve, m, request)
		assert.Contains(t, []string{"not_found", "permission_denied"}, code, "%s: %s", m.Name(), text)
		assert.NotContains(t, text, "the goal of ann", "%s", m.Name())
	}
	require.Greater(t, walked, 10)
	code, text := call(t, h.URL(), eve, procedure(t, "ListTasks"), map[string]any{})
	require.Empty(t, code, text)
	require.NotContains(t, text, ann.task)
	code, text = call(t, h.URL(), eve, procedure(t, "ListInbox"), map[string]any{})
	require.Empty(t, code, text)
	require.NotContains(t, text, ann.item)
	code, text = call(t, h.URL(), eve, procedure(t, "ListNodeExecs"), map[string]any{})
	require.Empty(t, code, text)
	require.NotContains(t, text, ann.exec)
	code, text = call(t, h.URL(), eve, procedure(t, "Watch"), map[string]any{})
	require.Empty(t, code, text)
	require.NotContains(t, text, ann.task)
}

// named are those that name a task for another reason.
var named []string

func procedure(t *testing.T, name string) protoreflect.MethodDescriptor {
	t.Helper()
	for _, m := range procedures() {
		if string(m.Name()) == name {
			return m
		}
	}
	require.Fail(t, "there is no procedure "+name)
	return nil
}
