package trigger

import (
	"context"
	"fmt"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/sender"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/verify"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// specOf returns what a persona's trigger does.
func specOf(t persona.Trigger) (*deckhandv1.TriggerSpec, error) {
	spec := clone(t.Spec)
	if Kind(t.Kind) == Webhook {
		from, ok := sender.Named(t.Sender)
		if !ok {
			return nil, unknown("webhook", t.Sender, sender.Any)
		}
		fill(spec, from)
	}
	if err := protovalidate.Validate(spec); err != nil {
		return nil, fault.New(fault.Invalid, "%s", err.Error())
	}
	_, err := check(Kind(t.Kind), spec)
	return spec, err
}

// CheckDeclared returns what is wrong with a trigger that a persona declares.
func CheckDeclared(p *persona.Persona, t persona.Trigger) error {
	spec, err := specOf(t)
	if err != nil {
		return err
	}
	return lint(p, spec)
}

// The changes that Declare returns.
const (
	Created   = "created"
	Updated   = "updated"
	Unchanged = "unchanged"
	Deleted   = "deleted"
)

// Declared is what became of a trigger that a persona names, or did.
type Declared struct {
	Name, Change string
	Row          db.Trigger
	// Secret is that of a webhook that was made.
	Secret string
}

// Clash refuses a persona that names a trigger which is not its own to change:
// agentID is empty for an agent that there is not yet.
func (s *Service) Clash(ctx context.Context, orgID, agentID string, p *persona.Persona) error {
	names := []string{}
	for _, t := range p.Triggers {
		names = append(names, t.Name)
	}
	rows, err := s.cfg.Store.TriggersOfNames(ctx, db.TriggersOfNamesParams{OrgID: orgID, Names: names})
	if err != nil {
		return fmt.Errorf("look for triggers of a persona: %w", err)
	}
	for _, row := range rows {
		switch {
		case !row.Declared:
			return fault.New(fault.Exists, "there is a trigger %q already, which was made by hand", row.Name).
				WithFix("choose another name, or delete it first: deckhand trigger delete %s", row.Name).WithObject(row.ID)
		case row.AgentID != agentID:
			return fault.New(fault.Exists, "there is a trigger %q already, of another agent", row.Name).WithFix("choose another name").WithObject(row.Name)
		}
	}
	return nil
}

// Declare updates an agent's triggers to what its persona declares, and returns what it
// did. Triggers that people created are not changed, and neither is whether one is
// enabled. It is idempotent.
func (s *Service) Declare(ctx context.Context, orgID, agentID string, p *persona.Persona, by event.Actor) ([]Declared, error) {
	if err := s.Clash(ctx, orgID, agentID, p); err != nil {
		return nil, err
	}
	rows, err := s.cfg.Store.DeclaredTriggers(ctx, db.DeclaredTriggersParams{OrgID: orgID, AgentID: agentID})
	if err != nil {
		return nil, fmt.Errorf("list the triggers of a persona: %w", err)
	}
	is := map[string]db.Trigger{}
	for _, row := range rows {
		is[row.Name] = row
	}
	var out []Declared
	for _, t := range p.Triggers {
		row, there := is[t.Name]
		delete(is, t.Name)
		d, err := s.declare(ctx, orgID, agentID, t, row, there, by)
		if err != nil {
			return out, err
		}
		out = append(out, d)
	}
	for _, row := range rows {
		if _, left := is[row.Name]; !left {
			continue
		}
		if err := s.Delete(ctx, orgID, row.ID, by); err != nil {
			return out, err
		}
		out = append(out, Declared{Name: row.Name, Change: Deleted, Row: row})
	}
	return out, nil
}

// declare sees to one; row is how it is, if there is one.
func (s *Service) declare(ctx context.Context, orgID, agentID string, t persona.Trigger, row db.Trigger, there bool, by event.Actor) (Declared, error) {
	d := Declared{Name: t.Name, Change: Unchanged, Row: row}
	spec, err := specOf(t)
	if err != nil {
		return d, err
	}
	if there {
		before, err := readSpec(row.Spec)
		if err != nil {
			return d, err
		}
		if row.Kind == t.Kind && proto.Equal(before, spec) {
			return d, nil
		}
		standard := func(spec *deckhandv1.TriggerSpec) bool {
			return spec.GetWebhook().GetVerify() == string(verify.Standard)
		}
		if row.Kind == t.Kind && standard(before) == standard(spec) {
			d.Change = Updated
			return d, s.update(ctx, orgID, row.ID, to(spec), true, by)
		}
		// Another kind, or a secret of another form: another trigger.
		if err := s.Delete(ctx, orgID, row.ID, by); err != nil {
			return d, err
		}
	}
	made, secret, err := s.Create(ctx, Draft{OrgID: orgID, AgentID: agentID, Name: t.Name, Kind: Kind(t.Kind), Spec: spec, Declared: true, By: by})
	return Declared{Name: t.Name, Change: Created, Row: made.Trigger, Secret: secret}, err
}
