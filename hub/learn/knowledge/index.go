package knowledge

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Indexing is a folder of a task's workspace that its agent wants to be found later.
type Indexing struct {
	// Collection is a reference to one; empty for the agent's collection of the person for
	// whom the task runs.
	Collection         string
	AgentID, AgentName string
	// NodeID and JailID are where the task's workspace is.
	NodeID, JailID string
	TaskID         string
	Path           string
}

// Indexed is what came of it.
type Indexed struct {
	Collection          string
	Documents, Passages int64
	Sync                db.KnowledgeSync
}

// lookEvery is how often a sync that is waited for is looked at.
const lookEvery = 200 * time.Millisecond

// Index reads a folder of a task's workspace into a collection that v, for whom the task
// runs, may change, and returns when that is done. It reads only this folder.
func (k *Knowledge) Index(ctx context.Context, v visibility.Viewer, in Indexing) (Indexed, error) {
	by := event.Actor{Kind: "agent", ID: in.AgentID}
	folder, ok := workspaceFolder(in.Path)
	if !ok || strings.ContainsFunc(folder, unicode.IsControl) {
		return Indexed{}, fault.New(fault.Invalid, "path: %q is not in the workspace", in.Path).WithCode(fault.InvalidParameters).WithFix("name a folder in it, such as docs")
	}
	ref := in.Collection
	if ref == "" {
		var err error
		if ref, err = k.ofAgent(ctx, v, in, by); err != nil {
			return Indexed{}, err
		}
	}
	row, err := k.change(ctx, v, ref)
	if err != nil {
		return Indexed{}, err
	}
	c := row.KnowledgeCollection
	s := db.AddKnowledgeSourceParams{
		ID: ident.New("src"), OrgID: v.OrgID, CollectionID: c.ID, Kind: Workspace, AgentID: in.AgentID, Path: folder, CreatedBy: v.Name,
	}
	if in.JailID != task.AgentJail(in.AgentID) {
		s.NodeID, s.JailID = in.NodeID, in.JailID
	}
	sourceID, err := k.sourceOfTask(ctx, s, by)
	if err != nil {
		return Indexed{}, err
	}
	last, err := syncSource(ctx, k, c, sourceID, by)
	if err != nil {
		return Indexed{}, err
	}
	if last.State != Succeeded {
		return Indexed{}, fault.New(fault.Precondition, "%s", last.Error).WithObject(c.ID)
	}
	if row, err = k.Get(ctx, v, c.ID); err != nil {
		return Indexed{}, err
	}
	return Indexed{Collection: c.Name, Documents: row.Documents, Passages: row.Passages, Sync: last}, nil
}

// workspaceFolder returns a folder of a workspace below that, empty for the workspace itself;
// ok is false for one that is not in it.
func workspaceFolder(name string) (folder string, ok bool) {
	folder = path.Clean(name)
	if path.IsAbs(folder) {
		if folder, ok = strings.CutPrefix(folder+"/", inWorkspace); !ok {
			return "", false
		}
		folder = path.Clean(folder)
	}
	if folder == "." {
		return "", true
	}
	return folder, folder != ".." && !strings.HasPrefix(folder, "../")
}

// ofAgent returns the id of the collection that an agent has for the person for whom it runs,
// which is in the scope of that person, whatever else there is of that name.
func (k *Knowledge) ofAgent(ctx context.Context, v visibility.Viewer, in Indexing, by event.Actor) (string, error) {
	own, err := scope.Resolve(ctx, k.cfg.Store.Queries, v, scope.Scope{Kind: scope.User})
	if err != nil {
		return "", err
	}
	name := "agent-" + in.AgentName
	find := func() (string, error) {
		return k.cfg.Store.KnowledgeCollectionOfScope(ctx, db.KnowledgeCollectionOfScopeParams{OrgID: v.OrgID, ScopeKind: string(own.Kind), ScopeID: own.ID, Name: name})
	}
	id, err := find()
	if store.IsNotFound(err) {
		id, err = k.Create(ctx, v, own, name, "What the agent "+in.AgentName+" has indexed in its workspace", by)
		if fault.Is(err, fault.Exists) {
			id, err = find()
		}
	}
	if err != nil {
		return "", fmt.Errorf("find the collection %s: %w", name, err)
	}
	return id, nil
}

// sourceOfTask returns the source for a folder of the workspace of a task or of its agent.
// Tasks that have workspaces of their own share one for each folder: it reads that of the task
// that asked last.
func (k *Knowledge) sourceOfTask(ctx context.Context, s db.AddKnowledgeSourceParams, by event.Actor) (string, error) {
	if s.JailID == "" {
		return k.ensureSource(ctx, s, by)
	}
	id, err := k.cfg.Store.MoveKnowledgeSource(ctx, db.MoveKnowledgeSourceParams{
		OrgID: s.OrgID, CollectionID: s.CollectionID, AgentID: s.AgentID, Path: s.Path, NodeID: s.NodeID, JailID: s.JailID, CreatedBy: s.CreatedBy,
	})
	if store.IsNotFound(err) {
		return k.ensureSource(ctx, s, by)
	}
	if err != nil {
		return "", fmt.Errorf("find the source for %s of agent %s: %w", s.Path, s.AgentID, err)
	}
	return id, nil
}

// syncSource syncs one source and waits for the end. While another sync of the collection
// runs, it waits for that first.
func syncSource(ctx context.Context, k *Knowledge, c db.KnowledgeCollection, sourceID string, by event.Actor) (db.KnowledgeSync, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	mine := ""
	for {
		if mine == "" {
			begun, started, err := k.begin(ctx, c, by, sourceID)
			if err != nil && !fault.Is(err, fault.Exhausted) {
				return begun, err
			}
			if started {
				mine = begun.ID
			}
		}
		select {
		case <-ctx.Done():
			return db.KnowledgeSync{}, ctx.Err()
		case <-tick.C:
		}
		if mine == "" {
			continue
		}
		now, err := k.cfg.Store.GetKnowledgeSync(ctx, db.GetKnowledgeSyncParams{OrgID: c.OrgID, ID: mine})
		if err != nil {
			return now, fmt.Errorf("load sync %s: %w", mine, err)
		}
		if now.State != Running {
			return now, nil
		}
	}
}
