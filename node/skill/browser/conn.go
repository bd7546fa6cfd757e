package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxMessage bounds one message of the browser: a large page's accessibility tree or a
// picture.
const maxMessage = 64 << 20

// errEnded is returned by calls to a browser that has ended.
var errEnded = errors.New("the browser ended")

// conn speaks the Chrome DevTools Protocol over a pair of pipes: JSON messages that each end
// with a NUL byte (--remote-debugging-pipe).
type conn struct {
	out io.WriteCloser
	// handle gets the events, one after the other. It must not call call.
	handle func(event)
	done   chan struct{} // closed when the browser's end of the pipe is

	mu      sync.Mutex
	writing sync.Mutex
	last    int64                     // guarded by mu
	pending map[int64]chan<- *message // guarded by mu; nil once done
}

// event is something that the browser reports by itself.
type event struct {
	Session string
	Method  string
	Params  json.RawMessage
}

type message struct {
	ID      int64           `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *protocolError  `json:"error,omitempty"`
}

// protocolError is an error that the browser returns for a call.
type protocolError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *protocolError) Error() string { return e.Message }

// newConn returns a connection that reads until in ends.
func newConn(in io.Reader, out io.WriteCloser, handle func(event)) *conn {
	c := &conn{out: out, handle: handle, done: make(chan struct{}), pending: map[int64]chan<- *message{}}
	go c.read(in)
	return c
}

func (c *conn) read(in io.Reader) {
	defer func() {
		c.mu.Lock()
		c.pending = nil
		c.mu.Unlock()
		close(c.done)
		_ = c.out.Close()
	}()
	reader := bufio.NewReaderSize(in, 64<<10)
	for {
		raw, err := readMessage(reader)
		if err != nil {
			return
		}
		if raw == nil {
			continue // too long: the call that it answers runs into its timeout
		}
		m := &message{}
		if json.Unmarshal(raw, m) != nil {
			return
		}
		if m.ID == 0 {
			c.handle(event{m.Session, m.Method, m.Params})
			continue
		}
		c.mu.Lock()
		waits := c.pending[m.ID]
		delete(c.pending, m.ID)
		c.mu.Unlock()
		if waits != nil {
			waits <- m
		}
	}
}

// readMessage returns the next message; nil for one that is too long, which is skipped.
func readMessage(r *bufio.Reader) ([]byte, error) {
	var whole []byte
	skipped := false
	for {
		part, err := r.ReadSlice(0)
		if len(whole)+len(part) > maxMessage {
			skipped, whole = true, nil
		}
		if !skipped {
			whole = append(whole, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err
		case skipped:
			return nil, nil
		}
		return bytes.TrimSuffix(whole, []byte{0}), nil
	}
}

// call makes a call in a session, or in the browser itself if session is empty, and decodes
// its result into result unless that is nil.
func (c *conn) call(ctx context.Context, session, method string, params, result any) error {
	m, err := c.begin(session, method, params)
	if err != nil {
		return err
	}
	return m.end(ctx, result)
}

// begun is a call that was sent.
type begun struct {
	c      *conn
	id     int64
	method string
	waits  chan *message
}

// begin sends a call. The browser takes calls in the order in which they were sent. Its caller ends
// it.
func (c *conn) begin(session, method string, params any) (*begun, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", method, err)
	}
	if params == nil {
		raw = nil
	}
	b := &begun{c: c, method: method, waits: make(chan *message, 1)}
	c.mu.Lock()
	if c.pending == nil {
		c.mu.Unlock()
		return nil, errEnded
	}
	c.last++
	b.id = c.last
	c.pending[b.id] = b.waits
	c.mu.Unlock()
	text, err := json.Marshal(message{ID: b.id, Session: session, Method: method, Params: raw})
	if err != nil {
		b.forget()
		return nil, fmt.Errorf("encode %s: %w", method, err)
	}
	c.writing.Lock()
	_, err = c.out.Write(append(text, 0))
	c.writing.Unlock()
	if err != nil {
		b.forget()
		return nil, errEnded
	}
	return b, nil
}

// end waits for the result of a call, and decodes it into result unless that is nil.
func (b *begun) end(ctx context.Context, result any) error {
	defer b.forget()
	select {
	case m := <-b.waits:
		if m.Error != nil {
			return fmt.Errorf("%s: %w", b.method, m.Error)
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(m.Result, result); err != nil {
			return fmt.Errorf("decode the result of %s: %w", b.method, err)
		}
		return nil
	case <-b.c.done:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *begun) forget() {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	delete(b.c.pending, b.id)
}
