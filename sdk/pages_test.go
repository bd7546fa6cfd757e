package sdk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func TestPagesEndWithTheLastWithAnErrorAndWhereTheHubRepeatsItself(t *testing.T) {
	t.Parallel()
	next := map[string]string{"": "a", "a": "b", "b": ""}
	var read []string
	require.NoError(t, sdk.Pages(func(token string) (string, error) {
		read = append(read, token)
		return next[token], nil
	}))
	require.Equal(t, []string{"", "a", "b"}, read)
	gone := errors.New("gone")
	require.ErrorIs(t, sdk.Pages(func(string) (string, error) { return "a", gone }), gone)
	require.ErrorContains(t, sdk.Pages(func(string) (string, error) { return "a", nil }), "twice")
}

// A list is read page by page, as far as its reader goes, from the page that it asks for.
func TestAListIsReadAsFarAsItsReaderGoes(t *testing.T) {
	t.Parallel()
	pages := map[string]*deckhandv1.ListTasksResponse{
		"":  {Tasks: []*deckhandv1.Task{{Id: "1"}, {Id: "2"}}, NextPageToken: "a"},
		"a": {NextPageToken: "b"},
		"b": {Tasks: []*deckhandv1.Task{{Id: "3"}}},
	}
	var asked []string
	gone := errors.New("gone")
	call := func(_ context.Context, req *deckhandv1.ListTasksRequest) (*deckhandv1.ListTasksResponse, error) {
		asked = append(asked, req.GetAgentId()+req.GetPageToken())
		if page := pages[req.GetPageToken()]; page != nil {
			return page, nil
		}
		return nil, gone
	}
	read := func(token string, most int) (ids []string, err error) {
		asked = nil
		request := &deckhandv1.ListTasksRequest{AgentId: "x", PageToken: token}
		for task, err := range sdk.List(t.Context(), call, request, (*deckhandv1.ListTasksResponse).GetTasks) {
			if err != nil {
				return ids, err
			}
			if ids = append(ids, task.GetId()); len(ids) == most {
				break
			}
		}
		require.Equal(t, token, request.GetPageToken(), "the caller's request stays as it is")
		return ids, nil
	}
	ids, err := read("", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", "3"}, ids)
	require.Equal(t, []string{"x", "xa", "xb"}, asked)
	ids, err = read("", 2)
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2"}, ids)
	require.Equal(t, []string{"x"}, asked)
	ids, err = read("b", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"3"}, ids)
	_, err = read("none", 0)
	require.ErrorIs(t, err, gone)
}
