package event_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const org = "org_default"

// silence is a bus that never says anything: watches poll.
type silence struct{}

func (silence) SubscribeEvents(string, func(string)) (func(), error) { return func() {}, nil }

func (silence) SubscribeThinking(string, string, func([]byte)) (func(), error) {
	return func() {}, nil
}

// history is a database with tasks that have no worker.
type history struct {
	*store.Store

	t        *testing.T
	url      string
	recorder *event.Recorder
}

func newHistory(t *testing.T, tasks ...string) *history {
	t.Helper()
	h := &history{t: t, url: storetest.Database(t)}
	var err error
	h.Store, err = store.Open(t.Context(), h.url)
	require.NoError(t, err)
	t.Cleanup(h.Close)
	h.recorder = event.NewRecorder(event.RecorderConfig{Store: h.Store, Redact: &redact.Redactor{}, Notify: func(string, string) {}})
	for _, id := range tasks {
		h.exec(`INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, reason, workspace_scope, jail_id, created_by,
			created_by_role, correlation_id, lineage_id) VALUES ($1, $2, 'agent_1', 1, 't', 'g', 'r', 'task', $1, 'u', 'admin', 'c', $1)`, id, org)
	}
	return h
}

func (h *history) exec(sql string, args ...any) {
	h.t.Helper()
	conn, err := pgx.Connect(h.t.Context(), h.url)
	require.NoError(h.t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(h.t.Context(), sql, args...)
	require.NoError(h.t, err)
}

// append adds events to a task in a transaction that stays open for a while
// after it has its number.
func (h *history) append(ctx context.Context, task string, n int, pause time.Duration) error {
	return h.recorder.Tx(ctx, func(tx *event.Tx) error {
		// A write, which takes the transaction's id, of a row that is its own.
		if err := tx.TouchReplica(ctx, db.TouchReplicaParams{ID: ident.New("r")}); err != nil {
			return err
		}
		if pause > 0 {
			timer := time.NewTimer(pause)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for i := range n {
			if err := tx.Append(org, task, event.Hub, event.Draft{Type: "note", Payload: map[string]any{"i": i}}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *history) watcher(cfg event.WatcherConfig) *event.Watcher {
	cfg.Store, cfg.Hints = h.Store, silence{}
	if cfg.Poll == 0 {
		cfg.Poll = 5 * time.Millisecond
	}
	cfg.Heartbeat = time.Minute
	return event.NewWatcher(cfg)
}

// Transactions of different length that commit in any order;
// each watch sees each event once, those of a task in order, also when it comes
// back from its cursor again and again.
func TestManyWritersAndEachWatchSeesEachEventOnce(t *testing.T) {
	t.Parallel()
	tasks := []string{"task_a", "task_b", "task_c", "task_d"}
	h := newHistory(t, tasks...)
	const writers, rounds, watchers = 8, 25, 4
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var written sync.WaitGroup
	total := writers * rounds * 2
	for w := range writers {
		written.Go(func() {
			for i := range rounds {
				pause := time.Duration(rand.IntN(8)) * time.Millisecond
				if i%10 == w {
					pause = 150 * time.Millisecond
				}
				if err := h.append(ctx, tasks[rand.IntN(len(tasks))], 2, pause); err != nil {
					t.Error(err)
				}
			}
		})
	}
	enough := errors.New("enough")
	var watches sync.WaitGroup
	for n := range watchers {
		watches.Go(func() {
			watcher, q := h.watcher(event.WatcherConfig{}), event.Watch{OrgID: org, Follow: true}
			if n%2 == 1 {
				q.TaskIDs = tasks
			}
			next := map[string]int64{}
			for seen := 0; seen < total; {
				stop := seen + 1 + rand.IntN(total/4)
				err := watcher.Run(ctx, q, func(item event.Item) error {
					if item.Event == nil {
						return nil
					}
					q.After = item.Cursor
					next[item.Event.TaskID]++
					if item.Event.Seq != next[item.Event.TaskID] {
						return fmt.Errorf("event %d of %s came where %d was due", item.Event.Seq, item.Event.TaskID, next[item.Event.TaskID])
					}
					if seen++; seen == stop || seen == total {
						return enough
					}
					return nil
				})
				if !errors.Is(err, enough) {
					t.Error(err)
					return
				}
			}
		})
	}
	written.Wait()
	watches.Wait()
	last := h.watcher(event.WatcherConfig{})
	n := 0
	require.NoError(t, last.Run(ctx, event.Watch{OrgID: org}, func(item event.Item) error { n++; return nil }))
	require.Equal(t, total, n, "and no more than were written")
}

// A watch that does not read is ended with an error, and no other watch is slowed.
func TestASlowWatchIsToldAndGoesOnFromItsCursor(t *testing.T) {
	t.Parallel()
	h := newHistory(t, "task_a")
	for range 10 {
		require.NoError(t, h.append(t.Context(), "task_a", 1, 0))
	}
	cut := make(chan struct{}, 1)
	w := h.watcher(event.WatcherConfig{SlowAfter: 20 * time.Millisecond})
	q := event.Watch{OrgID: org, Cut: func() { cut <- struct{}{} }}
	var seqs []int64
	err := w.Run(t.Context(), q, func(item event.Item) error {
		seqs, q.After = append(seqs, item.Event.Seq), item.Cursor
		if item.Event.Seq == 3 {
			// Blocked until the connection is cut, as a caller that reads nothing.
			<-cut
		}
		return nil
	})
	require.Equal(t, fault.WatchSlow, fault.As(err).Code)
	require.True(t, fault.Is(err, fault.Aborted), "the SDK comes back by itself")
	require.NoError(t, w.Run(t.Context(), q, func(item event.Item) error {
		seqs = append(seqs, item.Event.Seq)
		return nil
	}))
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, seqs)
	require.Zero(t, w.Open())
}

// Retention deletes whole finished tasks, and a watch with a cursor from before gets an
// error.
func TestACursorOlderThanRetentionIsToldSo(t *testing.T) {
	t.Parallel()
	h := newHistory(t, "task_old", "task_new")
	require.NoError(t, h.append(t.Context(), "task_old", 3, 0))
	w := h.watcher(event.WatcherConfig{})
	var old, end event.Cursor
	require.NoError(t, w.Run(t.Context(), event.Watch{OrgID: org}, func(item event.Item) error {
		if item.Event.Seq == 1 {
			old = item.Cursor
		}
		end = item.Cursor
		return nil
	}))
	require.NoError(t, h.append(t.Context(), "task_new", 2, 0))
	prune := func() int32 {
		n, err := event.Prune(t.Context(), h.Store, time.Hour, 10)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, prune(), "what has not ended is kept")
	h.exec(`UPDATE tasks SET state = 'cancelled', finished_at = clock_timestamp() - interval '30 minutes'`)
	require.Zero(t, prune(), "what ended a while ago is kept")
	h.exec(`UPDATE tasks SET finished_at = clock_timestamp() - interval '2 hours' WHERE id = 'task_old'`)
	require.EqualValues(t, 1, prune())
	require.Zero(t, prune(), "once")

	watch := func(after event.Cursor, ids ...string) ([]string, error) {
		var got []string
		err := w.Run(t.Context(), event.Watch{OrgID: org, TaskIDs: ids, After: after}, func(item event.Item) error {
			got = append(got, fmt.Sprint(item.Event.TaskID, item.Event.Seq))
			return nil
		})
		return got, err
	}
	for what, err := range map[string]error{
		"a cursor that has missed some":    second(watch(old)),
		"the task itself, with a cursor":   second(watch(old, "task_old")),
		"the task from its beginning":      second(watch(event.Cursor{}, "task_old")),
		"the task among others, beginning": second(watch(event.Cursor{}, "task_new", "task_old")),
	} {
		require.NotNil(t, fault.As(err), what)
		require.Equal(t, fault.CursorExpired, fault.As(err).Code, what)
		require.Equal(t, "task_old", fault.As(err).ObjectID, what)
	}
	for _, after := range []event.Cursor{{}, end} {
		got, err := watch(after)
		require.NoError(t, err)
		require.Equal(t, []string{"task_new1", "task_new2"}, got)
	}
	got, err := watch(old, "task_new")
	require.NoError(t, err)
	require.Len(t, got, 2, "another task's loss is no concern")
}

func second[A, B any](_ A, b B) B { return b }

// A watch of some types gets those only, and a heartbeat's cursor comes after the events
// that were left out.
func TestAWatchOfSomeTypes(t *testing.T) {
	t.Parallel()
	h := newHistory(t, "task_a")
	for _, kind := range []eventkind.Kind{eventkind.Thinking, eventkind.PlanUpdated, eventkind.Thinking, eventkind.ToolExecuting, eventkind.Thinking} {
		require.NoError(t, h.recorder.Tx(t.Context(), func(tx *event.Tx) error {
			return tx.Append(org, "task_a", event.Hub, event.Draft{Type: kind})
		}))
	}
	watcher := event.NewWatcher(event.WatcherConfig{Store: h.Store, Hints: silence{}, Poll: 5 * time.Millisecond, Heartbeat: 50 * time.Millisecond})
	selected, err := eventkind.Select("types", []string{"plan_*", "agent.tool.called"})
	require.NoError(t, err)
	q := event.Watch{OrgID: org, Selected: selected, Follow: true}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	enough := errors.New("enough")
	var seen []int64
	require.ErrorIs(t, watcher.Run(ctx, q, func(item event.Item) error {
		if item.Event == nil {
			q.After = item.Cursor
			return enough
		}
		seen = append(seen, item.Event.Seq)
		return nil
	}), enough)
	require.Equal(t, []int64{2, 4}, seen)
	q.Selected, q.Follow = nil, false
	require.NoError(t, watcher.Run(ctx, q, func(item event.Item) error {
		return fmt.Errorf("event %d came again", item.Event.Seq)
	}))
}

// What a watch has sent is flushed before it reads on, however many events of other types follow.
func TestARareEventIsNotHeldBackForThoseThatFollow(t *testing.T) {
	t.Parallel()
	h := newHistory(t, "task_a")
	require.NoError(t, h.recorder.Tx(t.Context(), func(tx *event.Tx) error {
		return tx.Append(org, "task_a", event.Hub, event.Draft{Type: eventkind.PlanUpdated})
	}))
	const others = 1000
	require.NoError(t, h.append(t.Context(), "task_a", others, 0))
	selected, err := eventkind.Select("types", []string{"plan_*"})
	require.NoError(t, err)
	enough := errors.New("enough")
	held := 0
	err = event.NewWatcher(event.WatcherConfig{Store: h.Store, Hints: silence{}, Poll: 5 * time.Millisecond, Heartbeat: time.Nanosecond}).Run(t.Context(), event.Watch{
		OrgID: org, Selected: selected, Follow: true,
		Flush: func() error {
			if held > 0 {
				return enough
			}
			return nil
		},
	}, func(item event.Item) error {
		if item.Event != nil {
			held++
			return nil
		}
		// The heartbeat of the first page: the id of who is cut off now moves on.
		id := strings.Split(item.Cursor.String(), ".")
		n, err := strconv.Atoi(id[1])
		require.NoError(t, err)
		require.Less(t, n, others)
		return nil
	})
	require.ErrorIs(t, err, enough)
	require.Equal(t, 1, held)
}
