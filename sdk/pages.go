package sdk

import (
	"context"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Pages reads a list to its end: it calls fetch with the token of each page, empty
// for the first, until fetch returns none for the next. It returns the first error.
func Pages(fetch func(token string) (next string, err error)) error {
	for token := ""; ; {
		next, err := fetch(token)
		if err != nil || next == "" {
			return err
		}
		if next == token {
			return fault.New(fault.Internal, "the hub sent the same page of a list twice")
		}
		token = next
	}
}

// All returns all rows of a list, which it reads page by page: call is the procedure,
// request returns what to ask for with the token of a page, and rows returns those of a
// page.
func All[Req, Res, Row any, Page interface {
	*Res
	GetNextPageToken() string
}](
	ctx context.Context, call func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error),
	request func(token string) *Req, rows func(Page) []Row,
) (out []Row, err error) {
	err = Pages(func(token string) (string, error) {
		res, err := call(ctx, connect.NewRequest(request(token)))
		if err != nil {
			return "", err
		}
		page := Page(res.Msg)
		out = append(out, rows(page)...)
		return page.GetNextPageToken(), nil
	})
	return out, err
}

// Steps returns all steps of a task, in order.
func (c *Client) Steps(ctx context.Context, taskID string) (out []*deckhandv1.Step, err error) {
	err = Pages(func(token string) (string, error) {
		res, err := c.Tasks.ListSteps(ctx, connect.NewRequest(&deckhandv1.ListStepsRequest{TaskId: taskID, PageToken: token}))
		if err != nil {
			return "", err
		}
		out = append(out, res.Msg.GetSteps()...)
		return res.Msg.GetNextPageToken(), nil
	})
	return out, err
}
