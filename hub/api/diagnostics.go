package api

import (
	"context"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/maintenance/diagnose"
	"github.com/deckhand-sh/deckhand/internal/redact"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Diagnostics serves DiagnosticsService.
type Diagnostics struct {
	Doctor *diagnose.Doctor
	Redact *redact.Redactor
}

var findingStates = map[diagnose.State]deckhandv1.FindingState{
	diagnose.OK: deckhandv1.FindingState_FINDING_STATE_OK, diagnose.Warn: deckhandv1.FindingState_FINDING_STATE_WARN,
	diagnose.Fail: deckhandv1.FindingState_FINDING_STATE_FAIL,
}

// Diagnose makes all checks that the caller may see.
func (h *Diagnostics) Diagnose(ctx context.Context, req *deckhandv1.DiagnoseRequest) (*deckhandv1.DiagnoseResponse, error) {
	who := auth.From(ctx)
	mask := h.Redact.Org(who.OrgID)
	res := &deckhandv1.DiagnoseResponse{}
	for _, f := range h.Doctor.Run(ctx, diagnose.Request{
		OrgID: who.OrgID, Installation: who.OrgID == auth.Operators, CallProviders: req.GetCallProviders(),
	}) {
		res.Findings = append(res.Findings, &deckhandv1.Finding{
			Check: mask.String(f.Check), State: findingStates[f.State], Evidence: mask.String(f.Evidence), Fix: mask.String(f.Fix),
		})
	}
	return res, nil
}
