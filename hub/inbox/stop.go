package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// answerStop decides a stop and resumes the work, in one transaction. Tasks are locked
// first, then the agent, then the item.
func (s *Service) answerStop(ctx context.Context, tx *event.Tx, row db.GetInboxItemRow, a Answer) error {
	seen := row.InboxItem
	if err := mayAnswerSo(row, a); err != nil {
		return err
	}
	apply, err := s.prepareStop(ctx, tx, seen, a)
	if err != nil {
		return err
	}
	locked, err := tx.LockInboxItem(ctx, db.LockInboxItemParams{OrgID: seen.OrgID, ID: seen.ID})
	if err != nil {
		return fmt.Errorf("lock inbox item %s: %w", seen.ID, err)
	}
	item := locked.InboxItem
	if State(item.State) == Answered && item.AnsweredBy == a.By.ID && item.Answer == string(a.Verdict) && item.Reason == a.Reason {
		return nil
	}
	if err := answerable(item, locked.Over, a); err != nil {
		return err
	}
	// The decision is stored first: work that goes on withdraws its open items.
	if err := s.close(ctx, tx, item, a, Applied{}); err != nil {
		return err
	}
	if a.Verdict == Dismiss {
		return nil
	}
	return apply()
}

// mayAnswerSo refuses a verdict of somebody who may not give it.
func mayAnswerSo(row db.GetInboxItemRow, a Answer) error {
	if MayAnswer(row, a.By.ID, a.Role) && (!needsAdmin(a.Verdict) || a.Role == auth.Admin) {
		return nil
	}
	id := row.InboxItem.ID
	return fault.New(fault.Denied, "you may not answer %s so: you are %s with the role %s", id, a.By.ID, a.Role).WithCode(fault.PermissionDenied).
		WithObject(id).WithFix("ask an administrator")
}

// needsAdmin reports whether only administrators may give a verdict.
func needsAdmin(v Verdict) bool { return v == Raise }

// MayAnswer reports whether a user may answer an item that they see.
func MayAnswer(row db.GetInboxItemRow, user, role string) bool {
	i := row.InboxItem
	covers := func(c deckhandv1.ToolCategory) bool { return tool.Covers(role, c) }
	switch {
	case role == auth.Admin:
		return true
	case !stop.Is(i.Kind), Kind(i.Kind) == Limit:
		return row.SubmittedBy == user && covers(tool.CategoryOf(i.Category))
	case Kind(i.Kind) == Suspended:
		return covers(deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS) // as the agent itself may be resumed
	case Kind(i.Kind) == Egress:
		return slices.Contains(row.AgentOwners, user) && covers(deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS) // as the agent may be applied
	}
	return false
}

// prepareStop takes the locks that come before the item's, and returns what an answer does.
func (s *Service) prepareStop(ctx context.Context, tx *event.Tx, item db.InboxItem, a Answer) (func() error, error) {
	d, err := stop.DetailOf(item)
	if err != nil {
		return nil, err
	}
	switch Kind(item.Kind) {
	case Limit:
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: item.OrgID, ID: item.TaskID})
		if err != nil {
			return nil, fmt.Errorf("lock task %s: %w", item.TaskID, err)
		}
		return func() error { return s.raiseLimit(ctx, tx, t, d, a) }, nil
	case Budget:
		if _, err := stop.LockWaiting(ctx, tx, item.OrgID, stop.Budget, item.Subject); err != nil {
			return nil, err
		}
		return func() error { return s.raiseBudget(ctx, tx, item, d, a) }, nil
	case Provider:
		if d.Reason == stop.Outage {
			return func() error {
				return tx.ProbeNow(ctx, db.ProbeNowParams{OrgID: item.OrgID, Provider: d.Provider})
			}, nil
		}
		return func() error {
			return GoOn(ctx, tx, item.OrgID, stop.Provider, item.Subject, "resumed by "+a.By.ID, a.By)
		}, lockWaiting(ctx, tx, item)
	case Suspended:
		if _, err := tx.LockAgent(ctx, db.LockAgentParams{OrgID: item.OrgID, ID: item.AgentID}); err != nil {
			return nil, fmt.Errorf("lock agent %s: %w", item.AgentID, err)
		}
		return func() error { return agent.ResumeIn(ctx, tx, item.OrgID, item.AgentID, "", a.By) }, nil
	case Egress:
		return s.prepareAllow(ctx, tx, item, a)
	}
	return func() error { return nil }, nil
}

func lockWaiting(ctx context.Context, tx *event.Tx, item db.InboxItem) error {
	_, err := stop.LockWaiting(ctx, tx, item.OrgID, stop.Kind(item.Kind), item.Subject)
	return err
}

// Waiting returns how many paused tasks wait for a stop.
func (s *Service) Waiting(ctx context.Context, item db.InboxItem) (int32, error) {
	if Kind(item.Kind) == Limit {
		return 1, nil
	}
	d, err := stop.DetailOf(item)
	if err != nil {
		return 0, err
	}
	if d.Reason == stop.Outage {
		n, err := s.cfg.Store.CountTasksInOutage(ctx, db.CountTasksInOutageParams{OrgID: item.OrgID, Provider: d.Provider})
		if err != nil {
			return 0, fmt.Errorf("count the tasks that wait for %s: %w", d.Provider, err)
		}
		return n, nil
	}
	n, err := s.cfg.Store.CountStoppedTasks(ctx, db.CountStoppedTasksParams{OrgID: item.OrgID, Kind: item.Kind, Subject: item.Subject})
	if err != nil {
		return 0, fmt.Errorf("count the tasks that wait for %s: %w", item.ID, err)
	}
	return n, nil
}

// GoOn queues the tasks that wait for a stop, and withdraws it: its cause is gone, or a
// person has them try again.
func GoOn(ctx context.Context, tx *event.Tx, orgID string, kind stop.Kind, subject, why string, by event.Actor) error {
	waiting, err := stop.LockWaiting(ctx, tx, orgID, kind, subject)
	if err != nil {
		return err
	}
	// Before the tasks: the last one that leaves would withdraw it with another reason.
	if err := stop.Withdraw(ctx, tx.Queries, orgID, kind, subject, why); err != nil {
		return err
	}
	for _, t := range waiting {
		if err := task.GoOn(ctx, tx, t, why, by); err != nil {
			return err
		}
	}
	return nil
}

// BudgetRaised has the tasks go on that wait for a budget which was raised, or removed. It
// is for budget.Config.
func BudgetRaised(ctx context.Context, tx *event.Tx, orgID string, n budget.Name, by event.Actor) error {
	return GoOn(ctx, tx, orgID, stop.Budget, stop.BudgetSubject(string(n.Scope), n.ObjectID, n.Every.Of(time.Now())), "the budget was raised by "+by.ID, by)
}

// ProviderRestored has the tasks go on that wait for a provider which was connected. It
// is for credential.Config.
func ProviderRestored(ctx context.Context, tx *event.Tx, orgID, provider string, by event.Actor) error {
	return GoOn(ctx, tx, orgID, stop.Provider, provider, "provider "+provider+" was connected by "+by.ID, by)
}

// mostOf are the highest limits of a run; see the API's TaskLimits.
var mostOf = map[string]int64{"iterations": 1000, "active_time": 604_800, "tokens": 1_000_000_000, "calls": 100_000, "cost_usd": 1_000_000_000_000, "files": persona.MaxFiles, "file_size": 1 << 50}

// LimitOffer returns a higher limit to offer for a run that stands at one; 0 if there is
// none.
func LimitOffer(d stop.Detail) int64 {
	offer := 2 * d.LimitMost
	if d.LimitName == "iterations" {
		offer = min(offer, d.LimitMost+100)
	}
	if offer = min(offer, mostOf[d.LimitName]); offer <= d.LimitMost {
		return 0
	}
	return offer
}

// BudgetOffer returns a higher limit to offer for a budget that is used up: twice as much,
// or at least room for the call that was refused, in whole dollars.
func BudgetOffer(d stop.Detail) int64 {
	const dollar = 1_000_000
	least := d.SpentMicros + d.Amount
	offer := max(2*d.LimitMicros, least)
	return (offer + dollar - 1) / dollar * dollar
}

func (s *Service) raiseLimit(ctx context.Context, tx *event.Tx, t db.Task, d stop.Detail, a Answer) error {
	if a.Verdict == Close {
		return task.Close(ctx, tx, t, a.Reason, a.By)
	}
	if a.Limit <= d.LimitMost || a.Limit > mostOf[d.LimitName] {
		return fault.New(fault.Invalid, "raise.limit is %d, and the limit of %s that was reached is %d", a.Limit, d.LimitName, d.LimitMost).WithObject(t.ID).
			WithFix("give a number above %d, and at most %d", d.LimitMost, mostOf[d.LimitName])
	}
	var limits task.Limits
	switch d.LimitName {
	case "iterations":
		limits.Iterations = int32(a.Limit) //nolint:gosec // at most 1000
	case "active_time":
		limits.ActiveTime = time.Duration(a.Limit) * time.Second
	case "tokens":
		limits.Tokens = a.Limit
	case "calls":
		limits.Calls = a.Limit
	case "files":
		limits.Files = a.Limit
	case "file_size":
		limits.FileSize = a.Limit
	case "cost_usd":
		limits.CostMicros = a.Limit
		if err := s.raiseOwnBudgets(ctx, tx, t, a); err != nil {
			return err
		}
	}
	if err := task.LiftIn(ctx, tx, t, limits, a.By); err != nil {
		return err
	}
	// As if the task had been resumed.
	return agent.ResumeIn(ctx, tx, t.OrgID, t.AgentID, t.ID, a.By)
}

// raiseOwnBudgets raises the budgets that people have set for a task itself: they apply
// instead of the limit of its run.
func (s *Service) raiseOwnBudgets(ctx context.Context, tx *event.Tx, t db.Task, a Answer) error {
	for _, scope := range []budget.Scope{budget.Task, budget.Lineage} {
		set, err := tx.GetBudget(ctx, db.GetBudgetParams{OrgID: t.OrgID, Scope: string(scope), ObjectID: t.ID, Every: ""})
		if store.IsNotFound(err) || err == nil && (set.LimitMicros == nil || *set.LimitMicros >= a.Limit) {
			continue
		}
		if err != nil {
			return fmt.Errorf("load the budget of task %s: %w", t.ID, err)
		}
		if err := s.cfg.Budgets.SetIn(ctx, tx, t.OrgID, budget.Name{Scope: scope, ObjectID: t.ID}, a.Limit, a.By); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) raiseBudget(ctx context.Context, tx *event.Tx, item db.InboxItem, d stop.Detail, a Answer) error {
	if a.Verdict == Raise {
		if a.Limit <= d.LimitMicros {
			return fault.New(fault.Invalid, "raise.limit is %d, and the budget that is used up is %d", a.Limit, d.LimitMicros).WithObject(item.ID).
				WithFix("give more micro-dollars than that")
		}
		n := budget.Name{Scope: budget.Scope(d.Scope), ObjectID: d.ObjectID, Every: budget.Every(d.Every)}
		if err := s.cfg.Budgets.SetIn(ctx, tx, item.OrgID, n, a.Limit, a.By); err != nil {
			return err
		}
	}
	// Also what waits for a period that is over by now.
	return GoOn(ctx, tx, item.OrgID, stop.Budget, item.Subject, "resumed by "+a.By.ID, a.By)
}

// Proposal is a version of a persona that allows a refused host.
type Proposal struct {
	// Version is the one that it changes.
	Version  int32
	Markdown string
	// Diff is a unified diff; empty if the version allows the host already.
	Diff string
	// Rule is the rule that is added.
	Rule string
	// Problem says why the file cannot be changed; empty if it can.
	Problem string

	item string
}

// Digest identifies what the person sees, as ShownDigest does for calls.
func (p Proposal) Digest() string {
	if p.Problem != "" {
		return ""
	}
	return digest(fmt.Appendf(nil, "%s\n%d\n%s", p.item, p.Version, p.Markdown))
}

// Propose returns the version that answers an open item about a refused host.
func (s *Service) Propose(ctx context.Context, item db.InboxItem) (Proposal, error) {
	d, err := stop.DetailOf(item)
	if err != nil {
		return Proposal{}, err
	}
	row, err := s.cfg.Agents.Get(ctx, item.OrgID, item.AgentID)
	if err != nil {
		return Proposal{}, err
	}
	v, err := s.cfg.Agents.Version(ctx, item.OrgID, item.AgentID, row.Agent.CurrentVersion)
	if err != nil {
		return Proposal{}, err
	}
	p := Proposal{Version: v.Version, item: item.ID}
	target, err := d.Target()
	if err != nil {
		p.Problem = err.Error()
		return p, nil
	}
	p.Rule = allowlist.RuleFor(target)
	if p.Markdown, err = persona.Allow(v.Markdown, target); err != nil {
		p.Problem = fmt.Sprintf("The persona cannot be changed automatically: %s. Add %s to egress.allow, and apply it.", err, p.Rule)
		return p, nil
	}
	if p.Markdown == v.Markdown {
		p.Problem = fmt.Sprintf("Version %d of the persona allows %s already.", v.Version, p.Rule)
		return p, nil
	}
	name := row.Agent.Name + ".md"
	p.Diff = udiff.Unified(name, name, v.Markdown, p.Markdown)
	return p, nil
}

// prepareAllow takes the locks for a new version of an agent's persona, if the answer is
// one.
func (s *Service) prepareAllow(ctx context.Context, tx *event.Tx, item db.InboxItem, a Answer) (func() error, error) {
	if a.Verdict != Allow || State(item.State) != Open {
		return func() error { return nil }, nil
	}
	p, err := s.Propose(ctx, item)
	if err != nil {
		return nil, err
	}
	if p.Problem != "" {
		return nil, fault.New(fault.Precondition, "%s", p.Problem).WithObject(item.ID).WithFix("change the persona by hand: deckhand agent show %s", item.AgentID)
	}
	switch a.ShownDigest {
	case p.Digest():
	case "":
		return nil, fault.New(fault.Invalid, "shown_digest is missing: the answer is for what was shown").WithObject(item.ID).
			WithFix("read the item, and send its shown_digest with the answer")
	default:
		return nil, fault.New(fault.Precondition, "what you saw of %s has changed: look again", item.ID).WithObject(item.ID).
			WithFix("read the item again and decide on what it is now: deckhand inbox show %s", item.ID)
	}
	apply, err := s.cfg.Agents.Successor(ctx, tx, item.OrgID, item.AgentID, p.Version, p.Markdown)
	if err != nil {
		return nil, err
	}
	return func() error { return apply(fmt.Sprintf("%s was allowed: %s", p.Rule, item.ID), a.By) }, nil
}

// NextPeriods has the tasks go on that wait for the budget of a day or a month that is over:
// another one has begun. Any number of hubs may call it at once.
func (s *Service) NextPeriods(ctx context.Context) error {
	rows, err := s.cfg.Store.EndedBudgetPeriods(ctx, sweepBatch)
	if err != nil {
		return fmt.Errorf("find budgets whose period is over: %w", err)
	}
	var errs []error
	for _, row := range rows {
		errs = append(errs, s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
			return GoOn(ctx, tx, row.OrgID, stop.Budget, row.Subject, "the next period of the budget has begun", event.Hub)
		}))
	}
	return errors.Join(errs...)
}
