package hub_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The index of a history has its turns, steps and states from the beginning, in pages,
// with numbers that are those of the events.
func TestTheIndexOfAHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), output("hello\n"))
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	long := "echo " + strings.Repeat("ü", 300)
	for n := int32(1); n <= 3; n++ {
		r.turn(lease, n)
		step, err := r.propose(lease, n, 0, "shell_exec", `{"command":"`+long+`"}`)
		require.NoError(t, err)
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
		payload, err := structpb.NewStruct(map[string]any{"iteration": n, "usage": map[string]any{"input_tokens": 10, "output_tokens": 2, "cost_micros": 7}})
		require.NoError(t, err)
		_, err = r.workers.Workers.RecordEvents(t.Context(), &deckhandv1.RecordEventsRequest{
			Lease: lease, Events: []*deckhandv1.EventDraft{{Type: "iteration_complete", Payload: payload}, {Type: "progress_update"}},
		})
		require.NoError(t, err)
	}
	r.finish(lease)

	list := func(req *deckhandv1.ListMomentsRequest) *deckhandv1.ListMomentsResponse {
		t.Helper()
		req.TaskId = task.GetId()
		res, err := r.user.Events.ListMoments(t.Context(), req)
		require.NoError(t, err)
		return res
	}
	all := list(&deckhandv1.ListMomentsRequest{})
	require.Empty(t, all.GetNextPageToken())
	events := r.events(task.GetId(), false)
	seen := map[string]int{}
	last := int64(0)
	for _, m := range all.GetMoments() {
		require.Greater(t, m.GetSeq(), last)
		last = m.GetSeq()
		e := events[m.GetSeq()-1]
		require.Equal(t, e.GetType(), m.GetType())
		require.True(t, e.GetTime().AsTime().Equal(m.GetTime().AsTime()))
		seen[m.GetType()]++
		switch m.GetType() {
		case "tool_selected", "tool_executing", "tool_completed":
			require.Equal(t, "shell_exec", m.GetTool())
			require.Equal(t, e.GetPayload().GetFields()["step_id"].GetStringValue(), m.GetStepId())
			require.EqualValues(t, e.GetPayload().GetFields()["number"].GetNumberValue(), m.GetStep())
		case "iteration_complete":
			require.EqualValues(t, []int64{10, 2, 7}, []int64{m.GetUsage().GetInputTokens(), m.GetUsage().GetOutputTokens(), m.GetUsage().GetCostMicros()})
		case "progress_update":
			t.Fatal("it is not on a time axis")
		}
		if m.GetType() == "tool_selected" {
			require.Equal(t, string([]rune(long)[:200]), m.GetTitle(), "cut between characters")
		}
		if m.GetType() == "tool_completed" {
			require.Equal(t, "succeeded", m.GetState())
		}
	}
	require.Equal(t, []int{3, 3, 3, 3}, []int{seen["tool_selected"], seen["tool_executing"], seen["tool_completed"], seen["iteration_complete"]})
	require.Equal(t, "succeeded", all.GetMoments()[len(all.GetMoments())-1].GetState())

	var paged []int64
	for token := ""; ; {
		page := list(&deckhandv1.ListMomentsRequest{PageSize: 4, PageToken: token})
		for _, m := range page.GetMoments() {
			paged = append(paged, m.GetSeq())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
		require.Len(t, page.GetMoments(), 4)
	}
	require.Len(t, paged, len(all.GetMoments()))
	newest := list(&deckhandv1.ListMomentsRequest{PageSize: 4, Newest: true})
	require.Empty(t, newest.GetNextPageToken())
	var end []int64
	for _, m := range newest.GetMoments() {
		end = append(end, m.GetSeq())
	}
	require.Equal(t, paged[len(paged)-4:], end, "the end of the run, in order")
	require.Len(t, list(&deckhandv1.ListMomentsRequest{Newest: true}).GetMoments(), len(paged), "there are no more")

	_, err := r.as("stranger", "basic").Events.ListMoments(t.Context(), &deckhandv1.ListMomentsRequest{TaskId: task.GetId()})
	require.True(t, fault.Is(fault.FromConnect(err), fault.NotFound), "%v", err)
}
