package anthropic

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/anthropics/anthropic-sdk-go/option"
)

// errStalled is the cause with which a stalled call is cancelled.
var errStalled = errors.New("the stream stalled")

// stallWatch cancels a call on which no byte comes for too long. It looks at
// bytes and not at events: the SDK keeps pings to itself.
type stallWatch struct {
	timeout time.Duration
	timer   *time.Timer
}

func newStallWatch(timeout time.Duration, cancel context.CancelCauseFunc) *stallWatch {
	return &stallWatch{timeout: timeout, timer: time.AfterFunc(timeout, func() { cancel(errStalled) })}
}

func (w *stallWatch) stop() { w.timer.Stop() }

func (w *stallWatch) middleware(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	w.timer.Reset(w.timeout)
	if res != nil && res.Body != nil {
		res.Body = &watchedBody{ReadCloser: res.Body, watch: w}
	}
	return res, err
}

type watchedBody struct {
	io.ReadCloser

	watch *stallWatch
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watch.timer.Reset(b.watch.timeout)
	}
	return n, err
}
