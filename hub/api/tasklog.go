package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// TaskLogs serves the calls of TaskService that read what commands have written.
type TaskLogs struct {
	store *store.Store
	tasks *task.Service
	steps *step.Steps
	// node returns the live link to a node.
	node func(nodeID string) (machine.Link, error)
}

// NewTaskLogs creates one.
func NewTaskLogs(s *store.Store, tasks *task.Service, steps *step.Steps, node func(nodeID string) (machine.Link, error)) TaskLogs {
	return TaskLogs{store: s, tasks: tasks, steps: steps, node: node}
}

const (
	// comesToNode is how long a command may take from its start on record to its
	// node.
	comesToNode = 10 * time.Second
	lookAgain   = 100 * time.Millisecond
)

// openLog requests a step's output from its node, and returns the first piece.
func openLog(ctx context.Context, link machine.Link, s db.Step, req *deckhandv1.ReadLogRequest) (nodev1.ExecService_ReadLogClient, *nodev1.ReadLogResponse, error) {
	in, err := link.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: s.ExecID, Offset: req.GetOffset(), Follow: req.GetFollow()})
	if err != nil {
		return nil, nil, err
	}
	piece, err := in.Recv()
	return in, piece, err
}

// LogSizeHeader has the length of a log in bytes in the response of ReadLog, ReadTaskLog and
// ReadNodeLog, once nothing is written to it any more.
const LogSizeHeader = "Deckhand-Log-Size"

// ReadLog streams a step's output from the node that ran it.
func (h *TaskLogs) ReadLog(ctx context.Context, req *deckhandv1.ReadLogRequest, out *connect.ServerStream[deckhandv1.ReadLogResponse]) error {
	org := auth.From(ctx).OrgID
	id, err := h.steps.Find(ctx, viewer(ctx), req.GetStepId())
	if err != nil {
		return err
	}
	s, err := h.steps.Get(ctx, org, id)
	if err != nil {
		return err
	}
	if s.StartedAt == nil || s.NodeID == nil {
		return fault.New(fault.Precondition, "step %s has no log: it was never started on a node", id).WithObject(id)
	}
	if log, err := h.store.StepLog(ctx, db.StepLogParams{OrgID: org, ID: id}); err != nil {
		return fmt.Errorf("look whether the log of %s is whole: %w", id, err)
	} else if log.Whole {
		out.ResponseHeader().Set(LogSizeHeader, strconv.FormatInt(log.LogBytes, 10))
	}
	link, err := h.node(*s.NodeID)
	if err != nil {
		return err
	}
	in, piece, err := openLog(ctx, link, s, req)
	for fault.Is(fault.FromGRPC(err), fault.NotFound) && step.State(s.State) == step.Started && time.Since(*s.StartedAt) < comesToNode {
		// The step is stored as started, and the node has not received it yet.
		if !req.GetFollow() {
			return nil
		}
		if err := backoff.Wait(ctx, lookAgain); err != nil {
			return err
		}
		in, piece, err = openLog(ctx, link, s, req)
	}
	for ; ; piece, err = in.Recv() {
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.FromGRPC(err)
		}
		if len(piece.GetData()) == 0 {
			continue // a gap or a new size of the terminal
		}
		if err := out.Send(&deckhandv1.ReadLogResponse{
			Offset: piece.GetOffset(), Stream: strings.ToLower(strings.TrimPrefix(piece.GetStream().String(), "LOG_STREAM_")),
			Data: piece.GetData(), Time: piece.GetTime(),
		}); err != nil {
			return err
		}
	}
}

// logsAtOnce is how many logs of a task are looked up at once.
const logsAtOnce = 1000

// logPart is a command's part of the log of its task.
type logPart struct {
	db.TaskLogsRow

	// heading begins at the offset from, and the command's output follows it.
	heading string
	from    int64
}

// begin returns the offset of the command's output.
func (p logPart) begin() int64 { return p.from + int64(len(p.heading)) }

// end returns the offset behind the command's output.
func (p logPart) end() int64 { return p.begin() + p.LogBytes }

// parts returns the log of a task as it is now, but for the output itself. Later parts come
// behind these.
func (h *TaskLogs) parts(ctx context.Context, orgID, taskID string) (all []logPart, err error) {
	params := db.TaskLogsParams{OrgID: orgID, TaskID: taskID, MaxRows: logsAtOnce}
	end := int64(0)
	for {
		rows, err := h.store.TaskLogs(ctx, params)
		if err != nil {
			return nil, fmt.Errorf("list the logs of task %s: %w", taskID, err)
		}
		for _, row := range rows {
			p := logPart{TaskLogsRow: row, from: end, heading: fmt.Sprintf("==> step %d: %s, %s <==\n", row.Number, row.Tool, row.StartedAt.UTC().Format(time.RFC3339))}
			if len(all) > 0 {
				p.heading = "\n" + p.heading
			}
			all, end = append(all, p), p.end()
			params.AfterTime, params.AfterNumber = row.WholeAt, row.Number
		}
		if len(rows) < logsAtOnce {
			return all, nil
		}
	}
}

// ReadTaskLog streams what all commands of a task have written.
func (h *TaskLogs) ReadTaskLog(ctx context.Context, req *deckhandv1.ReadTaskLogRequest, out *connect.ServerStream[deckhandv1.ReadTaskLogResponse]) error {
	org := auth.From(ctx).OrgID
	id, err := h.tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return err
	}
	// Before the parts: a task that has ended gets no more of them, but of jobs that go on.
	t, err := h.tasks.Get(ctx, org, id)
	if err != nil {
		return err
	}
	unfinished, err := h.store.UnfinishedLogs(ctx, db.UnfinishedLogsParams{OrgID: org, TaskID: id})
	if err != nil {
		return fmt.Errorf("look what task %s still writes: %w", id, err)
	}
	parts, err := h.parts(ctx, org, id)
	if err != nil {
		return err
	}
	if t.Task.FinishedAt != nil && !unfinished {
		size := int64(0)
		if n := len(parts); n > 0 {
			size = parts[n-1].end()
		}
		out.ResponseHeader().Set(LogSizeHeader, strconv.FormatInt(size, 10))
	}
	for _, p := range parts {
		if p.end() <= req.GetOffset() {
			continue
		}
		if skip := max(0, req.GetOffset()-p.from); skip < int64(len(p.heading)) {
			if err := out.Send(&deckhandv1.ReadTaskLogResponse{Offset: p.from + skip, Data: []byte(p.heading[skip:]), StepId: p.ID}); err != nil {
				return err
			}
		}
		if err := h.send(ctx, p, max(0, req.GetOffset()-p.begin()), out); err != nil {
			return err
		}
	}
	return nil
}

// send sends the output of a part from an offset of its own on. What its node has deleted is
// left out, and so is what a revoked node has: the offset of what follows says so.
func (h *TaskLogs) send(ctx context.Context, p logPart, from int64, out *connect.ServerStream[deckhandv1.ReadTaskLogResponse]) error {
	link, err := h.node(p.NodeID)
	if err != nil {
		n, lookErr := h.store.NodeByID(ctx, p.NodeID)
		if lookErr == nil && n.RevokedAt != nil || store.IsNotFound(lookErr) {
			return nil // it does not come back
		}
		return err
	}
	in, err := link.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: p.ExecID, Offset: from, Limit: p.LogBytes - from})
	for err == nil {
		piece, failed := in.Recv()
		if err = failed; err != nil || len(piece.GetData()) == 0 {
			continue
		}
		if err := out.Send(&deckhandv1.ReadTaskLogResponse{Offset: p.begin() + piece.GetOffset(), Data: piece.GetData(), StepId: p.ID}); err != nil {
			return err
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err = fault.FromGRPC(err); fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
