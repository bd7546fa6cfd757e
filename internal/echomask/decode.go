package echomask

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxEncodings is how often a body may be encoded.
	maxEncodings = 3
	// maxWindow is the largest window of zstd, in bytes: what RFC 9659 allows in
	// HTTP. That of br is 16 MiB, and of the others 32 KiB.
	maxWindow = 8 << 20
	// maxRest is how much may follow the end of an encoded body, in bytes.
	maxRest = 4 << 10
)

// encodings returns a body's content encodings in the order in which they were
// applied.
func encodings(header http.Header) []string {
	var out []string
	for _, value := range header.Values("Content-Encoding") {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
				out = append(out, name)
			}
		}
	}
	return out
}

// decoders open a stream of an encoding.
var decoders = map[string]func(*bufio.Reader) (io.ReadCloser, error){
	"gzip":    openGzip,
	"x-gzip":  openGzip,
	"deflate": openDeflate,
	"br":      func(r *bufio.Reader) (io.ReadCloser, error) { return io.NopCloser(brotli.NewReader(r)), nil },
	"zstd": func(r *bufio.Reader) (io.ReadCloser, error) {
		// One goroutine, so that what was flushed comes out at once.
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	},
}

func openGzip(r *bufio.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }

// openDeflate reads zlib's format, and raw deflate, which some servers send.
func openDeflate(r *bufio.Reader) (io.ReadCloser, error) {
	begin, err := r.Peek(2)
	if err == nil && begin[0]&0x0f == 8 && (uint(begin[0])<<8|uint(begin[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// decode returns the decoded body and what closes it and the body.
func decode(in io.ReadCloser, names []string) (io.Reader, func() error, error) {
	if len(names) == 0 {
		return in, in.Close, nil
	}
	if len(names) > maxEncodings {
		return nil, nil, fmt.Errorf("%w: it has %d of them, and %d are possible", ErrEncoding, len(names), maxEncodings)
	}
	var out io.Reader = in
	var opened []*decoder
	for _, name := range slices.Backward(names) {
		open := decoders[name]
		if open == nil {
			return nil, nil, fmt.Errorf("%w: it is %.40q; request gzip, deflate, br, zstd or identity", ErrEncoding, name)
		}
		d := &decoder{name: name, in: bufio.NewReader(out), open: open}
		opened, out = append(opened, d), d
	}
	return &whole{out, in}, func() error {
		for _, d := range slices.Backward(opened) {
			d.close()
		}
		return in.Close()
	}, nil
}

// decoder is one encoding, opened with the first read: opening reads.
type decoder struct {
	name string
	in   *bufio.Reader
	open func(*bufio.Reader) (io.ReadCloser, error)
	out  io.ReadCloser
	err  error
}

func (d *decoder) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	if d.out == nil {
		// An empty body is empty in every encoding.
		if _, err := d.in.Peek(1); err != nil {
			d.err = err
			return 0, err
		}
		if d.out, d.err = d.open(d.in); d.err != nil {
			d.err = fmt.Errorf("read %s: %w", d.name, unexpected(d.err))
			return 0, d.err
		}
	}
	n, err := d.out.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read %s: %w", d.name, err)
	}
	d.err = err
	return n, err
}

// unexpected returns io.EOF in the middle of something as what it is.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (d *decoder) close() {
	if d.out != nil {
		d.out.Close()
	}
}

// whole reads a body to its end after what was encoded in it ends, so that
// trailers are read and the connection can be used again.
type whole struct {
	io.Reader
	in io.Reader
}

func (w *whole) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	rest, restErr := io.CopyN(io.Discard, w.in, maxRest+1)
	switch {
	case rest > maxRest:
		return n, errors.New("the response goes on after the end of its encoded body")
	case !errors.Is(restErr, io.EOF):
		return n, restErr
	}
	return n, err
}
