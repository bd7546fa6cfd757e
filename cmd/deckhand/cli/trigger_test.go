package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func triggerOf(req *deckhandv1.CreateTriggerRequest) *deckhandv1.Trigger {
	return &deckhandv1.Trigger{Id: "trig_1", Name: req.GetName(), Kind: req.GetKind(), Spec: req.GetSpec(), Path: "/webhooks/trig_1", AgentName: "watch"}
}

func (*testHub) CreateTrigger(_ context.Context, req *deckhandv1.CreateTriggerRequest) (*deckhandv1.CreateTriggerResponse, error) {
	res := &deckhandv1.CreateTriggerResponse{Trigger: triggerOf(req)}
	if req.GetKind() == deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK {
		res.Secret = "dhk_secret"
	}
	return res, nil
}

func (*testHub) GetTrigger(context.Context, *deckhandv1.GetTriggerRequest) (*deckhandv1.GetTriggerResponse, error) {
	return &deckhandv1.GetTriggerResponse{Trigger: &deckhandv1.Trigger{Id: "trig_1", Name: "reviews", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK, Spec: &deckhandv1.TriggerSpec{
		Goal: "Look.", Mapping: map[string]string{"a": "1", "b": "2"}, Webhook: &deckhandv1.WebhookSpec{Verify: "github"},
	}}}, nil
}

func (*testHub) UpdateTrigger(_ context.Context, req *deckhandv1.UpdateTriggerRequest) (*deckhandv1.UpdateTriggerResponse, error) {
	return &deckhandv1.UpdateTriggerResponse{Trigger: &deckhandv1.Trigger{Name: "reviews", Spec: req.GetSpec()}}, nil
}

func (*testHub) TestTrigger(context.Context, *deckhandv1.TestTriggerRequest) (*deckhandv1.TestTriggerResponse, error) {
	return &deckhandv1.TestTriggerResponse{State: deckhandv1.DeliveryState_DELIVERY_STATE_FAILED, Reason: "no such key: title"}, nil
}

func (h *testHub) lastRequest(name string) proto.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[name]
}

// What is typed is what is asked for.
func TestTriggersAreMade(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	res := h.run(t, "trigger", "create", "reviews", "--agent", "watch", "--webhook", "github", "--filter", "payload.draft == false", "--map", "title=payload.a",
		"--rate", "60", "--breaker-cost", "0.5", "--max-bytes", "5000")
	require.Zero(t, res.code, res.stderr)
	require.Contains(t, res.stderr, h.url+"/webhooks/trig_1\ndhk_secret")
	require.NotContains(t, res.stdout, "dhk_secret")
	got, ok := h.lastRequest("CreateTriggerRequest").(*deckhandv1.CreateTriggerRequest)
	require.True(t, ok)
	require.Equal(t, "github", got.GetPreset())
	require.Equal(t, "payload.draft == false", got.GetSpec().GetFilter())
	require.Equal(t, map[string]string{"title": "payload.a"}, got.GetSpec().GetMapping())
	require.EqualValues(t, 60, got.GetSpec().GetWebhook().GetRatePerMinute())
	require.EqualValues(t, 500_000, got.GetSpec().GetBreakerCostMicros())

	res = h.run(t, "trigger", "create", "hook", "--agent", "watch", "--webhook", "token")
	require.Zero(t, res.code, res.stderr)
	require.Contains(t, res.stderr, "/webhooks/trig_1?token=dhk_secret")

	res = h.run(t, "trigger", "create", "nightly", "--agent", "watch", "--cron", "30 2 * * *", "--time-zone", "Europe/Berlin", "--jitter", "1m", "--missed", "all", "--goal", "Look.")
	require.Zero(t, res.code, res.stderr)
	require.Contains(t, res.stdout, "30 2 * * * Europe/Berlin")
	require.Contains(t, res.stdout, " cron ")
	got, _ = h.lastRequest("CreateTriggerRequest").(*deckhandv1.CreateTriggerRequest)
	require.Equal(t, deckhandv1.TriggerKind_TRIGGER_KIND_CRON, got.GetKind())
	require.Equal(t, time.Minute, got.GetSpec().GetCron().GetJitter().AsDuration())
	require.Nil(t, got.GetSpec().GetWebhook())

	res = h.run(t, "trigger", "create", "tidy", "--agent", "watch", "--loop", "--pause", "0s")
	require.Zero(t, res.code, res.stderr)
	got, _ = h.lastRequest("CreateTriggerRequest").(*deckhandv1.CreateTriggerRequest)
	require.NotNil(t, got.GetSpec().GetLoop().GetPause())

	for _, args := range [][]string{
		{"a", "--agent", "watch"}, {"a", "--agent", "watch", "--loop", "--manual"}, {"a", "--agent", "watch", "--webhook", "gitbucket"},
		{"a", "--webhook", "github"}, {"a", "--agent", "watch", "--loop", "--map", "x"}, {"a", "--agent", "watch", "--loop", "--loop-budget", "-1"},
		{"A", "--agent", "watch", "--manual"},
	} {
		require.Equal(t, 2, h.run(t, append([]string{"trigger", "create"}, args...)...).code, "%v", args)
	}
}

// What a persona's webhook needs is told once, and beside the data.
func TestTriggersOfAPersonaAreTold(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	file := filepath.Join(t.TempDir(), "watch.md")
	require.NoError(t, os.WriteFile(file, []byte("---\nname: watch\ndescription: d\nprovider: anthropic\nmodel: m\ntools: [shell_exec]\nlimits: {iterations: 5}\n"+
		"triggers:\n  - {name: hook, webhook: token}\n---\nGo.\n"), 0o600))
	res := h.run(t, "agent", "apply", "-f", file)
	require.Zero(t, res.code, res.stderr)
	require.Contains(t, res.stderr, "trigger hook (webhook): created")
	require.Contains(t, res.stderr, h.url+"/webhooks/trig_1?token=dhk_secret")
	require.NotContains(t, res.stdout, "dhk_secret")
}

func TestATriggerIsChangedInPartsAndTried(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	require.Zero(t, h.run(t, "trigger", "update", "reviews", "--filter", "false", "--map", "a=", "--map", "c=3").code)
	got, ok := h.lastRequest("UpdateTriggerRequest").(*deckhandv1.UpdateTriggerRequest)
	require.True(t, ok)
	require.Equal(t, "Look.", got.GetSpec().GetGoal())
	require.Equal(t, "false", got.GetSpec().GetFilter())
	require.Equal(t, map[string]string{"b": "2", "c": "3"}, got.GetSpec().GetMapping())
	require.Equal(t, "github", got.GetSpec().GetWebhook().GetVerify())

	file := filepath.Join(t.TempDir(), "payload.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"a":1}`), 0o600))
	res := h.run(t, "trigger", "test", "reviews", "--payload", file, "--header", "X-GitHub-Event=push", "--goal", "{{ payload.title }}")
	require.Equal(t, 1, res.code, "it would fail")
	require.Contains(t, res.stdout, "no such key: title")
	tried, ok := h.lastRequest("TestTriggerRequest").(*deckhandv1.TestTriggerRequest)
	require.True(t, ok)
	require.Equal(t, `{"a":1}`, string(tried.GetBody()))
	require.Equal(t, "push", tried.GetHeaders()["X-GitHub-Event"])
	require.Equal(t, "{{ payload.title }}", tried.GetSpec().GetGoal())
	require.Equal(t, 2, h.run(t, "trigger", "test", "reviews").code)

	// Before it exists.
	require.Equal(t, 1, h.run(t, "trigger", "test", "--agent", "watch", "--webhook", "github", "--payload", file, "--filter", "payload.a == 1").code)
	tried, ok = h.lastRequest("TestTriggerRequest").(*deckhandv1.TestTriggerRequest)
	require.True(t, ok)
	require.Empty(t, tried.GetTriggerId())
	require.Equal(t, "watch", tried.GetAgentId())
	require.Equal(t, "github", tried.GetPreset())
	require.Equal(t, deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK, tried.GetKind())
	require.Equal(t, "payload.a == 1", tried.GetSpec().GetFilter())
	for _, wrong := range [][]string{{"--payload", file}, {"reviews", "--agent", "watch", "--payload", file}, {"--agent", "watch", "--payload", file}, {"reviews", "--loop", "--payload", file},
		{"--agent", "watch", "--webhook", "github"}, {"--agent", "watch", "--loop", "--payload", file, "--delivery", "dlv_1"}} {
		require.Equal(t, 2, h.run(t, append([]string{"trigger", "test"}, wrong...)...).code, wrong)
	}
	// What no payload starts is tried without one.
	for _, kind := range [][]string{{"--loop"}, {"--cron", "0 9 * * *"}, {"--manual"}} {
		require.Equal(t, 1, h.run(t, append([]string{"trigger", "test", "--agent", "watch"}, kind...)...).code, kind)
		tried, ok = h.lastRequest("TestTriggerRequest").(*deckhandv1.TestTriggerRequest)
		require.True(t, ok)
		require.Empty(t, tried.GetBody())
	}
	require.Equal(t, 2, h.run(t, "trigger", "deliveries", "--state", "lost").code)
}
