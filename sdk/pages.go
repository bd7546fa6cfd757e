package sdk

import (
	"context"
	"errors"
	"iter"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

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
	ctx context.Context, call func(context.Context, *Req) (*Res, error),
	request func(token string) *Req, rows func(Page) []Row,
) (out []Row, err error) {
	err = Pages(func(token string) (string, error) {
		res, err := call(ctx, request(token))
		if err != nil {
			return "", err
		}
		page := Page(res)
		out = append(out, rows(page)...)
		return page.GetNextPageToken(), nil
	})
	return out, err
}

// Steps returns all steps of a task, in order.
func (c *Client) Steps(ctx context.Context, taskID string) (out []*deckhandv1.Step, err error) {
	err = Pages(func(token string) (string, error) {
		res, err := c.Tasks.ListSteps(ctx, &deckhandv1.ListStepsRequest{TaskId: taskID, PageToken: token})
		if err != nil {
			return "", err
		}
		out = append(out, res.GetSteps()...)
		return res.GetNextPageToken(), nil
	})
	return out, err
}

// List returns an iterator over all rows of a list, which it reads page by page as they
// are needed: call is the procedure, request what to ask for, and rows returns the rows of
// a page:
//
//	for task, err := range sdk.List(ctx, client.Tasks.ListTasks, &deckhandv1.ListTasksRequest{AgentId: "log-triage"},
//		(*deckhandv1.ListTasksResponse).GetTasks) { … }
//
// It begins with the request's page token, if there is one, and ends with the first error.
func List[Req, Res, Row any, Request interface {
	*Req
	proto.Message
}, Response interface {
	*Res
	GetNextPageToken() string
}](
	ctx context.Context, call func(context.Context, *Req) (*Res, error),
	request Request, rows func(Response) []Row,
) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var none Row
		next := proto.CloneOf(request)
		field := next.ProtoReflect().Descriptor().Fields().ByName("page_token")
		err := Pages(func(token string) (string, error) {
			if token != "" {
				next.ProtoReflect().Set(field, protoreflect.ValueOfString(token))
			}
			res, err := call(ctx, (*Req)(next))
			if err != nil {
				return "", err
			}
			page := Response(res)
			for _, row := range rows(page) {
				if !yield(row, nil) {
					return "", errLeft
				}
			}
			return page.GetNextPageToken(), nil
		})
		if err != nil && !errors.Is(err, errLeft) {
			yield(none, err)
		}
	}
}

// errLeft ends a list whose reader has left.
var errLeft = errors.New("the reader has left")

// eventPage is how many events of a history are read at once.
const eventPage = 1000

// TaskEvents returns an iterator over the stored events of a task with a number above
// afterSeq, in order, up to those that are there now. [Client.Watch] follows what comes.
func (c *Client) TaskEvents(ctx context.Context, taskID string, afterSeq int64) iter.Seq2[*deckhandv1.Event, error] {
	return func(yield func(*deckhandv1.Event, error) bool) {
		for {
			res, err := c.Events.ListEvents(ctx, &deckhandv1.ListEventsRequest{TaskId: taskID, AfterSeq: afterSeq, PageSize: eventPage})
			if err != nil {
				yield(nil, err)
				return
			}
			events := res.GetEvents()
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
				afterSeq = e.GetSeq()
			}
			if len(events) == 0 || afterSeq >= res.GetNewestSeq() {
				return
			}
		}
	}
}
