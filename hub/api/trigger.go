package api

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/hold"
	"github.com/deckhand-sh/deckhand/hub/work/trigger"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Triggers serves TriggerService.
type Triggers struct {
	Store    *store.Store
	Triggers *trigger.Service
	Agents   *agent.Service
	Redact   *redact.Redactor
}

const (
	triggerPage  = 100
	deliveryPage = 50
	// nextRuns is how many are shown of a schedule.
	nextRuns = 5
	// oldSecretKept is how long a secret counts that was rotated.
	oldSecretKept = 24 * time.Hour
)

func (h *Triggers) message(row db.GetTriggerRow, standing hold.Set) (*deckhandv1.Trigger, error) {
	t := row.Trigger
	spec, err := trigger.Spec(t)
	if err != nil {
		return nil, err
	}
	m := &deckhandv1.Trigger{
		Id: t.ID, Name: t.Name, Kind: deckhandv1.TriggerKind(enumValue(deckhandv1.TriggerKind_value, "TRIGGER_KIND_", t.Kind)),
		AgentId: t.AgentID, AgentName: row.AgentName, Spec: spec,
		State:  deckhandv1.TriggerState(enumValue(deckhandv1.TriggerState_value, "TRIGGER_STATE_", t.State)),
		Reason: t.Reason, StateSince: timestamppb.New(t.StateAt), SecretEndsIn: t.Hint, LastTaskId: t.LastTaskID, Runs: t.Runs,
		CreatedBy: t.CreatedBy, CreatedAt: timestamppb.New(t.CreatedAt), UpdatedAt: timestamppb.New(t.UpdatedAt), Held: trigger.Held(standing, t),
	}
	if trigger.Kind(t.Kind) == trigger.Webhook {
		m.Path = trigger.Prefix + t.ID
	}
	if t.BeforeUntil != nil && t.BeforeUntil.After(row.Now) {
		m.OldSecretUntil = timestamppb.New(*t.BeforeUntil)
	}
	for _, at := range h.Triggers.NextRuns(t, nextRuns) {
		m.NextRuns = append(m.NextRuns, timestamppb.New(at))
	}
	return m, nil
}

// show returns a trigger in its current state.
func (h *Triggers) show(ctx context.Context, orgID, id string) (*deckhandv1.Trigger, error) {
	row, err := h.Triggers.Get(ctx, orgID, id)
	if err != nil {
		return nil, err
	}
	standing, err := hold.Of(ctx, h.Store.Queries, orgID)
	if err != nil {
		return nil, err
	}
	return h.message(row, standing)
}

// CreateTrigger creates a trigger.
func (h *Triggers) CreateTrigger(ctx context.Context, req *deckhandv1.CreateTriggerRequest) (*deckhandv1.CreateTriggerResponse, error) {
	who := auth.From(ctx)
	agentID, err := h.Agents.Find(ctx, viewer(ctx), req.GetAgentId())
	if err != nil {
		return nil, err
	}
	row, secret, err := h.Triggers.Create(ctx, trigger.Draft{
		OrgID: who.OrgID, Name: req.GetName(), AgentID: agentID, Kind: trigger.Kind(enumWord(req.GetKind(), "TRIGGER_KIND_")),
		Spec: req.GetSpec(), Preset: req.GetPreset(), Secret: req.GetSecret(), Disabled: req.GetDisabled(), By: actor(who),
	})
	if err != nil {
		return nil, err
	}
	m, err := h.show(ctx, who.OrgID, row.Trigger.ID)
	return &deckhandv1.CreateTriggerResponse{Trigger: m, Secret: secret}, err
}

// UpdateTrigger changes what a trigger does.
func (h *Triggers) UpdateTrigger(ctx context.Context, req *deckhandv1.UpdateTriggerRequest) (*deckhandv1.UpdateTriggerResponse, error) {
	who := auth.From(ctx)
	m, err := h.changeMine(ctx, req.GetTriggerId(), func(id string) error {
		return h.Triggers.Change(ctx, who.OrgID, id, func(now *deckhandv1.TriggerSpec) (*deckhandv1.TriggerSpec, error) {
			spec, err := masked(now, req.GetSpec(), req.GetUpdateMask())
			if err != nil {
				return nil, err
			}
			return spec, validated(spec)
		}, actor(who))
	})
	return &deckhandv1.UpdateTriggerResponse{Trigger: m}, err
}

// mine finds a trigger that the caller may have do things. Its tasks run with the
// rights of who made it, so it is theirs, and an administrator's. Anybody who may
// have triggers may stop it.
func (h *Triggers) mine(ctx context.Context, ref string) (string, error) {
	who := auth.From(ctx)
	id, err := h.Triggers.Find(ctx, viewer(ctx), ref)
	if err != nil {
		return "", err
	}
	row, err := h.Triggers.Get(ctx, who.OrgID, id)
	if err != nil {
		return "", err
	}
	if by := row.Trigger.CreatedBy; by != who.UserName && who.Role != auth.Admin {
		return "", fault.New(fault.Denied, "trigger %s is %s's, with whose rights its tasks run", row.Trigger.Name, by).
			WithCode(fault.PermissionDenied).WithObject(id).WithFix("ask them or an administrator, or make one of your own")
	}
	return id, nil
}

// changeMine is change of a trigger that is the caller's.
func (h *Triggers) changeMine(ctx context.Context, ref string, do func(id string) error) (*deckhandv1.Trigger, error) {
	id, err := h.mine(ctx, ref)
	if err != nil {
		return nil, err
	}
	return h.change(ctx, id, do)
}

// change finds a trigger, changes it with do and returns it.
func (h *Triggers) change(ctx context.Context, ref string, do func(id string) error) (*deckhandv1.Trigger, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Triggers.Find(ctx, viewer(ctx), ref)
	if err != nil {
		return nil, err
	}
	if err := do(id); err != nil {
		return nil, err
	}
	return h.show(ctx, org, id)
}

// GetTrigger returns a trigger.
func (h *Triggers) GetTrigger(ctx context.Context, req *deckhandv1.GetTriggerRequest) (*deckhandv1.GetTriggerResponse, error) {
	m, err := h.change(ctx, req.GetTriggerId(), func(string) error { return nil })
	return &deckhandv1.GetTriggerResponse{Trigger: m}, err
}

// ListTriggers returns triggers by name.
func (h *Triggers) ListTriggers(ctx context.Context, req *deckhandv1.ListTriggersRequest) (*deckhandv1.ListTriggersResponse, error) {
	ctx, total := withTotal(ctx, req)
	org := auth.From(ctx).OrgID
	size := req.GetPageSize()
	if size == 0 {
		size = triggerPage
	}
	agentID := ""
	if ref := req.GetAgentId(); ref != "" {
		var err error
		if agentID, err = h.Agents.Find(ctx, viewer(ctx), ref); err != nil {
			return nil, err
		}
	}
	rows, err := h.Triggers.List(ctx, viewer(ctx), agentID, req.GetPageToken(), size+1)
	if err != nil {
		return nil, err
	}
	standing, err := hold.Of(ctx, h.Store.Queries, org)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListTriggersResponse{}
	if len(rows) > int(size) {
		rows = rows[:size]
		res.NextPageToken = rows[size-1].Trigger.Name
	}
	for _, row := range rows {
		m, err := h.message(db.GetTriggerRow(row), standing)
		if err != nil {
			return nil, err
		}
		res.Triggers = append(res.Triggers, m)
	}
	res.Total, err = totalMessage(total, len(rows), res.GetNextPageToken())
	return res, err
}

// EnableTrigger lets a trigger fire.
func (h *Triggers) EnableTrigger(ctx context.Context, req *deckhandv1.EnableTriggerRequest) (*deckhandv1.EnableTriggerResponse, error) {
	who := auth.From(ctx)
	m, err := h.changeMine(ctx, req.GetTriggerId(), func(id string) error { return h.Triggers.Enable(ctx, who.OrgID, id, actor(who)) })
	return &deckhandv1.EnableTriggerResponse{Trigger: m}, err
}

// DisableTrigger keeps a trigger from firing.
func (h *Triggers) DisableTrigger(ctx context.Context, req *deckhandv1.DisableTriggerRequest) (*deckhandv1.DisableTriggerResponse, error) {
	who := auth.From(ctx)
	m, err := h.change(ctx, req.GetTriggerId(), func(id string) error {
		return h.Triggers.Disable(ctx, who.OrgID, id, req.GetReason(), actor(who))
	})
	return &deckhandv1.DisableTriggerResponse{Trigger: m}, err
}

// DeleteTrigger ends a trigger for good.
func (h *Triggers) DeleteTrigger(ctx context.Context, req *deckhandv1.DeleteTriggerRequest) (*deckhandv1.DeleteTriggerResponse, error) {
	who := auth.From(ctx)
	id, err := h.mine(ctx, req.GetTriggerId())
	if err == nil {
		err = h.Triggers.Delete(ctx, who.OrgID, id, actor(who))
	}
	return &deckhandv1.DeleteTriggerResponse{}, err
}

// RotateTriggerSecret gives a webhook another secret.
func (h *Triggers) RotateTriggerSecret(ctx context.Context, req *deckhandv1.RotateTriggerSecretRequest) (*deckhandv1.RotateTriggerSecretResponse, error) {
	who := auth.From(ctx)
	keep := oldSecretKept
	if d := req.GetKeep(); d != nil {
		keep = d.AsDuration()
	}
	res := &deckhandv1.RotateTriggerSecretResponse{}
	var err error
	res.Trigger, err = h.changeMine(ctx, req.GetTriggerId(), func(id string) (err error) {
		res.Secret, err = h.Triggers.Rotate(ctx, who.OrgID, id, req.GetSecret(), keep, actor(who))
		return err
	})
	return res, err
}

// FireTrigger starts a run by hand.
func (h *Triggers) FireTrigger(ctx context.Context, req *deckhandv1.FireTriggerRequest) (*deckhandv1.FireTriggerResponse, error) {
	who := auth.From(ctx)
	id, err := h.mine(ctx, req.GetTriggerId())
	if err != nil {
		return nil, err
	}
	made, err := h.Triggers.Fire(ctx, who.OrgID, id, req.GetGoal(), req.GetIdempotencyKey(), actor(who))
	if err != nil {
		return nil, err
	}
	d, err := h.delivery(ctx, who.OrgID, made)
	return &deckhandv1.FireTriggerResponse{Delivery: d}, err
}

// TestTrigger returns what a payload would lead to.
func (h *Triggers) TestTrigger(ctx context.Context, req *deckhandv1.TestTriggerRequest) (*deckhandv1.TestTriggerResponse, error) {
	who := auth.From(ctx)
	trial := trigger.Trial{Body: req.GetBody(), Headers: req.GetHeaders(), Spec: req.GetSpec()}
	var err error
	if ref := req.GetTriggerId(); ref != "" {
		trial.TriggerID, err = h.Triggers.Find(ctx, viewer(ctx), ref)
	} else {
		trial.Draft = trigger.Draft{Kind: trigger.Kind(enumWord(req.GetKind(), "TRIGGER_KIND_")), Spec: req.GetSpec(), Preset: req.GetPreset(), By: actor(who)}
		trial.Role = who.Role
		trial.Draft.AgentID, err = h.Agents.Find(ctx, viewer(ctx), req.GetAgentId())
	}
	if err != nil {
		return nil, err
	}
	if ref := req.GetDeliveryId(); ref != "" {
		if trial.DeliveryID, err = h.Triggers.FindDelivery(ctx, viewer(ctx), ref); err != nil {
			return nil, err
		}
	}
	v, err := h.Triggers.Test(ctx, who.OrgID, trial)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.TestTriggerResponse{
		State: deliveryState(v.State), Reason: v.Reason, Event: v.Event, Key: v.Key, Prompt: maskOf(ctx, h.Redact).String(v.Prompt), Flight: v.Flight,
		AgentName: v.Agent, Priority: v.Priority, GitRef: v.GitRef, Overlap: v.Overlap,
	}
	if data, err := json.Marshal(maskOf(ctx, h.Redact).Map(v.Mapped)); err == nil {
		res.Mapped = object(data)
	}
	return res, nil
}

func deliveryState(word string) deckhandv1.DeliveryState {
	return deckhandv1.DeliveryState(enumValue(deckhandv1.DeliveryState_value, "DELIVERY_STATE_", word))
}

// ListDeliveries returns the firings that the caller sees.
func (h *Triggers) ListDeliveries(ctx context.Context, req *deckhandv1.ListDeliveriesRequest) (*deckhandv1.ListDeliveriesResponse, error) {
	ctx, total := withTotal(ctx, req)
	f := trigger.Filter{PageSize: req.GetPageSize(), PageToken: req.GetPageToken()}
	if f.PageSize == 0 {
		f.PageSize = deliveryPage
	}
	for _, state := range req.GetStates() {
		f.States = append(f.States, enumWord(state, "DELIVERY_STATE_"))
	}
	var err error
	if ref := req.GetTriggerId(); ref != "" {
		if f.TriggerID, err = h.Triggers.Find(ctx, viewer(ctx), ref); err != nil {
			return nil, err
		}
	}
	rows, next, err := h.Triggers.Deliveries(ctx, viewer(ctx), f)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListDeliveriesResponse{NextPageToken: next}
	for _, d := range rows {
		res.Deliveries = append(res.Deliveries, &deckhandv1.Delivery{
			Id: d.ID, TriggerId: d.TriggerID, TriggerName: d.TriggerName, Key: d.Key, Source: d.Source, State: deliveryState(d.State),
			Reason: d.Reason, Address: d.Address, SentBy: d.SentBy, Event: d.Event, Slot: timestamp(d.SlotAt), DuplicateOf: store.Text(d.DuplicateOf),
			ReplayOf: store.Text(d.ReplayOf), TaskId: store.Text(d.TaskID), ReceivedAt: timestamppb.New(d.ReceivedAt), HandledAt: timestamp(d.HandledAt),
			Size: d.Size,
		})
	}
	res.Total, err = totalMessage(total, len(rows), res.GetNextPageToken())
	return res, err
}

// delivery returns one with what was sent, secrets masked.
func (h *Triggers) delivery(ctx context.Context, orgID, id string) (*deckhandv1.Delivery, error) {
	row, err := h.Triggers.Delivery(ctx, orgID, id)
	if err != nil {
		return nil, err
	}
	d := row.Delivery
	m := &deckhandv1.Delivery{
		Id: d.ID, TriggerId: d.TriggerID, TriggerName: row.TriggerName, Key: d.Key, Source: d.Source, State: deliveryState(d.State),
		Reason: d.Reason, Address: d.Address, SentBy: d.SentBy, Event: d.Event, Slot: timestamp(d.SlotAt), DuplicateOf: store.Text(d.DuplicateOf),
		ReplayOf: store.Text(d.ReplayOf), TaskId: store.Text(d.TaskID), ReceivedAt: timestamppb.New(d.ReceivedAt), HandledAt: timestamp(d.HandledAt),
		Size: int32(len(d.Body)), //nolint:gosec // bounded
		Body: []byte(maskOf(ctx, h.Redact).String(string(d.Body))), Prompt: d.Prompt, Headers: map[string]string{},
	}
	var headers map[string]string
	if json.Unmarshal(d.Headers, &headers) == nil {
		for name, value := range headers {
			m.Headers[name] = maskOf(ctx, h.Redact).String(value)
		}
	}
	return m, nil
}

// GetDelivery returns one firing.
func (h *Triggers) GetDelivery(ctx context.Context, req *deckhandv1.GetDeliveryRequest) (*deckhandv1.GetDeliveryResponse, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Triggers.FindDelivery(ctx, viewer(ctx), req.GetDeliveryId())
	if err != nil {
		return nil, err
	}
	d, err := h.delivery(ctx, org, id)
	return &deckhandv1.GetDeliveryResponse{Delivery: d}, err
}

// ReplayDelivery has what was sent come in once more.
func (h *Triggers) ReplayDelivery(ctx context.Context, req *deckhandv1.ReplayDeliveryRequest) (*deckhandv1.ReplayDeliveryResponse, error) {
	who := auth.From(ctx)
	id, err := h.Triggers.FindDelivery(ctx, viewer(ctx), req.GetDeliveryId())
	if err != nil {
		return nil, err
	}
	sent, err := h.Triggers.Delivery(ctx, who.OrgID, id)
	if err != nil {
		return nil, err
	}
	if _, err := h.mine(ctx, sent.Delivery.TriggerID); err != nil {
		return nil, err
	}
	made, err := h.Triggers.Replay(ctx, who.OrgID, id, actor(who))
	if err != nil {
		return nil, err
	}
	d, err := h.delivery(ctx, who.OrgID, made)
	return &deckhandv1.ReplayDeliveryResponse{Delivery: d}, err
}
