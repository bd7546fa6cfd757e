package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/work/trigger"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (r *triggerRig) cron(name string, spec *deckhandv1.TriggerSpec) *deckhandv1.Trigger {
	r.t.Helper()
	tr, secret := r.create(&deckhandv1.CreateTriggerRequest{Name: name, Kind: deckhandv1.TriggerKind_TRIGGER_KIND_CRON, Spec: spec})
	require.Empty(r.t, secret)
	return tr
}

// due has a schedule's next slot be a time ago.
func (r *triggerRig) due(id string, slot time.Time) {
	r.t.Helper()
	r.sql("UPDATE triggers SET slot_at = $2, next_at = $2 WHERE id = $1 RETURNING id", id, slot)
}

// fired waits for a trigger's deliveries to be so many, and to be handled.
func (r *triggerRig) fired(trigger string, n int) []*deckhandv1.Delivery {
	r.t.Helper()
	var all []*deckhandv1.Delivery
	require.Eventually(r.t, func() bool {
		all = r.deliveries(trigger)
		for _, d := range all {
			if d.GetState() == accepted {
				return false
			}
		}
		return len(all) >= n
	}, patience, 10*time.Millisecond, "%d deliveries of %s", n, trigger)
	require.Len(r.t, all, n)
	return all
}

// A schedule fires in its slot, once, with many hubs, and says so to the
// agent; the next five runs are shown.
func TestAScheduleFiresOnceWithManyHubs(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	nats := hubtest.NewNATS(t)
	nats.Use(&cfg)
	r := &triggerRig{newRig(t, hubtest.Start(t, cfg), nil)}
	r.apply("watch", scripted("watch"))
	for range 2 {
		hubtest.Start(t, hubtest.Beside(t, cfg))
	}
	tr := r.cron("nightly", &deckhandv1.TriggerSpec{
		Goal: "Look at the logs.", Cron: &deckhandv1.CronSpec{Schedule: "30 2 * * *", TimeZone: "Europe/Berlin", Jitter: durationpb.New(time.Minute)},
	})
	require.Len(t, tr.GetNextRuns(), 5)
	for i, run := range tr.GetNextRuns() {
		at := run.AsTime()
		require.True(t, at.After(time.Now()))
		if i > 0 {
			require.True(t, at.After(tr.GetNextRuns()[i-1].AsTime()))
		}
	}
	slot := time.Now().UTC().Truncate(time.Second).Add(-time.Second)
	r.due(tr.GetId(), slot)
	d := r.fired("nightly", 1)[0]
	require.Equal(t, started, d.GetState(), d.GetReason())
	require.Equal(t, "cron", d.GetSource())
	require.Equal(t, slot, d.GetSlot().AsTime())
	task := r.task(d.GetTaskId())
	require.Equal(t, "Look at the logs.", task.GetGoal())
	require.Contains(t, task.GetContext(), "This is a scheduled wake-up: the schedule 30 2 * * * Europe/Berlin of trigger nightly came due at "+slot.Format(time.RFC3339))
	require.NotContains(t, task.GetContext(), "caught up")
	require.True(t, r.trigger("nightly").GetNextRuns()[0].AsTime().After(time.Now()))

	// The clock is set back: its slot has been, whatever the time is.
	r.due(tr.GetId(), slot)
	require.Eventually(t, func() bool {
		return r.sql("SELECT (next_at > clock_timestamp())::text FROM triggers WHERE id = $1", tr.GetId()) == "true"
	}, patience, 10*time.Millisecond)
	r.fired("nightly", 1)
}

// A hub that was down for three slots, under each policy.
func TestMissedRuns(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	// An hourly schedule whose newest slot was five minutes ago, whatever the time is.
	newest := time.Now().UTC().Add(-5 * time.Minute).Truncate(time.Minute)
	for policy, want := range map[string]int{"skip": 1, "once": 1, "all": 3, "all but two": 2} {
		name := strings.ReplaceAll(policy, " ", "-")
		spec := &deckhandv1.TriggerSpec{Overlap: "allow", Cron: &deckhandv1.CronSpec{Schedule: fmt.Sprintf("%d * * * *", newest.Minute()), Missed: policy}}
		if policy == "all but two" {
			spec.Cron.Missed, spec.Cron.MaxMissed = "all", 2
		}
		tr := r.cron(name, spec)
		r.due(tr.GetId(), newest.Add(-2*time.Hour))
		all := r.fired(name, want)
		require.Equal(t, newest, all[len(all)-1].GetSlot().AsTime().Add(time.Duration(want-1)*time.Hour), policy)
		for _, d := range all {
			if policy == "skip" {
				require.Equal(t, filtered, d.GetState())
				require.Contains(t, d.GetReason(), "missed is skip")
				continue
			}
			require.Equal(t, started, d.GetState(), d.GetReason())
			require.Contains(t, r.task(d.GetTaskId()).GetContext(), "it is caught up on now")
		}
		require.True(t, r.trigger(name).GetNextRuns()[0].AsTime().After(time.Now()))
	}
}

// What happens while the run before goes on.
func TestOverlap(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	fire := func(name string) string {
		res, err := r.user.Triggers.FireTrigger(t.Context(), &deckhandv1.FireTriggerRequest{TriggerId: name})
		require.NoError(t, err)
		return res.GetDelivery().GetId()
	}
	make := func(overlap string) string {
		r.create(&deckhandv1.CreateTriggerRequest{Name: overlap, Kind: deckhandv1.TriggerKind_TRIGGER_KIND_MANUAL, Spec: &deckhandv1.TriggerSpec{Overlap: overlap}})
		return overlap
	}
	allow := make("allow")
	require.Equal(t, started, r.handled(fire(allow)).GetState())
	require.Equal(t, started, r.handled(fire(allow)).GetState())

	skip := make("skip")
	first := r.handled(fire(skip))
	left := r.handled(fire(skip))
	require.Equal(t, filtered, left.GetState())
	require.Contains(t, left.GetReason(), first.GetTaskId())
	r.cancel(first.GetTaskId())
	require.Equal(t, started, r.handled(fire(skip)).GetState(), "the run before has ended")

	queue := make("queue")
	first = r.handled(fire(queue))
	second, third := fire(queue), fire(queue)
	for _, id := range []string{second, third} {
		require.Eventually(t, func() bool { return strings.HasPrefix(r.delivery(id).GetReason(), "waits for") }, patience, 10*time.Millisecond)
	}
	r.cancel(first.GetTaskId())
	next := r.handled(second)
	require.Equal(t, started, next.GetState())
	require.Equal(t, accepted, r.delivery(third).GetState(), "one at a time, in order")
	r.cancel(next.GetTaskId())
	require.Equal(t, started, r.handled(third).GetState())

	replace := make("replace")
	first = r.handled(fire(replace))
	second = fire(replace)
	require.Equal(t, started, r.handled(second).GetState())
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_CANCELLED, r.task(first.GetTaskId()).GetState())
	require.Contains(t, r.task(first.GetTaskId()).GetReason(), second)
}

// Triggers that share a key run one at a time together.
func TestSingleFlight(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	spec := func() *deckhandv1.TriggerSpec {
		return &deckhandv1.TriggerSpec{SingleFlight: "repo-{{ payload.repo }}", Overlap: "skip", Goal: "x"}
	}
	one, secret1 := r.webhook("one", spec())
	two, secret2 := r.webhook("two", spec())
	a := r.handled(r.post(one, secret1, "1", `{"repo":"a"}`).body.DeliveryID)
	require.Equal(t, started, a.GetState())
	b := r.handled(r.post(two, secret2, "1", `{"repo":"a"}`).body.DeliveryID)
	require.Equal(t, filtered, b.GetState())
	require.Contains(t, b.GetReason(), a.GetTaskId())
	require.Equal(t, started, r.handled(r.post(two, secret2, "2", `{"repo":"b"}`).body.DeliveryID).GetState())
}

// A loop's next run begins after the last one's end and a pause, until its
// limit or a person stops it.
func TestALoop(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	loop := func(name string, spec *deckhandv1.LoopSpec) *deckhandv1.Trigger {
		tr, _ := r.create(&deckhandv1.CreateTriggerRequest{
			Name: name, Kind: deckhandv1.TriggerKind_TRIGGER_KIND_LOOP, Spec: &deckhandv1.TriggerSpec{Goal: "Go round.", Loop: spec},
		})
		return tr
	}
	loop("quick", &deckhandv1.LoopSpec{Pause: durationpb.New(0), MaxRuns: 2})
	first := r.fired("quick", 1)[0]
	require.Contains(t, r.task(first.GetTaskId()).GetContext(), "run 1 of the loop quick")
	require.Empty(t, r.trigger("quick").GetNextRuns(), "its run goes on")
	r.cancel(first.GetTaskId())
	second := r.fired("quick", 2)[0]
	require.NotEqual(t, first.GetTaskId(), second.GetTaskId())
	require.Contains(t, r.task(second.GetTaskId()).GetContext(), "The run before was task "+first.GetTaskId())
	r.cancel(second.GetTaskId())
	require.Eventually(t, func() bool { return r.trigger("quick").GetState() == deckhandv1.TriggerState_TRIGGER_STATE_TRIPPED }, patience, 10*time.Millisecond)
	require.Contains(t, r.trigger("quick").GetReason(), "it has run 2 times")

	loop("slow", &deckhandv1.LoopSpec{Pause: durationpb.New(time.Hour)})
	first = r.fired("slow", 1)[0]
	r.cancel(first.GetTaskId())
	require.Eventually(t, func() bool { return len(r.trigger("slow").GetNextRuns()) == 1 }, patience, 10*time.Millisecond)
	ended := r.task(first.GetTaskId()).GetFinishedAt().AsTime()
	require.WithinDuration(t, ended.Add(time.Hour), r.trigger("slow").GetNextRuns()[0].AsTime(), time.Second)

	dear := int64(1_000_000)
	loop("dear", &deckhandv1.LoopSpec{Pause: durationpb.New(0), BudgetMicros: &dear})
	first = r.fired("dear", 1)[0]
	r.sql("UPDATE tasks SET cost_micros = 1000000 WHERE id = $1 RETURNING id", first.GetTaskId())
	r.cancel(first.GetTaskId())
	require.Eventually(t, func() bool { return r.trigger("dear").GetState() == deckhandv1.TriggerState_TRIGGER_STATE_TRIPPED }, patience, 10*time.Millisecond)
	require.Contains(t, r.trigger("dear").GetReason(), "cost $1.00, of a budget of $1.00")
	require.Len(t, r.audited("trigger.tripped"), 2)
}

// A run says how long it is until the next one, within bounds.
func TestARunSaysWhenItsLoopGoesOn(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	for name, c := range map[string]struct {
		spec  *deckhandv1.LoopSpec
		asked string
		want  time.Duration
	}{
		"as-asked":  {&deckhandv1.LoopSpec{}, `,"next_run_in_seconds":7200`, 2 * time.Hour},
		"not-asked": {&deckhandv1.LoopSpec{Pause: durationpb.New(3 * time.Hour)}, "", 3 * time.Hour},
		"too-long":  {&deckhandv1.LoopSpec{}, `,"next_run_in_seconds":2592000`, 24 * time.Hour},
		"too-short": {&deckhandv1.LoopSpec{LeastPause: durationpb.New(time.Hour)}, `,"next_run_in_seconds":0`, time.Hour},
		"its-most":  {&deckhandv1.LoopSpec{MostPause: durationpb.New(90 * time.Minute)}, `,"next_run_in_seconds":86400`, 90 * time.Minute},
	} {
		r.create(&deckhandv1.CreateTriggerRequest{
			Name: name, Kind: deckhandv1.TriggerKind_TRIGGER_KIND_LOOP, Spec: &deckhandv1.TriggerSpec{Goal: "Go round.", Loop: c.spec},
		})
		id := r.fired(name, 1)[0].GetTaskId()
		require.Contains(t, r.task(id).GetContext(), "next_run_in_seconds of complete_task, ", name)
		lease := r.begin(id, 1)
		r.turn(lease, 1)
		_, err := r.propose(lease, 1, 0, "complete_task", `{"summary":"s"`+c.asked+`}`)
		require.NoError(t, err)
		r.finish(lease)
		require.Eventually(t, func() bool { return len(r.trigger(name).GetNextRuns()) == 1 }, patience, 10*time.Millisecond, name)
		ended := r.task(id).GetFinishedAt().AsTime()
		require.WithinDuration(t, ended.Add(c.want), r.trigger(name).GetNextRuns()[0].AsTime(), time.Second, name)
	}
	_, err := r.user.Triggers.CreateTrigger(t.Context(), &deckhandv1.CreateTriggerRequest{
		Name: "wrong", AgentId: "watch", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_LOOP,
		Spec: &deckhandv1.TriggerSpec{Loop: &deckhandv1.LoopSpec{LeastPause: durationpb.New(time.Hour), MostPause: durationpb.New(time.Minute)}},
	})
	require.ErrorContains(t, err, "least_pause")
}

// By hand, with the persona's own instructions or with a goal.
func TestByHand(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	r.create(&deckhandv1.CreateTriggerRequest{Name: "button", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_MANUAL})
	fire := func(goal, key string) *deckhandv1.Delivery {
		res, err := r.user.Triggers.FireTrigger(t.Context(), &deckhandv1.FireTriggerRequest{TriggerId: "button", Goal: goal, IdempotencyKey: key})
		require.NoError(t, err)
		return r.handled(res.GetDelivery().GetId())
	}
	own := fire("", "k")
	require.Equal(t, "Follow your standing instructions.", r.task(own.GetTaskId()).GetGoal())
	require.Equal(t, own.GetId(), fire("", "k").GetId(), "repeating it is harmless")
	given := r.task(fire("Count the {{ stars }}.", "").GetTaskId())
	require.Equal(t, "Count the {{ stars }}.", given.GetGoal(), "a person's own words are no template")
	require.Contains(t, given.GetContext(), "admin started this run")
}

// A trigger whose runs are dear stops, and says so.
func TestTheSpendBreaker(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	cost := int64(500_000)
	tr, secret := r.webhook("hook", &deckhandv1.TriggerSpec{BreakerRuns: 2, BreakerCostMicros: &cost, Goal: "x"})
	for i := range 2 {
		d := r.handled(r.post(tr, secret, fmt.Sprint(i), "{}").body.DeliveryID)
		require.Equal(t, started, d.GetState(), d.GetReason())
		r.sql("UPDATE tasks SET cost_micros = 600000 WHERE id = $1 RETURNING id", d.GetTaskId())
		r.cancel(d.GetTaskId())
	}
	d := r.handled(r.post(tr, secret, "3", "{}").body.DeliveryID)
	require.Equal(t, failed, d.GetState())
	require.Contains(t, d.GetReason(), "2 runs of the last hour cost $0.50 or more each")
	got := r.trigger("hook")
	require.Equal(t, deckhandv1.TriggerState_TRIGGER_STATE_TRIPPED, got.GetState())
	require.Contains(t, got.GetReason(), "deckhand trigger enable hook")
	require.Equal(t, http.StatusGone, r.post(tr, secret, "4", "{}").status)
	require.Equal(t, "hub", r.audited("trigger.tripped")[0].GetActorKind())

	_, err := r.user.Triggers.EnableTrigger(t.Context(), &deckhandv1.EnableTriggerRequest{TriggerId: "hook"})
	require.NoError(t, err)
	again, err := r.user.Triggers.ReplayDelivery(t.Context(), &deckhandv1.ReplayDeliveryRequest{DeliveryId: d.GetId()})
	require.NoError(t, err)
	require.Equal(t, started, r.handled(again.GetDelivery().GetId()).GetState(), "what a person has looked at counts no more")
}

// An agent that could wait for ever gets no trigger that fires.
func TestUnattendedLint(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	r.apply("watch", strings.Replace(scripted("watch"), "{iterations: 20}", "{iterations: 20, on_limit: pause}", 1))
	request := func(name string, disabled, attended bool) *deckhandv1.CreateTriggerRequest {
		return &deckhandv1.CreateTriggerRequest{
			Name: name, AgentId: "watch", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_MANUAL, Spec: &deckhandv1.TriggerSpec{Attended: attended}, Disabled: disabled,
		}
	}
	_, err := r.user.Triggers.CreateTrigger(t.Context(), request("a", false, false))
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.ErrorContains(t, err, "limits.on_limit is pause")
	require.ErrorContains(t, err, "--attended")
	_, err = r.user.Triggers.CreateTrigger(t.Context(), request("a", true, false))
	require.NoError(t, err)
	_, err = r.user.Triggers.EnableTrigger(t.Context(), &deckhandv1.EnableTriggerRequest{TriggerId: "a"})
	require.ErrorContains(t, err, "cannot run unattended")
	_, err = r.user.Triggers.CreateTrigger(t.Context(), request("b", false, true))
	require.NoError(t, err)
}

// What is asked for wrongly is refused with the field and what to write instead.
func TestTriggersThatCannotBe(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	webhook, cron := deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK, deckhandv1.TriggerKind_TRIGGER_KIND_CRON
	for says, req := range map[string]*deckhandv1.CreateTriggerRequest{
		"spec.webhook.verify is missing":       {Kind: webhook},
		"spec.webhook does nothing":            {Kind: cron, Spec: &deckhandv1.TriggerSpec{Webhook: &deckhandv1.WebhookSpec{Verify: "token"}}},
		"spec.cron is missing":                 {Kind: cron},
		"there are no seconds":                 {Kind: cron, Spec: &deckhandv1.TriggerSpec{Cron: &deckhandv1.CronSpec{Schedule: "0 0 7 * * *"}}},
		"names time zone \"Mars\"":             {Kind: cron, Spec: &deckhandv1.TriggerSpec{Cron: &deckhandv1.CronSpec{Schedule: "@daily", TimeZone: "Mars"}}},
		"spec.filter is not CEL":               {Kind: webhook, Preset: "json", Spec: &deckhandv1.TriggerSpec{Filter: "("}},
		"preset github is for webhooks":        {Kind: cron, Preset: "github"},
		"fewer than 16":                        {Kind: webhook, Preset: "json", Secret: "short"},
		"not one of Standard Webhooks":         {Kind: webhook, Secret: "dhk_aaaaaaaaaaaaaaaaaaaa", Spec: &deckhandv1.TriggerSpec{Webhook: &deckhandv1.WebhookSpec{Verify: "standard"}}},
		"secret is for webhooks":               {Kind: deckhandv1.TriggerKind_TRIGGER_KIND_MANUAL, Secret: "dhk_aaaaaaaaaaaaaaaaaaaa"},
		"dedupe_header and dedupe_key":         {Kind: webhook, Preset: "json", Spec: &deckhandv1.TriggerSpec{Webhook: &deckhandv1.WebhookSpec{DedupeHeader: "A", DedupeKey: "'a'"}}},
		"go with verify hmac only":             {Kind: webhook, Preset: "github", Spec: &deckhandv1.TriggerSpec{Webhook: &deckhandv1.WebhookSpec{SignatureHeader: "A"}}},
		"spec.overlap does nothing for a loop": {Kind: deckhandv1.TriggerKind_TRIGGER_KIND_LOOP, Spec: &deckhandv1.TriggerSpec{Overlap: "skip"}},
	} {
		req.Name, req.AgentId = "bad", "watch"
		if req.Spec == nil {
			req.Spec = &deckhandv1.TriggerSpec{}
		}
		_, err := r.user.Triggers.CreateTrigger(t.Context(), req)
		require.ErrorContains(t, err, says)
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	}
	r.webhook("taken", &deckhandv1.TriggerSpec{})
	_, err := r.user.Triggers.CreateTrigger(t.Context(), &deckhandv1.CreateTriggerRequest{
		Name: "taken", AgentId: "watch", Kind: webhook, Preset: "json", Spec: &deckhandv1.TriggerSpec{},
	})
	require.True(t, fault.Is(err, fault.Exists), "%v", err)
}

// What is kept long enough goes, and nothing else does.
func TestOldDeliveriesAreDeleted(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Shared(t))
	days := int32(2)
	tr, secret := r.webhook("hook", &deckhandv1.TriggerSpec{RetentionDays: &days, Filter: "false"})
	other, secret2 := r.webhook("other", &deckhandv1.TriggerSpec{Filter: "false"})
	old := r.handled(r.post(tr, secret, "1", "{}").body.DeliveryID)
	kept := r.handled(r.post(other, secret2, "1", "{}").body.DeliveryID)
	fresh := r.handled(r.post(tr, secret, "2", "{}").body.DeliveryID)
	r.sql("WITH aged AS (UPDATE deliveries SET received_at = received_at - interval '3 days' WHERE id = ANY ($1) RETURNING 1) SELECT count(*)::text FROM aged",
		[]string{old.GetId(), kept.GetId()})
	require.NoError(t, trigger.New(trigger.Config{Store: r.store()}).Prune(t.Context())) // as the leader does
	require.Equal(t, fresh.GetId(), r.deliveries("hook")[0].GetId())
	require.Len(t, r.deliveries("hook"), 1)
	require.Len(t, r.deliveries("other"), 1)
}
