package httprule

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// MaxHead is the size of the largest head of a request, in bytes: the request
// line and the header fields.
const MaxHead = 64 << 10

// maxChunkLine is the length of the longest chunk-size line without its end: 16
// digits would be more than an int64 can hold.
const maxChunkLine = 15

// StrictConn is a server's connection whose Read returns HTTP/1 requests only as
// RFC 9112 writes them, so that no two servers can find different requests in
// the same bytes. It is for plain HTTP/1: for TLS it goes around the *tls.Conn,
// after ALPN has chosen HTTP/1.1.
//
// net/http refuses most of what is ambiguous, but accepts bare line feeds in a
// head, folded fields, Content-Length beside Transfer-Encoding (it ignores the
// former), repeated equal Content-Lengths, chunk extensions, and a Host that
// differs from that of a target in absolute form. StrictConn refuses these, and
// everything else in a head that is not one request line and fields as they are
// generated today. A head is passed on only when all of it was read and found
// sound. Whatever StrictConn passes on, net/http reads with
// the same extent, or refuses.
//
// After a refusal, every Read returns the same error, whereupon net/http's
// server answers 400 and closes the connection. Errors of the connection, such
// as timeouts, are returned as they are; reading can go on after them.
//
// Where the server switches protocols, it must call Opaque. Set ConnState as the
// http.Server's hook for that.
type StrictConn struct {
	net.Conn
	in     *bufio.Reader
	opaque atomic.Bool
	state  strictState
	line   []byte // of the head or trailer, or chunk-size line, that is being read
	out    []byte // sound, and not passed on yet
	left   int64  // of the body, or of the chunk
	err    error  // the refusal
	heads  int    // that were passed on
}

type strictState int

const (
	inHead strictState = iota
	inBody
	inChunkSize
	inChunk
	inChunkEnd
	inTrailer
)

// NewStrictConn returns a StrictConn that reads from c.
func NewStrictConn(c net.Conn) *StrictConn {
	return &StrictConn{Conn: c, in: bufio.NewReader(c)}
}

// Opaque ends the checks: what follows is not HTTP/1.
func (c *StrictConn) Opaque() { c.opaque.Store(true) }

// Unwrap returns the connection that it reads from.
func (c *StrictConn) Unwrap() net.Conn { return c.Conn }

// Read returns the next bytes of a request, in the form that net.Conn has.
func (c *StrictConn) Read(p []byte) (int, error) {
	for len(p) > 0 {
		switch {
		case len(c.out) > 0:
			n := copy(p, c.out)
			c.out = c.out[n:]
			return n, nil
		case c.opaque.Load() && len(c.line) > 0:
			c.out, c.line = c.line, nil
		case c.opaque.Load():
			return c.in.Read(p)
		case c.err != nil:
			return 0, c.err
		case (c.state == inBody || c.state == inChunk) && c.left > 0:
			n, err := c.in.Read(p[:min(int64(len(p)), c.left)])
			c.left -= int64(n)
			return n, err
		default:
			if err := c.next(); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

// next reads the next line, or the head as a whole, and changes the state.
func (c *StrictConn) next() (err error) {
	switch c.state {
	case inHead, inBody:
		c.state = inHead
		return c.lines(c.head)
	case inChunkSize:
		return c.lineOf(maxChunkLine, c.chunkSize)
	case inChunk, inChunkEnd:
		c.state = inChunkEnd
		return c.lineOf(0, func([]byte) error {
			c.state = inChunkSize
			return nil
		})
	case inTrailer:
		return c.lines(c.trailer)
	}
	panic("httprule: a StrictConn without a state")
}

// lines reads until an empty line and lets done check them all.
func (c *StrictConn) lines(done func([]byte) error) error {
	for {
		if err := c.readLine(MaxHead); err != nil {
			return err
		}
		if bytes.HasSuffix(c.line, []byte("\r\n\r\n")) || len(c.line) == len("\r\n") {
			return c.settle(done(c.line))
		}
	}
}

// lineOf reads one line, of at most limit bytes without its end.
func (c *StrictConn) lineOf(limit int, done func([]byte) error) error {
	if err := c.readLine(limit + len("\r\n")); err != nil {
		return err
	}
	return c.settle(done(bytes.TrimSuffix(c.line, []byte("\r\n"))))
}

func (c *StrictConn) settle(refusal error) error {
	if refusal != nil {
		c.err = refusal
		return refusal
	}
	c.out, c.line = c.line, nil
	return nil
}

// readLine appends to c.line up to the next line feed. c.line may then have limit
// bytes. It continues after an error of the connection.
func (c *StrictConn) readLine(limit int) error {
	for {
		b, err := c.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF) && len(c.line) > 0:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		last := byte(0)
		if n := len(c.line); n > 0 {
			last = c.line[n-1]
		}
		c.line = append(c.line, b)
		switch {
		case len(c.line) > limit:
			c.err = fmt.Errorf("a request's line, header or chunk size is longer than %d bytes", limit)
		case b == '\n' && last != '\r':
			c.err = errors.New("a line of the request ends with a line feed without a carriage return")
		case last == '\r' && b != '\n':
			c.err = errors.New("the request has a carriage return that does not end a line")
		case b == '\n':
			return nil
		}
		if c.err != nil {
			return c.err
		}
	}
}

// head checks a head and finds out what follows it.
func (c *StrictConn) head(raw []byte) error {
	lines := strings.Split(strings.TrimSuffix(string(raw), "\r\n\r\n"), "\r\n")
	target, minor, err := requestLine(lines[0])
	if err != nil {
		return err
	}
	var hosts, lengths, encodings []string
	for _, line := range lines[1:] {
		name, value, err := field(line)
		if err != nil {
			return err
		}
		switch folded := fold(name); folded {
		case "host", "content-length", "transfer-encoding":
			if !strings.EqualFold(folded, name) {
				return fmt.Errorf("the header field %.40q is misspelt", name)
			}
			switch folded {
			case "host":
				hosts = append(hosts, value)
			case "content-length":
				lengths = append(lengths, value)
			default:
				encodings = append(encodings, value)
			}
		}
	}
	if len(hosts) != 1 {
		return fmt.Errorf("the request has %d Host fields; it needs one", len(hosts))
	}
	if err := checkHost(hosts[0]); err != nil {
		return err
	}
	if authority, ok := authorityOf(target); ok && !strings.EqualFold(authority, hosts[0]) {
		return fmt.Errorf("the request is for %.80q and its Host is %.80q", authority, hosts[0])
	}
	c.state, c.left = inBody, 0
	switch {
	case len(lengths)+len(encodings) > 1:
		return errors.New("the request has more than one Content-Length or Transfer-Encoding; it may have one of them")
	case len(encodings) == 1 && (encodings[0] != "chunked" || minor == 0):
		return fmt.Errorf("the transfer encoding %.40q is not possible; use chunked and HTTP/1.1", encodings[0])
	case len(encodings) == 1:
		c.state = inChunkSize
	case len(lengths) == 1:
		n, err := strconv.ParseInt(lengths[0], 10, 64)
		if err != nil || strings.Trim(lengths[0], "0123456789") != "" {
			return fmt.Errorf("the Content-Length %.40q is not a number", lengths[0])
		}
		c.left = n
	}
	c.heads++
	return nil
}

func authorityOf(target string) (string, bool) {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || strings.HasPrefix(scheme, "/") {
		return "", false
	}
	if end := strings.IndexAny(rest, `/?#\`); end >= 0 {
		rest = rest[:end]
	}
	return rest, true
}

// requestLine returns the target and the minor version.
func requestLine(line string) (target string, minor int, err error) {
	parts := strings.Split(line, " ")
	switch {
	case len(parts) != 3 || parts[1] == "":
		return "", 0, fmt.Errorf("the request line %.80q is not a method, a target and a version with one blank between them", line)
	case !validMethod(parts[0]):
		return "", 0, fmt.Errorf("%.40q is not a method in upper-case letters", parts[0])
	case strings.IndexFunc(parts[1], func(c rune) bool { return c <= ' ' || c >= 0x7f }) >= 0:
		return "", 0, fmt.Errorf("the request target %.80q has characters that a URL cannot have", parts[1])
	case parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0":
		return "", 0, fmt.Errorf("%.40q is not a version of HTTP/1", parts[2])
	}
	return parts[1], int(parts[2][len("HTTP/1.")] - '0'), nil
}

// field returns the name and the value of a header field.
func field(line string) (name, value string, err error) {
	if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
		return "", "", errors.New("a header field continues on a second line")
	}
	name, value, ok := strings.Cut(line, ":")
	switch {
	case !ok:
		return "", "", fmt.Errorf("the header line %.40q has no colon", line)
	case name == "" || strings.IndexFunc(name, func(c rune) bool { return !token(c) }) >= 0:
		return "", "", fmt.Errorf("the header field name %.40q has characters that a name cannot have", name)
	case strings.IndexFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) >= 0:
		return "", "", fmt.Errorf("the header field %.40q has a control character in it", name)
	}
	// Whoever cares about tabs is refused by those who see the value.
	return name, strings.Trim(value, " "), nil
}

// token reports whether c may be in a token (RFC 9110, section 5.6.2).
func token(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

func (c *StrictConn) chunkSize(line []byte) error {
	if len(line) == 0 || len(bytes.Trim(line, "0123456789abcdefABCDEF")) > 0 {
		return fmt.Errorf("the chunk size %.40q is not a hexadecimal number alone", line)
	}
	n, err := strconv.ParseInt(string(line), 16, 64)
	if err != nil {
		return fmt.Errorf("the chunk size %.40q is too large", line)
	}
	c.state, c.left = inChunk, n
	if n == 0 {
		c.state = inTrailer
	}
	return nil
}

// noTrailers are fields that must not come after the body (RFC 9110, section
// 6.5.1).
var noTrailers = []string{"host", "content-length", "transfer-encoding", "authorization", "trailer", "content-type", "content-encoding", "connection", "upgrade"}

func (c *StrictConn) trailer(raw []byte) error {
	text := strings.TrimSuffix(string(raw), "\r\n")
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\r\n"), "\r\n") {
		if text == "" {
			break
		}
		name, _, err := field(line)
		if err != nil {
			return err
		}
		for _, n := range noTrailers {
			if fold(name) == n {
				return fmt.Errorf("the field %.40q is not possible as a trailer", name)
			}
		}
	}
	c.state, c.left = inHead, 0
	return nil
}

// ConnState is a hook for http.Server.ConnState: it calls Opaque of a StrictConn
// that a handler has hijacked, such as for a WebSocket.
func ConnState(c net.Conn, state http.ConnState) {
	if strict, ok := c.(*StrictConn); ok && state == http.StateHijacked {
		strict.Opaque()
	}
}
