package event_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
)

// A watch from now on has nothing of before, and all of transactions that
// were in progress then, also of those that began before others that had ended.
func TestAWatchFromNowOn(t *testing.T) {
	t.Parallel()
	h := newHistory(t, "task_a", "task_b", "task_c")
	note := func(task, kind string) error {
		return h.recorder.Tx(t.Context(), func(tx *event.Tx) error {
			return tx.Append(org, task, event.Hub, event.Draft{Type: eventkind.Kind(kind)})
		})
	}
	require.NoError(t, note("task_a", "before"))
	w := h.watcher(event.WatcherConfig{})
	var now event.Cursor
	// The outer transaction has the older id, and commits last.
	require.NoError(t, h.recorder.Tx(t.Context(), func(tx *event.Tx) error {
		if err := tx.Append(org, "task_b", event.Hub, event.Draft{Type: "under_way"}); err != nil {
			return err
		}
		if err := note("task_a", "ended"); err != nil {
			return err
		}
		var err error
		now, err = w.Now(t.Context())
		return err
	}))
	require.NoError(t, note("task_a", "after"))
	require.NoError(t, note("task_c", "left_out"))
	require.NoError(t, note("task_b", "detail"))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := errors.New("done")
	var types []string
	q := event.Watch{
		OrgID: org, After: now, Follow: true, Selected: eventkind.Selection{"before": true, "under_way": true, "ended": true, "after": true}, Detailed: []string{"task_b"},
	}
	require.ErrorIs(t, w.Run(ctx, q, func(item event.Item) error {
		if item.Event == nil {
			return nil
		}
		types = append(types, item.Event.Type)
		if item.Event.Type == "detail" {
			return done
		}
		return nil
	}), done)
	// What ended while an older one was in progress may come: it could not be read
	// before that had ended.
	require.NotContains(t, types, "before")
	require.NotContains(t, types, "left_out")
	require.Subset(t, types, []string{"under_way", "after", "detail"})
}

// A task's history is read from its end, and from any place in it.
func TestPartsOfATasksHistory(t *testing.T) {
	t.Parallel()
	h := newHistory(t, "task_a", "task_b")
	require.NoError(t, h.append(t.Context(), "task_a", 10, 0))
	require.NoError(t, h.append(t.Context(), "task_b", 3, 0))
	w := h.watcher(event.WatcherConfig{})
	for name, c := range map[string]struct {
		before, after int64
		n             int32
		want          []int64
	}{
		"the newest":        {n: 3, want: []int64{8, 9, 10}},
		"those before one":  {before: 8, n: 3, want: []int64{5, 6, 7}},
		"fewer than asked":  {before: 3, n: 5, want: []int64{1, 2}},
		"none before first": {before: 1, n: 5, want: []int64{}},
		"those after one":   {after: 6, n: 2, want: []int64{7, 8}},
		"none after last":   {after: 10, n: 2, want: []int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := w.List(t.Context(), org, "task_a", c.before, c.after, c.n)
			require.NoError(t, err)
			seqs := []int64{}
			for _, row := range rows {
				require.Equal(t, "task_a", row.TaskID)
				seqs = append(seqs, row.Seq)
			}
			require.Equal(t, c.want, seqs)
		})
	}
	rows, err := w.List(t.Context(), "org_other", "task_a", 0, 0, 10)
	require.NoError(t, err)
	require.Empty(t, rows, "another organisation's")
}
