// Package api implements the hub's public API: Connect handlers that turn requests into
// calls of the packages that own each noun, and rows into messages. It makes no decisions
// itself. Errors are of package fault; ErrorInterceptor maps them to RPC codes.
package api

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// ErrorInterceptor is the outermost interceptor: it gives every call a correlation id
// and every error its code, masks in it what is secret in the caller's
// organisation, and logs what is internal.
func ErrorInterceptor(log hclog.Logger, r *redact.Redactor) connect.Interceptor {
	return errorInterceptor{log, r}
}

// maskOf returns the redactor of the caller's organisation, or the process's own if the
// caller is not known.
func maskOf(ctx context.Context, r *redact.Redactor) *redact.Redactor {
	return r.Org(auth.Known(ctx).OrgID)
}

type errorInterceptor struct {
	log    hclog.Logger
	redact *redact.Redactor
}

// Refuse returns what writes a refusal of a call whose body was not read yet.
func Refuse(log hclog.Logger, r *redact.Redactor) func(http.ResponseWriter, *http.Request, error) {
	b, to := errorInterceptor{log, r}, connect.NewErrorWriter()
	return func(w http.ResponseWriter, req *http.Request, err error) {
		ctx := b.enter(req.Context(), req.Header.Get(logging.CorrelationHeader))
		_ = to.Write(w, req, b.leave(ctx, req.URL.Path, err)) // who does not read the refusal is refused as well
	}
}

// Shown returns what maps an error of a call that did not reach its handler to one that
// may be shown, as ErrorInterceptor does.
func Shown(log hclog.Logger, r *redact.Redactor) func(*http.Request, error) error {
	b := errorInterceptor{log, r}
	return func(req *http.Request, err error) error {
		ctx := b.enter(req.Context(), req.Header.Get(logging.CorrelationHeader))
		return b.leave(ctx, req.URL.Path, err)
	}
}

func (b errorInterceptor) enter(ctx context.Context, header string) context.Context {
	if !logging.ValidCorrelation(header) {
		header = ident.New("corr")
	}
	return logging.WithCorrelation(ctx, header)
}

func (b errorInterceptor) leave(ctx context.Context, procedure string, err error) error {
	if err == nil {
		return nil
	}
	if e := fault.As(err); (e == nil || e.Kind == fault.Internal) && ctx.Err() == nil && store.Gone(err) {
		logging.From(ctx, b.log).Warn("the database does not answer", "procedure", procedure, "error", err)
		return fault.ToConnect(fault.New(fault.Unavailable, "the hub's database does not answer").
			WithFix("try again; if it lasts, see the hub's log and that PostgreSQL runs"))
	}
	var done *connect.Error
	if e := fault.As(err); e == nil && !errors.As(err, &done) && ctx.Err() == nil {
		logging.From(ctx, b.log).Error("call failed", "procedure", procedure, "error", err)
	} else if e != nil {
		mask, masked := maskOf(ctx, b.redact), *e
		masked.Message, masked.Fix = mask.String(e.Message), mask.String(e.Fix)
		err = &masked
		if e.Kind == fault.Internal {
			logging.From(ctx, b.log).Error("call failed", "procedure", procedure, "error", e, "cause", e.Err)
		}
	}
	return fault.ToConnect(err)
}

func (b errorInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		ctx = b.enter(ctx, req.Header().Get(logging.CorrelationHeader))
		res, err := next(ctx, req)
		return res, b.leave(ctx, req.Spec().Procedure, err)
	}
}

func (b errorInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (b errorInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx = b.enter(ctx, conn.RequestHeader().Get(logging.CorrelationHeader))
		return b.leave(ctx, conn.Spec().Procedure, next(ctx, conn))
	}
}
