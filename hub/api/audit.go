package api

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/audit"
	"github.com/deckhand-sh/deckhand/hub/auth"
	"github.com/deckhand-sh/deckhand/hub/event"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// exportStream sends what is written to it.
type exportStream struct {
	*connect.ServerStream[deckhandv1.ExportAuditResponse]
}

func (s exportStream) Write(data []byte) (int, error) {
	if err := s.Send(&deckhandv1.ExportAuditResponse{Data: data}); err != nil {
		return 0, err
	}
	return len(data), nil
}

// ExportAudit answers the audit as JSON lines. That somebody took it is on
// record.
func (h *Control) ExportAudit(ctx context.Context, req *connect.Request[deckhandv1.ExportAuditRequest], stream *connect.ServerStream[deckhandv1.ExportAuditResponse]) error {
	id := auth.From(ctx)
	if err := h.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: id.OrgID, By: actor(id), Action: "audit.exported", ObjectKind: "organisation", ObjectID: id.OrgID,
			After: map[string]any{"after": fmt.Sprint(req.Msg.GetAfter())},
		})
	}); err != nil {
		return err
	}
	return audit.Export(ctx, h.Store, h.AuditKey, id.OrgID, req.Msg.GetAfter(), exportStream{stream})
}
