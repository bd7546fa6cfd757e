package hub_test

import (
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// declaring returns a persona's file with triggers.
func declaring(name, triggers string) string {
	return strings.Replace(scripted(name), "tools:", "triggers:\n"+triggers+"tools:", 1)
}

func (r *triggerRig) applied(name, triggers string, dryRun bool) (map[string]string, map[string]string, error) {
	r.t.Helper()
	res, err := r.user.Agents.ApplyAgent(r.t.Context(), &deckhandv1.ApplyAgentRequest{
		Filename: name + ".md", Markdown: declaring(name, triggers), Script: "turns: []\n", DryRun: dryRun,
	})
	if err != nil {
		return nil, nil, err
	}
	changes, secrets := map[string]string{}, map[string]string{}
	for _, t := range res.GetTriggers() {
		changes[t.GetName()] = t.GetChange()
		if t.GetSecret() != "" {
			secrets[t.GetName()] = t.GetSecret()
		}
	}
	return changes, secrets, nil
}

// The triggers that a persona names are made, changed and deleted as
// it is applied; those that people made stay, and so does what people switched
// off.
func TestAPersonaKeepsItsTriggers(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	r.create(&deckhandv1.CreateTriggerRequest{Name: "by-hand", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_MANUAL})
	const three = `  - {name: nightly, cron: "30 2 * * *"}
  - {name: reviews, webhook: github, goal: "Look at {{ payload.n }}."}
  - {name: tidy, loop: true, pause: 1h, max_runs: 1}
`
	_, _, err := r.applied("watch", three, true)
	require.NoError(t, err)
	list := func() map[string]*deckhandv1.Trigger {
		res, err := r.user.Triggers.ListTriggers(t.Context(), &deckhandv1.ListTriggersRequest{})
		require.NoError(t, err)
		out := map[string]*deckhandv1.Trigger{}
		for _, tr := range res.GetTriggers() {
			out[tr.GetName()] = tr
		}
		return out
	}
	require.Len(t, list(), 1, "a dry run makes none")
	changes, secrets, err := r.applied("watch", three, false)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"nightly": "created", "reviews": "created", "tidy": "created"}, changes)
	first := list()
	require.Len(t, first, 4)
	require.Equal(t, started, r.handled(r.post(first["reviews"], secrets["reviews"], "gh-1", `{"n": 1}`).body.DeliveryID).GetState())

	changes, secrets, err = r.applied("watch", three, false)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"nightly": "unchanged", "reviews": "unchanged", "tidy": "unchanged"}, changes)
	require.Empty(t, secrets)

	_, err = r.user.Triggers.DisableTrigger(t.Context(), &deckhandv1.DisableTriggerRequest{TriggerId: "nightly"})
	require.NoError(t, err)
	changes, secrets, err = r.applied("watch", `  - {name: nightly, cron: "45 2 * * *"}
  - {name: reviews, webhook: token}
  - {name: tidy, manual: true}
`, false)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"nightly": "updated", "reviews": "updated", "tidy": "created"}, changes)
	require.Empty(t, secrets, "a webhook keeps its URL and its secret")
	second := list()
	require.Equal(t, "45 2 * * *", second["nightly"].GetSpec().GetCron().GetSchedule())
	require.Equal(t, deckhandv1.TriggerState_TRIGGER_STATE_DISABLED, second["nightly"].GetState())
	require.Equal(t, first["reviews"].GetId(), second["reviews"].GetId())
	require.NotEqual(t, first["tidy"].GetId(), second["tidy"].GetId(), "of another kind, another trigger")

	_, err = r.user.Triggers.UpdateTrigger(t.Context(), &deckhandv1.UpdateTriggerRequest{TriggerId: "nightly", Spec: second["nightly"].GetSpec()})
	require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err), "the file says what it does")

	changes, _, err = r.applied("watch", "  - {name: tidy, manual: true}\n", false)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"nightly": "deleted", "reviews": "deleted", "tidy": "unchanged"}, changes)
	require.Len(t, list(), 2)
	require.Contains(t, list(), "by-hand")
	require.Equal(t, http.StatusNotFound, r.post(first["reviews"], "x", "gh-2", "{}").status)
}

// What cannot be is refused as a whole, with its line.
func TestAPersonaWithWrongTriggersIsRefused(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	r.create(&deckhandv1.CreateTriggerRequest{Name: "by-hand", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_MANUAL})
	for name, c := range map[string]struct{ text, want string }{
		"a schedule":       {"  - {name: a, cron: 61 * * * *}\n", "new.md:8: triggers, a: "},
		"a time zone":      {"  - {name: a, cron: '@daily', time_zone: Mars/Olympus}\n", "Mars/Olympus"},
		"CEL":              {"  - {name: a, webhook: token, filter: 'payload.'}\n", "new.md:8: triggers, a: spec.filter"},
		"a sender":         {"  - {name: a, webhook: gitbucket}\n", "new.md:8: triggers, a: "},
		"a policy":         {"  - {name: a, cron: '@daily', overlap: never}\n", "overlap"},
		"made by hand":     {"  - {name: by-hand, manual: true}\n", "made by hand"},
		"an unlimited one": {"  - {name: a, cron: '@daily'}\nmode: autonomous\nlimits_: 1\n", "unknown key"},
	} {
		_, _, err := r.applied("new", c.text, false)
		require.ErrorContains(t, err, c.want, name)
	}
	_, err := r.user.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{
		Filename: "new.md", Script: "turns: []\n",
		Markdown: strings.Replace(declaring("new", "  - {name: a, cron: '@daily'}\n"), "{iterations: 20}", "{iterations: 20, on_limit: pause}", 1),
	})
	require.ErrorContains(t, err, "cannot run unattended")
	res, err := r.user.Agents.ListAgents(t.Context(), &deckhandv1.ListAgentsRequest{})
	require.NoError(t, err)
	for _, a := range res.GetAgents() {
		require.NotEqual(t, "new", a.GetName(), "nothing was stored")
	}
	_, _, err = r.applied("new", "  - {name: a, manual: true}\n", false)
	require.NoError(t, err)
	_, _, err = r.applied("third", "  - {name: a, manual: true}\n", false)
	require.ErrorContains(t, err, "of another agent")
}
