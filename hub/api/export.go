package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// exportEvents and exportSteps are how many rows are read at once, and exportPiece is
	// how much a message carries: this limits how much of an export is in memory.
	exportEvents = 200
	exportSteps  = 20
	exportPiece  = 128 << 10
)

// exporter writes a task in one format. Nothing it is given is kept.
type exporter interface {
	begin(t *deckhandv1.Task, at time.Time) error
	event(e *deckhandv1.Event) error
	step(s *deckhandv1.Step) error
	// log is a piece of what one run of a step wrote.
	log(execID string, piece *nodev1.ReadLogResponse) error
	// missing is a log that could not be read.
	missing(execID string, why error) error
	end() error
}

// pieces sends what is written to it.
type pieces struct {
	*connect.ServerStream[deckhandv1.ExportTaskResponse]
}

func (s pieces) Write(data []byte) (int, error) {
	if err := s.Send(&deckhandv1.ExportTaskResponse{Data: data}); err != nil {
		return 0, err
	}
	return len(data), nil
}

// ExportTask returns a task as a file. The export is audited.
func (h *Histories) ExportTask(ctx context.Context, req *deckhandv1.ExportTaskRequest, out *connect.ServerStream[deckhandv1.ExportTaskResponse]) error {
	who := auth.From(ctx)
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return err
	}
	row, err := h.Tasks.Get(ctx, who.OrgID, id)
	if err != nil {
		return err
	}
	if err := own(who, row.Task); err != nil {
		return err
	}
	cast := req.GetFormat() == deckhandv1.ExportTaskFormat_EXPORT_TASK_FORMAT_ASCIICAST
	format := "jsonl"
	if cast {
		format = "asciicast"
	}
	if err := h.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: who.OrgID, By: actor(who), Action: "task.exported", ObjectKind: "task", ObjectID: id, After: map[string]any{"format": format},
		})
	}); err != nil {
		return err
	}
	buffer := bufio.NewWriterSize(pieces{out}, exportPiece)
	var to exporter = &jsonLines{out: buffer}
	if cast {
		to = &castOf{out: buffer}
	}
	exported := taskRow(row)
	if exported.Sources, err = sourcesOf(ctx, h.Store.Queries, row.Task); err != nil {
		return err
	}
	if err := to.begin(exported, time.Now()); err != nil {
		return err
	}
	if err := h.exportEvents(ctx, row.Task, to); err != nil {
		return err
	}
	if err := h.exportSteps(ctx, row.Task, to); err != nil {
		return err
	}
	if err := to.end(); err != nil {
		return err
	}
	return buffer.Flush()
}

// exportEvents writes the events that there are.
func (h *Histories) exportEvents(ctx context.Context, t db.Task, to exporter) error {
	if _, shows := to.(*castOf); shows {
		return nil // what commands showed is all that it has
	}
	for after := int64(0); ; {
		rows, err := h.Store.TaskEventsFrom(ctx, db.TaskEventsFromParams{TaskID: t.ID, OrgID: t.OrgID, AfterSeq: after, MaxRows: exportEvents})
		if err != nil {
			return fmt.Errorf("read events after %d: %w", after, err)
		}
		for _, row := range rows {
			after = row.Seq
			if err := to.event(eventMessage((*db.EventsAfterRow)(&row))); err != nil {
				return err
			}
		}
		if len(rows) < exportEvents {
			return nil
		}
	}
}

// exportSteps writes the steps, and after each the logs of its runs.
func (h *Histories) exportSteps(ctx context.Context, t db.Task, to exporter) error {
	for after := int32(0); ; {
		rows, err := h.Store.StepsFrom(ctx, db.StepsFromParams{TaskID: t.ID, OrgID: t.OrgID, AfterNumber: after, MaxRows: exportSteps})
		if err != nil {
			return fmt.Errorf("read steps after %d: %w", after, err)
		}
		for _, s := range rows {
			after = s.Number
			m := stepMessage(s)
			if err := h.addPictures(ctx, m, to); err != nil {
				return err
			}
			if err := to.step(m); err != nil {
				return err
			}
			if s.StartedAt == nil && s.Run == 1 || s.NodeID == nil {
				continue // it was never started on a node
			}
			for run := int32(1); run <= s.Run; run++ {
				execID := s.ID
				if run > 1 {
					execID = fmt.Sprintf("%s_%d", s.ID, run)
				}
				if err := h.exportLog(ctx, s, execID, to); err != nil {
					return err
				}
			}
		}
		if len(rows) < exportSteps {
			return nil
		}
	}
}

// addPictures adds the pictures of a step, for a format that has them.
func (h *Histories) addPictures(ctx context.Context, m *deckhandv1.Step, to exporter) error {
	if _, shows := to.(*castOf); shows || !hasImages(m) {
		return nil
	}
	rows, err := h.Store.StepImages(ctx, db.StepImagesParams{OrgID: auth.From(ctx).OrgID, TaskID: m.GetTaskId(), StepID: m.GetId()})
	if err != nil {
		return fmt.Errorf("read the pictures of step %s: %w", m.GetId(), err)
	}
	for _, row := range rows {
		m.Images = append(m.Images, step.ImageMessage(row))
	}
	return nil
}

// wroteNothing reports whether a run of a step is known to have no output, so that no
// node need be asked for it.
func wroteNothing(s db.Step, execID string) bool {
	state := step.State(s.State)
	return execID == s.ExecID && s.LogBytes == 0 && (state == step.Succeeded || state == step.Failed)
}

func (h *Histories) exportLog(ctx context.Context, s db.Step, execID string, to exporter) error {
	if wroteNothing(s, execID) {
		return nil
	}
	link, err := h.Node(*s.NodeID)
	if err != nil {
		return to.missing(execID, err)
	}
	in, err := link.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: execID})
	if err != nil {
		return to.missing(execID, fault.FromGRPC(err))
	}
	for {
		piece, err := in.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			err = fault.FromGRPC(err)
			if fault.Is(err, fault.NotFound) && (s.LogBytes == 0 || execID != s.ExecID) {
				return nil // no command of it reached the node
			}
			return to.missing(execID, err)
		}
		if err := to.log(execID, piece); err != nil {
			return err
		}
	}
}
