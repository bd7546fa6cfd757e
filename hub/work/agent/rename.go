package agent

import (
	"cmp"
	"context"
	"fmt"
	"regexp"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

var agentName = regexp.MustCompile(persona.NamePattern)

// checkName refuses a text that cannot be an agent's name.
func checkName(name string) error {
	if !agentName.MatchString(name) {
		return fault.New(fault.Invalid, "name is %q", name).WithFix("use 1 to 63 lower-case letters, digits and dashes, beginning with a letter")
	}
	return nil
}

// Rename gives an agent another name. It stores a version of its persona that has the new
// name, keeps the agent's history, and lets credentials and destinations
// that name it name it so. The old
// name leads to the agent from then on, unless forget is set: then no former name does.
// Renaming it to the name that it has changes nothing else.
func (l Life) Rename(ctx context.Context, orgID, id, name string, forget bool, by Applier) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := released(ctx, l.Agents, orgID); err != nil {
		return err
	}
	return l.Agents.recorder.Tx(ctx, func(tx *event.Tx) error {
		a, err := lock(ctx, tx, orgID, id)
		if err != nil {
			return err
		}
		if err := cmp.Or(mayManage(ctx, tx.Queries, a, by), there(a)); err != nil {
			return err
		}
		if name != a.Name {
			if err := l.rename(ctx, tx, a, name, by); err != nil {
				return err
			}
		}
		if !forget {
			return nil
		}
		return forgetNames(ctx, tx, a, name)
	})
}

// forgetNames frees the former names of an agent that is called name now. What still names
// it so is not given to the next agents of these names.
func forgetNames(ctx context.Context, tx *event.Tx, a db.Agent, name string) error {
	names, err := tx.FormerNames(ctx, db.FormerNamesParams{OrgID: a.OrgID, AgentID: a.ID})
	if err != nil {
		return fmt.Errorf("list the former names of %s: %w", a.ID, err)
	}
	if err := tx.ForgetInCredentials(ctx, db.ForgetInCredentialsParams{OrgID: a.OrgID, Names: names}); err != nil {
		return fmt.Errorf("forget the former names of %s in credentials: %w", a.ID, err)
	}
	if err := tx.ForgetInDestinations(ctx, db.ForgetInDestinationsParams{OrgID: a.OrgID, Names: names, Name: name}); err != nil {
		return fmt.Errorf("forget the former names of %s in destinations: %w", a.ID, err)
	}
	if err := tx.DeleteFormerNames(ctx, db.DeleteFormerNamesParams{OrgID: a.OrgID, AgentID: a.ID}); err != nil {
		return fmt.Errorf("forget the former names of %s: %w", a.ID, err)
	}
	return nil
}

func (l Life) rename(ctx context.Context, tx *event.Tx, a db.Agent, name string, by Applier) error {
	if err := l.free(ctx, tx, a, name, by); err != nil {
		return err
	}
	before, err := tx.AgentVersion(ctx, db.AgentVersionParams{OrgID: a.OrgID, AgentID: a.ID, Version: a.CurrentVersion})
	if err != nil {
		return fmt.Errorf("load version %d of %s: %w", a.CurrentVersion, a.ID, err)
	}
	markdown, err := persona.Rename(before.Markdown, name)
	if err != nil {
		return fault.New(fault.Precondition, "the name in the persona of agent %s cannot be replaced: %v", a.Name, err).WithObject(a.ID).
			WithFix("write it as name: %s on a line of its own, apply the file, and rename the agent then", a.Name)
	}
	version := a.CurrentVersion + 1
	if err := tx.CreateAgentVersion(ctx, db.CreateAgentVersionParams{
		AgentID: a.ID, Version: version, OrgID: a.OrgID, Markdown: markdown, Script: before.Script,
		Digest: digestOf(File{Markdown: markdown, Script: before.Script}), Description: before.Description,
		// It does what the one before does, for whom that one does it.
		Provider: before.Provider, Model: before.Model, CreatedBy: before.CreatedBy, CreatedByRole: before.CreatedByRole, TaskType: before.TaskType,
	}); err != nil {
		return fmt.Errorf("store version %d of %s: %w", version, a.ID, err)
	}
	if err := tx.SetAgentVersion(ctx, db.SetAgentVersionParams{OrgID: a.OrgID, ID: a.ID, Version: version}); err != nil {
		return fmt.Errorf("set version %d of %s: %w", version, a.ID, err)
	}
	if err := tx.DeleteFormerName(ctx, db.DeleteFormerNameParams{OrgID: a.OrgID, Name: name}); err != nil {
		return fmt.Errorf("take the name %s back: %w", name, err)
	}
	if err := tx.PutFormerName(ctx, db.PutFormerNameParams{OrgID: a.OrgID, Name: a.Name, AgentID: a.ID}); err != nil {
		return fmt.Errorf("keep the name %s: %w", a.Name, err)
	}
	if err := tx.SetAgentName(ctx, db.SetAgentNameParams{OrgID: a.OrgID, ID: a.ID, Name: name}); err != nil {
		return fmt.Errorf("rename agent %s: %w", a.ID, err)
	}
	if err := tx.RenameInCredentials(ctx, db.RenameInCredentialsParams{OrgID: a.OrgID, OldName: a.Name, NewName: name}); err != nil {
		return fmt.Errorf("rename agent %s in credentials: %w", a.ID, err)
	}
	if err := tx.RenameInDestinations(ctx, db.RenameInDestinationsParams{OrgID: a.OrgID, OldName: a.Name, NewName: name}); err != nil {
		return fmt.Errorf("rename agent %s in destinations: %w", a.ID, err)
	}
	return audit.Append(tx, audit.Entry{
		OrgID: a.OrgID, By: by.Actor, Action: "agent.renamed", ObjectKind: "agent", ObjectID: a.ID,
		Before: map[string]any{"name": a.Name, "version": a.CurrentVersion}, After: map[string]any{"name": name, "version": version},
	})
}

// free refuses a name that is another agent's, or was.
func (l Life) free(ctx context.Context, tx *event.Tx, a db.Agent, name string, by Applier) error {
	was, err := tx.FormerName(ctx, db.FormerNameParams{OrgID: a.OrgID, Name: name})
	switch {
	case err == nil && was.Agent.ID != a.ID:
		return renamed(ctx, tx.Queries, was.Agent, name, by)
	case err != nil && !store.IsNotFound(err):
		return fmt.Errorf("look for former name %s: %w", name, err)
	}
	_, err = tx.LockAgentByName(ctx, db.LockAgentByNameParams{OrgID: a.OrgID, Name: name})
	switch {
	case err == nil:
		return taken(name)
	case !store.IsNotFound(err):
		return fmt.Errorf("look for agent %s: %w", name, err)
	}
	return nil
}

// Copy returns the persona file of a new agent of another name that does what a version of
// an agent does; 0 for the newest. Triggers have names of their own in the organisation:
// the copy has none, and dropped reports that the original has.
func (l Life) Copy(ctx context.Context, orgID, id string, version int32, name string) (f File, dropped bool, err error) {
	if err := checkName(name); err != nil {
		return f, false, err
	}
	row, err := l.Agents.Get(ctx, orgID, id)
	if err != nil {
		return f, false, err
	}
	v, err := l.Agents.Version(ctx, orgID, id, cmp.Or(version, row.Agent.CurrentVersion))
	if err != nil {
		return f, false, err
	}
	markdown, err := persona.Rename(v.Markdown, name)
	if err == nil {
		markdown, dropped, err = persona.Without(markdown, "triggers")
	}
	if err != nil {
		return f, false, fault.New(fault.Precondition, "the persona of agent %s cannot be copied: %v", row.Agent.Name, err).WithObject(id).
			WithFix("copy the file by hand: deckhand agent show %s", row.Agent.Name)
	}
	return File{Name: name + ".md", Markdown: markdown, Script: v.Script}, dropped, nil
}

// Duplicate stores the file that Copy made. The copy is its maker's, and is seen by as many
// as the original; a name that is taken is refused. also is done in the transaction that
// stores the copy, whose id it gets.
func (l Life) Duplicate(ctx context.Context, orgID, id string, f File, by Applier, also func(tx *event.Tx, copied string) error) (db.GetAgentRow, error) {
	row, err := l.Agents.Get(ctx, orgID, id)
	if err != nil {
		return row, err
	}
	p, err := l.Agents.Parse(f)
	if err != nil {
		return row, err
	}
	_, err = l.Agents.store.LiveName(ctx, db.LiveNameParams{OrgID: orgID, Name: p.Name})
	switch {
	case err == nil:
		return row, taken(p.Name)
	case !store.IsNotFound(err):
		return row, fmt.Errorf("look for agent %s: %w", p.Name, err)
	}
	by.Ownership.Level = levelOf(row.Agent)
	row, _, err = l.Agents.apply(ctx, orgID, f, by, false, func(tx *event.Tx, copied db.Agent) error {
		if copied.CurrentVersion > 0 {
			return taken(p.Name) // somebody was faster
		}
		return also(tx, copied.ID)
	})
	return row, err
}
