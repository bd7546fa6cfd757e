package api

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// momentsPage is how many moments a page has if the request sets no size.
const momentsPage = 5000

// ListMoments returns the index of a task's history.
func (h *Events) ListMoments(ctx context.Context, req *deckhandv1.ListMomentsRequest) (*deckhandv1.ListMomentsResponse, error) {
	orgID := auth.From(ctx).OrgID
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return nil, err
	}
	after, err := store.ParseNumberToken(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := cmp.Or(req.GetPageSize(), momentsPage)
	res := &deckhandv1.ListMomentsResponse{}
	var rows []db.TaskMomentsRow
	if req.GetNewest() {
		if after > 0 {
			return nil, fault.New(fault.Invalid, "newest and page_token are both set").WithFix("leave page_token out: the newest moments are one page")
		}
		rows, err = h.Watcher.NewestMoments(ctx, orgID, id, size)
	} else {
		rows, err = h.Watcher.Moments(ctx, orgID, id, int64(after), size+1)
	}
	if err != nil {
		return nil, err
	}
	rows, res.NextPageToken = store.Page(rows, size, func(last db.TaskMomentsRow) string { return store.NumberToken(int32(last.Seq)) })
	for _, row := range rows {
		res.Moments = append(res.Moments, momentMessage(row))
	}
	return res, nil
}

func momentMessage(row db.TaskMomentsRow) *deckhandv1.Moment {
	state := strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(row.State, "STEP_STATE_"), "TASK_STATE_"))
	m := &deckhandv1.Moment{
		Seq: row.Seq, Time: timestamppb.New(row.Time), Type: row.Type, Step: row.Number, StepId: row.StepID, Tool: row.Tool, Turn: row.Turn,
		State: state, Title: row.Title, Files: row.Files,
	}
	if row.Type == string(eventkind.IterationComplete) {
		m.Usage = &deckhandv1.Usage{
			InputTokens: row.InputTokens, OutputTokens: row.OutputTokens, CacheReadTokens: row.CacheReadTokens,
			CacheWriteTokens: row.CacheWriteTokens, CostMicros: row.CostMicros,
		}
	}
	return m
}
