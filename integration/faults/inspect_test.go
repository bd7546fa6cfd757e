package faults

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The functions below read the results of tasks, in the database, on the nodes' disks and
// through the API.

// task is a row of the database.
type task struct {
	ID, State, Reason string
	Attempt           int
	JailID            string
	Node              string // its name; empty before it was admitted
}

// step is one command of a task.
type step struct {
	ID, State, Tool, End string
	Turn                 int
}

var final = []string{"succeeded", "failed", "timed_out", "cancelled"}

// forPerson are the states in which a task waits for a person.
var forPerson = []string{"paused", "escalated", "awaiting_approval", "needs_input", "review_needed"}

func (t task) settles() bool { return slices.Contains(final, t.State) || t.waits() }
func (t task) waits() bool   { return slices.Contains(forPerson, t.State) }

// rows reads the database, which may have just died.
func rows[T any](r *rig, sql string, args ...any) (out []T) {
	r.t.Helper()
	r.retry("read the database", func(ctx context.Context) error {
		found, err := r.db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(found, pgx.RowToStructByPos[T])
		return err
	})
	return out
}

func (r *rig) tasks(ids []string) []task {
	return rows[task](r, `SELECT t.id, t.state, t.reason, t.attempt, t.jail_id, coalesce(n.name, '')
		FROM tasks t LEFT JOIN nodes n ON n.id = t.node_id WHERE t.id = ANY($1) ORDER BY t.id`, ids)
}

// open returns tasks that have not ended; none when the database is away.
func (r *rig) open() []task {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	found, err := r.db.Query(ctx, `SELECT t.id, t.state, t.reason, t.attempt, t.jail_id, coalesce(n.name, '')
		FROM tasks t LEFT JOIN nodes n ON n.id = t.node_id WHERE t.finished_at IS NULL ORDER BY t.id LIMIT 20`)
	if err != nil {
		return nil
	}
	out, _ := pgx.CollectRows(found, pgx.RowToStructByPos[task])
	return out
}

func (r *rig) steps(taskID string) []step {
	return rows[step](r, `SELECT id, state, tool, coalesce(outcome ->> 'end_reason', ''), turn
		FROM steps WHERE task_id = $1 ORDER BY number`, taskID)
}

// settle waits until each task has ended or waits for a person, and returns their states
// then.
func (r *rig) settle(ids []string, within time.Duration) []task {
	r.t.Helper()
	end := time.Now().Add(within)
	for {
		open := r.attend(ids)
		if len(open) == 0 {
			break
		}
		if time.Now().After(end) {
			require.Failf(r.t, "tasks do not end", "%d of %d after %s: %+v", len(open), len(ids), within, open[:min(len(open), 10)])
		}
		<-time.After(50 * time.Millisecond)
	}
	var out []task
	for _, id := range ids {
		out = append(out, r.settled[id])
	}
	return out
}

// attend records the tasks that have ended or wait for a person, and returns the others.
// Those that wait are cancelled, as a person would: other tasks need their workspace.
func (r *rig) attend(ids []string) (open []task) {
	r.t.Helper()
	for _, one := range r.tasks(ids) {
		if _, known := r.settled[one.ID]; !known && one.settles() {
			r.settled[one.ID] = one
		}
		if one.waits() {
			r.cancel(one)
		}
		if one.waits() || !one.settles() {
			open = append(open, one)
		}
	}
	return open
}

// cancel ends a task that may have ended already.
func (r *rig) cancel(one task) {
	r.t.Helper()
	r.retry("cancel "+one.ID, func(ctx context.Context) error {
		_, err := r.client.Tasks.CancelTask(ctx, &deckhandv1.CancelTaskRequest{TaskId: one.ID})
		if fault.Is(err, fault.Precondition) {
			return nil
		}
		return err
	})
}

// counter returns how often a command ran: it adds a line to a file.
func (r *rig) counter(t task, name string) int { return len(r.lines(t, name)) }

// lines returns a file of a task's workspace, read from the node's disk.
func (r *rig) lines(t task, name string) []string {
	r.t.Helper()
	var node int
	if _, err := fmt.Sscanf(t.Node, "node-%d", &node); err != nil {
		return nil // it never came to a node
	}
	data, err := os.ReadFile(filepath.Join(r.nodeDir(node), "workspaces", t.JailID, name))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(r.t, err)
	return strings.Fields(string(data))
}

// output returns what a step's command printed, as the API has it.
func (r *rig) output(stepID string) (out string) {
	r.t.Helper()
	r.retry("read the log of "+stepID, func(ctx context.Context) error {
		var b strings.Builder
		stream, err := r.client.Tasks.ReadLog(ctx, &deckhandv1.ReadLogRequest{StepId: stepID})
		if err != nil {
			return err
		}
		defer stream.Close()
		for stream.Receive() {
			b.Write(stream.Msg().GetData())
		}
		out = b.String()
		return stream.Err()
	})
	return out
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// history holds what must be true of the record of tasks whatever happened:
// events without gaps, no call twice, and never two attempts at once.
func (r *rig) history(ids []string) {
	r.t.Helper()
	type broken struct{ What string }
	for _, b := range rows[broken](r, `
		SELECT format('task %s has %s events, the last is %s, and its head says %s', t.id, count(e.id), coalesce(max(e.seq), 0), h.seq)
		FROM tasks t LEFT JOIN events e ON e.task_id = t.id LEFT JOIN event_heads h ON h.task_id = t.id WHERE t.id = ANY($1)
		GROUP BY t.id, h.seq HAVING count(e.id) <> coalesce(max(e.seq), 0) OR count(e.id) <> coalesce(h.seq, 0)
		UNION ALL
		SELECT format('attempts %s and %s of task %s overlap', a.attempt, b.attempt, a.task_id)
		FROM attempts a JOIN attempts b ON a.task_id = b.task_id AND b.attempt > a.attempt
		WHERE a.task_id = ANY($1) AND (a.ended_at IS NULL OR b.claimed_at < a.ended_at)
		UNION ALL
		SELECT format('attempt %s of task %s, which is %s, has not ended', a.attempt, a.task_id, t.state)
		FROM attempts a JOIN tasks t ON t.id = a.task_id
		WHERE a.task_id = ANY($1) AND a.ended_at IS NULL AND t.state NOT IN ('starting', 'running')
		UNION ALL
		SELECT format('step %s of task %s has %s ends in the history', s.id, s.task_id, count(e.id))
		FROM steps s JOIN events e ON e.task_id = s.task_id AND e.type = 'tool_completed' AND e.payload ->> 'step_id' = s.id
		WHERE s.task_id = ANY($1) GROUP BY s.id HAVING count(e.id) > 1`, ids) {
		r.t.Error(b.What)
	}
}
