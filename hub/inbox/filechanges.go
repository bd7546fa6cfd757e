package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/inbox/filechange"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// FileChanges are what the call of a file tool would do to the workspace. Secrets are masked.
type FileChanges struct {
	Changes []filechange.Change
	// Unknown is why they are not known; empty if they are.
	Unknown string
	// At is when the workspace was looked at, as stored.
	At time.Time
}

// Digest identifies the changes, whenever they were looked at; "" for none.
func (c *FileChanges) Digest() (string, error) {
	if c == nil {
		return "", nil
	}
	data, err := json.Marshal(struct {
		Changes []filechange.Change
		Unknown string
	}{c.Changes, c.Unknown})
	if err != nil {
		return "", fmt.Errorf("encode what a call would do to files: %w", err)
	}
	return digest(data), nil
}

// Store stores the changes with an item. It does nothing if the item is closed.
func (c *FileChanges) Store(ctx context.Context, q *db.Queries, orgID, itemID string) error {
	sum, err := c.Digest()
	if err != nil {
		return err
	}
	if c.Unknown != "" {
		// Calls of which it is not known what they change do not change the same.
		sum = digest([]byte(sum + itemID))
	}
	changes := c.Changes
	if changes == nil {
		changes = []filechange.Change{}
	}
	data, err := json.Marshal(changes)
	if err != nil {
		return fmt.Errorf("encode what the call of %s would do to files: %w", itemID, err)
	}
	if _, err := q.PutInboxChanges(ctx, db.PutInboxChangesParams{OrgID: orgID, ItemID: itemID, Changes: data, Unknown: c.Unknown, Digest: sum}); err != nil {
		return fmt.Errorf("store what the call of %s would do to files: %w", itemID, err)
	}
	return nil
}

// changesOf returns the changes that are stored with an item; nil for none.
func changesOf(ctx context.Context, q *db.Queries, item db.InboxItem) (*FileChanges, error) {
	row, err := q.InboxChanges(ctx, db.InboxChangesParams{OrgID: item.OrgID, ItemID: item.ID})
	if store.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what the call of %s would do to files: %w", item.ID, err)
	}
	out := &FileChanges{Unknown: row.Unknown, At: row.LookedAt}
	if err := json.Unmarshal(row.Changes, &out.Changes); err != nil {
		return nil, fmt.Errorf("read what the call of %s would do to files: %w", item.ID, err)
	}
	return out, nil
}
