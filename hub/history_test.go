package hub_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// History is found by words of the goal and the result, whatever their case,
// and by when it was made.
func TestTasksAreFoundByWordsAndTimes(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	r.apply("searched", scripted("searched"))
	ids := map[string]string{}
	for _, goal := range []string{"Rotate the LOGS of web-1", "rotate keys, 100% of them", "Look at the weather"} {
		res, err := r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "searched", Goal: goal})
		require.NoError(t, err)
		ids[res.GetTask().GetId()] = goal
	}
	r.sql("UPDATE tasks SET summary = 'Nothing to rotate: it Rained' WHERE goal = 'Look at the weather' RETURNING id")
	r.sql("UPDATE tasks SET created_at = created_at - interval '2 days' WHERE goal LIKE 'rotate keys%' RETURNING id")
	find := func(req *deckhandv1.ListTasksRequest) []string {
		t.Helper()
		res, err := r.user.Tasks.ListTasks(t.Context(), req)
		require.NoError(t, err)
		goals := []string{}
		for _, task := range res.GetTasks() {
			goals = append(goals, ids[task.GetId()])
		}
		return goals
	}
	yesterday := timestamppb.New(time.Now().Add(-24 * time.Hour))
	for name, c := range map[string]struct {
		req  *deckhandv1.ListTasksRequest
		want []string
	}{
		"a word of the goal":          {&deckhandv1.ListTasksRequest{Query: "logs"}, []string{"Rotate the LOGS of web-1"}},
		"a word of the result":        {&deckhandv1.ListTasksRequest{Query: "RAINED"}, []string{"Look at the weather"}},
		"every word counts":           {&deckhandv1.ListTasksRequest{Query: " rotate  WEB-1 "}, []string{"Rotate the LOGS of web-1"}},
		"signs stand for themselves":  {&deckhandv1.ListTasksRequest{Query: "100%"}, []string{"rotate keys, 100% of them"}},
		"no such word":                {&deckhandv1.ListTasksRequest{Query: "%" + "nothing"}, []string{}},
		"made since":                  {&deckhandv1.ListTasksRequest{Query: "rotate", CreatedFrom: yesterday}, []string{"Look at the weather", "Rotate the LOGS of web-1"}},
		"made before":                 {&deckhandv1.ListTasksRequest{CreatedBefore: yesterday}, []string{"rotate keys, 100% of them"}},
		"all of them, without a word": {&deckhandv1.ListTasksRequest{}, []string{"Look at the weather", "Rotate the LOGS of web-1", "rotate keys, 100% of them"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, find(c.req)) })
	}
}

// A page of history has 20 tasks where nobody says, and the next one goes on
// behind it: none is left out and none is there twice, also while others are made.
func TestHistoryHasPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	made := map[string]bool{}
	for range 45 {
		made[r.submit("walker").GetId()] = true
	}
	var sizes []int
	for token, first := "", true; first || token != ""; first = false {
		res, err := r.user.Tasks.ListTasks(t.Context(), &deckhandv1.ListTasksRequest{PageToken: token})
		require.NoError(t, err)
		for _, task := range res.GetTasks() {
			require.True(t, made[task.GetId()], "it is there once")
			delete(made, task.GetId())
		}
		sizes = append(sizes, len(res.GetTasks()))
		token = res.GetNextPageToken()
		r.submit("walker") // newer than all pages
	}
	require.Empty(t, made)
	require.Equal(t, []int{20, 20, 5}, sizes)
}
