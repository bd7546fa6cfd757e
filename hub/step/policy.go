package step

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/audit"
	"github.com/deckhand-sh/deckhand/hub/event"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/store"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// decide answers what a set of policies makes of a call.
func (s *Steps) decide(ctx context.Context, q *db.Queries, t db.Task, p *persona.Persona, set policy.Set, c policy.Call) (policy.Decision, error) {
	c.Agent, c.At = p.Name, time.Now()
	if set.NeedsLabels() && t.NodeID != nil {
		raw, err := q.LabelsOfNode(ctx, db.LabelsOfNodeParams{OrgID: t.OrgID, ID: *t.NodeID})
		if err != nil && !store.IsNotFound(err) {
			return policy.Decision{}, fmt.Errorf("read the labels of node %s: %w", *t.NodeID, err)
		}
		if err == nil {
			if err := json.Unmarshal(raw, &c.Labels); err != nil {
				return policy.Decision{}, fmt.Errorf("read the labels of node %s: %w", *t.NodeID, err)
			}
		}
	}
	if policy.RunsFiles(c) {
		files, err := s.written(ctx, q, t)
		if err != nil {
			return policy.Decision{}, err
		}
		c.Files = files
	}
	d := set.Decide(c)
	d.Command, d.Why = s.cfg.Redact.String(d.Command), s.cfg.Redact.String(d.Why)
	return d, nil
}

// written answers what a task wrote with tools for files, by absolute path: a
// script that is run may be among it.
func (s *Steps) written(ctx context.Context, q *db.Queries, t db.Task) (map[string]string, error) {
	rows, err := q.WrittenFiles(ctx, db.WrittenFilesParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return nil, fmt.Errorf("read what task %s wrote: %w", t.ID, err)
	}
	files := map[string]string{}
	for i := len(rows) - 1; i >= 0; i-- {
		raw, err := s.arguments(db.Step{ID: rows[i].ID, ArgumentsSealed: rows[i].ArgumentsSealed, ChangedSealed: rows[i].ChangedSealed})
		if err != nil {
			return nil, err
		}
		var args struct{ Path, Content string }
		if err := json.Unmarshal(raw, &args); err != nil {
			continue // it was not made as it stands
		}
		name := policy.Abs(args.Path)
		if rows[i].Tool == "file_append" {
			args.Content = files[name] + args.Content
		}
		files[name] = args.Content
	}
	return files, nil
}

// limited refuses a call where its tool, or its category, was called as often as
// a policy lets it be (F12), and says whether a policy counts such calls.
func (s *Steps) limited(ctx context.Context, q *db.Queries, orgID, name, category string, set policy.Set) (counted bool, refused *fault.Error, err error) {
	limits := set.Limits(name, category)
	if len(limits) == 0 {
		return false, nil, nil
	}
	l, err := s.cfg.Policies.Reached(ctx, q, orgID, limits)
	if err != nil || l == nil {
		return true, nil, err
	}
	what := l.Tool
	if what == "" {
		what = l.Category + " tools"
	}
	return true, fault.New(fault.Exhausted, "%s may be called %d times in %s, and were", what, l.Calls, l.Per).
		WithCode(fault.RateLimited).WithFix("go on without it, or wait"), nil
}

// auditDangers puts a call on record that is known to be dangerous (G6).
func auditDangers(tx *event.Tx, t db.Task, step db.Step, d policy.Decision) error {
	if len(d.Dangers) == 0 {
		return nil
	}
	return audit.Append(tx, audit.Entry{
		OrgID: t.OrgID, By: event.Actor{Kind: "agent", ID: t.AgentID}, Action: "policy.dangerous", ObjectKind: "step", ObjectID: step.ID, Reason: d.Why,
		After: map[string]any{"task_id": t.ID, "tool": step.Tool, "state": step.State, "rule": d.Rule, "dangers": d.Dangers, "command": d.Command},
	})
}

// redecide answers what the policies of now make of a step's call.
func (s *Steps) redecide(ctx context.Context, q *db.Queries, t db.Task, step db.Step, raw []byte) (policy.Decision, error) {
	p, err := s.cfg.Agents.PersonaOf(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return policy.Decision{}, err
	}
	set, err := s.cfg.Policies.For(ctx, q, t.OrgID, t.AgentID, true)
	if err != nil {
		return policy.Decision{}, err
	}
	var arguments map[string]any
	if err := json.Unmarshal(raw, &arguments); err != nil {
		return policy.Decision{}, fmt.Errorf("read arguments of step %s: %w", step.ID, err)
	}
	return s.decide(ctx, q, t, p, set, policy.Call{Tool: step.Tool, Category: step.Category, Arguments: arguments})
}

// deniedSince ends a step that was granted, or waits, and that the policy of now
// denies.
func (s *Steps) deniedSince(ctx context.Context, tx *event.Tx, step db.Step, d policy.Decision) error {
	why := "the policy has changed, and denies it now: " + d.Why
	if State(step.State) == Granted {
		var err error
		if step, err = s.move(ctx, tx, step, db.ResolveStepParams{State: string(Waiting), DecisionReason: why}); err != nil {
			return err
		}
	}
	_, err := s.move(ctx, tx, step, db.ResolveStepParams{
		State: string(Denied), DecisionReason: why, ErrorCode: string(fault.PermissionDenied),
		Observation: fmt.Sprintf("error %s: %s; it was not made", fault.PermissionDenied, why),
	})
	return err
}

// recategorised answers a tool with the category that policies give it (F12).
func recategorised(record *tool.Tool, set policy.Set) *tool.Tool {
	registered := tool.CategoryName(record.Category)
	if name := set.Category(record.Name, registered); name != registered {
		other := *record
		other.Category = tool.CategoryOf(name)
		return &other
	}
	return record
}
