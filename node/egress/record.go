package egress

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

const (
	// maxRecorded bounds the path of a record, and maxProblem its problem; in bytes.
	maxRecorded = 2 << 10
	maxProblem  = 1 << 10
)

// record stores that a request with a credential is about to be made, and returns what to
// call when it has ended.
func (f *forwarded) record(r *http.Request) (finish func(), err error) {
	recorder := f.j.p.cfg.Recorder
	if recorder == nil {
		return nil, fault.New(fault.Unavailable, "requests with credentials cannot be recorded on this node")
	}
	rec := egresslink.Record{
		ID: ident.New("creq"), JailID: f.j.id, ExecID: f.who.exec(), Credential: f.binding.GetCredential(),
		Method: r.Method, Host: f.t.String(), Path: recordedPath(r), At: time.Now().UTC(),
	}
	if err := recorder.Begin(rec); err != nil {
		return nil, err
	}
	return func() {
		f.out.mu.Lock()
		rec.Problem = clean(f.out.problem, maxProblem)
		f.out.mu.Unlock()
		rec.Status = int(f.out.status.Load())
		rec.SentBytes, rec.ReceivedBytes, rec.Duration = f.out.sent.Load(), f.out.received.Load(), time.Since(rec.At)
		recorder.End(rec)
	}, nil
}

// recordedPath returns a request's path with the values of its query masked.
func recordedPath(r *http.Request) string {
	path := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		var names []string
		for part := range strings.SplitSeq(r.URL.RawQuery, "&") {
			name, _, _ := strings.Cut(part, "=")
			names = append(names, name+"=…")
		}
		path += "?" + strings.Join(names, "&")
	}
	return clean(path, maxRecorded)
}

// outcome is how a request with a credential ended. Its bodies are read by other goroutines.
type outcome struct {
	status         atomic.Int64 // the server's; 0 for none
	sent, received atomic.Int64 // bytes of the bodies

	mu      sync.Mutex
	problem string // guarded by mu
}

// fail records why there is no response, or none in full.
func (o *outcome) fail(problem string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.problem = problem
}

// watch counts the body of a response, and records where it ends early.
func (o *outcome) watch(res *http.Response, count *counter) {
	if res.Body == nil {
		return
	}
	ctx := res.Request.Context()
	body := &counted{
		ReadCloser: res.Body, ctx: ctx,
		passed: func(n int) {
			count.passed(0, n)
			o.received.Add(int64(n))
		},
		ended: func(err error) {
			switch cause := context.Cause(ctx); {
			case cause != nil && !errors.Is(cause, context.Canceled):
				o.fail(cause.Error())
			case err == nil || cause != nil:
				o.fail("the command did not take the whole response")
			default:
				o.fail("the response ended early: " + err.Error())
			}
		},
	}
	res.Body = body
	both, ok := body.ReadCloser.(io.ReadWriteCloser)
	if res.StatusCode == http.StatusSwitchingProtocols && ok {
		body.ended = nil // either end may end it at any time
		res.Body = &switched{counted: body, to: both, passed: func(n int) {
			count.passed(n, 0)
			o.sent.Add(int64(n))
		}}
	}
}

// counted is a body whose bytes are counted.
type counted struct {
	io.ReadCloser

	// ctx is that of the request; nil where it does not matter.
	ctx    context.Context //nolint:containedctx // a body has no other way to know its request's end
	passed func(n int)
	ended  func(err error) // called where it ends before its end; nil for no call
	once   sync.Once       // of ended
}

// Read implements io.Reader.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.passed(n)
	if errors.Is(err, io.EOF) && c.ctx != nil && c.ctx.Err() != nil {
		// The server was told that the connection ends, and may have ended its response
		// early but properly: it is not the whole one.
		err = context.Cause(c.ctx)
	}
	if err != nil {
		c.once.Do(func() {
			if c.ended != nil && !errors.Is(err, io.EOF) {
				c.ended(err)
			}
		})
	}
	return n, err
}

// Close implements io.Closer.
func (c *counted) Close() error {
	c.once.Do(func() {
		if c.ended != nil {
			c.ended(nil)
		}
	})
	return c.ReadCloser.Close()
}

// switched is a connection after a protocol switch, whose bytes are counted.
type switched struct {
	*counted

	to     io.ReadWriteCloser
	passed func(n int)
}

// Write implements io.Writer.
func (s *switched) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.passed(n)
	return n, err
}

// CloseWrite says that nothing more will be written, if the connection can.
func (s *switched) CloseWrite() error {
	if half, ok := s.to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// hubRefusal returns the error of a hub that did not send a request on.
func hubRefusal(res *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	_ = res.Body.Close()
	var e egresslink.Error
	if err != nil || json.Unmarshal(raw, &e) != nil {
		return fault.New(fault.Unavailable, "the hub responded with HTTP %d", res.StatusCode)
	}
	return e.Fault(res.StatusCode)
}
