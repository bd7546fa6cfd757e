package api

import (
	"context"
	"net/http"
	"time"
)

// cutKey is the context key of the function that aborts a call's connection.
type cutKey struct{}

// Cuttable lets the calls of a handler break their own answer off, which ends
// a write that waits for a caller who does not read.
func Cuttable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		cut := func() {
			// A writer that cannot do it waits for the connection to end.
			_ = control.SetWriteDeadline(time.Unix(1, 0))
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), cutKey{}, cut)))
	})
}

// cutOf returns the function that aborts the call of a context; nil if there is none.
func cutOf(ctx context.Context) func() {
	cut, _ := ctx.Value(cutKey{}).(func())
	return cut
}
