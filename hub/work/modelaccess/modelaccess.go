// Package modelaccess decides which models a task may call, with which credential, at
// which price and up to which cost. It combines what the agent's persona and the
// task's override name with the organisation's quota, connected providers and prices.
//
// It stores nothing. A refusal is a fault of kind Precondition that says what to
// change.
package modelaccess

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/model/tokenestimate"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Config holds the dependencies of a Service.
type Config struct {
	Store       *store.Store
	Agents      *agent.Service
	Leases      *lease.Leases
	Quotas      *quota.Service
	Credentials *credential.Credentials
}

// Service decides about calls of models. It may be used by several goroutines.
type Service struct{ cfg Config }

// New creates a Service.
func New(cfg Config) *Service { return &Service{cfg} }

// Authorization is what a worker may call of a provider.
type Authorization struct {
	Task db.Task
	// Access opens the credential, and returns an error where the provider is not
	// connected.
	Access func() (credential.Access, error)
	// Seen is what was estimated and counted of the prompt of the task's latest call of the
	// provider, and how much of it was cached.
	Seen   tokenestimate.Seen
	Cached int64
	// Price returns what a model of the provider costs, and an error where that is
	// not known.
	Price func(model string) (price.Model, error)
}

// Model is a model of a provider.
type Model struct{ Provider, Name string }

// Authorize returns what the holder of a lease may call of a provider.
func (s *Service) Authorize(ctx context.Context, le lease.Lease, name string) (Authorization, error) {
	row, err := s.cfg.Leases.Call(ctx, le, name)
	if err != nil {
		return Authorization{}, err
	}
	return Authorization{
		Task: row.Task, Seen: tokenestimate.Seen{Estimate: row.Seen[0], Counted: row.Seen[1]}, Cached: row.Seen[2],
		Access: func() (credential.Access, error) {
			if !row.Connected {
				return s.cfg.Credentials.Open(ctx, row.Task.OrgID, name, nil)
			}
			return s.cfg.Credentials.Open(ctx, row.Task.OrgID, name, &db.Credential{
				OrgID: row.Task.OrgID, Provider: name, BaseUrl: *row.BaseUrl, Sealed: row.Sealed, ConnectedAt: *row.ConnectedAt, ExpiresAt: row.ExpiresAt,
				Login: *row.Login, RefreshedAt: row.RefreshedAt, RefusedAt: row.RefusedAt,
			})
		},
		Price: func(model string) (price.Model, error) {
			var set map[string][4]int64
			if err := json.Unmarshal(row.Prices, &set); err != nil {
				return price.Model{}, fmt.Errorf("read the prices of %s: %w", name, err)
			}
			return price.Resolve(name, model, func(m string) (price.Model, bool) {
				p, ok := set[m]
				return price.FromMicros(p[0], p[1], p[2], p[3]), ok
			})
		},
	}, nil
}

// Usable refuses a model that an organisation cannot call.
func (s *Service) Usable(ctx context.Context, q *db.Queries, orgID, name, model string) error {
	if err := s.cfg.Quotas.CheckModel(ctx, q, orgID, name, model); err != nil {
		return err
	}
	return s.cfg.Credentials.Usable(ctx, q, orgID, name)
}

// TaskModels returns the models that a task may use: those of its agent or its
// override that its organisation may call.
func (s *Service) TaskModels(ctx context.Context, t db.Task) ([]Model, error) {
	models, err := s.modelsOf(ctx, t)
	if err != nil {
		return nil, err
	}
	subscription, err := s.cfg.Quotas.Subscription(ctx, s.cfg.Store.Queries, t.OrgID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(models, func(m Model) bool { return !subscription.Allows(m.Provider, m.Name) }), nil
}

// modelsOf returns the models that a task names, in the order of preference.
func (s *Service) modelsOf(ctx context.Context, t db.Task) ([]Model, error) {
	v, err := s.cfg.Agents.Version(ctx, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	name, model, err := task.ModelOf(t, v)
	if err != nil {
		return nil, err
	}
	models := []Model{{Provider: name, Name: model}}
	if name != v.Provider || model != v.Model {
		return models, nil // it was chosen for this task, so no fallback replaces it
	}
	p, err := s.cfg.Agents.Persona(v.Digest, v.Markdown)
	if err != nil {
		return nil, err
	}
	for _, f := range p.Fallbacks {
		models = append(models, Model{Provider: f.Provider, Name: f.Model})
	}
	if summary := p.Context.SummaryModel; summary != (persona.Fallback{}) {
		models = append(models, Model{Provider: summary.Provider, Name: summary.Model})
	}
	return models, nil
}

// CostCap returns the cost limit of a task in millionths of a US dollar: that of its
// override, or of its persona; 0 for none.
func (s *Service) CostCap(ctx context.Context, orgID, agentID string, version int32, override json.RawMessage) (int64, error) {
	if o, err := task.ParseOverride(override); err != nil || o.Limits.CostMicros > 0 {
		return o.Limits.CostMicros, err
	}
	p, err := s.cfg.Agents.PersonaOf(ctx, s.cfg.Store.Queries, orgID, agentID, version)
	if err != nil {
		return 0, err
	}
	return int64(math.Round(p.Limits.CostUSD * 1e6)), nil
}
