package api

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/maintenance/retention"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Retention serves RetentionService.
type Retention struct {
	Retention *retention.Service
	Tasks     *task.Service
}

func (h *Retention) rules(ctx context.Context, orgID string, plan bool) (out []*deckhandv1.RetentionRule, err error) {
	rules, err := h.Retention.Rules(ctx, orgID, plan)
	for _, r := range rules {
		out = append(out, &deckhandv1.RetentionRule{
			Kind: r.Kind, Description: r.Description, Days: r.Days, Deleted: r.Deleted, DeletedAt: timestamp(r.DeletedAt),
			DueTasks: r.DueTasks, DueRows: r.DueRows, HeldTasks: r.HeldTasks,
		})
	}
	return out, err
}

// GetRetention returns the rules of the caller's organisation.
func (h *Retention) GetRetention(ctx context.Context, req *deckhandv1.GetRetentionRequest) (*deckhandv1.GetRetentionResponse, error) {
	rules, err := h.rules(ctx, auth.From(ctx).OrgID, req.GetPlan())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetRetentionResponse{Rules: rules}, nil
}

// SetRetention changes rules of the caller's organisation.
func (h *Retention) SetRetention(ctx context.Context, req *deckhandv1.SetRetentionRequest) (*deckhandv1.SetRetentionResponse, error) {
	who := auth.From(ctx)
	if err := h.Retention.Set(ctx, who.OrgID, req.GetDays(), actor(who)); err != nil {
		return nil, err
	}
	rules, err := h.rules(ctx, who.OrgID, false)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.SetRetentionResponse{Rules: rules}, nil
}

// SetLegalHold keeps everything of a task, or releases it.
func (h *Retention) SetLegalHold(ctx context.Context, req *deckhandv1.SetLegalHoldRequest) (*deckhandv1.SetLegalHoldResponse, error) {
	who := auth.From(ctx)
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return nil, err
	}
	hold, err := h.Retention.Hold(ctx, who.OrgID, id, req.GetReason(), req.GetReleased(), actor(who))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.SetLegalHoldResponse{}
	if hold != nil {
		res.Hold = legalHoldMessage(*hold)
	}
	return res, nil
}

// ListLegalHolds returns a page of the tasks that are kept.
func (h *Retention) ListLegalHolds(ctx context.Context, req *deckhandv1.ListLegalHoldsRequest) (*deckhandv1.ListLegalHoldsResponse, error) {
	rows, next, err := h.Retention.Holds(ctx, auth.From(ctx).OrgID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListLegalHoldsResponse{NextPageToken: next}
	for _, row := range rows {
		res.Holds = append(res.Holds, legalHoldMessage(row))
	}
	return res, nil
}

func legalHoldMessage(row db.LegalHold) *deckhandv1.LegalHold {
	return &deckhandv1.LegalHold{TaskId: row.TaskID, Reason: row.Reason, SetBy: row.SetBy, SetAt: timestamppb.New(row.SetAt)}
}
