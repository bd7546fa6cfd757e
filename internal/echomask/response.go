package echomask

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// ErrEncoding is wrapped by the error for a body that cannot be decoded, and so
// not be searched.
var ErrEncoding = errors.New("the response's content encoding cannot be read")

// Response masks a response: its header fields and its reason phrase at once,
// its body as it is read, and its trailers at the end of the body.
//
// A body with a content encoding is passed on decoded. Content-Encoding,
// Content-Length, digests and Accept-Ranges are removed then, and a strong ETag
// becomes a weak one. Without an encoding the body keeps its length. A response
// without a body (to HEAD, 1xx, 204, 304) keeps all its fields, and what Skip
// skips its body.
//
// The error wraps ErrEncoding where the body cannot be decoded: for an encoding
// other than gzip, deflate, br and zstd, or a part (206) of an encoded body. The
// caller must not pass on the body then, and closes it.
//
// It returns the names of the secrets that were in the header; for those in the
// body see Echoed.
//
// The memory for a body is readSize, the longest form of a secret and the windows
// of its decoders, however much they decode to: nothing is read that the client
// has not asked for.
func (m *Masker) Response(res *http.Response) (echoed []string, err error) {
	if m.matcher == nil {
		return nil, nil
	}
	echoed = m.Header(res.Header)
	res.Status, echoed = m.text(res.Status, echoed)
	if res.Request != nil && res.Request.Method == http.MethodHead || res.StatusCode < 200 ||
		res.StatusCode == http.StatusNoContent || res.StatusCode == http.StatusNotModified || res.Body == nil {
		return echoed, nil
	}
	encoded := len(encodings(res.Header)) > 0 && !Skip(res.Header.Get("Content-Type"))
	if encoded && res.StatusCode == http.StatusPartialContent {
		return echoed, fmt.Errorf("%w: it is a part of an encoded body; request it without Range, or with Accept-Encoding: identity", ErrEncoding)
	}
	b, err := m.wrap(res.Header, res.Body, func() { m.Header(res.Trailer) })
	if err != nil {
		return echoed, err
	}
	if res.Body = b; encoded {
		res.ContentLength, res.Uncompressed = -1, true
	}
	return echoed, nil
}

// Wrap masks a body: Response for what is no http.Response. It changes header as
// Response does where the body is decoded, but masks no fields.
func (m *Masker) Wrap(header http.Header, in io.ReadCloser) (io.ReadCloser, error) {
	if m.matcher == nil {
		return in, nil
	}
	return m.wrap(header, in, nil)
}

func (m *Masker) wrap(header http.Header, in io.ReadCloser, end func()) (io.ReadCloser, error) {
	contentType := slices.Clone(header.Values("Content-Type"))
	if len(contentType) == 1 && Skip(contentType[0]) {
		return &skipped{in, end}, nil
	}
	decoded, closeAll, err := decode(in, encodings(header))
	if err != nil {
		return nil, err
	}
	if len(encodings(header)) > 0 {
		for _, name := range []string{"Content-Encoding", "Content-Length", "Content-MD5", "Content-Digest", "Repr-Digest", "Digest", "Accept-Ranges"} {
			header.Del(name)
		}
		if tag := header.Get("ETag"); strings.HasPrefix(tag, `"`) {
			header.Set("ETag", "W/"+tag)
		}
	}
	return &body{m: m, in: decoded, close: closeAll, contentType: contentType, size: firstRead, end: end}, nil
}

// skipped is a body that is not searched, whose trailers are.
type skipped struct {
	io.ReadCloser
	end func()
}

func (s *skipped) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && s.end != nil {
		s.end()
	}
	return n, err
}

// Echoed returns the names of the secrets that were found so far in a body that
// Response or Wrap returned. It may be called after the body was read.
func Echoed(b io.ReadCloser) []string {
	if b, ok := b.(*body); ok {
		return slices.Clone(b.echoed)
	}
	return nil
}
