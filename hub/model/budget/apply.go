package budget

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// key names an account.
type key struct {
	scope          Scope
	object, period string
}

// reserve is a call to set an amount aside for.
type reserve struct {
	*Reservation

	call     Call
	accounts []account
	// poor is the first account that has too little left; nil when it was made.
	poor *balance
}

// settle is the settlement of a call.
type settle struct {
	id   string
	cost Cost
	// silent leaves the warning to the next call of a task, which has a place for its event.
	silent bool
	// near are the accounts that came to four fifths of their limit with it.
	near []balance
}

// balance is the current state of an account while a batch is processed.
type balance struct {
	key

	spent, reserved int64
	// limit is the latest limit, and warned the one that a warning was sent for; negative
	// for none.
	limit, warned int64
	// isSet reports that people have set a limit, which is set.
	isSet bool
	set   int64
}

// has reports whether an amount fits under the limit.
func (b *balance) has(amount int64) bool { return b.limit < 0 || amount <= b.limit-b.spent-b.reserved }

// apply stores changes of one organisation, in their order, under the lock of its
// budgets. It reads the accounts that are touched, reckons, and writes them back
// with the commit.
func (l *Ledger) apply(ctx context.Context, q, last *db.Queries, orgID string, batch []*change) error {
	open, err := openCalls(ctx, q, orgID, batch)
	if err != nil {
		return fmt.Errorf("load the calls to settle: %w", err)
	}
	balances, err := load(ctx, q, orgID, batch, open)
	if err != nil {
		return err
	}
	for _, c := range batch {
		switch {
		case c.reserve != nil:
			if c.reserve.poor = c.reserve.reckon(balances); c.reserve.poor != nil {
				continue
			}
			err = last.PutModelCall(ctx, c.reserve.params(l.cfg.MaxCall+time.Minute))
		default:
			call, ok := open[c.settle.id]
			if c.settle.near = nil; !ok {
				continue // it is settled already
			}
			delete(open, c.settle.id)
			c.settle.reckon(call, balances)
			err = last.SettleModelCall(ctx, c.settle.params(orgID))
		}
		if err != nil {
			return err
		}
	}
	return last.PutBudgetAccounts(ctx, stored(orgID, balances))
}

// openCalls returns the calls of a batch's settlements that are not settled.
func openCalls(ctx context.Context, q *db.Queries, orgID string, batch []*change) (map[string]db.OpenModelCallsRow, error) {
	params := db.OpenModelCallsParams{OrgID: orgID}
	for _, c := range batch {
		if c.settle != nil {
			params.Ids = append(params.Ids, c.settle.id)
		}
	}
	if len(params.Ids) == 0 {
		return nil, nil
	}
	rows, err := q.OpenModelCalls(ctx, params)
	open := make(map[string]db.OpenModelCallsRow, len(rows))
	for _, row := range rows {
		open[row.ID] = row
	}
	return open, err
}

// keys are the accounts that a call was reserved against.
func keys(call db.OpenModelCallsRow) []key {
	out := make([]key, len(call.Scopes))
	for i := range out {
		out[i] = key{Scope(call.Scopes[i]), call.Objects[i], call.Periods[i]}
	}
	return out
}

// load reads all accounts that a batch touches, and the organisation's for all
// time, under the lock of the organisation's budgets.
func load(ctx context.Context, q *db.Queries, orgID string, batch []*change, open map[string]db.OpenModelCallsRow) (map[key]*balance, error) {
	balances := map[key]*balance{}
	params := db.BudgetAccountsParams{OrgID: orgID}
	touch := func(k key) {
		if balances[k] == nil {
			balances[k] = &balance{key: k}
			params.Scopes = append(params.Scopes, string(k.scope))
			params.Objects = append(params.Objects, k.object)
			params.Periods = append(params.Periods, k.period)
		}
	}
	touch(key{Organisation, orgID, Once.Of(time.Time{})})
	for _, c := range batch {
		if c.reserve != nil {
			for _, a := range c.reserve.accounts {
				touch(a.key)
			}
		}
	}
	for _, call := range open {
		for _, k := range keys(call) {
			touch(k)
		}
	}
	rows, err := q.BudgetAccounts(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("load the accounts: %w", err)
	}
	for _, row := range rows {
		b := balances[key{Scope(row.Scope), row.ObjectID, row.Period}]
		b.spent, b.reserved, b.isSet = row.SpentMicros, row.ReservedMicros, row.IsSet
		b.limit, b.warned, b.set = orNone(row.LimitMicros), orNone(row.WarnedAtLimit), orNone(row.SetMicros)
	}
	return balances, nil
}

func orNone(limit *int64) int64 {
	if limit == nil {
		return none
	}
	return *limit
}

// reckon reserves the amount in all accounts, or in none: then it returns the first
// account that has too little left.
func (r *reserve) reckon(balances map[key]*balance) *balance {
	var poor *balance
	for _, a := range r.accounts {
		b := balances[a.key]
		if b.limit = max(a.byDefault, none); b.isSet {
			b.limit = b.set
		}
		if poor == nil && !b.has(r.Amount) {
			as := *b
			poor = &as
		}
	}
	if poor != nil {
		return poor
	}
	for _, a := range r.accounts {
		balances[a.key].reserved += r.Amount
	}
	return nil
}

func (r *reserve) params(lostAfter time.Duration) db.PutModelCallParams {
	p := db.PutModelCallParams{
		ID: r.ID, OrgID: r.OrgID, TaskID: r.TaskID, Attempt: r.call.Task.Attempt, UserName: r.call.Task.CreatedBy,
		Provider: r.call.Provider, Model: r.call.Model, Amount: r.Amount, EstimatedTokens: r.call.Tokens, LostAfter: lostAfter,
	}
	for _, a := range r.accounts {
		p.Scopes = append(p.Scopes, string(a.scope))
		p.Objects = append(p.Objects, a.object)
		p.Periods = append(p.Periods, a.period)
	}
	return p
}

// reckon puts the true cost instead of what was set aside.
func (s *settle) reckon(call db.OpenModelCallsRow, balances map[key]*balance) {
	if s.cost.Basis == lost {
		s.cost.Micros = call.ReservedMicros
	}
	for _, k := range keys(call) {
		b := balances[k]
		b.reserved -= call.ReservedMicros
		b.spent += s.cost.Micros
		if !s.silent && b.limit > 0 && b.spent >= b.limit-b.limit/5 && b.warned != b.limit {
			b.warned = b.limit
			s.near = append(s.near, *b)
		}
	}
}

func (s *settle) params(orgID string) db.SettleModelCallParams {
	return db.SettleModelCallParams{
		ID: s.id, OrgID: orgID, Basis: string(s.cost.Basis), CostMicros: s.cost.Micros, InputTokens: s.cost.Usage.Input,
		OutputTokens: s.cost.Usage.Output, CacheReadTokens: s.cost.Usage.CacheRead, CacheWriteTokens: s.cost.Usage.CacheWrite, LimitTokens: s.cost.LimitTokens,
	}
}

func stored(orgID string, balances map[key]*balance) db.PutBudgetAccountsParams {
	p := db.PutBudgetAccountsParams{OrgID: orgID}
	for k, b := range balances {
		p.Scopes = append(p.Scopes, string(k.scope))
		p.Objects = append(p.Objects, k.object)
		p.Periods = append(p.Periods, k.period)
		p.Spent = append(p.Spent, b.spent)
		p.Reserved = append(p.Reserved, b.reserved)
		p.Limits = append(p.Limits, b.limit)
		p.Warned = append(p.Warned, b.warned)
	}
	return p
}
