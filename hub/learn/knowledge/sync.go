package knowledge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// noteEvery is how often a running sync is noted as such.
	noteEvery = time.Second
	// sourceTime bounds the reading of one source.
	sourceTime = time.Hour
	// endTime bounds what is done after a sync, also after one that was stopped.
	endTime = time.Minute
	// maxError bounds an error that is stored.
	maxError = 500
	// maxSyncs is how many syncs of an organisation run at once.
	maxSyncs = 8
	// SweepEvery is how often Sweep is to be called.
	SweepEvery = time.Minute
)

// The states of a sync.
const (
	Running   = "running"
	Succeeded = "succeeded"
	Failed    = "failed"
)

// Sync starts a sync of a collection and returns it, or the one that runs.
func (k *Knowledge) Sync(ctx context.Context, v visibility.Viewer, ref string, by event.Actor) (db.KnowledgeSync, error) {
	row, err := k.change(ctx, v, ref)
	if err != nil {
		return db.KnowledgeSync{}, err
	}
	begun, _, err := k.begin(ctx, row.KnowledgeCollection, by, "")
	return begun, err
}

// begin starts a sync of a collection, of only one source if that is named. While another one
// runs, it returns that, and started is false.
func (k *Knowledge) begin(ctx context.Context, c db.KnowledgeCollection, by event.Actor, only string) (begun db.KnowledgeSync, started bool, err error) {
	err = k.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockKnowledgeSyncs(ctx, c.OrgID); err != nil {
			return err
		}
		running, err := tx.CountKnowledgeSyncs(ctx, c.OrgID)
		if err != nil {
			return err
		}
		// Whether this collection's own runs is said below.
		if begun, err = tx.BeginKnowledgeSync(ctx, db.BeginKnowledgeSyncParams{ID: ident.New("sync"), OrgID: c.OrgID, CollectionID: c.ID, StartedBy: by.ID}); err != nil {
			return err
		}
		if running >= maxSyncs {
			return fault.New(fault.Exhausted, "%d syncs of the organisation run, which is the most at once", running).WithObject(c.ID).WithFix("try again when one has ended")
		}
		return audit.Append(tx, audit.Entry{OrgID: c.OrgID, By: by, Action: "collection.synced", ObjectKind: Kind, ObjectID: c.ID, After: map[string]any{"sync_id": begun.ID}})
	})
	switch {
	case store.IsNotFound(err):
		last, err := k.LastSync(ctx, c.OrgID, c.ID)
		if err == nil && last == nil {
			err = fault.New(fault.Unavailable, "a sync of collection %s has just ended", c.Name).WithFix("try again")
		}
		if err != nil {
			return begun, false, err
		}
		return *last, false, nil
	case fault.Is(err, fault.Exhausted):
		return begun, false, err
	case err != nil:
		return begun, false, fmt.Errorf("begin a sync of collection %s: %w", c.ID, err)
	}
	r := &run{k: k, sync: begun, collection: c, only: only}
	if !k.background(r.do) {
		r.end(ctx, errors.New("the hub stops"))
		return begun, false, fault.New(fault.Unavailable, "the hub stops").WithFix("try again")
	}
	return begun, true, nil
}

// run is a sync that goes on.
type run struct {
	k          *Knowledge
	collection db.KnowledgeCollection
	// only is the source to read, which an agent has asked for in a task; empty for all.
	only string
	// left reports that the jail of the last source is not removed yet.
	left bool

	mu   sync.Mutex
	sync db.KnowledgeSync
}

// set changes what is noted of the sync.
func (r *run) set(change func(s *db.KnowledgeSync)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.sync)
}

func (r *run) now() db.KnowledgeSync {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sync
}

// do syncs all sources, one after the other.
func (r *run) do(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		r.keepNoted(ctx, cancel)
	}()
	err := r.sources(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	cancel(nil)
	<-noted
	clean, end := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer end()
	r.end(clean, err)
}

// end stores how the sync ended.
func (r *run) end(ctx context.Context, err error) {
	s := r.now()
	if _, nerr := r.note(ctx, s); nerr != nil {
		r.k.cfg.Log.Warn("cannot record the progress of a sync", "sync_id", s.ID, "error", nerr)
	}
	state, why := Succeeded, ""
	if err != nil {
		state, why = Failed, r.explain(err)
	}
	if _, err := r.k.cfg.Store.EndKnowledgeSync(ctx, db.EndKnowledgeSyncParams{OrgID: s.OrgID, ID: s.ID, State: state, Error: why}); err != nil {
		r.k.cfg.Log.Warn("cannot record the end of a sync", "sync_id", s.ID, "error", err)
	}
}

// explain returns an error as it may be stored and shown.
func (r *run) explain(err error) string {
	k, s := r.k, r.now()
	said := "internal error: see the log of the hub"
	switch e := fault.As(err); {
	case errors.Is(err, context.Canceled):
		said = "it was stopped"
	case errors.Is(err, context.DeadlineExceeded):
		said = fmt.Sprintf("it took longer than %s", sourceTime)
	case e != nil && e.Kind != fault.Internal:
		said = e.Explanation()
	default:
		k.cfg.Log.Warn("a sync failed", "sync_id", s.ID, "collection_id", s.CollectionID, "error", err)
	}
	return textcut.Runes(k.cfg.Redact.Org(s.OrgID).String(said), maxError, "…")
}

func (r *run) note(ctx context.Context, s db.KnowledgeSync) (mine bool, err error) {
	n, err := r.k.cfg.Store.NoteKnowledgeSync(ctx, db.NoteKnowledgeSyncParams{
		OrgID: s.OrgID, ID: s.ID, Phase: s.Phase, Files: s.Files, Added: s.Added, Changed: s.Changed, Removed: s.Removed, Skipped: s.Skipped,
		Passages: s.Passages, NodeID: s.NodeID, JailID: s.JailID, SourceID: s.SourceID,
	})
	return n > 0, err
}

// keepNoted notes that the sync goes on, and stops it when its collection was deleted or
// somebody else has ended it.
func (r *run) keepNoted(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(noteEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if mine, err := r.note(ctx, r.now()); err == nil && !mine {
			cancel(errEnded())
			return
		}
	}
}

// sources syncs each source. One that fails does not keep the others from being read.
func (r *run) sources(ctx context.Context) error {
	rows, err := r.k.Sources(ctx, r.collection.OrgID, r.collection.ID)
	if err != nil {
		return err
	}
	var failed []string
	for _, row := range rows {
		s := row.KnowledgeSource
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.only != "" && s.ID != r.only {
			continue
		}
		r.set(func(s *db.KnowledgeSync) { s.Phase = "reads " + name(row) })
		timed, cancel := context.WithTimeout(ctx, sourceTime)
		note, err := r.source(timed, s)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		why := ""
		if err != nil {
			why = r.explain(err)
			failed = append(failed, name(row)+": "+why)
		}
		if err := r.k.cfg.Store.EndKnowledgeSource(ctx, db.EndKnowledgeSourceParams{
			OrgID: s.OrgID, ID: s.ID, Error: why, Note: textcut.Runes(r.k.cfg.Redact.Org(s.OrgID).String(note), maxError, "…"),
		}); err != nil {
			return fmt.Errorf("record how source %s was read: %w", s.ID, err)
		}
		if r.left {
			failed = append(failed, "the jail that read it could not be removed; the hub tries again, and other sources are read by the next sync")
			break
		}
	}
	if len(failed) > 0 {
		return fault.New(fault.Precondition, "%d of %d sources could not be read, and keep the documents that they had: %s", len(failed), len(rows), strings.Join(failed, "; "))
	}
	return nil
}

// name returns a source as people know it.
func name(row db.KnowledgeSourcesRow) string {
	s := row.KnowledgeSource
	switch s.Kind {
	case Workspace:
		if s.Path == "" {
			return "the workspace of agent " + row.AgentName
		}
		return s.Path + " of agent " + row.AgentName
	case Node:
		return s.Path + " of node " + row.NodeName
	case Git, Web:
		return s.Url
	}
	return "the uploads"
}

// source brings the documents of one source up to date, and returns what was left out.
func (r *run) source(ctx context.Context, s db.KnowledgeSource) (note string, err error) {
	// An agent reads its workspace in any case.
	if r.only == "" {
		if err := r.still(ctx, s); err != nil {
			return "", err
		}
	}
	box, nodes, err := open(ctx, r.k, s)
	if err != nil {
		return "", err
	}
	defer func() { r.left = r.remove(ctx, box) }()
	for _, id := range nodes {
		if err = r.enter(ctx, box, id); err == nil || ctx.Err() != nil {
			break
		}
		if r.left = r.remove(ctx, box); r.left {
			break
		}
	}
	if err != nil {
		return "", err
	}
	root, err := box.fill(ctx, s)
	if err != nil {
		return "", err
	}
	in, err := newIntake(ctx, r, s)
	if err != nil {
		return "", err
	}
	return box.extract(ctx, root, in)
}

// enter makes the jail of a source on a node.
func (r *run) enter(ctx context.Context, b *box, nodeID string) (err error) {
	b.nodeID = nodeID
	if b.link, err = r.k.cfg.Node(nodeID); err != nil {
		return err
	}
	r.set(func(sync *db.KnowledgeSync) {
		sync.NodeID, sync.JailID, sync.SourceID = b.nodeID, b.jailID, b.source.ID
	})
	// Before the jail is there, so that Sweep finds it if this hub dies.
	if mine, err := r.note(ctx, r.now()); err != nil || !mine {
		return errEnded().WithCause(err)
	}
	// Of each attempt its own: remove drops it with the jail.
	if connects(b.source) {
		if b.spec.Egress, err = egressOf(ctx, r.k, b.source, b.jailID); err != nil {
			return err
		}
	}
	return b.make(ctx)
}

// remove removes the jail of a source. It reports whether that is left: the sync keeps its
// name then, and Sweep removes it.
func (r *run) remove(ctx context.Context, b *box) (left bool) {
	if r.now().JailID == "" {
		return false
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if err := errors.Join(b.close(clean), r.k.cfg.Authorities.Drop(clean, r.collection.OrgID, b.jailID)); err != nil {
		r.k.cfg.Log.Warn("cannot remove the jail of a sync", "jail_id", b.jailID, "node_id", b.nodeID, "error", err)
		return true
	}
	r.set(func(sync *db.KnowledgeSync) { sync.NodeID, sync.JailID, sync.SourceID = "", "", "" })
	return false
}

// still returns an error if the person who added a source may not read it any more. Uploads are in the
// database and read with nobody's rights: they stay when the person who uploaded them leaves.
func (r *run) still(ctx context.Context, s db.KnowledgeSource) error {
	k := r.k
	if s.Kind == Upload {
		return nil
	}
	role, err := k.cfg.Role(ctx, k.cfg.Store.Queries, s.OrgID, s.CreatedBy, "")
	if err != nil {
		return fmt.Errorf("look up the role of %s: %w", s.CreatedBy, err)
	}
	denied := func(why, who string) *fault.Error {
		return fault.New(fault.Denied, "%s, who added it, %s", s.CreatedBy, why).WithCode(fault.PermissionDenied).WithFix("%s removes the source and adds it again", who)
	}
	switch {
	case role == "":
		return denied("is disabled or no user any more", "somebody who may read it")
	case s.Kind == Node && role != auth.Admin:
		return denied("is no administrator any more", "an administrator")
	case s.Credential != "" && role != auth.Admin:
		return denied("is no administrator any more, and it is read with a credential", "an administrator")
	case (s.Kind == Git || s.Kind == Web) && !auth.AtLeast(role, sourceRole):
		return denied("does not have the role "+sourceRole+" any more", "somebody who has it")
	case s.Kind == Workspace:
		if err := mayRead(ctx, k.cfg.Store.Queries, visibility.As(s.OrgID, s.CreatedBy, role), s.AgentID); err != nil {
			return denied("may not read the workspace of the agent any more", "an owner of the agent").WithCause(err)
		}
	}
	return nil
}

// Sweep ends the syncs whose hubs are gone, and removes the jails that syncs left.
func (k *Knowledge) Sweep(ctx context.Context) error {
	if err := k.cfg.Store.EndAbandonedKnowledgeSyncs(ctx, silentFor); err != nil {
		return fmt.Errorf("end the syncs whose hubs are gone: %w", err)
	}
	rows, err := k.cfg.Store.KnowledgeJailsLeft(ctx)
	if err != nil {
		return fmt.Errorf("list the jails that syncs left: %w", err)
	}
	byNode := map[string][]db.KnowledgeJailsLeftRow{}
	for _, row := range rows {
		byNode[row.NodeID] = append(byNode[row.NodeID], row)
	}
	machine.Each(ctx, byNode, k.cfg.Node, endTime, func(ctx context.Context, link machine.Link, all []db.KnowledgeJailsLeftRow) {
		for _, row := range all {
			_, err := link.Jails().RemoveJail(ctx, &nodev1.RemoveJailRequest{JailId: row.JailID})
			if err == nil || fault.Is(fault.FromGRPC(err), fault.NotFound) {
				err = k.cfg.Authorities.Drop(ctx, row.OrgID, row.JailID)
			}
			if err == nil {
				err = k.cfg.Store.ForgetKnowledgeJail(ctx, db.ForgetKnowledgeJailParams{OrgID: row.OrgID, ID: row.ID, JailID: row.JailID})
			}
			if err != nil {
				k.cfg.Log.Warn("cannot remove the jail of a sync", "jail_id", row.JailID, "node_id", row.NodeID, "error", err)
			}
		}
	})
	return nil
}
