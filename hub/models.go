package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/api/relay"
	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/provider"
)

// assembleModels makes what model calls need: keys, budgets and the relay.
func (h *Hub) assembleModels() {
	c := h.cfg
	preset := map[string]credential.Access{}
	if c.AnthropicKey != "" {
		p, _ := provider.Of("anthropic")
		preset[p.Name] = credential.Access{Provider: p, BaseURL: c.AnthropicBaseURL, Key: c.AnthropicKey}
	}
	h.credentials = credential.New(credential.Config{
		Store: h.store, Recorder: h.recorder, Vault: h.vault, Redact: c.Redact, Preset: preset, Admit: h.admission.Kick, Guard: h.providerGuard(),
	})
	h.budgets = budget.New(budget.Config{
		Store: h.store, Recorder: h.recorder, Cap: h.cap, MaxCall: relay.MaxCall, Log: c.Log.Named("budget"),
	})
	h.relay = relay.New(relay.Config{
		Authorize: h.grant, Ended: h.leases.Ended, Models: h.taskModels, Refused: h.credentials.Refuse, Access: h.credentials.Access,
		Disconnected: h.credentials.Disconnected,
		Turn:         h.plans.AllowCall,
		Reserve:      h.budgets.Reserve, Settle: h.budgets.Settle, Tracer: c.Tracer, Redact: c.Redact, Log: c.Log.Named("relay"), Guard: h.providerGuard(), Failures: h.rates,
	})
}

// providerGuard says where organisations may have their model servers.
func (h *Hub) providerGuard() dialguard.Guard {
	return dialguard.Guard{Allow: h.cfg.providerAllow, Flag: "--provider-allow"}
}

// grant returns what a lease holds of a provider.
func (h *Hub) grant(ctx context.Context, le lease.Lease, name string) (relay.Authorization, error) {
	row, err := h.leases.Call(ctx, le, name)
	if err != nil {
		return relay.Authorization{}, err
	}
	return relay.Authorization{
		Task: row.Task,
		Access: func() (credential.Access, error) {
			if !row.Connected {
				return h.credentials.Open(ctx, row.Task.OrgID, name, nil)
			}
			return h.credentials.Open(ctx, row.Task.OrgID, name, &db.Credential{
				OrgID: row.Task.OrgID, Provider: name, BaseUrl: *row.BaseUrl, Sealed: row.Sealed, ConnectedAt: *row.ConnectedAt, ExpiresAt: row.ExpiresAt,
				Login: *row.Login, RefreshedAt: row.RefreshedAt, RefusedAt: row.RefusedAt,
			})
		},
		Price: func(model string) (price.Model, error) {
			var set map[string][4]int64
			if err := json.Unmarshal(row.Prices, &set); err != nil {
				return price.Model{}, fmt.Errorf("read the prices of %s: %w", name, err)
			}
			return priced(name, model, func(m string) (price.Model, bool) {
				p, ok := set[m]
				return price.FromMicros(p[0], p[1], p[2], p[3]), ok
			})
		},
	}, nil
}

// usable refuses a model that an organisation cannot call.
func (h *Hub) usable(ctx context.Context, q *db.Queries, orgID, name, model string) error {
	if err := h.plans.CheckModel(ctx, q, orgID, name, model); err != nil {
		return err
	}
	return h.credentials.Usable(ctx, q, orgID, name)
}

// taskModels returns the models that a task may use: those that it runs with, as
// far as its organisation may call them.
func (h *Hub) taskModels(ctx context.Context, t db.Task) ([]relay.Model, error) {
	models, err := h.modelsOf(ctx, t)
	if err != nil {
		return nil, err
	}
	held, err := h.plans.Subscription(ctx, h.store.Queries, t.OrgID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(models, func(m relay.Model) bool { return !held.Allows(m.Provider, m.Name) }), nil
}

// modelsOf returns the models that a task runs with.
func (h *Hub) modelsOf(ctx context.Context, t db.Task) ([]relay.Model, error) {
	v, err := h.agents.Version(ctx, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	name, model, err := task.ModelOf(t, v)
	if err != nil {
		return nil, err
	}
	models := []relay.Model{{Provider: name, Name: model}}
	if name != v.Provider || model != v.Model {
		return models, nil // somebody chose it for this task: nothing takes its place
	}
	p, err := h.agents.Persona(v.Digest, v.Markdown)
	if err != nil {
		return nil, err
	}
	for _, f := range p.Fallbacks {
		models = append(models, relay.Model{Provider: f.Provider, Name: f.Model})
	}
	if s := p.Context.SummaryModel; s != (persona.Fallback{}) {
		models = append(models, relay.Model{Provider: s.Provider, Name: s.Model})
	}
	return models, nil
}

// cap returns a task's own limit of cost: its override's, or its persona's.
func (h *Hub) cap(ctx context.Context, orgID, agentID string, version int32, override json.RawMessage) (int64, error) {
	if o, err := task.ParseOverride(override); err != nil || o.Limits.CostMicros > 0 {
		return o.Limits.CostMicros, err
	}
	p, err := h.agents.PersonaOf(ctx, h.store.Queries, orgID, agentID, version)
	if err != nil {
		return 0, err
	}
	return int64(math.Round(p.Limits.CostUSD * 1e6)), nil
}

var shippedPrices = price.Shipped()

// priceOf returns what a model costs.
func priceOf(ctx context.Context, q *db.Queries, orgID, name, model string) (price.Model, error) {
	rows, err := q.ListPrices(ctx, db.ListPricesParams{OrgID: orgID, Provider: name, Models: []string{model, provider.Undated(model)}})
	if err != nil {
		return price.Model{}, fmt.Errorf("load the price of %s: %w", model, err)
	}
	return priced(name, model, func(m string) (price.Model, bool) {
		for _, row := range rows {
			if row.Model == m {
				return price.FromMicros(row.Input, row.Output, row.CacheRead, row.CacheWrite), true
			}
		}
		return price.Model{}, false
	})
}

// priced returns what a model costs: what the operator has set for it goes
// before what is shipped.
func priced(name, model string, set func(model string) (price.Model, bool)) (price.Model, error) {
	if m, ok := set(model); ok {
		return m, nil
	}
	if m, ok := set(provider.Undated(model)); ok {
		return m, nil
	}
	if m, ok := shippedPrices.Of(name, model); ok {
		return m, nil
	}
	return price.Model{}, fault.New(fault.Precondition, "model %.100s of %s has no price", model, name).
		WithCode(fault.UnpricedModel).
		WithFix("deckhand provider price %s %.100s --input USD --output USD (for a million tokens; 0 for a model of your own), or use another model", name, model)
}
