package api

import (
	"cmp"
	"context"
	"fmt"
	"time"

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
func (h *Control) ExportAudit(ctx context.Context, req *deckhandv1.ExportAuditRequest, stream *connect.ServerStream[deckhandv1.ExportAuditResponse]) error {
	id := auth.From(ctx)
	if err := h.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: id.OrgID, By: actor(id), Action: "audit.exported", ObjectKind: "organisation", ObjectID: id.OrgID,
			After: map[string]any{"after": fmt.Sprint(req.GetAfter())},
		})
	}); err != nil {
		return err
	}
	return audit.Export(ctx, h.Store, h.AuditKey, id.OrgID, req.GetAfter(), exportStream{stream})
}

// GetReceipt returns the signed receipt of a task's run.
func (h *Control) GetReceipt(ctx context.Context, req *deckhandv1.GetReceiptRequest) (*deckhandv1.GetReceiptResponse, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
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
	return &deckhandv1.GetReceiptResponse{Line: append(r.Sign(h.AuditKey).Line(), '\n')}, nil
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

// progressEvery bounds how often a caller is told how far a verification is.
const progressEvery = 250 * time.Millisecond

// VerifyAudit verifies the organisation's audit log, and records that it was and what
// came of it.
func (h *Control) VerifyAudit(ctx context.Context, _ *deckhandv1.VerifyAuditRequest, stream *connect.ServerStream[deckhandv1.VerifyAuditResponse]) error {
	id := auth.From(ctx)
	if _, busy := h.verifying.LoadOrStore(id.OrgID, true); busy {
		return fault.New(fault.Precondition, "the audit log of %s is being verified already", id.OrgID).WithFix("wait until that has ended: it takes ten minutes at most")
	}
	defer h.verifying.Delete(id.OrgID)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var told time.Time
	v, err := audit.Verify(ctx, h.Store, h.AuditKey, id.OrgID, func(position, last int64) {
		if time.Since(told) < progressEvery {
			return
		}
		told = time.Now()
		if stream.Send(&deckhandv1.VerifyAuditResponse{Position: position, LastPosition: last}) != nil {
			cancel() // nobody waits for it
		}
	})
	if err != nil {
		return err
	}
	result := verificationMessage(v)
	action := "audit.verified"
	if result.GetVerdict() == deckhandv1.AuditVerdict_AUDIT_VERDICT_BROKEN {
		action = "audit.broken"
	}
	after := map[string]any{
		"verdict": enumWord(result.GetVerdict(), "AUDIT_VERDICT_"), "position": v.Position, "entries": v.Entries, "heads": v.Heads,
	}
	if len(v.Breaks) > 0 {
		after["breaks"], after["first_problem"] = len(v.Breaks), v.Breaks[0].Problem
	}
	if err := h.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: id.OrgID, By: actor(id), Action: action, ObjectKind: "organisation", ObjectID: id.OrgID, After: after,
		})
	}); err != nil {
		return err
	}
	return stream.Send(&deckhandv1.VerifyAuditResponse{Position: v.Position, LastPosition: max(v.LastPosition, v.Position), Result: result})
}

func verificationMessage(v audit.Verification) *deckhandv1.AuditVerification {
	m := &deckhandv1.AuditVerification{
		Verdict: deckhandv1.AuditVerdict_AUDIT_VERDICT_INTACT, Position: v.Position, Entries: v.Entries, Heads: v.Heads, Proofs: v.Proofs,
		Unsealed: v.Unsealed, MoreBreaks: v.More, Key: v.Key,
	}
	for _, b := range v.Breaks {
		m.Breaks = append(m.Breaks, &deckhandv1.AuditBreak{FirstPosition: b.First, LastPosition: b.Last, Problem: b.Problem})
	}
	switch {
	case len(v.Breaks) > 0:
		m.Verdict = deckhandv1.AuditVerdict_AUDIT_VERDICT_BROKEN
	case v.Unfinished:
		m.Verdict = deckhandv1.AuditVerdict_AUDIT_VERDICT_UNFINISHED
	}
	return m
}
