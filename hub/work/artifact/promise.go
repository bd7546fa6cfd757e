package artifact

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/message"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// shownPaths is how many paths an event has.
const shownPaths = 20

// Promise promises a task a collection, for a folder of its workspace; paths are kept.
// The transaction is the one that stores the task; by is the agent or user that hands the
// files over.
func (a *Artifacts) Promise(ctx context.Context, tx *event.Tx, c *Collection, to db.Task, folder string, by event.Actor) error {
	folder, err := cleanFolder(folder)
	if err != nil {
		return err
	}
	if folder == "" {
		return fault.New(fault.Internal, "artifacts for task %s have no folder", to.ID).WithObject(to.ID)
	}
	if _, err := a.store(ctx, tx, c, db.CreateArtifactTransferParams{ToTaskID: &to.ID, ToJailID: to.JailID, Folder: folder, CreatedBy: by.ID}); err != nil {
		return err
	}
	if err := tx.CountTaskArtifacts(ctx, db.CountTaskArtifactsParams{OrgID: to.OrgID, ID: to.ID}); err != nil {
		return fmt.Errorf("count the artifacts of %s: %w", to.ID, err)
	}
	files, bytes := c.Files()
	return tx.Append(to.OrgID, to.ID, by, event.Draft{Type: eventkind.ArtifactsPromised, Payload: map[string]any{
		"from_task_id": c.TaskID, "folder": folder, "files": files, "bytes": bytes, "paths": anys(c.Paths(shownPaths)), "shared": c.Shared,
	}})
}

func anys(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return out
}

// store writes a transfer down.
func (a *Artifacts) store(ctx context.Context, tx *event.Tx, c *Collection, p db.CreateArtifactTransferParams) (db.ArtifactTransfer, error) {
	files, bytes := c.Files()
	var err error
	if p.Entries, err = encode(c.Entries); err != nil {
		return db.ArtifactTransfer{}, err
	}
	p.ID, p.OrgID, p.FromNodeID, p.FromJailID = ident.New("transfer"), c.OrgID, c.From.NodeID, c.From.Jail.GetJailId()
	p.Files, p.Bytes, p.Shared = int32(files), bytes, c.Shared
	if c.TaskID != "" {
		p.FromTaskID = &c.TaskID
	}
	row, err := tx.CreateArtifactTransfer(ctx, p)
	if err != nil {
		return row, fmt.Errorf("store a transfer from %s: %w", p.FromJailID, err)
	}
	return row, nil
}

// Done records a collection that was sent at once, with the audit entry of a
// person who sent it.
func (a *Artifacts) Done(ctx context.Context, tx *event.Tx, c *Collection, to Place, o Options, sent Sent, by event.Actor) error {
	folder, err := cleanFolder(o.Folder)
	if err != nil {
		return err
	}
	row, err := a.store(ctx, tx, c, db.CreateArtifactTransferParams{ToNodeID: &to.NodeID, ToJailID: to.Jail.GetJailId(), Folder: folder, CreatedBy: by.ID})
	if err != nil {
		return err
	}
	if _, err := tx.FinishArtifactTransfer(ctx, db.FinishArtifactTransferParams{
		OrgID: row.OrgID, ID: row.ID, State: "done", ToNodeID: &to.NodeID, Missing: []string{},
	}); err != nil {
		return fmt.Errorf("store the end of transfer %s: %w", row.ID, err)
	}
	if by.Kind != event.User {
		return nil // the call is recorded as a step
	}
	return audit.Append(tx, audit.Entry{
		OrgID: c.OrgID, By: by, Action: "workspace.sent", ObjectKind: "jail", ObjectID: to.Jail.GetJailId(),
		After: map[string]any{
			"transfer_id": row.ID, "from_node_id": c.From.NodeID, "from_jail_id": c.From.Jail.GetJailId(), "node_id": to.NodeID, "folder": folder,
			"files": sent.Files, "bytes": sent.Bytes, "overwrite": o.Overwrite, "operation_id": o.OperationID,
		},
	})
}

// giveUpAfter is how long after its promise a source that is not connected is
// waited for.
const giveUpAfter = time.Hour

// Deliver copies the files that a task was promised, before it begins. It is idempotent.
// Files that have changed since they were promised are left out, and the task's agent is
// told.
func (a *Artifacts) Deliver(ctx context.Context, t db.Task) error {
	if t.ArtifactCount == 0 {
		return nil
	}
	rows, err := a.cfg.Store.PendingArtifacts(ctx, db.PendingArtifactsParams{OrgID: t.OrgID, ToTaskID: &t.ID})
	if err != nil || len(rows) == 0 {
		if err != nil {
			return fmt.Errorf("find the artifacts of %s: %w", t.ID, err)
		}
		return nil
	}
	to, err := a.PlaceOf(ctx, t)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := a.deliver(ctx, t, to, row); err != nil {
			return fmt.Errorf("copy the artifacts %s to %s: %w", row.ID, t.ID, err)
		}
	}
	return nil
}

func (a *Artifacts) deliver(ctx context.Context, t db.Task, to Place, row db.ArtifactTransfer) error {
	c := &Collection{OrgID: row.OrgID, From: Place{NodeID: row.FromNodeID, Jail: &nodev1.JailSpec{JailId: row.FromJailID}}, Shared: row.Shared}
	var err error
	if c.Entries, err = decode(row.Entries); err != nil {
		return err
	}
	same, missing, err := a.stillThere(ctx, c)
	why := "had changed or gone before you began"
	if fault.Is(err, fault.Unavailable) && a.cfg.Now().Sub(row.CreatedAt) > giveUpAfter {
		// The task continues without them.
		missing, err, why = c.Paths(len(c.Entries)), nil, "could not be fetched, since the machine that they are on was away for an hour"
	}
	if err != nil {
		return err
	}
	state := "done"
	if len(same) == 0 && len(missing) > 0 {
		state = "failed"
	}
	c.Entries = same
	// It is recorded, and undone together with other files copied for the task.
	sent := Sent{}
	if len(same) > 0 {
		sent, err = a.Send(ctx, c, to, Options{Folder: row.Folder, OperationID: workspace.InputsOf(t.ID)})
	}
	if e := fault.As(err); e != nil && e.Code == fault.FileConflict {
		// It becomes the task's reason, so it says what to do.
		return fault.New(e.Kind, "%s; move what is there away, or have the files put into another folder", e.Message).
			WithCode(e.Code).WithFix("%s", e.Fix).WithObject(t.ID).WithCause(err)
	}
	if err != nil {
		return err
	}
	return a.cfg.Recorder.Tx(context.WithoutCancel(ctx), func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: t.OrgID, ID: t.ID})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", t.ID, err)
		}
		if missing == nil {
			missing = []string{}
		}
		_, err = tx.FinishArtifactTransfer(ctx, db.FinishArtifactTransferParams{
			OrgID: row.OrgID, ID: row.ID, State: state, ToNodeID: &to.NodeID, Missing: missing,
		})
		if store.IsNotFound(err) {
			return nil // another call stored it
		}
		if err != nil {
			return fmt.Errorf("store the end of transfer %s: %w", row.ID, err)
		}
		if len(missing) > 0 {
			text := fmt.Sprintf("Of the files that were handed to you in %s these %s, and are not there: %s",
				row.Folder, why, some(missing))
			if _, _, err := message.Say(ctx, tx, t, text, row.ID, event.Hub, nil); err != nil {
				return err
			}
		}
		return tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.ArtifactsDelivered, Payload: map[string]any{
			"transfer_id": row.ID, "folder": row.Folder, "files": sent.Files + sent.Unchanged, "bytes": sent.Bytes,
			"paths": anys(c.Paths(shownPaths)), "missing": anys(missing[:min(len(missing), shownPaths)]),
		}})
	})
}

// OfTask returns a page of what a task was given and what it gave, oldest first, and the
// next page's token.
func (a *Artifacts) OfTask(ctx context.Context, orgID, taskID, page string, size int32) ([]db.ArtifactTransfer, string, error) {
	p := db.ArtifactsOfTaskParams{OrgID: orgID, TaskID: &taskID, MaxRows: size + 1}
	if page != "" {
		at, id, err := store.ParsePageToken(page)
		if err != nil {
			return nil, "", err
		}
		p.AfterTime, p.AfterID = &at, id
	}
	rows, err := a.cfg.Store.ArtifactsOfTask(ctx, p)
	if err != nil {
		return nil, "", fmt.Errorf("list the artifacts of %s: %w", taskID, err)
	}
	rows, next := store.Page(rows, size, func(last db.ArtifactTransfer) string { return store.PageToken(last.CreatedAt, last.ID) })
	return rows, next, nil
}

// PathsOf returns the first of a transfer's paths.
func PathsOf(row db.ArtifactTransfer, most int) ([]string, error) {
	entries, err := decode(row.Entries)
	return (&Collection{Entries: entries}).Paths(most), err
}
