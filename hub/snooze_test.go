package hub_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func snooze(t *testing.T, client *sdk.Client, id string, until *time.Time) (*deckhandv1.InboxItem, error) {
	t.Helper()
	req := &deckhandv1.SnoozeInboxItemRequest{ItemId: id}
	if until != nil {
		req.Until = timestamppb.New(*until)
	}
	res, err := client.Inbox.SnoozeInboxItem(t.Context(), req)
	if err != nil {
		return nil, fault.FromConnect(err)
	}
	return res.GetItem(), nil
}

// A snoozed item is out of the lists and counts of the one who snoozed it, until its time
// has come; nobody else's, and it is answered and expires as before.
func TestASnoozedItemIsOutOfOnesOwnListsUntilItsTime(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", asking("asker", "tools: [shell_exec], timeout: 1h"))
	task, _, item := r.park("asker", "shell_exec", `{"command":"make"}`)
	other := r.as("other", "admin")
	listed := func(c *sdk.Client, snoozed deckhandv1.InboxSnoozed) *deckhandv1.ListInboxResponse {
		res, err := c.Inbox.ListInbox(t.Context(), &deckhandv1.ListInboxRequest{TaskId: task.GetId(), Snoozed: snoozed})
		require.NoError(t, err)
		return res
	}
	in := func(d time.Duration) *time.Time {
		at := time.Now().Add(d)
		return &at
	}

	for _, bad := range []*time.Time{in(-time.Minute), in(31 * 24 * time.Hour)} {
		_, err := snooze(t, r.user, item.GetId(), bad)
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	}
	_, err := snooze(t, r.user, item.GetId(), in(2*time.Hour))
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.ErrorContains(t, err, "expires at", "it would never come back")
	require.Len(t, listed(r.user, 0).GetItems(), 1)

	until := in(30 * time.Minute)
	got, err := snooze(t, r.user, item.GetId(), until)
	require.NoError(t, err)
	require.WithinDuration(t, *until, got.GetSnoozedUntil().AsTime(), time.Millisecond)
	out := listed(r.user, 0)
	require.Empty(t, out.GetItems())
	require.Empty(t, out.GetCounts())
	require.WithinDuration(t, *until, out.GetNextSnoozeEndsAt().AsTime(), time.Millisecond)
	for _, how := range []deckhandv1.InboxSnoozed{deckhandv1.InboxSnoozed_INBOX_SNOOZED_ONLY, deckhandv1.InboxSnoozed_INBOX_SNOOZED_ANY} {
		items := listed(r.user, how).GetItems()
		require.Len(t, items, 1)
		require.NotNil(t, items[0].GetSnoozedUntil())
	}
	theirs := listed(other, 0)
	require.Len(t, theirs.GetItems(), 1, "others see it")
	require.Nil(t, theirs.GetItems()[0].GetSnoozedUntil())
	require.Nil(t, theirs.GetNextSnoozeEndsAt())

	// Its time comes.
	r.exec("UPDATE inbox_snoozes SET until = clock_timestamp()")
	require.Len(t, listed(r.user, 0).GetItems(), 1)
	require.Empty(t, listed(r.user, deckhandv1.InboxSnoozed_INBOX_SNOOZED_ONLY).GetItems())

	// It is put back at once, and answered while it is snoozed.
	_, err = snooze(t, r.user, item.GetId(), until)
	require.NoError(t, err)
	got, err = snooze(t, r.user, item.GetId(), nil)
	require.NoError(t, err)
	require.Nil(t, got.GetSnoozedUntil())
	require.Len(t, listed(r.user, 0).GetItems(), 1)
	_, err = snooze(t, r.user, item.GetId(), until)
	require.NoError(t, err)
	_, err = r.answer(reject(item.GetId(), "no"))
	require.NoError(t, err)
	res, err := r.user.Inbox.ListInbox(t.Context(), &deckhandv1.ListInboxRequest{
		TaskId: task.GetId(), States: []deckhandv1.InboxState{deckhandv1.InboxState_INBOX_STATE_ANSWERED},
	})
	require.NoError(t, err)
	require.Len(t, res.GetItems(), 1, "what is answered is not snoozed")
	_, err = snooze(t, r.user, item.GetId(), until)
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	_, err = snooze(t, r.as("stranger", "basic"), item.GetId(), until)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}
