package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

const (
	budgetChildren = 50
	budgetTime     = 5 * time.Second
	budgetWorst    = 30
	budgetTruth    = 10
)

// budgets measures how many calls of models fifty children of one task reserve
// and settle, and has them continue to the parent's cap, which must hold
// exactly: what is left is less than one more call, and nothing stays set
// aside.
func budgets(ctx context.Context) (_ result, err error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	st, err := store.Open(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer st.Close()
	conn, err := pgx.Connect(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, conn.Close(ctx)) }()
	var org string
	if err := conn.QueryRow(ctx, "SELECT id FROM organisations").Scan(&org); err != nil {
		return nil, err
	}
	task := func(id, parent string) (db.Task, error) {
		t := db.Task{ID: id, OrgID: org, AgentID: "child", LineageID: "root", CreatedBy: "bench", Attempt: 1}
		if parent != "" {
			t.ParentID = &parent
		}
		_, err := conn.Exec(ctx, `INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, state, reason, workspace_scope, jail_id,
			created_by, created_by_role, correlation_id, lineage_id, parent_id, trigger_id, share, assigned_at)
			VALUES ($1, $2, 'child', 1, 't', 'g', 'pending', 'bench', 'task', 'j', 'bench', 'admin', 'c', 'root', $3, 'manual', 'bench', now())`, id, org, t.ParentID)
		return t, err
	}
	if _, err := task("root", ""); err != nil {
		return nil, err
	}
	children := make([]db.Task, budgetChildren)
	for i := range children {
		if children[i], err = task(fmt.Sprintf("child_%d", i), "root"); err != nil {
			return nil, err
		}
	}
	ledger := budget.New(budget.Config{
		Store: st, MaxCall: time.Minute,
		Cap: func(context.Context, string, string, int32, json.RawMessage) (int64, error) { return 1 << 40, nil },
		Recorder: event.NewRecorder(event.RecorderConfig{
			Store: st, Redact: &redact.Redactor{}, Notify: func(string, string) {},
		}),
	})
	defer ledger.Wait()
	var made atomic.Int64
	pair := func(t db.Task) error {
		r, err := ledger.Reserve(ctx, budget.Call{Task: t, Amount: budgetWorst})
		if err != nil {
			return err
		}
		made.Add(1)
		return ledger.Settle(ctx, r, budget.Cost{Basis: budget.Reported, Usage: price.Usage{Input: 1}, Micros: budgetTruth})
	}
	all := func(until func() bool) error {
		var wg sync.WaitGroup
		errs := make([]error, len(children))
		for i, child := range children {
			wg.Go(func() {
				for errs[i] == nil && !until() {
					errs[i] = pair(child)
				}
				if e := fault.As(errs[i]); e != nil && e.Code == fault.BudgetLimit {
					errs[i] = nil
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	begin := time.Now()
	if err := all(func() bool { return time.Since(begin) > budgetTime }); err != nil {
		return nil, err
	}
	took, pairs := time.Since(begin), made.Load()

	limit := (pairs + 1000) * budgetTruth
	if err := st.SetBudget(ctx, db.SetBudgetParams{OrgID: org, Scope: "task", ObjectID: "root", LimitMicros: &limit, SetBy: "bench"}); err != nil {
		return nil, err
	}
	if err := all(func() bool { return false }); err != nil {
		return nil, err
	}
	for err == nil {
		err = pair(children[0]) // alone, up to the last that fits
	}
	if e := fault.As(err); e == nil || e.Code != fault.BudgetLimit {
		return nil, err
	}
	a, err := st.GetBudgetAccount(ctx, db.GetBudgetAccountParams{OrgID: org, Scope: "task", ObjectID: "root"})
	if err != nil {
		return nil, err
	}
	if a.SpentMicros > limit || a.SpentMicros <= limit-budgetWorst || a.ReservedMicros != 0 || a.SpentMicros != made.Load()*budgetTruth {
		return nil, fmt.Errorf("the cap of %d did not hold exactly: %d are spent, %d set aside, after %d calls", limit, a.SpentMicros, a.ReservedMicros, made.Load())
	}
	return result{"unit": "reserve + settle per s, 50 at once", "ours": float64(pairs) / took.Seconds(), "n": pairs, "cap_exact": true}, nil
}
