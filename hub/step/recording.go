package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// A recording of a browser is the output of the command that keeps it. So it survives the worker,
// the hub and the daemon, and it is on its node for as long as the outputs of commands are.

// maxRecordings is how many recordings a task may have: one for each start of its browser.
const maxRecordings = 5

// record notes that a keeper is about to record the browser of a step's task, if its persona says so.
func (s browsers) record(ctx context.Context, t db.Task, step db.Step, p *persona.Persona, keeper string) (bool, error) {
	if !p.Browser.Record {
		return false, nil
	}
	n, err := s.cfg.Store.AddBrowserRecording(ctx, db.AddBrowserRecordingParams{OrgID: t.OrgID, TaskID: t.ID, ExecID: keeper, NodeID: *step.NodeID, Most: maxRecordings})
	if err != nil {
		return false, fmt.Errorf("note that the browser of %s is recorded: %w", t.ID, err)
	}
	return n > 0, nil
}

// ReadRecordings passes the frames of the recordings of a task's browsers to show, the oldest first,
// with their pictures. One whose rest is not kept, cannot be read, or is on a node that is not there ends
// with a frame that says so, and the next one follows.
func ReadRecordings(ctx context.Context, s *Steps, t db.Task, show func(frame browserlink.Frame, picture []byte) error) error {
	all, err := s.cfg.Store.BrowserRecordings(ctx, db.BrowserRecordingsParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return fmt.Errorf("list the recordings of %s: %w", t.ID, err)
	}
	for _, one := range all {
		at := one.BeganAt.UnixMilli()
		var refused error // of show
		node, err := s.cfg.Node(one.NodeID)
		if err == nil {
			err = tool.ReadRecording(ctx, node, one.ExecID, func(frame browserlink.Frame, picture []byte) error {
				at = min(max(frame.At, one.BeganAt.UnixMilli()), time.Now().UnixMilli()) // the jail says what it likes
				frame.At = at
				refused = show(frame, picture)
				return refused
			})
		}
		problem := "the rest of this recording is not there, or cannot be read"
		switch {
		case err == nil:
			continue
		case refused != nil || ctx.Err() != nil:
			return err
		case !errors.Is(err, io.ErrUnexpectedEOF) && !fault.Is(err, fault.NotFound):
			problem = fmt.Sprintf("the rest of this recording is on the node %s, which cannot be asked for it now", one.NodeID)
		}
		if err := show(browserlink.Frame{At: at, Problem: problem, Ended: true}, nil); err != nil {
			return err
		}
	}
	return nil
}
