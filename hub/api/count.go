package api

import (
	"context"
	"time"

	"connectrpc.com/connect"
)

// CountInterceptor reports every call that ended to count: its procedure, "ok" or
// the code with which it failed, how long it took, and whether it was a stream.
func CountInterceptor(count func(procedure, code string, took time.Duration, stream bool)) connect.Interceptor {
	return countInterceptor(count)
}

type countInterceptor func(procedure, code string, took time.Duration, stream bool)

func (c countInterceptor) ended(spec connect.Spec, started time.Time, err error) {
	code := "ok"
	if err != nil {
		code = connect.CodeOf(err).String()
	}
	c(spec.Procedure, code, time.Since(started), spec.StreamType != connect.StreamTypeUnary)
}

func (c countInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		started := time.Now()
		res, err := next(ctx, req)
		c.ended(req.Spec(), started, err)
		return res, err
	}
}

func (c countInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (c countInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		started := time.Now()
		err := next(ctx, conn)
		c.ended(conn.Spec(), started, err)
		return err
	}
}
