package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ttlcache"
)

// NewAttachment is a file that goes with a question, as it was when the question was asked.
type NewAttachment struct {
	// Path is as the agent gave it.
	Path string
	Data []byte
	// SHA256 is that of Data, in hexadecimal.
	SHA256 string
	// Problem is why there is no Data; empty if there is.
	Problem string
}

// Opener decrypts what was encrypted at rest.
type Opener interface {
	Open(sealed []byte, object string) ([]byte, error)
}

// attachmentObject is what an encrypted attachment is bound to.
func attachmentObject(number int32, itemID string) string {
	return fmt.Sprintf("attachment %d of %s", number, itemID)
}

// attach stores the attachments of a new item.
func attach(ctx context.Context, q *db.Queries, item db.InboxItem, ask NewItem) error {
	for i, a := range ask.Attachments {
		row := db.CreateInboxAttachmentParams{
			ItemID: item.ID, Number: int32(i) + 1, OrgID: item.OrgID, Path: a.Path, SizeBytes: int64(len(a.Data)), Sha256: a.SHA256, Problem: a.Problem, //nolint:gosec // the tool's schema bounds them
		}
		if a.Problem == "" {
			var err error
			if row.ContentSealed, err = ask.Seal(a.Data, attachmentObject(row.Number, item.ID)); err != nil {
				return err
			}
		}
		if err := q.CreateInboxAttachment(ctx, row); err != nil {
			return fmt.Errorf("store attachment %d of %s: %w", row.Number, item.ID, err)
		}
	}
	return nil
}

// attachedPayload is what the event of a question says of its attachments.
func attachedPayload(list []NewAttachment) []map[string]any {
	out := make([]map[string]any, len(list))
	for i, a := range list {
		out[i] = map[string]any{"path": a.Path, "size_bytes": len(a.Data), "sha256": a.SHA256}
		if a.Problem != "" {
			out[i]["problem"] = a.Problem
		}
	}
	return out
}

// Attachments are the files that go with questions.
type Attachments struct {
	cfg Config
	// readers are those whose reads are in the audit already.
	readers *ttlcache.Cache[reader, struct{}]
}

// reader is somebody who reads an attachment.
type reader struct {
	orgID, itemID string
	number        int32
	by            event.Actor
}

// A download of several pieces has one audit entry if it takes no longer than auditedFor.
// maxReaders bounds how many readers are remembered; one who was forgotten gets another entry.
const (
	auditedFor = time.Hour
	maxReaders = 10_000
)

func newAttachments(cfg Config) Attachments {
	return Attachments{cfg, ttlcache.New[reader, struct{}](maxReaders, auditedFor)}
}

// keepAttachments is how long the content of attachments is kept after their item was closed,
// and pruneBatch how many are deleted at once.
const (
	keepAttachments = 30 * 24 * time.Hour
	pruneBatch      = 100
)

// Prune deletes the content of attachments whose items were closed long ago. Their
// names, sizes and digests stay.
func (s Attachments) Prune(ctx context.Context) error {
	for {
		n, err := s.cfg.Store.PruneInboxAttachments(ctx, db.PruneInboxAttachmentsParams{Keep: keepAttachments, MaxRows: pruneBatch})
		if err != nil {
			return fmt.Errorf("delete old attachments: %w", err)
		}
		if n < pruneBatch {
			return nil
		}
	}
}

// List returns what is attached to an item, without the content.
func (s Attachments) List(ctx context.Context, orgID, itemID string) ([]db.InboxAttachmentsRow, error) {
	rows, err := s.cfg.Store.InboxAttachments(ctx, db.InboxAttachmentsParams{OrgID: orgID, ItemID: itemID})
	if err != nil {
		return nil, fmt.Errorf("load the attachments of %s: %w", itemID, err)
	}
	return rows, nil
}

// Read returns the content of an attachment. Each read that begins at its first byte has an
// audit entry. So has any other one, unless the same caller's read was recorded within the last
// hour.
func (s Attachments) Read(ctx context.Context, orgID, itemID string, number int32, begins bool, by event.Actor) (db.InboxAttachment, []byte, error) {
	row, err := s.cfg.Store.GetInboxAttachment(ctx, db.GetInboxAttachmentParams{OrgID: orgID, ItemID: itemID, Number: number})
	if store.IsNotFound(err) {
		return row, nil, fault.New(fault.NotFound, "inbox item %s has no attachment %d", itemID, number).WithObject(itemID).
			WithFix("see what it has: deckhand inbox show %s", itemID)
	}
	if err != nil {
		return row, nil, fmt.Errorf("load attachment %d of %s: %w", number, itemID, err)
	}
	if row.Problem != "" {
		return row, nil, fault.New(fault.Precondition, "attachment %d of %s has no content: %s", number, itemID, row.Problem).WithObject(itemID)
	}
	if row.ContentSealed == nil {
		return row, nil, fault.New(fault.Precondition, "attachment %d of %s was deleted, 30 days after the item was closed", number, itemID).WithObject(itemID)
	}
	data, err := s.cfg.Vault.Open(row.ContentSealed, attachmentObject(number, itemID))
	who := reader{orgID, itemID, number, by}
	if _, recorded := s.readers.Get(who); err != nil || recorded && !begins {
		return row, data, err
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "inbox.attachment_downloaded", ObjectKind: "inbox_item", ObjectID: itemID,
			After: map[string]any{"number": number, "path": row.Path, "bytes": row.SizeBytes, "sha256": row.Sha256},
		})
	})
	if err != nil {
		return row, nil, err
	}
	s.readers.Add(who, struct{}{})
	return row, data, nil
}

// OpenQuestions returns the ids of the open questions of a task, the newest first.
func OpenQuestions(ctx context.Context, s *Service, orgID, taskID string) (ids []string, err error) {
	rows, err := s.cfg.Store.OpenItemsOfTask(ctx, db.OpenItemsOfTaskParams{OrgID: orgID, TaskID: taskID})
	if err != nil {
		return nil, fmt.Errorf("load what task %s waits for: %w", taskID, err)
	}
	for _, row := range rows {
		if Kind(row.Kind) == Question {
			ids = append(ids, row.ID)
		}
	}
	return ids, nil
}
