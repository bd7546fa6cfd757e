package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
)

// fresh is how long a hub may go by a plan that was changed on another one. Its
// own changes count at once.
const fresh = time.Second

// Config holds the dependencies of a Service.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	// UpgradeURL is where a person can buy a larger subscription plan. It may be empty.
	UpgradeURL string
	// Now returns the time; nil for time.Now.
	Now func() time.Time
}

// Service stores the quotas of organisations. It is safe for use by many goroutines.
type Service struct {
	cfg Config

	mu    sync.Mutex
	known map[string]*Subscription // by organisation
}

// New creates a Service.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg: cfg, known: map[string]*Subscription{}}
}

// Subscription is what an organisation may have.
type Subscription struct {
	Plan

	// SetBy is who put it on the plan, and Since when; empty for the default.
	SetBy string
	Since time.Time
	// Models are the patterns of those that may be called; empty for all.
	Models []string
	// CallsPerMinute are by provider; one that is not in it has no limit.
	CallsPerMinute map[string]int32

	// CycleDay is the day of the month on which a billing period begins.
	CycleDay int
	// Hard reports that submissions are refused when no run is left.
	Hard bool
	// Limits are by user: Organisation, EachUser, or a user's name.
	Limits map[string]Amounts

	models *regexp.Regexp
	at     time.Time // when it was read
}

// Subscription returns an organisation's quotas, read with q if they are not cached.
func (s *Service) Subscription(ctx context.Context, q *db.Queries, orgID string) (*Subscription, error) {
	s.mu.Lock()
	h := s.known[orgID]
	s.mu.Unlock()
	if h != nil && time.Since(h.at) < fresh {
		return h, nil
	}
	h, err := read(ctx, q, orgID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.known[orgID] = h
	s.mu.Unlock()
	return h, nil
}

// read returns an organisation's quotas as they are stored.
func read(ctx context.Context, q *db.Queries, orgID string) (*Subscription, error) {
	at := time.Now()
	row, err := q.GetPlan(ctx, orgID)
	if err != nil {
		return nil, fmt.Errorf("read the plan of %s: %w", orgID, err)
	}
	h := &Subscription{SetBy: row.SetBy, Models: row.Models, CycleDay: int(row.CycleDay), Hard: row.Hard, at: at}
	name := row.Name
	if name == "" {
		name = SelfHosted
	}
	var ok bool
	if h.Plan, ok = Of(name); !ok {
		return nil, fmt.Errorf("organisation %s is on %q, which is no plan", orgID, name)
	}
	if row.Runs != nil {
		h.Runs = *row.Runs
	}
	if row.SetAt != nil {
		h.Since = *row.SetAt
	}
	if err := json.Unmarshal(row.Quotas, &h.Limits); err != nil {
		return nil, fmt.Errorf("read the quotas of %s: %w", orgID, err)
	}
	if err := json.Unmarshal(row.CallRates, &h.CallsPerMinute); err != nil {
		return nil, fmt.Errorf("read the call rates of %s: %w", orgID, err)
	}
	if h.models, err = compile(row.Models); err != nil {
		return nil, fmt.Errorf("read the models that %s may call: %w", orgID, err)
	}
	return h, nil
}

func (s *Service) forget(orgID string) {
	s.mu.Lock()
	delete(s.known, orgID)
	s.mu.Unlock()
}

// compile returns an expression that matches any of the patterns; nil without patterns.
func compile(patterns []string) (*regexp.Regexp, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	parts := make([]string, len(patterns))
	for i, p := range patterns {
		parts[i] = strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, `.*`)
	}
	return regexp.Compile(`^(?s:` + strings.Join(parts, "|") + `)$`)
}

// Allows reports whether a model may be called. One that is scripted costs nothing,
// and always may.
func (h *Subscription) Allows(name, model string) bool {
	if p, ok := provider.Of(name); ok && p.Format == provider.Script {
		return true
	}
	return h.models == nil || h.models.MatchString(name+"/"+model)
}

// CheckModel refuses a model that an organisation may not call.
func (s *Service) CheckModel(ctx context.Context, q *db.Queries, orgID, name, model string) error {
	h, err := s.Subscription(ctx, q, orgID)
	if err != nil || h.Allows(name, model) {
		return err
	}
	return fault.New(fault.Precondition, "model %.100s of %s is not among those that the organisation may call: %s", model, name, strings.Join(h.Models, ", ")).
		WithCode(fault.PermissionDenied).WithFix("use one of those, or have an administrator allow it: deckhand quota models")
}

// PlanChange is a change of an organisation's plan and of how its quotas are applied.
type PlanChange struct {
	// Name is the plan's; empty to keep it.
	Name string
	// Runs, unless nil, take the place of the plan's own.
	Runs *int64
	// CycleDay and Hard stay as they are if they are nil.
	CycleDay *int32
	Hard     *bool
}

// Set puts an organisation on a plan.
func (s *Service) Set(ctx context.Context, orgID string, c PlanChange, by event.Actor) error {
	return s.change(ctx, orgID, func(tx *event.Tx, before *Subscription) (audit.Entry, error) {
		params, runs, err := c.apply(before)
		if err != nil {
			return audit.Entry{}, err
		}
		params.OrgID, params.SetBy = orgID, by.ID
		return audit.Entry{
			OrgID: orgID, By: by, Action: "plan.set", ObjectKind: "organisation", ObjectID: orgID,
			Before: map[string]any{"name": before.Name, "runs": before.Runs, "cycle_day": before.CycleDay, "hard_block": before.Hard},
			After:  map[string]any{"name": params.Name, "runs": runs, "cycle_day": params.CycleDay, "hard_block": params.Hard},
		}, tx.PutPlan(ctx, params)
	})
}

// apply returns what is stored of a change, and how many runs the plan gives then.
func (c *PlanChange) apply(before *Subscription) (params db.PutPlanParams, runs int64, err error) {
	params = db.PutPlanParams{Name: c.Name, Runs: c.Runs, CycleDay: int32(before.CycleDay), Hard: before.Hard} //nolint:gosec // at most 28
	if params.Name == "" {
		params.Name = before.Name
		if own, _ := Of(before.Name); params.Runs == nil && before.Runs != own.Runs {
			params.Runs = &before.Runs
		}
	}
	p, ok := Of(params.Name)
	switch {
	case !ok:
		names := make([]string, len(plans))
		for i, p := range plans {
			names[i] = p.Name
		}
		return params, 0, fault.New(fault.Invalid, "there is no plan %.60q", c.Name).WithFix("use one of %s", strings.Join(names, ", "))
	case c.Runs != nil && !p.RollsOver:
		return params, 0, fault.New(fault.Invalid, "runs cannot be set on the plan %s", params.Name).WithFix("leave runs out, use %s, or set a quota: deckhand quota limit --runs", Enterprise)
	}
	if params.Runs != nil {
		p.Runs = *params.Runs
	}
	if c.CycleDay != nil {
		params.CycleDay = *c.CycleDay
	}
	if c.Hard != nil {
		params.Hard = *c.Hard
	}
	return params, p.Runs, nil
}

// SetModels sets which models an organisation may call: PROVIDER/MODEL, where * matches
// any characters; none for all models.
func (s *Service) SetModels(ctx context.Context, orgID string, patterns []string, by event.Actor) error {
	for _, p := range patterns {
		name, model, _ := strings.Cut(p, "/")
		if _, ok := provider.Of(name); !ok && !strings.Contains(name, "*") || model == "" || strings.ContainsFunc(p, unprintable) {
			return fault.New(fault.Invalid, "models: %.100q names no model", p).
				WithFix("write PROVIDER/MODEL, for example anthropic/claude-*; providers are %s", strings.Join(provider.Connectable(), ", "))
		}
	}
	return s.change(ctx, orgID, func(tx *event.Tx, before *Subscription) (audit.Entry, error) {
		return audit.Entry{
			OrgID: orgID, By: by, Action: "plan.models_set", ObjectKind: "organisation", ObjectID: orgID,
			Before: map[string]any{"models": before.Models}, After: map[string]any{"models": slices.Sorted(slices.Values(patterns))},
		}, tx.ReplaceAllowedModels(ctx, db.ReplaceAllowedModelsParams{OrgID: orgID, Models: append([]string{}, patterns...)})
	})
}

func unprintable(r rune) bool { return r <= ' ' || r > '~' }

// SetCallRate limits the calls a minute to a provider; 0 for no limit.
func (s *Service) SetCallRate(ctx context.Context, orgID, name string, calls int32, by event.Actor) error {
	if p, ok := provider.Of(name); !ok || p.Format.Searches() {
		return fault.New(fault.Invalid, "provider %.60q is not one of models", name).WithFix("use one of %s", strings.Join(provider.Connectable(), ", "))
	}
	return s.change(ctx, orgID, func(tx *event.Tx, before *Subscription) (audit.Entry, error) {
		entry := audit.Entry{
			OrgID: orgID, By: by, Action: "plan.call_rate_set", ObjectKind: "provider", ObjectID: name,
			Before: map[string]any{"calls_per_minute": before.CallsPerMinute[name]}, After: map[string]any{"calls_per_minute": calls},
		}
		if calls == 0 {
			return entry, tx.DeleteCallRate(ctx, db.DeleteCallRateParams{OrgID: orgID, Provider: name})
		}
		return entry, tx.PutCallRate(ctx, db.PutCallRateParams{OrgID: orgID, Provider: name, Calls: calls})
	})
}

// change stores a change of an organisation's quotas and its audit entry. Changes are made one
// after another, each on what the one before has stored.
func (s *Service) change(ctx context.Context, orgID string, store func(tx *event.Tx, before *Subscription) (audit.Entry, error)) error {
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockQuotas(ctx, orgID); err != nil {
			return fmt.Errorf("lock the quotas of %s: %w", orgID, err)
		}
		before, err := read(ctx, tx.Queries, orgID)
		if err != nil {
			return err
		}
		e, err := store(tx, before)
		switch {
		case fault.As(err) != nil:
			return err // the change is invalid
		case err != nil:
			return fmt.Errorf("store what %s may have: %w", orgID, err)
		}
		tx.AfterCommit(func() {
			s.forget(orgID)
			s.cfg.Recorder.Publish(change.QueueChanged{OrgID: orgID})
		})
		return audit.Append(tx, e)
	})
}

// MaxTurn is the longest that a call waits for its turn.
const MaxTurn = 20 * time.Second

// AllowCall waits for a call's turn if the calls a minute to its provider are limited;
// calls get their turns in the order in which they asked, in any hub. A call whose turn
// is too far away is refused, and uses none.
func (s *Service) AllowCall(ctx context.Context, orgID, name string) error {
	h, err := s.Subscription(ctx, s.cfg.Store.Queries, orgID)
	if err != nil || h.CallsPerMinute[name] == 0 {
		return err
	}
	wait, err := s.cfg.Store.TakeTurn(ctx, db.TakeTurnParams{OrgID: orgID, Provider: name, Most: MaxTurn})
	switch {
	case store.IsNotFound(err):
		return nil // the limit was lifted
	case err != nil:
		return fmt.Errorf("take a turn of %s: %w", name, err)
	case wait > MaxTurn:
		return fault.New(fault.Exhausted, "%s gets %d calls a minute, and more are waiting", name, h.CallsPerMinute[name]).
			WithCode(fault.RateLimited).WithFix("wait, or have an administrator raise it: deckhand quota calls %s N", name)
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
