package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/textproto"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/mapping"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Trial is a payload to try.
type Trial struct {
	// TriggerID is the trigger; empty for one that does not exist yet, of which Draft is what
	// it would be made from.
	TriggerID string
	Draft     Draft
	// Role is that of Draft.By.
	Role string
	// DeliveryID is a delivery of any trigger; empty for Body and Headers.
	DeliveryID string
	Body       []byte
	Headers    map[string]string
	// Spec is tried instead of the trigger's; nil for that.
	Spec *deckhandv1.TriggerSpec
}

// Verdict is what would become of a payload.
type Verdict struct {
	// State is started, filtered or failed.
	State, Reason string
	Event, Key    string
	mapping.Output

	// Of the task that would start.
	Agent   string
	GitRef  string
	Overlap string
	// Priority is 1 to 10.
	Priority int32
}

// Test returns what a payload would lead to. It starts and stores nothing. What changes from
// one moment to the next is ignored: holds, quotas, active runs.
func (s *Service) Test(ctx context.Context, orgID string, what Trial) (Verdict, error) {
	try := trying{s, orgID, what}
	c, err := try.trigger(ctx)
	if err != nil {
		return Verdict{}, err
	}
	agent, err := s.cfg.Agents.Get(ctx, orgID, c.row.AgentID)
	if err != nil {
		return Verdict{}, err
	}
	d, headers, kept, err := try.delivery(ctx, c)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{
		State: "started", Event: d.Event, Key: d.Key, Agent: agent.Agent.Name,
		Priority: cmp.Or(c.spec.GetPriority(), task.DefaultPriority), Overlap: overlap(Kind(c.row.Kind), c.spec),
	}
	done, err := s.lanes.Take(ctx, orgID)
	if err != nil {
		return Verdict{}, err
	}
	if v.Key == "" {
		v.Key = c.key(ctx, headers, kept, d.Event, d.Body, time.Now())
	}
	d.Goal = ""
	v.Output, err = c.run(ctx, d)
	done()
	switch {
	case err != nil:
		v.State, v.Reason = "failed", err.Error()
	case !v.Matched:
		v.State, v.Reason = "filtered", filteredOut
	default:
		if v.Reason, err = try.refused(ctx, c, &v); err != nil {
			return Verdict{}, err
		}
		if v.Reason != "" {
			v.State = "failed"
		}
	}
	return v, nil
}

// trying is a trial of one organisation.
type trying struct {
	s     *Service
	orgID string
	Trial
}

// trigger returns the trigger that is tried.
func (t trying) trigger(ctx context.Context) (*compiled, error) {
	if t.TriggerID == "" {
		d := t.Draft
		spec, every, err := draftSpec(d.Kind, d.Preset, d.Spec)
		return &compiled{row: db.Trigger{OrgID: t.orgID, AgentID: d.AgentID, Name: d.Name, Kind: string(d.Kind), CreatedBy: d.By.ID}, spec: spec, every: every}, err
	}
	row, err := t.s.Get(ctx, t.orgID, t.TriggerID)
	if err != nil {
		return nil, err
	}
	now, err := readSpec(row.Trigger.Spec)
	if err != nil || t.Spec == nil {
		return &compiled{row: row.Trigger, spec: now}, err
	}
	_, err = mayBecome(Kind(row.Trigger.Kind), now, t.Spec)
	return &compiled{row: row.Trigger, spec: t.Spec}, err
}

// delivery returns the delivery that is tried, with its headers: all of them, and those
// that deliveries keep.
func (t trying) delivery(ctx context.Context, c *compiled) (d db.Delivery, headers http.Header, kept map[string]string, err error) {
	d = db.Delivery{Body: t.Body, Headers: json.RawMessage("{}")}
	if t.DeliveryID != "" {
		stored, err := t.s.Delivery(ctx, t.orgID, t.DeliveryID)
		if err != nil {
			return d, nil, nil, err
		}
		d = stored.Delivery
	}
	headers = http.Header{}
	for name, value := range t.Headers {
		headers.Set(textproto.CanonicalMIMEHeaderKey(name), value)
	}
	kept = c.rule().Keep(headers)
	if t.DeliveryID == "" {
		d.Event = short(proof(c.spec.GetWebhook()).EventOf(headers), maxEvent)
		if d.Headers, err = json.Marshal(kept); err != nil {
			return d, nil, nil, fmt.Errorf("encode headers: %w", err)
		}
		return d, headers, kept, nil
	}
	if err := json.Unmarshal(d.Headers, &kept); err == nil {
		for name, value := range kept {
			headers.Set(name, value)
		}
	}
	if c.row.ID != d.TriggerID {
		// Another trigger tells deliveries apart in its own way, and names their events in its own.
		d.Key, d.Event = "", short(proof(c.spec.GetWebhook()).EventOf(headers), maxEvent)
	}
	return d, headers, kept, nil
}

// refused returns why no task would be made of a payload that matches; empty if one would be.
func (t trying) refused(ctx context.Context, c *compiled, v *Verdict) (string, error) {
	override, err := overrideOf(v.Output)
	if err != nil {
		return err.Error(), nil
	}
	v.GitRef = override.GitRef
	role := t.Role
	if t.TriggerID == "" || t.Spec != nil && c.row.State == stateEnabled {
		if err := t.s.unattended(ctx, c.row.OrgID, c.row.AgentID, c.spec); err != nil {
			return reasonOf(err)
		}
	}
	if t.TriggerID != "" {
		user, err := t.s.cfg.Store.UserByName(ctx, db.UserByNameParams{OrgID: c.row.OrgID, Name: c.row.CreatedBy})
		if store.IsNotFound(err) {
			return noUser(c.row.CreatedBy), nil
		}
		if err != nil {
			return "", fmt.Errorf("find user %s: %w", c.row.CreatedBy, err)
		}
		role = user.Role
	}
	if role == "viewer" {
		return viewerOnly(c.row.CreatedBy), nil
	}
	_, err = t.s.cfg.Tasks.Draft(ctx, task.Submission{
		OrgID: c.row.OrgID, AgentID: c.row.AgentID, Override: override, Goal: v.Prompt, Priority: c.spec.GetPriority(),
		By: event.Hub, For: c.row.CreatedBy, Role: role, TriggerID: c.row.ID,
	})
	return reasonOf(err)
}

// reasonOf splits the errors for which a delivery fails from those of the hub.
func reasonOf(err error) (reason string, _ error) {
	if refuses(err) {
		return err.Error(), nil
	}
	return "", err
}

// refuses reports whether an error says that no task can be made.
func refuses(err error) bool {
	e := fault.As(err)
	return e != nil && (e.Kind == fault.Precondition || e.Kind == fault.Invalid || e.Kind == fault.NotFound || e.Kind == fault.Exhausted)
}

func noUser(name string) string {
	return fmt.Sprintf("there is no user %s any more, for whom it runs", name)
}

func viewerOnly(name string) string {
	return fmt.Sprintf("user %s, for whom it runs, may not start tasks any more", name)
}
