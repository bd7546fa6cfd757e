// Package mailtest is an SMTP server (RFC 5321) on loopback for tests. A Server keeps the
// messages that it takes, and can hold its response to one, to let a test see what happens
// when the connection or the sender ends there. It ends with the test.
package mailtest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Message is one that a Server took.
type Message struct {
	From string
	To   []string
	// Data is the message with its headers, with line ends of CR and LF.
	Data string
}

// Server is an SMTP server without login or encryption.
type Server struct {
	Host string
	Port int32

	hold chan struct{} // nil for no holding
	took chan struct{}

	mu       sync.Mutex
	messages []Message
}

// New starts a server.
func New(t testing.TB) *Server { return start(t, nil) }

// NewHolding starts a server that takes messages, and responds to none until release is
// called.
func NewHolding(t testing.TB) (s *Server, release func()) {
	hold := make(chan struct{})
	release = sync.OnceFunc(func() { close(hold) })
	s = start(t, hold)
	t.Cleanup(release)
	return s, release
}

func start(t testing.TB, hold chan struct{}) *Server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().(*net.TCPAddr)
	s := &Server{Host: address.IP.String(), Port: int32(address.Port), hold: hold, took: make(chan struct{}, 100)} //nolint:gosec // a port
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

// Took gets a value for each message that was taken.
func (s *Server) Took() <-chan struct{} { return s.took }

// Messages returns those that were taken.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.messages...)
}

func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewReader(conn)
	say := func(text string) { _, _ = fmt.Fprintf(conn, "%s\r\n", text) }
	say("220 mailtest")
	var m Message
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		switch verb := strings.ToUpper(line); {
		case strings.HasPrefix(verb, "EHLO"), strings.HasPrefix(verb, "HELO"):
			say("250 mailtest")
		case strings.HasPrefix(verb, "MAIL FROM:"):
			m = Message{From: line[len("MAIL FROM:"):]}
			say("250 ok")
		case strings.HasPrefix(verb, "RCPT TO:"):
			m.To = append(m.To, strings.Trim(line[len("RCPT TO:"):], "<>"))
			say("250 ok")
		case verb == "DATA":
			say("354 go on")
			if m.Data, err = readData(lines); err != nil {
				return
			}
			s.mu.Lock()
			s.messages = append(s.messages, m)
			s.mu.Unlock()
			s.took <- struct{}{}
			if s.hold != nil {
				<-s.hold
			}
			say("250 queued")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

// readData reads a message up to the line with a dot.
func readData(lines *bufio.Reader) (string, error) {
	var data strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		if line == ".\r\n" {
			return data.String(), nil
		}
		data.WriteString(strings.TrimPrefix(line, "."))
	}
}
