package rest

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// bound limits the body of a request to limit bytes, as it is sent and once it is unpacked.
// It returns why a body is refused before it is read.
//
// vanguard must see neither of the two headers that it acts on: it would unpack a body of
// any length, and allocate what Content-Length announces before anything has arrived.
func bound(r *http.Request, limit int64) *Problem {
	if r.ContentLength > limit {
		p := newProblem(r, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has %d bytes, which is more than %d", r.ContentLength, limit), "send less at once")
		p.Code = "too_large"
		p.finish()
		return &p
	}
	codings := strings.Join(r.Header.Values("Content-Encoding"), ",")
	r.Header.Del("Content-Encoding")
	switch coding := strings.ToLower(strings.TrimSpace(codings)); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		r.Body = &unpacked{ReadCloser: r.Body}
	default:
		p := newProblem(r, http.StatusUnsupportedMediaType, fmt.Sprintf("the content encoding %.100q is not supported", coding), "use gzip or none")
		return &p
	}
	if r.ContentLength > 0 {
		r.Header.Del("Content-Length")
		r.ContentLength = -1
	}
	r.Body = &bounded{ReadCloser: r.Body, limit: limit, left: limit}
	return nil
}

// bounded is a body of at most limit bytes.
type bounded struct {
	io.ReadCloser

	limit, left int64
}

// Read reads a piece. It fails when there is more than the limit.
func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n, b.left = int(b.left), 0
		return n, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the body has more than %d bytes", b.limit))
	}
	b.left -= int64(n)
	return n, err
}

// unpacked is a body that is sent as gzip.
type unpacked struct {
	io.ReadCloser

	zip *gzip.Reader
	err error
}

// Read reads a piece of what was packed.
func (u *unpacked) Read(p []byte) (int, error) {
	if u.err == nil && u.zip == nil {
		u.zip, u.err = gzip.NewReader(u.ReadCloser)
		if errors.Is(u.err, io.EOF) {
			u.err = io.ErrUnexpectedEOF // an empty body is no gzip
		}
		u.err = badGzip(u.err)
	}
	if u.err != nil {
		return 0, u.err
	}
	n, err := u.zip.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = badGzip(err)
		return n, u.err
	}
	return n, err
}

// badGzip names errors of the packed bytes; those of the connection stay as they are.
func badGzip(err error) error {
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.ToConnect(fault.New(fault.Invalid, "the body cannot be unpacked: %v", err).WithFix("pack it with gzip, or send it without Content-Encoding"))
	}
	return err
}
