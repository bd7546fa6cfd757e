package env

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/sdk"
)

// List shows all things of one kind: call is the hub's procedure, request returns what to
// ask for with the token of a page, and rows returns the things of a page. If there are
// none, it notes empty, which says how to get the first; "" notes nothing.
func List[Req, Res any, T proto.Message, Page interface {
	*Res
	GetNextPageToken() string
}](
	cmd *cobra.Command, e *Env, noun output.Noun[T], empty string,
	call func(context.Context, *Req) (*Res, error),
	request func(token string) *Req, rows func(Page) []T,
) error {
	items, err := sdk.All(cmd.Context(), call, request, rows)
	if err != nil {
		return err
	}
	if len(items) == 0 && empty != "" {
		e.Notef("%s", empty)
	}
	return output.List(e.Printer(), noun, items)
}

// ListPage shows one page of a list that may be long, and notes how to get the next one
// with the flag --page-token.
func ListPage[Req, Res any, T proto.Message, Page interface {
	*Res
	GetNextPageToken() string
}](
	cmd *cobra.Command, e *Env, noun output.Noun[T],
	call func(context.Context, *Req) (*Res, error),
	request *Req, rows func(Page) []T,
) error {
	res, err := call(cmd.Context(), request)
	if err != nil {
		return err
	}
	page := Page(res)
	if next := page.GetNextPageToken(); next != "" {
		e.Notef("there are older ones: --page-token %s", next)
	}
	return output.List(e.Printer(), noun, rows(page))
}

// Newest returns the things of a list from the page with the token from on, at most limit
// of them and all with 0, and the token of what follows them; "" at the end. set puts the
// size and the token of a page into the request.
func Newest[Req, Res, T any, Page interface {
	*Res
	GetNextPageToken() string
}](
	ctx context.Context, limit int, from string,
	call func(context.Context, *Req) (*Res, error),
	request *Req, set func(size int32, token string), rows func(Page) []T,
) (items []T, next string, err error) {
	size := func() int32 {
		if limit > 0 {
			return int32(min(PageSize, limit-len(items)))
		}
		return PageSize
	}
	for set(size(), from); ; set(size(), next) {
		res, err := call(ctx, request)
		if err != nil {
			return nil, "", err
		}
		page := Page(res)
		items, next = append(items, rows(page)...), page.GetNextPageToken()
		if next == "" || limit > 0 && len(items) >= limit {
			return items, next, nil
		}
	}
}

// Show calls a procedure of the hub and shows the thing that it returns, with all fields.
func Show[Req, Res any, T proto.Message](
	cmd *cobra.Command, e *Env, noun output.Noun[T],
	call func(context.Context, *Req) (*Res, error),
	request *Req, thing func(*Res) T,
) error {
	return show(output.One[T], cmd, e, noun, call, request, thing)
}

// Change is Show for most procedures that create or change a thing: of the thing it shows
// the row.
func Change[Req, Res any, T proto.Message](
	cmd *cobra.Command, e *Env, noun output.Noun[T],
	call func(context.Context, *Req) (*Res, error),
	request *Req, thing func(*Res) T,
) error {
	return show(output.Brief[T], cmd, e, noun, call, request, thing)
}

func show[Req, Res any, T proto.Message](
	display func(*output.Printer, output.Noun[T], T) error, cmd *cobra.Command, e *Env, noun output.Noun[T],
	call func(context.Context, *Req) (*Res, error),
	request *Req, thing func(*Res) T,
) error {
	res, err := call(cmd.Context(), request)
	if err != nil {
		return err
	}
	return display(e.Printer(), noun, thing(res))
}
