// Package memory keeps what agents are to know in later runs: preferences, standing
// instructions, facts. Memories is its service. An entry has a scope (package scope), which
// says who reads and who writes it, and is unique in it by its type and key. Its versions are
// kept.
//
// What an agent writes is visible, editable and revocable by people and widens no rights. A run
// writes for its user: in the scope of an agent or a workspace, only runs for the same user get
// the entry until an owner shares it. An instruction of an agent becomes a standing one when a
// person confirms it, and what it wrote after untrusted input is told to no run before that.
//
// A value with a secret is refused. A deleted entry can be restored for DeletedFor, and is then
// gone with its versions; Purge leaves nothing at once.
package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/secretcheck"
)

const (
	// MaxValue bounds a value as JSON, in bytes.
	MaxValue = 64 << 10
	// MaxKey bounds a key, in characters.
	MaxKey = 255
	// MaxEntries is how many entries a scope has at most.
	MaxEntries = 10_000
	// DeletedFor is how long a deleted or expired entry can be restored.
	DeletedFor = 30 * 24 * time.Hour
	// keptVersions is how many versions of an entry are kept, besides those that a run was told.
	keptVersions = 50
)

// Type is what an entry is.
type Type string

// The types.
const (
	Preference  Type = "preference"
	Fact        Type = "fact"
	Instruction Type = "instruction"
	Selector    Type = "selector"
	Workflow    Type = "workflow"
	Statistic   Type = "statistic"
)

// Types returns the names of all types.
func Types() []string {
	return []string{string(Preference), string(Fact), string(Instruction), string(Selector), string(Workflow), string(Statistic)}
}

// Kinds of sources.
const (
	ByPerson = "person"
	ByAgent  = "agent"
	ByImport = "import"
)

// Source is who writes.
type Source struct {
	// Kind is ByPerson, ByAgent or ByImport.
	Kind string
	// User is the person, or the one that the task ran for.
	User string
	// AgentID, TaskID and StepID are of an agent's call.
	AgentID, TaskID, StepID string
}

// Draft is an entry that is to be stored.
type Draft struct {
	// Scope is resolved and checked: the caller may write in it.
	Scope scope.Scope
	// OnlyFor is the id of the only user whose runs get it; empty for all who read the scope.
	OnlyFor    string
	Type       Type
	Key        string
	Value      any
	Confidence float64
	ExpiresAt  *time.Time
	// ExpectedVersion is the version that it replaces; 0 for any or none.
	ExpectedVersion int32
	Source          Source
	Untrusted       bool
	// ConfirmedBy is the person who answers for it; empty for what an agent writes.
	ConfirmedBy string
}

// Config holds the dependencies of a Memories.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Redact   *redact.Redactor
}

// Memories keeps entries. It is safe for concurrent use.
type Memories struct{ cfg Config }

// New creates Memories.
func New(cfg Config) *Memories { return &Memories{cfg} }

// Entry is a stored entry with the names that people know.
type Entry = db.GetMemoriesRow

// standingRole is the least role of a person who writes or confirms an instruction for others:
// runs of all members follow it.
const standingRole = "advanced"

// mayInstruct refuses an instruction for a team or the organisation to a person whose role is
// too low.
func mayInstruct(role string, kind, typ, key string) error {
	if typ != string(Instruction) || kind != string(scope.Team) && kind != string(scope.Organisation) || auth.AtLeast(role, standingRole) {
		return nil
	}
	return fault.New(fault.Denied, "the instruction %q is for the runs of others, and your role is %s", key, role).WithCode(fault.PermissionDenied).
		WithFix("ask a member with the role %s, or store it as a fact, which runs are told as data", standingRole)
}

// lockScope makes writes of a scope wait for each other. It comes before the locks of rows.
func lockScope(ctx context.Context, tx *event.Tx, orgID string, s scope.Scope) error {
	if err := tx.LockMemoryScope(ctx, orgID+" "+s.String()); err != nil {
		return fmt.Errorf("lock the memory of %s: %w", s, err)
	}
	return nil
}

// shown returns a key for the audit log, which administrators read: none of an entry that only
// one user reads.
func shown(kind scope.Kind, onlyFor, key string) string {
	if kind == scope.User || onlyFor != "" {
		return "(private)"
	}
	return key
}

// Set stores an entry for v, who has a role and must write in its scope.
func (m *Memories) Set(ctx context.Context, v visibility.Viewer, role string, d Draft, by event.Actor) (Entry, error) {
	var id string
	err := m.cfg.Recorder.Tx(ctx, func(tx *event.Tx) (err error) {
		id, err = SetIn(ctx, m, tx, v, role, d, by)
		return err
	})
	if err != nil {
		return Entry{}, err
	}
	return m.Get(ctx, v, id)
}

// SetIn is Set in a transaction. It returns the entry's id.
func SetIn(ctx context.Context, m *Memories, tx *event.Tx, v visibility.Viewer, role string, d Draft, by event.Actor) (id string, err error) {
	s, err := scope.Resolve(ctx, tx.Queries, v, d.Scope)
	if err != nil {
		return "", err
	}
	d.Scope = s
	d.Source, d.ConfirmedBy = Source{Kind: ByPerson, User: v.Name}, v.Name
	if err := mayInstruct(role, string(s.Kind), string(d.Type), d.Key); err != nil {
		return "", err
	}
	if err := lockScope(ctx, tx, v.OrgID, s); err != nil {
		return "", err
	}
	if d.OnlyFor, err = correctsOwn(ctx, tx, v, d); err != nil {
		return "", err
	}
	if err := scope.Check(ctx, tx.Queries, v, s, d.OnlyFor == ""); err != nil {
		return "", err
	}
	row, err := m.put(ctx, tx, v.OrgID, d)
	if err != nil {
		return "", err
	}
	return row.ID, audit.Append(tx, audit.Entry{
		OrgID: v.OrgID, By: by, Action: "memory.set", ObjectKind: "memory", ObjectID: row.ID,
		After: map[string]any{"scope": s.String(), "type": string(d.Type), "key": shown(s.Kind, d.OnlyFor, d.Key), "version": float64(row.Version)},
	})
}

// correctsOwn returns v's id if a draft corrects what a run wrote for v, in the scope of an agent
// or a workspace, also of somebody else's. It returns an empty id if no run wrote one, or if an
// entry for everybody is the one in use.
func correctsOwn(ctx context.Context, tx *event.Tx, v visibility.Viewer, d Draft) (string, error) {
	if !own(d.Scope.Kind) || v.Name == "" {
		return "", nil
	}
	me, err := userID(ctx, tx.Queries, v)
	if err != nil {
		return "", err
	}
	live := func(onlyFor string) (bool, error) {
		is, err := tx.LockMemory(ctx, keyOf(v.OrgID, d, onlyFor))
		if store.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("find memory %s: %w", d.Key, err)
		}
		return is.DeletedAt == nil, nil
	}
	if mine, err := live(me); err != nil || !mine {
		return "", err
	}
	may, err := scope.Writable(ctx, tx.Queries, v, d.Scope)
	if err != nil || !may {
		return me, err
	}
	if all, err := live(""); err != nil || all {
		return "", err
	}
	return me, nil
}

func userID(ctx context.Context, q *db.Queries, v visibility.Viewer) (string, error) {
	s, err := scope.Resolve(ctx, q, v, scope.Scope{Kind: scope.User})
	return s.ID, err
}

func keyOf(orgID string, d Draft, onlyFor string) db.LockMemoryParams {
	return db.LockMemoryParams{
		OrgID: orgID, ScopeKind: string(d.Scope.Kind), ScopeID: d.Scope.ID, OnlyFor: onlyFor, Type: string(d.Type), Key: d.Key,
	}
}

// put stores a draft whose rights were checked: as a new entry, or as the next version of one.
func (m *Memories) put(ctx context.Context, tx *event.Tx, orgID string, d Draft) (db.Memory, error) {
	value, err := m.check(orgID, &d)
	if err != nil {
		return db.Memory{}, err
	}
	if err := lockScope(ctx, tx, orgID, d.Scope); err != nil {
		return db.Memory{}, err
	}
	is, err := tx.LockMemory(ctx, keyOf(orgID, d, d.OnlyFor))
	found := err == nil
	if err != nil && !store.IsNotFound(err) {
		return db.Memory{}, fmt.Errorf("find memory %s: %w", d.Key, err)
	}
	if has := is.Version; d.ExpectedVersion > 0 && (!found || has != d.ExpectedVersion) {
		return db.Memory{}, fault.New(fault.Aborted, "the entry has version %d, and not %d: somebody changed it", has, d.ExpectedVersion).
			WithFix("look at it and save again").WithObject(is.ID)
	}
	if !found {
		if err := makeRoom(ctx, tx, orgID, d); err != nil {
			return db.Memory{}, err
		}
		is, err = tx.InsertMemory(ctx, db.InsertMemoryParams{
			ID: ident.New("memory"), OrgID: orgID, ScopeKind: string(d.Scope.Kind), ScopeID: d.Scope.ID, OnlyFor: d.OnlyFor,
			Type: string(d.Type), Key: d.Key, Value: value, Body: body(d.Key, d.Value),
			Source: d.Source.Kind, SourceUser: d.Source.User, SourceAgent: d.Source.AgentID, SourceTask: d.Source.TaskID, SourceStep: d.Source.StepID,
			Untrusted: d.Untrusted, ConfirmedBy: d.ConfirmedBy, Confidence: d.Confidence, ExpiresAt: d.ExpiresAt,
		})
	} else {
		// An agent that writes the same again does not take back what people said of it.
		if d.Source.Kind == ByAgent && is.DeletedAt == nil && is.Body == body(d.Key, d.Value) {
			d.Confidence = min(d.Confidence, is.Confidence)
		}
		is, err = tx.UpdateMemory(ctx, db.UpdateMemoryParams{
			OrgID: orgID, ID: is.ID, Value: value, Body: body(d.Key, d.Value),
			Source: d.Source.Kind, SourceUser: d.Source.User, SourceAgent: d.Source.AgentID, SourceTask: d.Source.TaskID, SourceStep: d.Source.StepID,
			Untrusted: d.Untrusted, ConfirmedBy: d.ConfirmedBy, Confidence: d.Confidence, ExpiresAt: d.ExpiresAt,
		})
	}
	if err != nil {
		return db.Memory{}, fmt.Errorf("store memory %s: %w", d.Key, err)
	}
	return is, keepVersion(ctx, tx, is)
}

// makeRoom refuses one more entry than a scope may have. Deleted ones count until they are gone,
// and make room if there is no other.
func makeRoom(ctx context.Context, tx *event.Tx, orgID string, d Draft) error {
	n, err := tx.CountMemories(ctx, db.CountMemoriesParams{
		OrgID: orgID, ScopeKind: string(d.Scope.Kind), ScopeID: d.Scope.ID, OnlyFor: d.OnlyFor, Most: MaxEntries,
	})
	if err != nil {
		return fmt.Errorf("count the memory of %s: %w", d.Scope, err)
	}
	if n < MaxEntries {
		return nil
	}
	gone, err := tx.DropOldestDeleted(ctx, db.DropOldestDeletedParams{OrgID: orgID, ScopeKind: string(d.Scope.Kind), ScopeID: d.Scope.ID, OnlyFor: d.OnlyFor})
	if err != nil {
		return fmt.Errorf("make room in the memory of %s: %w", d.Scope, err)
	}
	if gone == 0 {
		return fault.New(fault.Exhausted, "the scope %s has %d entries, which is the most", d.Scope, n).
			WithFix("delete some: deckhand memory list --scope %s", d.Scope.Kind)
	}
	return nil
}

// keepVersion keeps the current version of an entry.
func keepVersion(ctx context.Context, tx *event.Tx, is db.Memory) error {
	if err := tx.InsertMemoryVersion(ctx, db.InsertMemoryVersionParams{OrgID: is.OrgID, ID: is.ID}); err != nil {
		return fmt.Errorf("keep version %d of memory %s: %w", is.Version, is.ID, err)
	}
	if is.Version <= keptVersions {
		return nil
	}
	if err := tx.TrimMemoryVersions(ctx, db.TrimMemoryVersionsParams{OrgID: is.OrgID, MemoryID: is.ID, UpTo: is.Version - keptVersions}); err != nil {
		return fmt.Errorf("delete old versions of memory %s: %w", is.ID, err)
	}
	return nil
}

// check refuses a draft that cannot be stored, and returns its value as JSON.
func (m *Memories) check(orgID string, d *Draft) (json.RawMessage, error) {
	if !slices.Contains(Types(), string(d.Type)) {
		return nil, fault.New(fault.Invalid, "type is %q", d.Type).WithFix("use %s", strings.Join(Types(), ", "))
	}
	if d.Key = strings.TrimSpace(d.Key); d.Key == "" || len([]rune(d.Key)) > MaxKey || strings.ContainsFunc(d.Key, func(c rune) bool { return c < ' ' }) {
		return nil, fault.New(fault.Invalid, "key has to be 1 to %d characters on one line", MaxKey).WithFix("give the entry a short name, such as staging address")
	}
	if d.Value == nil {
		return nil, fault.New(fault.Invalid, "value is empty").WithFix("give what is to be remembered, or delete the entry")
	}
	if d.Confidence < 0 || d.Confidence > 1 {
		return nil, fault.New(fault.Invalid, "confidence is %g", d.Confidence).WithFix("use a number from 0 to 1")
	}
	if d.ExpiresAt != nil && !d.ExpiresAt.After(time.Now()) {
		return nil, fault.New(fault.Invalid, "the entry would be over already").WithFix("give a time in the future, or none")
	}
	value, err := json.Marshal(d.Value)
	if err != nil {
		return nil, fault.New(fault.Invalid, "value is no JSON").WithCause(err)
	}
	if len(value) > MaxValue {
		return nil, fault.New(fault.Invalid, "value has %d bytes as JSON, and %d are the most", len(value), MaxValue).
			WithFix("keep the text in a file, and remember where it is")
	}
	if bytes.Contains(value, []byte(`\u0000`)) {
		return nil, fault.New(fault.Invalid, "value contains the character NUL").WithFix("leave it out")
	}
	if where := secretIn(m.cfg.Redact.Org(orgID), d.Key, d.Value); where != "" {
		return nil, fault.New(fault.Denied, "%s looks like a secret: secrets are not remembered, since every run of the scope would read them", where).
			WithCode(fault.PermissionDenied).WithFix("keep it as a credential, and remember the credential's name: deckhand credential create --help")
	}
	if d.Type == Preference {
		if err := checkPreference(d.Key, d.Value); err != nil {
			return nil, err
		}
	}
	return value, nil
}

// secretNames are words of names whose values are secrets.
var secretNames = []string{"password", "passwd", "secret", "token", "api_key", "apikey", "api-key", "private_key", "credential"}

// secretIn returns what of an entry is a secret: one that the hub knows, one of a known shape,
// or a value with such a name that looks drawn by chance; empty for none.
func secretIn(mask *redact.Redactor, key string, value any) string {
	if mask.String(key) != key {
		return "the key"
	}
	var find func(name string, v any) string
	find = func(name string, v any) string {
		switch v := v.(type) {
		case string:
			if mask.String(v) != v {
				return "the value of " + name
			}
			lower := strings.ToLower(name)
			named := slices.ContainsFunc(secretNames, func(word string) bool { return strings.Contains(lower, word) })
			if named && !strings.ContainsAny(v, " \n") && secretcheck.Weak(v) == "" {
				return "the value of " + name
			}
		case []any:
			for _, one := range v {
				if where := find(name, one); where != "" {
					return where
				}
			}
		case map[string]any:
			for _, field := range slices.Sorted(mapsKeys(v)) {
				if mask.String(field) != field {
					return "a name in the value"
				}
				if where := find(field, v[field]); where != "" {
					return where
				}
			}
		}
		return ""
	}
	return find(key, value)
}
