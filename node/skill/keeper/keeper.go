// Package keeper holds what the programs in a jail share that live longer than a call: the
// bridge to an MCP server and the browser. Such a program, the keeper, owns a Unix socket.
// Each call is a command of its own, which connects to the socket and waits for the answer.
//
// Lock keeps a second keeper away until the first one has ended, however it ended. Idle
// tells a keeper when nobody has called it for too long. Tail is for the last words of the
// program that it keeps.
package keeper

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// retryAfter is how long Lock and Connect wait between two attempts.
const retryAfter = 20 * time.Millisecond

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(retryAfter):
		return nil
	}
}

// Lock returns when no other keeper holds the lock file at path. After wait it fails.
func Lock(ctx context.Context, path string, wait time.Duration) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			return func() { _ = file.Close() }, nil
		}
		if pause(ctx) != nil {
			_ = file.Close()
			return nil, fmt.Errorf("another process uses %s", path)
		}
	}
}

// Connect connects to a keeper's socket. It returns nil if no keeper listens within wait.
func Connect(ctx context.Context, socket string, wait time.Duration) net.Conn {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "unix", socket)
		if err == nil {
			return conn
		}
		if pause(ctx) != nil {
			return nil
		}
	}
}

// Idle measures how long a keeper has had no call.
type Idle struct {
	limit time.Duration

	mu    sync.Mutex
	open  int       // guarded by mu
	since time.Time // guarded by mu
}

// NewIdle returns an Idle that begins now and ends after limit without a call.
func NewIdle(limit time.Duration) *Idle { return &Idle{limit: limit, since: time.Now()} }

// Call counts a call as in progress until the function that it returns is called.
func (i *Idle) Call() (done func()) {
	i.add(1)
	return func() { i.add(-1) }
}

func (i *Idle) add(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.open += n
	i.since = time.Now()
}

// Wait returns when there was no call for longer than the limit, when over is closed, or
// when the context ends. A nil over is never closed.
func (i *Idle) Wait(ctx context.Context, over <-chan struct{}) {
	tick := time.NewTicker(min(time.Second, i.limit/4+time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-tick.C:
		}
		if i.tooLong() {
			return
		}
	}
}

func (i *Idle) tooLong() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.open == 0 && time.Since(i.since) > i.limit
}

// Tail keeps the last Max bytes of what is written to it.
type Tail struct {
	Max int

	mu   sync.Mutex
	data []byte // guarded by mu
}

// Write implements io.Writer. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p[max(0, len(p)-t.Max):]...)
	t.data = append(t.data[:0], t.data[max(0, len(t.data)-t.Max):]...)
	return len(p), nil
}

// String returns what is kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}
