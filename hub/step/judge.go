package step

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolargs"
)

// Judge returns what the hub would decide about a waiting call with other arguments, and what
// it would do to files. It changes nothing. It implements inbox.Steps.
func (s *Steps) Judge(ctx context.Context, orgID, stepID, argumentsJSON string) (inbox.Judged, error) {
	step, err := s.Get(ctx, orgID, stepID)
	if err != nil {
		return inbox.Judged{}, err
	}
	if State(step.State) != Waiting {
		return inbox.Judged{}, fault.New(fault.Precondition, "step %s is %s, and waits for no approval", stepID, step.State).WithObject(stepID)
	}
	row, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: orgID, ID: step.TaskID})
	if err != nil {
		return inbox.Judged{}, fmt.Errorf("load task %s: %w", step.TaskID, err)
	}
	l := free()
	out, err := s.judgeChanged(ctx, s.cfg.Store.Queries, l, row.Task, step, argumentsJSON)
	if err != nil {
		return out, err
	}
	out.Arguments = s.cfg.Redact.Org(orgID).Map(out.Arguments)
	return out, nil
}

// judgeChanged decides about other arguments of a step's call, looks at what they would do to
// files, and identifies both.
func (s *Steps) judgeChanged(ctx context.Context, q *db.Queries, l *looks, t db.Task, step db.Step, argumentsJSON string) (out inbox.Judged, err error) {
	p, err := s.cfg.Agents.PersonaOf(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return out, err
	}
	record, err := s.recordOf(ctx, q, t, p, step.Tool)
	if err != nil {
		return out, err
	}
	own := s.cfg.Tools.Get(step.Tool)
	if record == nil || own == nil {
		return out, fault.New(fault.Internal, "step %s calls tool %q, which this hub does not have", step.ID, step.Tool)
	}
	if out.Arguments, err = toolargs.Check(record, argumentsJSON); err != nil {
		return out, err
	}
	if out.Decision, err = s.decisionOf(ctx, q, l, t, step, own, out.Arguments, []byte(argumentsJSON)); err != nil {
		return out, err
	}
	if out.Files, err = s.fileChanges(ctx, l, t, step.Tool, out.Arguments, []byte(argumentsJSON)); err != nil {
		return out, err
	}
	files, err := out.Files.Digest()
	if err != nil {
		return out, err
	}
	data, err := json.Marshal(struct {
		Step, Arguments string
		Decision        inbox.CallDecision
		Files           string
	}{step.ID, argumentsJSON, out.Decision, files})
	if err != nil {
		return out, fmt.Errorf("encode the decision about step %s: %w", step.ID, err)
	}
	out.Digest = digest(data)
	return out, nil
}

// asJudged refuses an approval with other arguments about which the hub decides differently by
// now than the person saw, or that would change files differently.
func (s *Steps) asJudged(ctx context.Context, q *db.Queries, l *looks, t db.Task, step db.Step, a inbox.Answer) error {
	if a.JudgedDigest == "" {
		return nil
	}
	now, err := s.judgeChanged(ctx, q, l, t, step, a.ArgumentsJSON)
	if err != nil {
		return err
	}
	if now.Digest != a.JudgedDigest {
		return fault.New(fault.Precondition, "what the hub decides about the edited call, or what it would do to files, has changed: look again").WithObject(step.ID).
			WithFix("have the edited call judged again, and approve what is shown then")
	}
	return nil
}

// sourceOf says who has a call asked about; see inbox.CallDecision.
func sourceOf(decided policy.Decision, record *tool.Tool, p *persona.Persona, arguments map[string]any) string {
	switch {
	case record.AsksPerson(arguments):
		return inbox.SourceAgent
	case strings.HasPrefix(decided.Rule, "dangerous:"):
		return inbox.SourceDanger
	case decided.Effect == policy.Ask:
		return inbox.SourceRule
	case policyMayWaive(record, p):
		return inbox.SourceTool
	}
	return inbox.SourcePersona
}
