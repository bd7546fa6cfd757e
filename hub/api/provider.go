package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Providers serves ProviderService and BudgetService.
type Providers struct {
	Store       *store.Store
	Recorder    *event.Recorder
	Credentials *credential.Credentials
	Budgets     *budget.Ledger
	Tasks       *task.Service
}

// ConnectProvider tests and stores a key.
func (h *Providers) ConnectProvider(ctx context.Context, req *deckhandv1.ConnectProviderRequest) (*deckhandv1.ConnectProviderResponse, error) {
	id := auth.From(ctx)
	in := credential.Connection{
		OrgID: id.OrgID, Provider: req.GetName(), BaseURL: req.GetBaseUrl(), Key: config.Secret(req.GetKey()), By: actor(id),
	}
	if at := req.GetExpiresAt(); at != nil {
		in.ExpiresAt = new(at.AsTime())
		if !in.ExpiresAt.After(time.Now()) {
			return nil, fault.New(fault.Invalid, "expires_at is in the past").WithFix("give a key that is valid still")
		}
	}
	if l := req.GetLogin(); l != nil {
		in.Login = &credential.Login{
			ClientID: l.GetClientId(), ClientSecret: config.Secret(l.GetClientSecret()), TokenURL: l.GetTokenUrl(),
			Code: config.Secret(l.GetCode()), Verifier: config.Secret(l.GetCodeVerifier()), RedirectURL: l.GetRedirectUrl(),
		}
	}
	row, err := h.Credentials.Connect(ctx, in)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.ConnectProviderResponse{Provider: providerMessage(db.ListCredentialsRow{Credential: row})}, nil
}

func providerMessage(row db.ListCredentialsRow) *deckhandv1.Provider {
	c := row.Credential
	m := &deckhandv1.Provider{Name: c.Provider, BaseUrl: c.BaseUrl, KeyEndsIn: c.Hint, ConnectedBy: c.ConnectedBy, Login: c.Login}
	for _, moment := range []struct {
		at   *time.Time
		into **timestamppb.Timestamp
	}{{&c.ConnectedAt, &m.ConnectedAt}, {c.ExpiresAt, &m.ExpiresAt}, {&row.LastUsedAt, &m.LastUsedAt}, {c.RefusedAt, &m.RefusedAt}} {
		if moment.at != nil && moment.at.Unix() > 0 {
			*moment.into = timestamppb.New(*moment.at)
		}
	}
	return m
}

// ListProviders returns what is connected.
func (h *Providers) ListProviders(ctx context.Context, req *deckhandv1.ListProvidersRequest) (*deckhandv1.ListProvidersResponse, error) {
	rows, next, err := h.Credentials.List(ctx, auth.From(ctx).OrgID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListProvidersResponse{NextPageToken: next}
	for _, row := range rows {
		res.Providers = append(res.Providers, providerMessage(row))
	}
	return res, nil
}

// GetProviderCatalogue returns what can be connected, and what is.
func (h *Providers) GetProviderCatalogue(ctx context.Context, _ *deckhandv1.GetProviderCatalogueRequest) (*deckhandv1.GetProviderCatalogueResponse, error) {
	org := auth.From(ctx).OrgID
	rows, _, err := h.Credentials.List(ctx, org, "", int32(2*len(provider.Connectable()))) //nolint:gosec // a few
	if err != nil {
		return nil, err
	}
	connected := map[string]*deckhandv1.Provider{}
	for _, row := range rows {
		connected[row.Credential.Provider] = providerMessage(row)
	}
	now := time.Now().UTC()
	used, err := h.Store.ProviderUsage(ctx, db.ProviderUsageParams{OrgID: org, Since: time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		return nil, fmt.Errorf("add up the usage: %w", err)
	}
	res := &deckhandv1.GetProviderCatalogueResponse{}
	for _, name := range provider.Connectable() {
		p, _ := provider.Of(name)
		m := &deckhandv1.CatalogueProvider{
			Name: name, Title: p.Title, Search: p.Format.Searches(), BaseUrl: p.BaseURL, KeyOptional: p.KeyOptional, Login: p.Login != nil,
			DocsUrl: p.DocsURL, KeysUrl: p.KeysURL, Connected: connected[name], Usage: &deckhandv1.Usage{},
		}
		if p.Login != nil {
			m.LoginUrl, m.LoginScopes = p.Login.AuthURL, p.Login.Scopes
		}
		for _, row := range used {
			if row.Provider != name {
				continue
			}
			m.Calls += row.Calls
			m.Usage.InputTokens += row.InputTokens
			m.Usage.OutputTokens += row.OutputTokens
			m.Usage.CacheReadTokens += row.CacheReadTokens
			m.Usage.CacheWriteTokens += row.CacheWriteTokens
			m.Usage.CostMicros += row.CostMicros
		}
		res.Providers = append(res.Providers, m)
	}
	return res, nil
}

// DisconnectProvider deletes a key.
func (h *Providers) DisconnectProvider(ctx context.Context, req *deckhandv1.DisconnectProviderRequest) (*deckhandv1.DisconnectProviderResponse, error) {
	id := auth.From(ctx)
	if err := h.Credentials.Disconnect(ctx, id.OrgID, req.GetName(), actor(id)); err != nil {
		return nil, err
	}
	return &deckhandv1.DisconnectProviderResponse{}, nil
}

// GetProviderUsage returns what models used and cost.
func (h *Providers) GetProviderUsage(ctx context.Context, req *deckhandv1.GetProviderUsageRequest) (*deckhandv1.GetProviderUsageResponse, error) {
	now := time.Now().UTC()
	params := db.ProviderUsageParams{OrgID: auth.From(ctx).OrgID, Since: time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)}
	if at := req.GetSince(); at != nil {
		params.Since = at.AsTime()
	}
	if name := req.GetName(); name != "" {
		params.Provider = &name
	}
	rows, err := h.Store.ProviderUsage(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("add up the usage: %w", err)
	}
	res := &deckhandv1.GetProviderUsageResponse{Since: timestamppb.New(params.Since)}
	for _, row := range rows {
		res.Models = append(res.Models, &deckhandv1.ModelUsage{
			Provider: row.Provider, Model: row.Model, Calls: row.Calls, Estimated: row.Estimated, Usage: &deckhandv1.Usage{
				InputTokens: row.InputTokens, OutputTokens: row.OutputTokens, CacheReadTokens: row.CacheReadTokens,
				CacheWriteTokens: row.CacheWriteTokens, CostMicros: row.CostMicros,
			},
		})
	}
	return res, nil
}

// SetPrice sets the price of a model.
func (h *Providers) SetPrice(ctx context.Context, req *deckhandv1.SetPriceRequest) (*deckhandv1.SetPriceResponse, error) {
	id := auth.From(ctx)
	m := req
	if p, ok := provider.Of(m.GetProvider()); !ok || p.Format == provider.Script || p.Format.Searches() {
		return nil, fault.New(fault.Invalid, "provider %q is not one to connect to", m.GetProvider()).WithFix("see deckhand provider connect --help")
	}
	micros := func(usd float64) int64 { return int64(math.Round(usd * 1e6)) }
	params := db.PutPriceParams{
		OrgID: id.OrgID, Provider: m.GetProvider(), Model: m.GetModel(), Input: micros(m.GetInput()), Output: micros(m.GetOutput()),
		CacheRead: micros(m.GetInput()), CacheWrite: micros(m.GetInput()), SetBy: id.UserName,
	}
	if m.CacheRead != nil {
		params.CacheRead = micros(m.GetCacheRead())
	}
	if m.CacheWrite != nil {
		params.CacheWrite = micros(m.GetCacheWrite())
	}
	err := h.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.PutPrice(ctx, params); err != nil {
			return fmt.Errorf("store the price of %s: %w", m.GetModel(), err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: id.OrgID, By: actor(id), Action: "price.set", ObjectKind: "model", ObjectID: m.GetProvider() + "/" + m.GetModel(),
			After: map[string]any{"input": m.GetInput(), "output": m.GetOutput()},
		})
	})
	return &deckhandv1.SetPriceResponse{}, err
}

// ListPrices returns what models cost.
func (h *Providers) ListPrices(ctx context.Context, req *deckhandv1.ListPricesRequest) (*deckhandv1.ListPricesResponse, error) {
	rows, err := h.Store.AllPrices(ctx, auth.From(ctx).OrgID)
	if err != nil {
		return nil, fmt.Errorf("read the prices: %w", err)
	}
	all := map[string]*deckhandv1.Price{}
	add := func(provider, model string, m price.Model) *deckhandv1.Price {
		p := &deckhandv1.Price{Provider: provider, Model: model, Input: m.Input, Output: m.Output, CacheRead: m.CacheRead, CacheWrite: m.CacheWrite}
		all[provider+"/"+model] = p
		return p
	}
	for name, m := range price.Shipped() {
		provider, model, _ := strings.Cut(name, "/")
		add(provider, model, m)
	}
	for _, row := range rows {
		p := add(row.Provider, row.Model, price.FromMicros(row.Input, row.Output, row.CacheRead, row.CacheWrite))
		p.SetBy, p.SetAt = row.SetBy, timestamppb.New(row.SetAt)
	}
	after, _, err := store.ParseNameToken(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(all))
	if i, found := slices.BinarySearch(names, after); found {
		names = names[i+1:]
	} else {
		names = names[i:]
	}
	names, next := store.Page(names, cmp.Or(req.GetPageSize(), listPage), func(last string) string { return store.NameToken(last, "") })
	res := &deckhandv1.ListPricesResponse{NextPageToken: next}
	for _, name := range names {
		res.Prices = append(res.Prices, all[name])
	}
	return res, nil
}

// budgetName reads whose budget is meant.
func (h *Providers) budgetName(ctx context.Context, orgID, scope, object, every string) (budget.Name, error) {
	n := budget.Name{Scope: budget.Scope(scope), ObjectID: object, Every: budget.Every(every)}
	var err error
	switch n.Scope {
	case budget.Organisation:
		n.ObjectID = orgID
	case budget.User:
		if _, err = h.Store.UserByName(ctx, db.UserByNameParams{OrgID: orgID, Name: object}); store.IsNotFound(err) {
			err = fault.New(fault.NotFound, "there is no user %q", object).WithFix("give the name of one")
		}
	default:
		if n.ObjectID, err = h.Tasks.Find(ctx, viewer(ctx), object); err == nil && n.Scope == budget.Lineage {
			var row db.GetTaskRow
			row, err = h.Tasks.Get(ctx, orgID, n.ObjectID)
			n.ObjectID = row.Task.LineageID
		}
	}
	return n, err
}

func budgetMessage(b budget.Budget) *deckhandv1.Budget {
	m := &deckhandv1.Budget{
		Scope: string(b.Scope), ObjectId: b.ObjectID, Every: string(b.Every), SpentMicros: b.Spent, ReservedMicros: b.Reserved, SetBy: b.SetBy,
	}
	if b.Limit >= 0 {
		m.LimitMicros = &b.Limit
	}
	return m
}

// ListBudgets returns budgets.
func (h *Providers) ListBudgets(ctx context.Context, req *deckhandv1.ListBudgetsRequest) (*deckhandv1.ListBudgetsResponse, error) {
	list, next, err := h.Budgets.List(ctx, auth.From(ctx).OrgID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListBudgetsResponse{NextPageToken: next}
	for _, b := range list {
		res.Budgets = append(res.Budgets, budgetMessage(b))
	}
	return res, nil
}

// GetBudget returns one budget.
func (h *Providers) GetBudget(ctx context.Context, req *deckhandv1.GetBudgetRequest) (*deckhandv1.GetBudgetResponse, error) {
	org := auth.From(ctx).OrgID
	n, err := h.budgetName(ctx, org, req.GetScope(), req.GetObjectId(), req.GetEvery())
	if err != nil {
		return nil, err
	}
	b, err := h.Budgets.Get(ctx, org, n)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetBudgetResponse{Budget: budgetMessage(b)}, nil
}

// SetBudget sets a limit.
func (h *Providers) SetBudget(ctx context.Context, req *deckhandv1.SetBudgetRequest) (*deckhandv1.SetBudgetResponse, error) {
	id := auth.From(ctx)
	n, err := h.budgetName(ctx, id.OrgID, req.GetScope(), req.GetObjectId(), req.GetEvery())
	if err != nil {
		return nil, err
	}
	var limit *int64
	switch l := req.GetLimit().(type) {
	case *deckhandv1.SetBudgetRequest_LimitMicros:
		limit = &l.LimitMicros
	case *deckhandv1.SetBudgetRequest_Unlimited:
		limit = new(int64(-1))
	case *deckhandv1.SetBudgetRequest_Reset_:
	default:
		return nil, fault.New(fault.Invalid, "limit is missing").WithFix("give limit_micros, unlimited or reset")
	}
	b, err := h.Budgets.Set(ctx, id.OrgID, n, limit, actor(id))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.SetBudgetResponse{Budget: budgetMessage(b)}, nil
}

// GetUsageReport adds up what calls of models cost.
func (h *Providers) GetUsageReport(ctx context.Context, req *deckhandv1.GetUsageReportRequest) (*deckhandv1.GetUsageReportResponse, error) {
	id := auth.From(ctx)
	now := time.Now().UTC()
	asked := budget.Asked{OrgID: id.OrgID, By: req.GetBy(), Since: time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC), Until: now}
	if at := req.GetSince(); at != nil {
		asked.Since = at.AsTime()
	}
	if at := req.GetUntil(); at != nil {
		asked.Until = at.AsTime()
	}
	if !asked.Since.Before(asked.Until) {
		return nil, fault.New(fault.Invalid, "since is not before until").WithFix("ask for a time that has begun")
	}
	asked.Split = req.GetSplit()
	if err := splits(asked); err != nil {
		return nil, err
	}
	if id.Role != "admin" {
		asked.User = id.UserName
	}
	report, err := h.Budgets.Report(ctx, asked)
	if err != nil {
		return nil, err
	}
	row := func(r db.UsageReportRow) *deckhandv1.UsageRow {
		return &deckhandv1.UsageRow{
			Key: r.Key, Part: r.Part, Calls: r.Calls, Tasks: r.Tasks, Estimated: r.Estimated, Usage: &deckhandv1.Usage{
				InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, CacheReadTokens: r.CacheReadTokens,
				CacheWriteTokens: r.CacheWriteTokens, CostMicros: r.CostMicros,
			},
		}
	}
	f := report.Forecast
	res := &deckhandv1.GetUsageReportResponse{
		Total: row(report.Total), Since: timestamppb.New(asked.Since), Until: timestamppb.New(asked.Until),
		Forecast: &deckhandv1.UsageForecast{Month: f.Month, SpentMicros: f.Spent, DailyMicros: f.Daily, MonthMicros: f.AtEnd, Days: int32(f.Days), Early: f.Early},
	}
	if f.Limit >= 0 {
		res.Forecast.LimitMicros = &f.Limit
	}
	if !f.Reached.IsZero() {
		res.Forecast.ReachedAt = timestamppb.New(f.Reached)
	}
	for _, r := range report.Rows {
		res.Rows = append(res.Rows, row(r))
	}
	return res, nil
}

// splitDays is how many days a report by hours or days covers at most, so that its chart
// can be drawn.
var splitDays = map[string]int{"hour": 31, "day": 366}

// splits reports why a usage report cannot be split as was asked; nil if it can.
func splits(a budget.Asked) error {
	if a.Split == "" {
		return nil
	}
	if a.By != "month" && splitDays[a.By] == 0 {
		return fault.New(fault.Invalid, "split is for reports by hour, day or month, and by is %q", a.By).WithFix("leave split out, or report by day")
	}
	if days := splitDays[a.By]; days > 0 && a.Until.Sub(a.Since) > time.Duration(days)*24*time.Hour {
		return fault.New(fault.Invalid, "since is more than %d days before until", days).WithFix("ask for a shorter time, or report by month")
	}
	return nil
}
