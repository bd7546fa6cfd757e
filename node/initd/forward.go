package initd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// Ports of the jail's loopback lead to the daemon, which judges what may leave:
// init takes bytes both ways and understands none of them. Without a daemon there
// is no way out.

const (
	// maxForwarded is how many connections are forwarded at once: a few more than
	// the daemon takes of a jail, so that it is the one to say that they are too
	// many.
	maxForwarded = 1100
	// chunk is what one connection holds while it waits for one end to take it.
	chunk = 16 << 10
	// greetPatience bounds how long the daemon may take to connect.
	greetPatience = time.Minute
	// lastWords bounds how long a refusal waits to be read.
	lastWords = time.Second
)

// noDaemon is the response to a command that uses the proxy while no daemon is
// running.
const noDaemon = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" +
	"deckhand: the node's daemon is not there; try again in a moment\n"

// forwards are the ports that lead out.
type forwards struct {
	socket string // the daemon's
	gate   gate
	slots  chan struct{}
	chunks sync.Pool

	mu    sync.Mutex
	ports map[uint32]port // by their number; guarded by mu
}

type port struct {
	target   string
	listener net.Listener
}

func newForwards(stateDir string, g gate) *forwards {
	return &forwards{
		socket: filepath.Join(stateDir, EgressSocket), gate: g, slots: make(chan struct{}, maxForwarded), ports: map[uint32]port{},
		chunks: sync.Pool{New: func() any { return new([chunk]byte) }},
	}
}

// Forward implements the protocol.
func (s *server) Forward(_ context.Context, req *initv1.ForwardRequest) (*initv1.ForwardResponse, error) {
	if s.host {
		return nil, status.Error(codes.FailedPrecondition, "the machine itself has a network of its own")
	}
	return &initv1.ForwardResponse{Problems: s.forwards.set(req.GetPorts())}, nil
}

// set has these ports lead out and no others, and returns which cannot.
func (f *forwards) set(ports []*initv1.ForwardRequest_Port) (problems []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := map[uint32]string{}
	for _, p := range ports {
		wanted[p.GetListen()] = p.GetTarget()
	}
	for number, have := range f.ports {
		if target, ok := wanted[number]; !ok || target != have.target {
			_ = have.listener.Close()
			delete(f.ports, number)
		}
	}
	for number, target := range wanted {
		if _, ok := f.ports[number]; ok {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(int(number)))
		if err != nil {
			problems = append(problems, fmt.Sprintf("port %d: %v", number, err))
			continue
		}
		f.ports[number] = port{target, l}
		go f.accept(l, target)
	}
	return problems
}

func (f *forwards) accept(l net.Listener, target string) {
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(stockPause) // the jail is at its limit of files
			continue
		}
		select {
		case f.slots <- struct{}{}:
			go func() {
				defer func() { <-f.slots }()
				f.forward(c, target)
			}()
		default:
			_ = c.Close()
		}
	}
}

// forward takes one connection to the daemon.
func (f *forwards) forward(c net.Conn, target string) {
	defer c.Close()
	var up net.Conn
	var err error
	f.gate.do(func() { up, err = net.Dial("unix", f.socket) })
	if err != nil {
		if target == "" {
			f.refuse(c)
		}
		return
	}
	defer up.Close()
	if target != "" {
		if err := greet(c, up, target); err != nil {
			return
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.half(up, c)
	}()
	f.half(c, up)
	<-done
}

// refuse says that there is no daemon, and waits a moment for that to be read.
func (f *forwards) refuse(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(lastWords))
	if _, err := c.Write([]byte(noDaemon)); err != nil || closeWrite(c) != nil {
		return
	}
	for buf := make([]byte, 1024); ; {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

// greet asks the daemon to connect to a host, and passes the command the data
// that came with the reply.
func greet(c, up net.Conn, target string) error {
	_ = up.SetDeadline(time.Now().Add(greetPatience))
	if _, err := fmt.Fprintf(up, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		return err
	}
	var answer []byte
	for buf := make([]byte, 1024); ; {
		n, err := up.Read(buf)
		answer = append(answer, buf[:n]...)
		if end := bytes.Index(answer, []byte("\r\n\r\n")); end >= 0 {
			if !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) {
				return errors.New("refused")
			}
			_ = up.SetDeadline(time.Time{})
			_, err := c.Write(answer[end+4:])
			return err
		}
		if err != nil || len(answer) > chunk {
			return errors.New("no answer")
		}
	}
}

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// half copies bytes in one direction until there are no more. Like everything
// that calls the kernel often, it uses the gate, and waits outside of it.
func (f *forwards) half(to, from net.Conn) {
	if f.move(to, from) != nil || closeWrite(to) != nil {
		_, _ = to.Close(), from.Close()
	}
}

func (f *forwards) move(to, from net.Conn) error {
	in, err := rawOf(from)
	if err != nil {
		return err
	}
	out, err := rawOf(to)
	if err != nil {
		return err
	}
	for {
		n, buf, err := f.read(in)
		if buf == nil {
			return err
		}
		err = f.write(out, buf[:n])
		f.chunks.Put(buf)
		if err != nil {
			return err
		}
	}
}

func rawOf(c net.Conn) (syscall.RawConn, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("a %T", c)
	}
	return sc.SyscallConn()
}

// read returns what came, and nil at the end. A connection with nothing to read
// holds no chunk.
func (f *forwards) read(in syscall.RawConn) (n int, buf *[chunk]byte, err error) {
	rerr := in.Read(func(fd uintptr) (ready bool) {
		f.gate.do(func() {
			var ok bool
			if buf, ok = f.chunks.Get().(*[chunk]byte); !ok {
				buf = new([chunk]byte)
			}
			for n, err = unix.Read(int(fd), buf[:]); errors.Is(err, unix.EINTR); {
				n, err = unix.Read(int(fd), buf[:])
			}
			ready = !errors.Is(err, unix.EAGAIN)
			if err != nil || n == 0 {
				f.chunks.Put(buf)
				buf = nil
			}
		})
		return ready
	})
	if rerr != nil {
		return 0, nil, rerr
	}
	return n, buf, err
}

func (f *forwards) write(out syscall.RawConn, data []byte) (err error) {
	werr := out.Write(func(fd uintptr) (ready bool) {
		f.gate.do(func() {
			for ready = true; len(data) > 0; {
				var n int
				n, err = unix.Write(int(fd), data)
				data = data[max(n, 0):]
				if err != nil && !errors.Is(err, unix.EINTR) {
					ready = !errors.Is(err, unix.EAGAIN) // else wait for room
					return
				}
			}
		})
		return ready
	})
	if werr != nil {
		return werr
	}
	if len(data) == 0 {
		return nil
	}
	return err
}
