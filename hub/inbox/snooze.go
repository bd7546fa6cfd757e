package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Snoozed selects items by whether the viewer has snoozed them.
type Snoozed string

// The choices. The zero value leaves snoozed items out.
const (
	NotSnoozed  Snoozed = ""
	OnlySnoozed Snoozed = "only"
	AnySnoozed  Snoozed = "any"
)

// Snoozes are the open items that users do not want to see before a time.
type Snoozes struct{ store *store.Store }

// maxSnooze is how far ahead an item can be snoozed.
const maxSnooze = 30 * 24 * time.Hour

// Set leaves an open item out of a user's lists until a time; nil puts it back at once.
// An item that expires before that time is refused: it would never be seen again.
func (s Snoozes) Set(ctx context.Context, orgID, userID, itemID string, until *time.Time) error {
	if until == nil {
		if err := s.store.EndInboxSnooze(ctx, db.EndInboxSnoozeParams{OrgID: orgID, ItemID: itemID, UserID: userID}); err != nil {
			return fmt.Errorf("end the snooze of %s: %w", itemID, err)
		}
		return nil
	}
	if now := time.Now(); !until.After(now) || until.After(now.Add(maxSnooze)) {
		return fault.New(fault.Invalid, "until is %s", until.UTC().Format(time.RFC3339)).WithFix("give a time from now on, at most 30 days ahead")
	}
	n, err := s.store.SnoozeInboxItem(ctx, db.SnoozeInboxItemParams{OrgID: orgID, ItemID: itemID, UserID: userID, Until: *until})
	if err != nil {
		return fmt.Errorf("snooze %s: %w", itemID, err)
	}
	if n > 0 {
		return nil
	}
	row, err := s.store.GetInboxItem(ctx, db.GetInboxItemParams{OrgID: orgID, ID: itemID})
	if err != nil {
		return fmt.Errorf("read %s: %w", itemID, err)
	}
	i := row.InboxItem
	if State(i.State) != Open {
		return fault.New(fault.Precondition, "inbox item %s is %s: nothing waits any more", itemID, i.State)
	}
	return fault.New(fault.Precondition, "inbox item %s expires at %s, before it would come back", itemID, i.ExpiresAt.UTC().Format(time.RFC3339)).
		WithFix("give an earlier time, or answer it now")
}

// Until returns until when a user has snoozed items, by id.
func (s Snoozes) Until(ctx context.Context, orgID, userID string, rows ...db.GetInboxItemRow) (map[string]time.Time, error) {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.InboxItem.ID
	}
	found, err := s.store.InboxSnoozes(ctx, db.InboxSnoozesParams{OrgID: orgID, UserID: userID, ItemIds: ids})
	if err != nil {
		return nil, fmt.Errorf("read snoozes of inbox items: %w", err)
	}
	out := make(map[string]time.Time, len(found))
	for _, f := range found {
		out[f.ItemID] = f.Until
	}
	return out, nil
}

// next returns when the next of the items that a user has snoozed comes back; nil if
// there is none.
func (s Snoozes) next(ctx context.Context, orgID, userID string) (*time.Time, error) {
	until, err := s.store.NextInboxSnooze(ctx, db.NextInboxSnoozeParams{OrgID: orgID, UserID: userID})
	if store.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("read the next snooze: %w", err)
	}
	return &until, nil
}
