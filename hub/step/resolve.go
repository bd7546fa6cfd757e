package step

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolargs"
)

// Resolve moves a step to the state that follows from the decision on its inbox item. The
// task's row is locked. It implements inbox.Steps.
func (s *Steps) Resolve(ctx context.Context, tx *event.Tx, t db.Task, item db.InboxItem, a inbox.Answer) (inbox.Applied, error) {
	var effect inbox.Applied
	step, err := tx.GetStep(ctx, db.GetStepParams{OrgID: t.OrgID, ID: *item.StepID})
	if err != nil {
		return effect, fmt.Errorf("read step %s: %w", *item.StepID, err)
	}
	by := s.cfg.Redact.Org(t.OrgID).String(a.By.ID)
	params := db.ResolveStepParams{DecisionReason: withReason(string(a.Verdict)+" by "+by, a.Reason)}
	switch a.Verdict {
	case inbox.Approve:
		if why := s.cfg.Tools.WhyAdmin(step.Tool); why != "" && a.Role != auth.Admin {
			return effect, fault.New(fault.Denied, "only an administrator approves a call of %s: %s", step.Tool, why).
				WithCode(fault.PermissionDenied).WithObject(item.ID).WithFix("ask an administrator")
		}
		if err := s.permitted(ctx, tx, t, step, a.ArgumentsJSON); err != nil {
			return effect, err
		}
		params.State, params.GrantedBinding = string(Granted), item.Binding
		if err = s.acceptToolDefinition(ctx, tx, t, step, item, by); err != nil {
			return effect, err
		}
		if a.Always != nil {
			if err := s.always(ctx, tx, t, step, item, a); err != nil {
				return effect, err
			}
		}
		if a.ArgumentsJSON != "" {
			if err := s.asJudged(ctx, tx.Queries, looksOf(tx), t, step, a); err != nil {
				return effect, err
			}
			if effect.ChangedArguments, err = s.change(ctx, tx, t, step, a, &params); err != nil {
				return effect, err
			}
		}
	case inbox.Reply:
		if effect.Reply, err = s.reply(step, a.Text); err != nil {
			return effect, err
		}
		params.State = string(Granted)
	case inbox.Reject:
		if err := s.cfg.Policies.Rejected(ctx, tx, t, item, a.By); err != nil {
			return effect, err
		}
		params.State, params.ErrorCode = string(Denied), string(fault.PermissionDenied)
		params.Observation = withReason(fmt.Sprintf("error %s: %s rejected this call of %s; it was not made", fault.PermissionDenied, by, step.Tool), a.Reason)
	case inbox.Suggest, inbox.Replan, inbox.Clarify:
		params.State, params.ErrorCode = string(Denied), string(fault.PermissionDenied)
		params.Observation = strings.TrimSpace(fmt.Sprintf(said[a.Verdict], by, step.Tool, a.Reason))
	case inbox.TimeOut:
		params.DecisionReason = fmt.Sprintf("nobody answered %s in time", item.ID)
		if inbox.Kind(item.Kind) == inbox.Question {
			params.State = string(Granted)
			break
		}
		params.State, params.ErrorCode = string(Denied), string(fault.ApprovalExpired)
		params.Observation = fmt.Sprintf("error %s: nobody approved this call of %s in time; it was not made", fault.ApprovalExpired, step.Tool)
	case inbox.Skip:
		params.State = string(Skipped)
		params.Observation = withReason(fmt.Sprintf("%s had this call of %s skipped", by, step.Tool), a.Reason)
		if inbox.Kind(item.Kind) == inbox.Unknown {
			params.ErrorCode = string(fault.OutcomeUnknown)
			params.Observation += "\nNobody knows whether it took effect. What is known:\n" + step.Observation
		}
	case inbox.Retry:
		// The current exec id may have run, so it is spent: the step runs under the next
		// one.
		params.State, params.GrantedBinding, params.Again = string(Granted), item.Binding, 1
	case inbox.Succeeded, inbox.Failed:
		params.State = string(Succeeded)
		if a.Verdict == inbox.Failed {
			params.State, params.ErrorCode = string(Failed), string(fault.ToolFailed)
		}
		params.Observation = withReason(fmt.Sprintf("%s looked at the evidence and says that this call %s", by, a.Verdict), a.Reason) +
			"\nWhat is known:\n" + step.Observation
	default:
		return effect, fault.New(fault.Internal, "%q is not a verdict on a step", a.Verdict)
	}
	if a.Unseen() && step.AskedState == nil && params.GrantedBinding != nil {
		if params.GrantedBinding, err = unseenIn(params.GrantedBinding); err != nil {
			return effect, err
		}
	}
	if step, err = s.move(ctx, tx, step, params); err != nil {
		return effect, err
	}
	if State(step.State) == Denied {
		err = s.skipLater(ctx, tx, t, step)
	}
	return effect, err
}

// skipLater skips the calls of a turn that come after one that was not approved: the model
// planned them as if it were made.
func (s *Steps) skipLater(ctx context.Context, tx *event.Tx, t db.Task, denied db.Step) error {
	reason := fmt.Sprintf("call %d of the same turn (%s) was not approved", denied.CallIndex+1, denied.Tool)
	skipped, err := tx.SkipLaterSteps(ctx, db.SkipLaterStepsParams{
		OrgID: t.OrgID, TaskID: t.ID, Turn: denied.Turn, CallIndex: denied.CallIndex, Reason: reason,
		Observation: "skipped: " + reason + ", so this call was not made. Read why, then make it again if it is still right.",
	})
	if err != nil {
		return fmt.Errorf("skip the calls after step %s: %w", denied.ID, err)
	}
	for _, one := range skipped {
		if err := tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.ToolDenied, Payload: map[string]any{
			"step_id": one.ID, "number": one.Number, "tool": one.Tool, "arguments": map[string]any{}, "reason": reason, "turn": denied.Turn,
		}}); err != nil {
			return err
		}
	}
	return nil
}

// always stores the policy rule that comes with an approval.
func (s *Steps) always(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, item db.InboxItem, a inbox.Answer) error {
	raw := []byte(a.ArgumentsJSON)
	if a.ArgumentsJSON == "" {
		var err error
		if raw, err = s.arguments(step); err != nil {
			return err
		}
	}
	var arguments map[string]any
	if err := json.Unmarshal(raw, &arguments); err != nil {
		return fault.New(fault.Invalid, "the arguments are no JSON object").WithFix("correct them, or leave them as they are")
	}
	if why := s.cfg.Tools.WhyAdmin(item.Tool); why != "" {
		return fault.New(fault.Precondition, "each call of %s is asked about: %s", item.Tool, why).WithObject(item.ID).WithFix("approve this call only")
	}
	decided, err := s.redecide(ctx, tx.Queries, looksOf(tx), t, step, raw)
	if err != nil {
		return err
	}
	if record := s.cfg.Tools.Get(item.Tool); a.Always.Scope == policy.ScopeShape && (record == nil || record.Irreversible != "" || tool.IsMCP(item.Tool)) {
		return fault.New(fault.Precondition, "what %s does cannot be undone, so that each call is asked about", item.Tool).WithObject(item.ID).
			WithFix("approve this call only")
	}
	if decided.Effect == policy.Ask && len(decided.Dangers) == 0 {
		return fault.New(fault.Precondition, "the policy asks about it, which beats what allows it: %s", decided.Why).WithObject(item.ID).
			WithFix("approve this call only, or change the rule %s", decided.Rule)
	}
	_, err = s.cfg.Policies.Remember(ctx, tx, t, item, arguments, *a.Always, a.By)
	return err
}

// permitted refuses to approve a call that the current policies deny.
func (s *Steps) permitted(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, changed string) error {
	raw := []byte(changed)
	if changed == "" {
		var err error
		if raw, err = s.arguments(step); err != nil {
			return err
		}
	} else if !json.Valid(raw) {
		return nil // the check of the arguments reports it
	}
	decided, err := s.redecide(ctx, tx.Queries, looksOf(tx), t, step, raw)
	if err != nil || decided.Effect != policy.Deny {
		return err
	}
	return fault.New(fault.Denied, "the policy denies this call: %s", decided.Why).WithCode(fault.PermissionDenied).WithObject(step.ID).
		WithFix("reject it, approve it with other arguments, or have an administrator change the policy")
}

// said is the text that the agent sees for a verdict other than approval.
var said = map[inbox.Verdict]string{
	inbox.Suggest: "%s did not approve this call of %s; it was not made. They suggest another way: %s",
	inbox.Replan:  "%s did not approve this call of %s; it was not made. They replaced your plan: go on with the new one, which you get in a message. %s",
	inbox.Clarify: "%s wants to know more before they decide on this call of %s; it was not made. They ask: %s\nAnswer the question in words. Make the call again, if it is still right, and they decide on it then.",
}

func withReason(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + ": " + reason
}

// change replaces the model's arguments by those of the approver, and returns them
// masked. The grant is bound to the new arguments.
func (s *Steps) change(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, a inbox.Answer, params *db.ResolveStepParams) (json.RawMessage, error) {
	p, err := s.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	record, err := s.recordOf(ctx, tx.Queries, t, p, step.Tool)
	if err != nil {
		return nil, err
	}
	if record == nil {
		return nil, fault.New(fault.Internal, "step %s calls tool %q, which this hub does not have", step.ID, step.Tool)
	}
	arguments, err := toolargs.Check(record, a.ArgumentsJSON)
	if err != nil {
		return nil, err
	}
	if params.GrantedBinding, err = s.binding(ctx, tx.Queries, looksOf(tx), t, step, []byte(a.ArgumentsJSON)); err != nil {
		return nil, err
	}
	if params.ChangedSealed, err = s.cfg.Vault.Seal([]byte(a.ArgumentsJSON), changedObject(step.ID)); err != nil {
		return nil, err
	}
	if params.ChangedArguments, err = json.Marshal(s.cfg.Redact.Org(t.OrgID).Map(arguments)); err != nil {
		return nil, fmt.Errorf("encode arguments of step %s: %w", step.ID, err)
	}
	params.ChangedBy = a.By.ID
	return params.ChangedArguments, nil
}

// reply returns the reply to a question as the agent sees it.
func (s *Steps) reply(step db.Step, text string) (string, error) {
	_, arguments, err := s.read(step)
	if err != nil {
		return "", err
	}
	q, err := tool.QuestionOf(arguments)
	if err != nil {
		return "", fmt.Errorf("read the question of step %s: %w", step.ID, err)
	}
	return q.Check(text)
}
