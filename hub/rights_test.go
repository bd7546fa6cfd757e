package hub_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/auth"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/store"
)

// shared are what people of one organisation change together, by their roles:
// agents, workspaces of agents, what runs there by hand, what is tried only, and what one makes of
// one's own. Stopping something is in it, too.
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
		// Sessions and tokens of others are not even found.
		want := []string{"permission_denied"}
		if name := m.Parent().Name(); name == "SessionService" || name == "TokenService" {
			want = append(want, "not_found")
		}
		assert.Contains(t, want, code, "%s: %s", m.Name(), text)
	}
	require.Greater(t, walked, 20)
}
