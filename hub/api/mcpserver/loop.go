package mcpserver

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
)

// callerKey is the key of the HTTP request on whose behalf the API is called.
type callerKey struct{}

// copied are the headers that say who calls, from where and with what.
var copied = append([]string{"Authorization", "Cookie", "User-Agent", "X-Forwarded-Proto"}, auth.ForwardedHeaders...)

// loop is a transport that calls a handler in the same process, with the credentials and
// the address of the caller in the request's context.
type loop struct {
	api http.Handler
	log hclog.Logger
}

var errNoCaller = errors.New("mcpserver: a call without a caller")

// RoundTrip calls the handler. The response's body is streamed.
func (l loop) RoundTrip(r *http.Request) (*http.Response, error) {
	from, ok := r.Context().Value(callerKey{}).(*http.Request)
	if !ok {
		return nil, errNoCaller
	}
	ctx, cancel := context.WithCancel(r.Context())
	in := r.Clone(ctx)
	for _, name := range copied {
		in.Header.Del(name)
		if values := from.Header.Values(name); len(values) > 0 {
			in.Header[name] = values
		}
	}
	in.RequestURI, in.RemoteAddr, in.TLS, in.Host = r.URL.RequestURI(), from.RemoteAddr, from.TLS, from.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	body, writer := io.Pipe()
	w := &response{header: http.Header{}, pipe: writer, began: make(chan struct{})}
	go func() {
		defer cancel()
		defer func() {
			if cause := recover(); cause != nil {
				l.log.Error("a handler panicked", "path", in.URL.Path, "cause", cause, "stack", string(debug.Stack()))
				w.WriteHeader(http.StatusInternalServerError)
				_ = writer.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			w.WriteHeader(http.StatusOK)
			_ = writer.Close()
		}()
		l.api.ServeHTTP(w, in)
	}()
	select {
	case <-w.began:
	case <-r.Context().Done():
		cancel()
		_ = body.Close()
		return nil, r.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &streamed{body, cancel}, ContentLength: -1, Request: r,
	}, nil
}

// streamed is a response's body. Closing it ends the call.
type streamed struct {
	*io.PipeReader
	end context.CancelFunc
}

func (b *streamed) Close() error {
	b.end()
	return b.PipeReader.Close()
}

// response is what a handler writes to. What it writes is read at once.
type response struct {
	header http.Header
	pipe   *io.PipeWriter
	once   sync.Once
	// began is closed when the status and the headers in sent are final.
	began  chan struct{}
	status int
	sent   http.Header
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if status < http.StatusOK {
		return // informational
	}
	w.once.Do(func() {
		w.status, w.sent = status, maps.Clone(w.header)
		close(w.began)
	})
}

func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(p)
}

// Flush has nothing to do but to send the headers.
func (w *response) Flush() { w.WriteHeader(http.StatusOK) }
