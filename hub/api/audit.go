package api

import (
	"cmp"
	"context"
	"fmt"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/fault"
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

// ExportAudit returns the audit log as JSON lines. The export itself is audited.
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

// GetReceipt returns the signed receipt of a task's run.
func (h *Control) GetReceipt(ctx context.Context, req *connect.Request[deckhandv1.GetReceiptRequest]) (*connect.Response[deckhandv1.GetReceiptResponse], error) {
	org := auth.From(ctx).OrgID
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.Msg.GetTaskId())
	if err != nil {
		return nil, err
	}
	row, err := h.Tasks.Get(ctx, org, id)
	if err != nil {
		return nil, err
	}
	if row.Task.FinishedAt == nil {
		return nil, fault.New(fault.Precondition, "task %s is %s: there is a receipt when it has ended", id, row.Task.State).WithObject(id).
			WithFix("wait for it with: deckhand task watch %s", id)
	}
	r, err := audit.Receipt(ctx, h.Store, row)
	if err != nil {
		return nil, err
	}
	if row.Task.AgentID != "" {
		p, err := h.Agents.PersonaOf(ctx, h.Store.Queries, org, row.Task.AgentID, row.Task.AgentVersion)
		if err != nil {
			return nil, err
		}
		r.Egress = append(r.Egress, egressLines("", p.Egress)...)
		r.Egress = append(r.Egress, egressLines("setup: ", p.Jail.SetupEgress)...)
		for _, c := range p.Credentials {
			r.Egress = append(r.Egress, "credential "+c.Name)
		}
		spec, err := h.Steps.Jail(ctx, row.Task)
		if err != nil {
			return nil, err
		}
		r.Images = append(r.Images, cmp.Or(spec.GetImage(), spec.GetRootfs()))
	}
	return connect.NewResponse(&deckhandv1.GetReceiptResponse{Line: append(r.Sign(h.AuditKey).Line(), '\n')}), nil
}

// egressLines returns the entries of a list as a receipt has them.
func egressLines(prefix string, l allowlist.List) (out []string) {
	for _, rule := range l.Rules {
		line := fmt.Sprintf("%s%s %v %v", prefix, rule.Host, rule.Ports, rule.Methods)
		if len(rule.HTTP) > 0 {
			line += fmt.Sprintf(" %q", rule.HTTP)
		}
		out = append(out, line)
	}
	for _, forward := range l.Forwards {
		out = append(out, fmt.Sprintf("%s%s:%d", prefix, forward.Host, forward.Port))
	}
	return out
}
