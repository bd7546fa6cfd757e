// Package agent stores agents: personas in versions, bound to nodes. Service applies
// persona files and reads agents and their versions. A stored version is immutable, so
// that a task can name the one that it ran with. Applying the same file again changes
// nothing.
package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/organisation"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// How many parsed files and stored versions are kept in memory.
const (
	parsedPersonas = 1024
	knownVersions  = 256
)

// Service stores and finds agents.
type Service struct {
	store    *store.Store
	recorder *event.Recorder
	known    persona.Vocabulary
	parsed   *lru.Cache[string, *persona.Persona] // by digest
	// versions never change once stored; by agent id, which is unique over all
	// organisations, and number.
	versions *lru.Cache[string, db.AgentVersion]
}

// NewService creates a Service; known lists the tools and providers that a persona may
// name.
func NewService(s *store.Store, recorder *event.Recorder, known persona.Vocabulary) *Service {
	parsed, err1 := lru.New[string, *persona.Persona](parsedPersonas)
	versions, err2 := lru.New[string, db.AgentVersion](knownVersions)
	if err := errors.Join(err1, err2); err != nil {
		panic(err) // only for a size below one
	}
	return &Service{store: s, recorder: recorder, known: known, parsed: parsed, versions: versions}
}

// File is a persona file as it is applied.
type File struct {
	Name     string
	Markdown string
	// Script is the text of the file that the persona's script key names.
	Script string
	// Along are the names of agents that are applied together with it.
	Along []string
}

// The changes that Apply returns.
const (
	Created   = "created"
	Updated   = "updated"
	Unchanged = "unchanged"
)

// Parse returns the persona of a file, checked with what the hub knows.
func (s *Service) Parse(f File) (*persona.Persona, error) {
	p, err := persona.Parse(f.Name, []byte(f.Markdown), s.known)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s", err.Error()).WithCode(fault.TaskParsing)
	}
	return p, nil
}

// Applier is who applies a version. An agent is its first applier's, unless Owner says
// otherwise, and only its owners and administrators apply further ones: its runs may do
// what their starter and the version's applier both may.
type Applier struct {
	event.Actor

	Role string
	// Ownership is what the agent gets besides; the zero value leaves it as it is.
	Ownership Ownership
}

func (a Applier) viewer(orgID string) visibility.Viewer {
	return visibility.As(orgID, a.ID, a.Role)
}

// Apply stores a persona file and returns the agent and what changed. It creates the
// agent if its name is new, and adds a version if the content differs from the newest
// one's.
func (s *Service) Apply(ctx context.Context, orgID string, f File, by Applier, dryRun bool) (db.GetAgentRow, string, error) {
	return s.apply(ctx, orgID, f, by, dryRun, nil)
}

// apply is Apply with something that is done in its transaction, with the agent as it was
// before; nil for nothing.
func (s *Service) apply(ctx context.Context, orgID string, f File, by Applier, dryRun bool, also func(tx *event.Tx, a db.Agent) error) (db.GetAgentRow, string, error) {
	p, err := s.Parse(f)
	if err != nil {
		return db.GetAgentRow{}, "", err
	}
	if len(p.Agents.Delegate)+len(p.Agents.Handoff) > 0 {
		known, v := s.known, by.viewer(orgID)
		if known.Agents, err = s.store.AgentNames(ctx, db.AgentNamesParams{OrgID: orgID, SeesAll: v.All, Viewer: v.Name}); err != nil {
			return db.GetAgentRow{}, "", fmt.Errorf("list the agents' names: %w", err)
		}
		known.Agents = append(known.Agents, f.Along...)
		if _, err := persona.Parse(f.Name, []byte(f.Markdown), known); err != nil {
			return db.GetAgentRow{}, "", fault.New(fault.Invalid, "%s", err.Error()).WithCode(fault.TaskParsing)
		}
	}
	if p.Host.Set() && by.Role != auth.Admin {
		return db.GetAgentRow{}, "", fault.New(fault.Denied, "host: only administrators let an agent work on machines, and you have the role %s", by.Role).
			WithCode(fault.PermissionDenied).WithFix("remove host from the persona, or have an administrator apply it")
	}
	if (p.Script != "") != (f.Script != "") {
		return db.GetAgentRow{}, "", fault.New(fault.Invalid, "%s: the persona names script %q, but the request's script field does not go with it", f.Name, p.Script).
			WithFix("send the script's text with a persona of provider script, and only then")
	}
	if err := released(ctx, s, orgID); err != nil {
		return db.GetAgentRow{}, "", err
	}
	id, change := "", Unchanged
	err = s.recorder.Tx(ctx, func(tx *event.Tx) error {
		q := tx.Queries
		org, err := q.OrganisationByID(ctx, orgID)
		if err != nil {
			return fmt.Errorf("load organisation %s: %w", orgID, err)
		}
		if err := organisation.Ceiling(org).Allows(organisation.JailOf(p)); err != nil {
			return err
		}
		a, err := named(ctx, tx, orgID, p.Name, by)
		if err != nil {
			return err
		}
		id = a.ID
		if also != nil {
			if err := also(tx, a); err != nil {
				return err
			}
		}
		if a.CurrentVersion > 0 {
			if err := transfer(ctx, tx, a, by); err != nil {
				return err
			}
		}
		digest := digestOf(f)
		switch {
		case a.CurrentVersion == 0:
			change = Created
		default:
			newest, err := q.AgentVersion(ctx, db.AgentVersionParams{OrgID: orgID, AgentID: a.ID, Version: a.CurrentVersion})
			if err != nil {
				return fmt.Errorf("load version %d of %s: %w", a.CurrentVersion, a.ID, err)
			}
			if newest.Digest == digest {
				if dryRun {
					return errDryRun // the agent may have got another owner
				}
				return nil
			}
			change = Updated
		}
		version := a.CurrentVersion + 1
		if err := q.CreateAgentVersion(ctx, db.CreateAgentVersionParams{
			AgentID: a.ID, Version: version, OrgID: orgID, Markdown: f.Markdown, Script: f.Script, Digest: digest,
			Description: p.Description, Provider: p.Provider, Model: p.Model, CreatedBy: by.ID, CreatedByRole: by.Role, TaskType: p.TaskType,
		}); err != nil {
			return fmt.Errorf("store version %d of %s: %w", version, a.ID, err)
		}
		if err := q.SetAgentVersion(ctx, db.SetAgentVersionParams{OrgID: orgID, ID: a.ID, Version: version}); err != nil {
			return fmt.Errorf("set version %d of %s: %w", version, a.ID, err)
		}
		if dryRun {
			return errDryRun
		}
		if err := withdrawAllowed(ctx, tx, a, version, p); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by.Actor, Action: "agent.applied", ObjectKind: "agent", ObjectID: a.ID,
			Before: map[string]any{"version": a.CurrentVersion}, After: map[string]any{"name": p.Name, "version": version, "digest": digest},
		})
	})
	if dryRun && (err == nil || errors.Is(err, errDryRun)) {
		// An agent that does not exist yet has nothing to answer with.
		row := db.GetAgentRow{Description: p.Description, Provider: p.Provider, Model: p.Model}
		row.Agent.Name = p.Name
		return row, change, nil
	}
	if err != nil {
		return db.GetAgentRow{}, "", err
	}
	row, err := s.Get(ctx, orgID, id)
	return row, change, err
}

// errDryRun rolls a dry run back.
var errDryRun = fault.New(fault.Aborted, "dry run")

func digestOf(f File) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%s%s", len(f.Markdown), f.Markdown, f.Script)
	return hex.EncodeToString(h.Sum(nil))
}

// Find returns the id of the agent that ref names among those that v sees: a name, one that
// it had before, an id or a unique prefix of one. A deleted agent is not found: the error
// says so to those who saw it.
func (s *Service) Find(ctx context.Context, v visibility.Viewer, ref string) (string, error) {
	id, err := s.find(ctx, v, ref, false)
	if fault.Is(err, fault.NotFound) {
		if gone, gerr := s.find(ctx, v, ref, true); gerr == nil {
			if row, gerr := s.Get(ctx, v.OrgID, gone); gerr == nil && row.Agent.DeletedAt != nil {
				return "", deleted(row.Agent)
			}
		}
	}
	return id, err
}

// FindPast is Find for what is read of the past: it also finds agents that were deleted.
func (s *Service) FindPast(ctx context.Context, v visibility.Viewer, ref string) (string, error) {
	return s.find(ctx, v, ref, true)
}

func (s *Service) find(ctx context.Context, v visibility.Viewer, ref string, gone bool) (string, error) {
	rows, err := s.store.FindAgents(ctx, db.FindAgentsParams{
		OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Gone: gone, Ref: ref, Prefix: store.Prefix("agent", ref),
	})
	return store.One("agent", ref, rows, err)
}

// ByName returns the id of the agent that has exactly this name; empty if there is none.
func (s *Service) ByName(ctx context.Context, orgID, name string) (string, error) {
	a, err := s.store.AgentByName(ctx, db.AgentByNameParams{OrgID: orgID, Name: name})
	if store.IsNotFound(err) || err == nil && a.Name != name {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for agent %s: %w", name, err)
	}
	return a.ID, nil
}

// Get returns an agent by its id.
func (s *Service) Get(ctx context.Context, orgID, id string) (db.GetAgentRow, error) {
	row, err := s.store.GetAgent(ctx, db.GetAgentParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, fault.New(fault.NotFound, "there is no agent %q", id).WithObject(id)
	}
	return row, err
}

// NameOf returns the name that an agent has now, read with q. What is given to agents by name
// is given to that one: the persona that a task runs with has the name that the agent had when
// the task was made, and which may be another agent's by now.
func (s *Service) NameOf(ctx context.Context, q *db.Queries, orgID, id string) (string, error) {
	name, err := q.AgentName(ctx, db.AgentNameParams{OrgID: orgID, ID: id})
	if err != nil {
		return "", fmt.Errorf("load the name of agent %s: %w", id, err)
	}
	return name, nil
}

// Version returns one stored version of an agent.
func (s *Service) Version(ctx context.Context, orgID, id string, version int32) (db.AgentVersion, error) {
	return s.VersionIn(ctx, s.store.Queries, orgID, id, version)
}

// VersionIn is Version, read with q if it is not cached: inside a transaction, pass that
// transaction's.
func (s *Service) VersionIn(ctx context.Context, q *db.Queries, orgID, id string, version int32) (db.AgentVersion, error) {
	key := fmt.Sprintf("%s/%d", id, version)
	if v, ok := s.versions.Get(key); ok && v.OrgID == orgID {
		return v, nil
	}
	v, err := q.AgentVersion(ctx, db.AgentVersionParams{OrgID: orgID, AgentID: id, Version: version})
	if store.IsNotFound(err) {
		return v, fault.New(fault.NotFound, "agent %s has no version %d", id, version).WithObject(id)
	}
	if err != nil {
		return v, fmt.Errorf("load version %d of agent %s: %w", version, id, err)
	}
	s.versions.Add(key, v)
	return v, nil
}

// PersonaOf returns the parsed form of an agent's version, read with q if it is not
// cached: inside a transaction, pass that transaction's. The result must not be modified.
func (s *Service) PersonaOf(ctx context.Context, q *db.Queries, orgID, id string, version int32) (*persona.Persona, error) {
	v, err := s.VersionIn(ctx, q, orgID, id, version)
	if err != nil {
		return nil, err
	}
	return s.Persona(v.Digest, v.Markdown)
}

// Filter picks agents for List.
type Filter struct {
	// After is the name after which the list begins.
	After string
	Limit int32
	// Deleted picks those whose deletion can be undone, and no others.
	Deleted bool
}

// List returns the agents that v sees by name.
func (s *Service) List(ctx context.Context, v visibility.Viewer, f Filter) ([]db.ListAgentsRow, error) {
	params := db.ListAgentsParams{
		OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, AfterName: f.After, MaxRows: f.Limit, Deleted: f.Deleted,
	}
	s.store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := params
		all.MaxRows = maxRows
		_, err := q.ListAgents(ctx, all)
		return err
	})
	return s.store.ListAgents(ctx, params)
}

// Persona returns the parsed form of a stored version. It must not be changed.
func (s *Service) Persona(digest, markdown string) (*persona.Persona, error) {
	if p, ok := s.parsed.Get(digest); ok {
		return p, nil
	}
	// What was valid when it was applied stays readable when a tool goes.
	p, err := persona.Parse("persona", []byte(markdown), persona.Vocabulary{})
	if err != nil {
		return nil, fmt.Errorf("read stored persona: %w", err)
	}
	s.parsed.Add(digest, p)
	return p, nil
}
