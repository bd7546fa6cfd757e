package rest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// local makes calls of the hub's own handlers on behalf of a request's caller: with their
// token or cookie, from their address. The door checks each as any other call.
//
// It holds nothing back: a response is written when it is read.
type local struct {
	door http.Handler
	of   *http.Request
}

// Clients of what updates, logs, files and exports need.
func (l local) tasks() deckhandv1connect.TaskServiceClient {
	return deckhandv1connect.NewTaskServiceClient(l, "http://hub")
}

func (l local) inbox() deckhandv1connect.InboxServiceClient {
	return deckhandv1connect.NewInboxServiceClient(l, "http://hub")
}

func (l local) execs() deckhandv1connect.NodeExecServiceClient {
	return deckhandv1connect.NewNodeExecServiceClient(l, "http://hub")
}

func (l local) history() deckhandv1connect.HistoryServiceClient {
	return deckhandv1connect.NewHistoryServiceClient(l, "http://hub")
}

func (l local) audit() deckhandv1connect.AuditServiceClient {
	return deckhandv1connect.NewAuditServiceClient(l, "http://hub")
}

func (l local) files() deckhandv1connect.FileServiceClient {
	return deckhandv1connect.NewFileServiceClient(l, "http://hub")
}

func (l local) workspaces() deckhandv1connect.WorkspaceServiceClient {
	return deckhandv1connect.NewWorkspaceServiceClient(l, "http://hub")
}

// keeps reports whether a header of the caller's request says who calls or from where, and
// not how the request or its response is written.
func keeps(name string) bool {
	switch name {
	case "Authorization", "Cookie", "User-Agent", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via",
		"Origin", "Sec-Fetch-Site", "Deckhand-Correlation-Id", "Traceparent", "Tracestate":
		return true
	}
	return false
}

// Do implements connect.HTTPClient.
func (l local) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	call := req.Clone(ctx)
	for name, values := range l.of.Header {
		if keeps(name) {
			call.Header[name] = values
		}
	}
	call.Header.Del("Accept-Encoding")
	call.RemoteAddr, call.TLS, call.Host, call.RequestURI = l.of.RemoteAddr, l.of.TLS, l.of.Host, req.URL.RequestURI()
	if call.Body == nil {
		call.Body = http.NoBody
	}
	body, write := io.Pipe()
	w := &localWriter{header: http.Header{}, pipe: write, begun: make(chan struct{})}
	go func() {
		defer cancel()
		// net/http would stop a panic of its handler, too.
		defer func() {
			if p := recover(); p != nil {
				w.WriteHeader(http.StatusInternalServerError)
				_ = write.CloseWithError(fmt.Errorf("the handler failed: %v", p))
			}
		}()
		l.door.ServeHTTP(w, call)
		w.WriteHeader(http.StatusOK)
		_ = write.Close()
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		_ = body.CloseWithError(ctx.Err())
		<-w.begun
	}
	if err := req.Context().Err(); err != nil {
		cancel()
		_ = body.Close()
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &localBody{body, cancel}, ContentLength: -1, Request: req,
	}, nil
}

// localBody ends its call when it is closed.
type localBody struct {
	*io.PipeReader

	cancel context.CancelFunc
}

// Close ends the call.
func (b *localBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// localWriter writes the response of a local call. It is for one goroutine, except for
// SetWriteDeadline.
type localWriter struct {
	header, sent http.Header
	status       int
	pipe         *io.PipeWriter
	begun        chan struct{}
}

func (w *localWriter) Header() http.Header { return w.header }

func (w *localWriter) WriteHeader(status int) {
	if w.status != 0 || status < http.StatusOK {
		return
	}
	w.status, w.sent = status, w.header.Clone()
	close(w.begun)
}

func (w *localWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if len(p) == 0 {
		return 0, nil // a pipe would wait for a reader
	}
	return w.pipe.Write(p)
}

// Flush sends the headers; what was written is read already.
func (w *localWriter) Flush() { w.WriteHeader(http.StatusOK) }

// SetReadDeadline does nothing: the request is in memory.
func (*localWriter) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline breaks the response off if the deadline has passed, as api.Cuttable
// needs it. Others are not supported.
func (w *localWriter) SetWriteDeadline(deadline time.Time) error {
	if deadline.IsZero() || time.Until(deadline) > 0 {
		return http.ErrNotSupported
	}
	_ = w.pipe.CloseWithError(os.ErrDeadlineExceeded)
	return nil
}

// list returns the values of a parameter that may be repeated or separated by commas.
func list(values []string) []string {
	var out []string
	for _, v := range values {
		for one := range strings.SplitSeq(v, ",") {
			if one = strings.TrimSpace(one); one != "" {
				out = append(out, one)
			}
		}
	}
	return out
}
