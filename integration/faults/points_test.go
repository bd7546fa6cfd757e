package faults

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/crashpoint"
)

// points receives every step that comes to a crash point, and stops those that come to
// the armed one for the first time.
type points struct {
	socket string
	// jails matches the state folders of the nodes' jails.
	jails string

	mu     sync.Mutex
	taskOf map[string]string // of a step
	before map[string]bool   // tasks of earlier rounds
	armed  crashpoint.Point
	left   int // tasks that have yet to come
	held   map[string]net.Conn
	all    chan struct{} // closed when left is 0
}

func newPoints(t testing.TB, dir, jails string) *points {
	t.Helper()
	p := &points{
		socket: filepath.Join(dir, "points.sock"), jails: jails,
		taskOf: map[string]string{}, before: map[string]bool{}, held: map[string]net.Conn{},
	}
	l, err := net.Listen("unix", p.socket)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(p.socket, 0o666)) // a jail's root is another user here
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		p.release()
		_ = l.Close()
		serving.Wait()
	})
	return p
}

// serve handles one step at one point.
func (p *points) serve(conn net.Conn) {
	var hit crashpoint.Hit
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &hit) != nil || !p.hold(conn, hit) {
		_ = conn.Close()
	}
}

// hold stops a step at its point, or returns that it may continue.
func (p *points) hold(conn net.Conn, hit crashpoint.Hit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if hit.Task == "" {
		hit.Task = p.taskOf[hit.Step]
	} else if hit.Step != "" {
		p.taskOf[hit.Step] = hit.Task
	}
	if hit.Point == crashpoint.BeforeIntent {
		p.enterJails()
	}
	if _, came := p.held[hit.Task]; came || hit.Point != p.armed || hit.Task == "" || p.before[hit.Task] || p.left == 0 {
		return false
	}
	p.held[hit.Task] = conn
	if p.left--; p.left == 0 {
		close(p.all)
	}
	return true
}

// enterJails puts the socket where the init of each jail finds it.
func (p *points) enterJails() {
	states, _ := filepath.Glob(p.jails)
	for _, state := range states {
		_ = os.Link(p.socket, filepath.Join(state, filepath.Base(crashpoint.JailSocket))) // there already, mostly
	}
}

// arm makes the next n tasks stop at a point; the channel closes when they have.
func (p *points) arm(at crashpoint.Point, n int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.left, p.all = at, n, make(chan struct{})
	return p.all
}

// release lets all stopped steps continue, and returns their tasks.
func (p *points) release() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for task, conn := range p.held {
		p.before[task] = true
		_ = conn.Close()
		out = append(out, task)
	}
	clear(p.held)
	p.armed, p.left = "", 0
	return out
}
