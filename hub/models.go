package hub

import (
	"context"
	"fmt"
	"math"

	"github.com/deckhand-sh/deckhand/hub/budget"
	"github.com/deckhand-sh/deckhand/hub/credential"
	"github.com/deckhand-sh/deckhand/hub/price"
	"github.com/deckhand-sh/deckhand/hub/relay"
	"github.com/deckhand-sh/deckhand/hub/store"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/hub/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
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
		Store: h.store, Recorder: h.recorder, Vault: h.vault, Redact: c.Redact, Preset: preset,
	})
	h.budgets = budget.New(budget.Config{
		Store: h.store, Recorder: h.recorder, Cap: h.cap, MaxCall: relay.MaxCall, Log: c.Log.Named("budget"),
	})
	h.relay = relay.New(relay.Config{
		Check: h.leases.Check, Ended: h.leases.Ended, Models: h.taskModels, Access: h.credentials.Access, Refused: h.credentials.Refuse,
		Price: func(ctx context.Context, orgID string, m relay.Model) (price.Model, error) {
			return priceOf(ctx, h.store.Queries, orgID, m.Provider, m.Name)
		},
		Reserve: h.budgets.Reserve, Settle: h.budgets.Settle, Redact: c.Redact, Log: c.Log.Named("relay"),
	})
}

// taskModels answers the models that a task may use.
func (h *Hub) taskModels(ctx context.Context, t db.Task) ([]relay.Model, error) {
	v, err := h.agents.Version(ctx, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	name, model, err := task.RunsWith(t, v)
	if err != nil {
		return nil, err
	}
	return []relay.Model{{Provider: name, Name: model}}, nil
}

// cap answers a task's own limit of cost, as its persona sets it.
func (h *Hub) cap(ctx context.Context, orgID, agentID string, version int32) (int64, error) {
	p, err := h.agents.PersonaOf(ctx, h.store.Queries, orgID, agentID, version)
	if err != nil {
		return 0, err
	}
	return int64(math.Round(p.Limits.CostUSD * 1e6)), nil
}

var shippedPrices = price.Shipped()

// priceOf answers what a model costs: what the operator has set for it goes
// before what is shipped.
func priceOf(ctx context.Context, q *db.Queries, orgID, name, model string) (price.Model, error) {
	for _, m := range []string{model, provider.Undated(model)} {
		row, err := q.GetPrice(ctx, db.GetPriceParams{OrgID: orgID, Provider: name, Model: m})
		if err == nil {
			return price.FromMicros(row.Input, row.Output, row.CacheRead, row.CacheWrite), nil
		}
		if !store.IsNotFound(err) {
			return price.Model{}, fmt.Errorf("load the price of %s: %w", m, err)
		}
		if m == provider.Undated(model) {
			break
		}
	}
	if m, ok := shippedPrices.Of(name, model); ok {
		return m, nil
	}
	return price.Model{}, fault.New(fault.Precondition, "model %.100s of %s has no price", model, name).
		WithCode(fault.UnpricedModel).
		WithFix("deckhand provider price %s %.100s --input USD --output USD (for a million tokens; 0 for a model of your own), or use another model", name, model)
}
