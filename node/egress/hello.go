package egress

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
)

const (
	// recordHandshake begins a record of TLS with a part of a handshake (RFC 8446,
	// section 5.1).
	recordHandshake = 22
	// maxHello bounds what is read for a ClientHello, which may come in many
	// records.
	maxHello = 128 << 10
)

// accessDenied is a record with TLS's fatal alert of that name (RFC 8446,
// section 6).
var accessDenied = []byte{21, 3, 1, 0, 2, 2, 49}

// errSeen ends a handshake once it has said what is wanted of it.
var errSeen = errors.New("seen")

// readHello reads the client's first TLS message. It returns all bytes read and
// the server name in the message, or "" if it has none. It uses the parser of
// the standard library, through a TLS server that never replies.
func readHello(from io.Reader) (read []byte, name string, err error) {
	r := &recorder{from: from}
	seen := false
	err = tls.Server(r, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		seen, name = true, hello.ServerName
		return nil, errSeen
	}}).Handshake()
	if seen {
		err = nil
	}
	return r.read, name, err
}

// judgeHello refuses a client that means another host than its tunnel leads to.
func judgeHello(t allowlist.Target, name string, err error) *allowlist.Refusal {
	switch {
	case err != nil:
		return &allowlist.Refusal{Reason: fmt.Sprintf("the first message of TLS in the tunnel to %s cannot be read: %s", t, err)}
	case t.Addr.IsValid() && name == "":
		return nil // names are of hosts only (RFC 6066, section 3)
	case name == "":
		return &allowlist.Refusal{Reason: fmt.Sprintf("TLS in the tunnel to %s names no host (SNI)", t)}
	}
	if named, err := allowlist.ParseTarget(name, t.Port); err != nil || named.Host != t.Host {
		return &allowlist.Refusal{Reason: fmt.Sprintf("TLS in the tunnel to %s names another host, %.100q (SNI)", t, name)}
	}
	return nil
}

// recorder is the connection of a server that hears and says nothing.
type recorder struct {
	from io.Reader
	read []byte
}

// Read keeps what it reads.
func (r *recorder) Read(b []byte) (int, error) {
	if len(r.read) >= maxHello {
		return 0, fmt.Errorf("it is longer than %d bytes", maxHello)
	}
	n, err := r.from.Read(b[:min(len(b), maxHello-len(r.read))])
	r.read = append(r.read, b[:n]...)
	return n, err
}

func (r *recorder) Write(b []byte) (int, error)      { return len(b), nil }
func (r *recorder) Close() error                     { return nil }
func (r *recorder) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (r *recorder) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (r *recorder) SetDeadline(time.Time) error      { return nil }
func (r *recorder) SetReadDeadline(time.Time) error  { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }
