// Package knowledge keeps collections of documents, which people and agents search.
// Knowledge is its service.
//
// A collection has a scope, which decides who reads and who changes it, and sources: uploads,
// a folder of an agent's workspace, a folder of a machine, a Git repository, a web page. A
// sync reads the sources, in a jail of its own on a node, since documents may be hostile: the
// hub copies the files there, has deckhand-skill cut them into passages, and checks and
// stores what that writes. What has not changed since the last sync, by its digest, is not
// read again, and what is gone is removed. A source that cannot be read keeps the documents
// that it had.
//
// Search looks for passages by their words, by words that are similar, and, if the organisation
// has a model for it, by meaning: Embeddings turns passages into vectors, with which that of a
// question is compared exactly. The results are merged by reciprocal rank. It looks only into collections that the person who asks, or for whom the
// agent runs, sees at that moment.
//
// Whatever is stored here was written by others. It is shown with its source and given to
// models as data.
//
// A sync runs in the hub that was asked for it, which notes that it goes on. If the hub dies,
// Sweep ends the sync as failed and removes its jail; a batch of documents is stored whole or
// not at all, so that the next sync continues from there.
package knowledge

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Kind names collections in errors.
const Kind = "collection"

// The kinds of sources, as the database names them.
const (
	Upload    = "upload"
	Workspace = "workspace"
	Node      = "node"
	Git       = "git"
	Web       = "web"
)

// Config holds the dependencies of Knowledge. All are required.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Redact   *redact.Redactor
	Nodes    *node.Nodes
	// Node returns the live link to a node, or an error of kind Unavailable.
	Node func(nodeID string) (machine.Link, error)
	// Role returns the current role of a user. For a name that is not a user, it returns
	// unless.
	Role func(ctx context.Context, q *db.Queries, orgID, name, unless string) (string, error)
	// Authorities are those of jails that connect to a source; see package authority.
	Authorities interface {
		Of(ctx context.Context, orgID, jailID string, hosts []string) ([]string, error)
		Drop(ctx context.Context, orgID, jailID string) error
	}
	// Credential returns the requests of a jail that a credential is for, and refuses one that
	// cannot read a repository.
	Credential func(ctx context.Context, orgID, name, repository string) (*nodev1.Egress_Binding, error)
	// Models makes the calls of models for search by meaning.
	Models Embedder
	Log    hclog.Logger
}

// Knowledge keeps collections. It is a lifecycle.Service: while it runs, it syncs.
type Knowledge struct {
	lifecycle.Runner

	// Embeddings are for search by meaning.
	Embeddings *Embeddings

	cfg Config

	mu sync.Mutex
	// life is the context of syncs; nil while the service does not run. runs are those that
	// go on.
	life context.Context //nolint:containedctx // of the goroutines that it owns
	runs sync.WaitGroup
}

// New creates Knowledge.
func New(cfg Config) *Knowledge {
	return &Knowledge{cfg: cfg, Embeddings: &Embeddings{cfg, newVectors(cfg.Store)}}
}

// Start lets syncs run.
func (k *Knowledge) Start(ctx context.Context) error {
	return k.Run(ctx, func(ctx context.Context) error {
		k.mu.Lock()
		k.life = ctx
		k.mu.Unlock()
		tick := time.NewTicker(keptFor / 2)
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case now := <-tick.C:
				k.Embeddings.vectors.expire(now)
			}
		}
		k.mu.Lock()
		k.life = nil
		k.mu.Unlock()
		k.runs.Wait()
		return nil
	})
}

// background runs a function until it returns or the service stops; it reports false if the
// service does not run.
func (k *Knowledge) background(do func(ctx context.Context)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.life == nil || k.life.Err() != nil {
		return false
	}
	life := k.life
	k.runs.Go(func() { do(life) })
	return true
}

// Find returns the id of a collection that v sees, by an id, the beginning of one or a name.
func (k *Knowledge) Find(ctx context.Context, v visibility.Viewer, ref string) (string, error) {
	rows, err := k.cfg.Store.FindKnowledgeCollections(ctx, db.FindKnowledgeCollectionsParams{
		OrgID: v.OrgID, Ref: ref, Prefix: store.Prefix("coll", ref), Viewer: v.Name, Administrator: v.All,
	})
	if len(rows) == 2 && rows[0].Exact && rows[1].Exact {
		return "", fault.New(fault.Invalid, "you see more than one collection %q, in different scopes", ref).WithFix("give the id, see: deckhand knowledge list").WithObject(ref)
	}
	id, err := store.One(Kind, ref, rows, err)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "there is no %s %q", Kind, ref).WithObject(ref).WithFix("list what there is with: deckhand knowledge list")
	}
	return id, err
}

// Get returns a collection that v sees.
func (k *Knowledge) Get(ctx context.Context, v visibility.Viewer, id string) (db.GetKnowledgeCollectionRow, error) {
	row, err := k.cfg.Store.GetKnowledgeCollection(ctx, db.GetKnowledgeCollectionParams{OrgID: v.OrgID, ID: id, Viewer: v.Name, Administrator: v.All})
	if store.IsNotFound(err) {
		return row, fault.New(fault.NotFound, "there is no %s %q", Kind, id).WithObject(id).WithFix("list what there is with: deckhand knowledge list")
	}
	if err != nil {
		return row, fmt.Errorf("load collection %s: %w", id, err)
	}
	return row, nil
}

// change returns a collection that v may change, by a reference.
func (k *Knowledge) change(ctx context.Context, v visibility.Viewer, ref string) (db.GetKnowledgeCollectionRow, error) {
	id, err := k.Find(ctx, v, ref)
	if err != nil {
		return db.GetKnowledgeCollectionRow{}, err
	}
	row, err := k.Get(ctx, v, id)
	if err == nil && !row.Writable {
		err = fault.New(fault.Denied, "you read the collection %s and do not change it: it is of the %s", row.KnowledgeCollection.Name, row.KnowledgeCollection.ScopeKind).
			WithCode(fault.PermissionDenied).WithObject(id).WithFix("create one of your own, or ask an administrator or an owner")
	}
	return row, err
}

// List returns a page of the collections that v sees, by name, and the next page's token.
func (k *Knowledge) List(ctx context.Context, v visibility.Viewer, page string, size int32) ([]db.ListKnowledgeCollectionsRow, string, error) {
	name, id, err := store.ParseNameToken(page)
	if err != nil {
		return nil, "", err
	}
	rows, err := k.cfg.Store.ListKnowledgeCollections(ctx, db.ListKnowledgeCollectionsParams{
		OrgID: v.OrgID, AfterName: name, AfterID: id, Viewer: v.Name, Administrator: v.All, MaxRows: size + 1,
	})
	if err != nil {
		return nil, "", fmt.Errorf("list collections: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.ListKnowledgeCollectionsRow) string {
		return store.NameToken(last.KnowledgeCollection.Name, last.KnowledgeCollection.ID)
	})
	return rows, next, nil
}

// Create creates an empty collection in a scope.
func (k *Knowledge) Create(ctx context.Context, v visibility.Viewer, s scope.Scope, name, description string, by event.Actor) (string, error) {
	s, err := scope.Resolve(ctx, k.cfg.Store.Queries, v, s)
	if err == nil {
		err = scope.Check(ctx, k.cfg.Store.Queries, v, s, true)
	}
	if err != nil {
		return "", err
	}
	id := ident.New("coll")
	err = k.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		_, err := tx.CreateKnowledgeCollection(ctx, db.CreateKnowledgeCollectionParams{
			ID: id, OrgID: v.OrgID, ScopeKind: string(s.Kind), ScopeID: s.ID, Name: name, CreatedBy: by.ID,
			Description: k.cfg.Redact.Org(v.OrgID).String(description),
		})
		if store.IsNotFound(err) {
			return fault.New(fault.Exists, "there is a collection %q in the scope %s already", name, s.Kind).WithFix("choose another name, or add to that one")
		}
		if err != nil {
			return fmt.Errorf("create collection %q: %w", name, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: v.OrgID, By: by, Action: "collection.created", ObjectKind: Kind, ObjectID: id, After: map[string]any{"name": name, "scope": s.String()},
		})
	})
	return id, err
}

// Delete deletes a collection with all that is in it.
func (k *Knowledge) Delete(ctx context.Context, v visibility.Viewer, ref string, by event.Actor) error {
	row, err := k.change(ctx, v, ref)
	if err != nil {
		return err
	}
	c := row.KnowledgeCollection
	return k.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if _, err := tx.DeleteKnowledgeCollection(ctx, db.DeleteKnowledgeCollectionParams{OrgID: v.OrgID, ID: c.ID}); err != nil {
			return fmt.Errorf("delete collection %s: %w", c.ID, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: v.OrgID, By: by, Action: "collection.deleted", ObjectKind: Kind, ObjectID: c.ID,
			Before: map[string]any{"name": c.Name, "scope": c.ScopeKind + " " + c.ScopeID, "documents": row.Documents},
		})
	})
}

// Documents returns a page of a collection's files, by path, and the next page's token.
func (k *Knowledge) Documents(ctx context.Context, v visibility.Viewer, ref, page string, size int32) ([]db.ListKnowledgeDocumentsRow, string, error) {
	id, err := k.Find(ctx, v, ref)
	if err != nil {
		return nil, "", err
	}
	path, after, err := store.ParseNameToken(page)
	if err != nil {
		return nil, "", err
	}
	params := db.ListKnowledgeDocumentsParams{OrgID: v.OrgID, CollectionID: id, AfterPath: path, AfterID: after, MaxRows: size + 1}
	k.cfg.Store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := params
		all.MaxRows = maxRows
		_, err := q.ListKnowledgeDocuments(ctx, all)
		return err
	})
	rows, err := k.cfg.Store.ListKnowledgeDocuments(ctx, params)
	if err != nil {
		return nil, "", fmt.Errorf("list the documents of collection %s: %w", id, err)
	}
	rows, next := store.Page(rows, size, func(last db.ListKnowledgeDocumentsRow) string { return store.NameToken(last.Path, last.ID) })
	return rows, next, nil
}

// LastSync returns the newest sync of a collection; nil for none.
func (k *Knowledge) LastSync(ctx context.Context, orgID, id string) (*db.KnowledgeSync, error) {
	row, err := k.cfg.Store.LastKnowledgeSync(ctx, db.LastKnowledgeSyncParams{OrgID: orgID, CollectionID: id})
	if store.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load the last sync of collection %s: %w", id, err)
	}
	return &row, nil
}

// silentFor is after how long without a note a sync counts as abandoned.
const silentFor = 45 * time.Second
