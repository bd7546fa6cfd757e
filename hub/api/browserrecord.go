package api

import (
	"context"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/internal/browserlink"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// ReadBrowserRecording returns what was recorded of the browser of a task.
func (h *Browsers) ReadBrowserRecording(ctx context.Context, req *deckhandv1.ReadBrowserRecordingRequest, out *connect.ServerStream[deckhandv1.ReadBrowserRecordingResponse]) error {
	ctx, cancel := until(ctx, h.Draining)
	defer cancel()
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return err
	}
	org := auth.From(ctx).OrgID
	row, err := h.Tasks.Get(ctx, org, id)
	if err != nil {
		return err
	}
	return step.ReadRecordings(ctx, h.Steps, row.Task, func(frame browserlink.Frame, picture []byte) error {
		return out.Send(&deckhandv1.ReadBrowserRecordingResponse{Frame: frameOf(frame, picture, func(from string) string { return pageText(h.Redact, org, from) })})
	})
}
