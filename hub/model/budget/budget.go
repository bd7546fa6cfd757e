// Package budget keeps spending under its limits by reservation. Ledger reserves what a
// model call is expected to cost at most in every account that it draws on: those of the task and the
// tasks above it, its lineage, its user and its organisation, by day, by month and for
// all time. It reserves in all of them or in none. When the call is over, Settle replaces
// the reservation by the true cost.
//
// An organisation's changes are applied one after the other, on the row of its account
// for all time, so that concurrent calls never exceed a limit. A hub sends the waiting
// changes together in one transaction, which allows many a second.
//
// The basis of a call says how its cost is known:
//
//	reserved   the call is in progress
//	reported   the provider reported what it used
//	estimated  the response broke off, or did not report its use: what is known of
//	           it, and for the rest an estimate
//	unsent     the provider never received it, or refused it: nothing
//	lost       the caller died: the whole reservation
//
// When the hub dies with calls in progress, the sweeper settles them as lost once the
// longest time that a call may take is over. Until then they count as spent.
package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Scope is the kind of object that an account belongs to.
type Scope string

// The scopes.
const (
	Task         Scope = "task"
	Lineage      Scope = "lineage"
	User         Scope = "user"
	Organisation Scope = "organisation"
)

// Every is the period of an account.
type Every string

// The periods, in UTC.
const (
	Once  Every = ""
	Day   Every = "day"
	Month Every = "month"
)

// Of names the period that a time is in.
func (e Every) Of(t time.Time) string {
	switch e {
	case Day:
		return t.UTC().Format("2006-01-02")
	case Month:
		return t.UTC().Format("2006-01")
	default:
		return ""
	}
}

// dollar is in micros.
const dollar = 1_000_000

// The limits that apply if no other was set.
const (
	DefaultDay   = 50 * dollar
	DefaultMonth = 500 * dollar
	// none is no limit.
	none = -1
)

// Basis says how the cost of a call is known.
type Basis string

// The bases.
const (
	Reported  Basis = "reported"
	Estimated Basis = "estimated"
	Unsent    Basis = "unsent"
	lost      Basis = "lost"
)

// Config holds the dependencies of a Ledger.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	// Cap returns a task's own limit in micro-dollars, as its persona sets it or
	// its override does.
	Cap func(ctx context.Context, orgID, agentID string, version int32, override json.RawMessage) (int64, error)
	// Raised is called in the transaction that raises a limit, or removes it; nil for
	// nobody. The rows of the tasks that waited for it are locked before the budget's.
	Raised func(ctx context.Context, tx *event.Tx, orgID string, n Name, by event.Actor) error
	// MaxCall is the longest that a call may take.
	MaxCall time.Duration
	Log     hclog.Logger
	// Now returns the time; nil for time.Now.
	Now func() time.Time
}

// Ledger reserves and settles. It is safe for use by many goroutines.
type Ledger struct {
	cfg Config

	mu      sync.Mutex
	waiting map[string][]*change // by organisation; a key is there while it is served
	work    sync.WaitGroup
}

// New creates a Ledger.
func New(cfg Config) *Ledger {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	return &Ledger{cfg: cfg, waiting: map[string][]*change{}}
}

// Wait returns when all changes are stored.
func (l *Ledger) Wait() { l.work.Wait() }

// Call is one call that is about to be made.
type Call struct {
	// Task is the one that calls. For a call of the hub's own, which no task makes, it has an
	// organisation and, if a person has asked for it, the name of that user; and no id.
	Task            db.Task
	Provider, Model string
	// Amount is what to set aside for it, in micro-dollars.
	Amount int64
	// Tokens are the estimated tokens of its prompt.
	Tokens int64
}

// Reservation is what was set aside for a call.
type Reservation struct {
	ID, OrgID, TaskID string
	Amount            int64
}

// Reserve sets a call's amount aside, or refuses with AGENT_010 and the
// account that has too little left.
func (l *Ledger) Reserve(ctx context.Context, call Call) (*Reservation, error) {
	accounts, err := l.accounts(ctx, call.Task)
	if err != nil {
		return nil, err
	}
	r := &Reservation{ID: ident.New("call"), OrgID: call.Task.OrgID, TaskID: call.Task.ID, Amount: call.Amount}
	c := &change{reserve: &reserve{Reservation: r, call: call, accounts: accounts}}
	if err := l.change(ctx, r.OrgID, c); err != nil {
		return nil, fmt.Errorf("reserve a call of task %s: %w", call.Task.ID, err)
	}
	if poor := c.reserve.poor; poor != nil {
		if err := l.keepRefusal(ctx, call, *poor); err != nil {
			return nil, err
		}
		return nil, refused(*poor, call)
	}
	return r, nil
}

// keepRefusal stores which budget has too little left for a task, for the inbox item that
// is opened when the task pauses. The task's own is a limit of its run.
func (l *Ledger) keepRefusal(ctx context.Context, call Call, b balance) error {
	if b.object == call.Task.ID || call.Task.ID == "" {
		return nil
	}
	if err := l.cfg.Store.PutBudgetRefusal(ctx, db.PutBudgetRefusalParams{
		TaskID: call.Task.ID, OrgID: call.Task.OrgID, Scope: string(b.scope), ObjectID: b.object, Period: b.period,
		LimitMicros: b.limit, SpentMicros: b.spent, AmountMicros: call.Amount,
	}); err != nil {
		return fmt.Errorf("store which budget refused a call of task %s: %w", call.Task.ID, err)
	}
	return nil
}

// account names one that a call draws on, and its default limit; negative for none.
type account struct {
	key

	byDefault int64
}

// accounts are all that a task's calls draw on, the narrowest first: it is the
// one that a refusal names. A call of the hub's own draws on those of the user and the
// organisation.
func (l *Ledger) accounts(ctx context.Context, t db.Task) ([]account, error) {
	if t.ID == "" {
		return l.shared(t), nil
	}
	own, err := l.cfg.Cap(ctx, t.OrgID, t.AgentID, t.AgentVersion, t.Override)
	if err != nil {
		return nil, err
	}
	out := []account{{key{Task, t.ID, ""}, own}}
	first := own
	if t.ParentID != nil || t.LineageID != t.ID {
		rows, err := l.cfg.Store.TaskAncestors(ctx, db.TaskAncestorsParams{OrgID: t.OrgID, ID: t.ID, LineageID: t.LineageID})
		if err != nil {
			return nil, fmt.Errorf("find what task %s came of: %w", t.ID, err)
		}
		for _, row := range rows {
			limit, err := l.cfg.Cap(ctx, t.OrgID, row.AgentID, row.AgentVersion, row.Override)
			if err != nil {
				return nil, err
			}
			if row.Depth < 0 {
				first = limit
				continue
			}
			out = append(out, account{key{Task, row.ID, ""}, limit})
		}
	}
	return append(append(out, account{key{Lineage, t.LineageID, ""}, first}), l.shared(t)...), nil
}

// shared are the accounts of the user and of the organisation.
func (l *Ledger) shared(t db.Task) []account {
	now := l.cfg.Now()
	of := func(scope Scope, object string, every Every, limit int64) account {
		return account{key{scope, object, every.Of(now)}, limit}
	}
	var out []account
	if t.CreatedBy != "" {
		out = append(out, of(User, t.CreatedBy, Day, none), of(User, t.CreatedBy, Month, none))
	}
	return append(out, of(Organisation, t.OrgID, Day, DefaultDay), of(Organisation, t.OrgID, Month, DefaultMonth), of(Organisation, t.OrgID, Once, none))
}

// dollars shows micros as people read them.
func dollars(micros int64) string { return fmt.Sprintf("%.2f USD", float64(micros)/dollar) }

// refused returns the error that names the account with too little left.
func refused(b balance, call Call) error {
	whose := string(b.scope) + " " + b.object
	set := fmt.Sprintf("deckhand budget set %s %s USD", b.scope, b.object)
	if b.scope == Organisation {
		whose, set = "organisation", "deckhand budget set organisation USD"
	}
	if b.period != "" {
		every := Day
		if len(b.period) == len("2006-01") {
			every = Month
		}
		whose += " for " + b.period
		set += " --every " + string(every)
	}
	text := fmt.Sprintf("the budget of %s is reached: %s of %s are spent", whose, dollars(b.spent), dollars(b.limit))
	if b.reserved > 0 {
		text += ", " + dollars(b.reserved) + " are set aside for calls in progress"
	}
	if call.Task.ID != "" {
		set += "), then resume the task"
	} else {
		set += ")"
	}
	return fault.New(fault.Exhausted, "%s, and the next call may cost %s", text, dollars(call.Amount)).
		WithCode(fault.BudgetLimit).WithFix("raise it (%s", set).WithObject(b.object)
}

// Cost is the settled cost of a call.
type Cost struct {
	Basis  Basis
	Usage  price.Usage
	Micros int64
	// LimitTokens are what counts for limits of tokens.
	LimitTokens int64
}

// settleTime limits a settlement and the notifications that it sends.
const settleTime = 30 * time.Second

// Settle replaces a call's reservation by its true cost. It does not end with ctx. If it
// fails, the reservation stays, and is settled as lost.
func (l *Ledger) Settle(ctx context.Context, r *Reservation, cost Cost) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	c := &change{settle: &settle{id: r.ID, cost: cost, silent: r.TaskID == ""}}
	if err := l.change(ctx, r.OrgID, c); err != nil {
		return fmt.Errorf("settle call %s of task %s: %w", r.ID, r.TaskID, err)
	}
	return l.warn(ctx, r, c.settle.near)
}

// warn sends notifications about accounts that came near their limit.
func (l *Ledger) warn(ctx context.Context, r *Reservation, near []balance) error {
	if len(near) == 0 {
		return nil
	}
	return l.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		var drafts []event.Draft
		for _, b := range near {
			l.cfg.Log.Warn("a budget is 80% spent", "scope", b.scope, "object_id", b.object, "period", b.period,
				"spent", dollars(b.spent), "limit", dollars(b.limit))
			drafts = append(drafts, event.Draft{Type: eventkind.BudgetWarning, Payload: map[string]any{
				"scope": string(b.scope), "object_id": b.object, "period": b.period, "spent_micros": b.spent, "limit_micros": b.limit,
			}})
		}
		return tx.Append(r.OrgID, r.TaskID, event.Hub, drafts...)
	})
}

// release undoes a reservation whose caller has gone.
func (l *Ledger) release(r *Reservation) {
	if err := l.Settle(context.Background(), r, Cost{Basis: Unsent}); err != nil {
		l.cfg.Log.Warn("cannot release a reservation", "call_id", r.ID, "error", err)
	}
}

const sweepBatch = 200

// Sweep settles calls that were lost and returns how many.
func (l *Ledger) Sweep(ctx context.Context) (int, error) {
	rows, err := l.cfg.Store.LostModelCalls(ctx, sweepBatch)
	if err != nil {
		return 0, fmt.Errorf("find lost calls: %w", err)
	}
	var errs []error
	for _, row := range rows {
		errs = append(errs, l.Settle(ctx, &Reservation{ID: row.ID, OrgID: row.OrgID, TaskID: row.TaskID}, Cost{Basis: lost}))
	}
	return len(rows), errors.Join(errs...)
}
