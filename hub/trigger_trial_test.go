package hub_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A trigger is tried before it exists: with a payload, or with what another trigger received.
// It says what would start, and nothing is stored.
func TestATriggerIsTriedBeforeItExists(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	tr, secret := r.webhook("hook", &deckhandv1.TriggerSpec{})
	stored := r.handled(r.post(tr, secret, "1", opened).body.DeliveryID)
	try := func(spec *deckhandv1.TriggerSpec, change func(*deckhandv1.TestTriggerRequest)) (*deckhandv1.TestTriggerResponse, error) {
		req := &deckhandv1.TestTriggerRequest{AgentId: "watch", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK, Preset: "github", Spec: spec, DeliveryId: stored.GetId()}
		change(req)
		return r.user.Triggers.TestTrigger(t.Context(), req)
	}
	as := func(*deckhandv1.TestTriggerRequest) {}
	count := func() string {
		return r.sql("SELECT (SELECT count(*) FROM triggers WHERE org_id = o.id) || ' ' || (SELECT count(*) FROM deliveries WHERE org_id = o.id) || ' ' || (SELECT count(*) FROM tasks WHERE org_id = o.id) || ' ' || (SELECT count(*) FROM audit_entries WHERE org_id = o.id) FROM (SELECT org_id AS id FROM triggers WHERE id = $1) o", tr.GetId())
	}
	eve := r.as("eve", "advanced")
	before := count()

	tried, err := try(&deckhandv1.TriggerSpec{Filter: "true", Goal: "Review {{ title }}.", Mapping: map[string]string{"title": "payload.pull_request.title", "git_ref": "'v1'"}, Priority: 7, Overlap: "queue"}, as)
	require.NoError(t, err)
	require.Equal(t, started, tried.GetState(), tried.GetReason())
	require.Equal(t, "watch", tried.GetAgentName())
	require.Contains(t, tried.GetPrompt(), "Review ")
	require.NotEmpty(t, tried.GetMapped().GetFields()["title"].GetStringValue())
	require.Equal(t, "v1", tried.GetGitRef())
	require.EqualValues(t, 7, tried.GetPriority())
	require.Equal(t, "queue", tried.GetOverlap())

	tried, err = try(&deckhandv1.TriggerSpec{Filter: "payload.action == 'closed'"}, as)
	require.NoError(t, err)
	require.Equal(t, filtered, tried.GetState())
	tried, err = try(&deckhandv1.TriggerSpec{Filter: "true", Mapping: map[string]string{"git_ref": "'--upload-pack=x'"}}, as)
	require.NoError(t, err)
	require.Equal(t, failed, tried.GetState())
	require.Contains(t, tried.GetReason(), "no branch, tag or commit")
	tried, err = try(&deckhandv1.TriggerSpec{}, func(req *deckhandv1.TestTriggerRequest) {
		req.Kind, req.Preset, req.DeliveryId = deckhandv1.TriggerKind_TRIGGER_KIND_MANUAL, "", ""
	})
	require.NoError(t, err)
	require.Equal(t, started, tried.GetState(), tried.GetReason())
	require.Equal(t, "allow", tried.GetOverlap())

	// Each sender names its events in its own way.
	for preset, event := range map[string]string{"github": "pull_request", "gitlab": ""} {
		tried, err = try(&deckhandv1.TriggerSpec{Filter: "event == '" + event + "'"}, func(req *deckhandv1.TestTriggerRequest) { req.Preset = preset })
		require.NoError(t, err)
		require.Equal(t, event, tried.GetEvent())
		require.Equal(t, started, tried.GetState(), tried.GetReason())
	}

	// What a change of a trigger refuses, a test of the change does.
	_, err = r.user.Triggers.TestTrigger(t.Context(), &deckhandv1.TestTriggerRequest{
		TriggerId: "hook", DeliveryId: stored.GetId(), Spec: &deckhandv1.TriggerSpec{Webhook: &deckhandv1.WebhookSpec{Verify: "standard"}},
	})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.ErrorContains(t, err, "its secret has another form")

	for name, change := range map[string]func(*deckhandv1.TestTriggerRequest){
		"a trigger and an agent":       func(req *deckhandv1.TestTriggerRequest) { req.TriggerId = "hook" },
		"neither":                      func(req *deckhandv1.TestTriggerRequest) { req.AgentId = "" },
		"no kind":                      func(req *deckhandv1.TestTriggerRequest) { req.Kind = 0 },
		"an unknown preset":            func(req *deckhandv1.TestTriggerRequest) { req.Preset = "sourcehut" },
		"a filter with an error":       func(req *deckhandv1.TestTriggerRequest) { req.Spec.Filter = "((" },
		"an agent that does not exist": func(req *deckhandv1.TestTriggerRequest) { req.AgentId = "nobody" },
	} {
		_, err := try(&deckhandv1.TriggerSpec{}, change)
		require.Error(t, err, name)
	}
	_, err = eve.Triggers.TestTrigger(t.Context(), &deckhandv1.TestTriggerRequest{
		AgentId: "watch", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK, Preset: "github", DeliveryId: stored.GetId(),
	})
	require.True(t, fault.Is(err, fault.NotFound), "somebody else's delivery: %v", err)
	require.Equal(t, before, count(), "trying stores nothing")
}
