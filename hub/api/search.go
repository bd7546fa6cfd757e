package api

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/work/search"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// searchPage is how many hits a page has if the request sets no size.
const searchPage = 30

var searchKinds = map[string]deckhandv1.SearchKind{
	search.Task:    deckhandv1.SearchKind_SEARCH_KIND_TASK,
	search.Call:    deckhandv1.SearchKind_SEARCH_KIND_CALL,
	search.Output:  deckhandv1.SearchKind_SEARCH_KIND_OUTPUT,
	search.Message: deckhandv1.SearchKind_SEARCH_KIND_MESSAGE,
}

// SearchHistory finds words in the histories of the tasks that the caller sees.
func (h *Histories) SearchHistory(ctx context.Context, req *deckhandv1.SearchHistoryRequest) (*deckhandv1.SearchHistoryResponse, error) {
	org := auth.From(ctx).OrgID
	q, err := search.Parse(req.GetQuery())
	if err != nil {
		return nil, err
	}
	var agentID, taskID string
	if q.Agent != "" {
		if agentID, err = h.Agents.FindPast(ctx, viewer(ctx), q.Agent); err != nil {
			return nil, err
		}
	}
	if q.Task != "" {
		if taskID, err = h.Tasks.Find(ctx, viewer(ctx), q.Task); err != nil {
			return nil, err
		}
	}
	page := search.Page{Size: cmp.Or(req.GetPageSize(), searchPage), Token: req.GetPageToken()}
	hits, next, err := h.Search.Search(ctx, viewer(ctx), q, agentID, taskID, page)
	if err != nil {
		return nil, err
	}
	until, err := h.Search.IndexedUntil(ctx, org)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.SearchHistoryResponse{NextPageToken: next}
	if until != nil {
		res.IndexedUntil = timestamppb.New(*until)
	}
	for _, hit := range hits {
		m := &deckhandv1.SearchHit{
			Kind: searchKinds[hit.Kind], TaskId: hit.TaskID, TaskTitle: cmp.Or(hit.Title, hit.Goal), AgentName: hit.AgentName,
			StepId: hit.StepID, StepNumber: hit.Number, Tool: hit.Tool,
			EventSeq: hit.Seq, EventType: hit.Type, SaidBy: hit.SaidBy, Time: timestamppb.New(hit.At),
		}
		for _, p := range hit.Excerpt {
			m.Excerpt = append(m.Excerpt, &deckhandv1.SearchText{Text: p.Text, Match: p.Match})
		}
		res.Hits = append(res.Hits, m)
	}
	return res, nil
}
