package echomask

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/textmatch"
)

// firstRead and readSize are how much of a body is read at once, at first and at most, in
// bytes: most responses of an API are short.
const (
	firstRead = 2 << 10
	readSize  = 32 << 10
)

// leastHeld is how many bytes must be the beginning of a secret to be held back. A
// message in a stream ends in fewer of them by chance, and whoever waits for its
// end would wait for ever. So these bytes of a secret may pass if a server pauses
// after them; the rest of it is masked.
const leastHeld = 4

// body is a response's body without secrets. Bytes are held back only while they
// are the beginning of what may become a secret, so that a stream of events is
// never behind by more than that.
type body struct {
	m           *Masker
	in          io.Reader
	close       func() error
	contentType []string
	text        bool
	decided     bool   // text is known
	size        int    // how much the next read reads
	buf         []byte // [:at] was read, [at:ready] may be read, [ready:] is held back
	at, ready   int
	passed      []byte // the last bytes before ready, as they were before they were masked
	masked      int    // how many bytes that are held back belong to a secret
	err         error  // once buf[at:ready] is read
	echoed      []string
	end         func() // called before io.EOF is returned; may be nil
}

func (b *body) Close() error { return b.close() }

func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for empty := 0; b.at == b.ready; {
		if b.err != nil {
			return 0, b.err
		}
		n, err := b.fill()
		if empty++; n > 0 {
			empty = 0
		}
		if empty == 100 {
			err = io.ErrNoProgress
		}
		b.search(err)
	}
	n := copy(p, b.buf[b.at:b.ready])
	b.at += n
	return n, nil
}

// fill reads behind what is held back.
func (b *body) fill() (int, error) {
	// What has passed is searched again with what comes, for a secret that began there.
	held := b.buf[b.ready:]
	have := len(b.passed) + len(held)
	if have+b.size > cap(b.buf) {
		b.buf = make([]byte, 0, leastHeld+b.size+b.m.matcher.Longest())
	}
	b.buf = b.buf[:have]
	copy(b.buf[len(b.passed):], held)
	b.at = copy(b.buf, b.passed)
	b.ready = b.at
	n, err := b.in.Read(b.buf[have : have+b.size])
	b.buf = b.buf[:have+n]
	if n == b.size {
		b.size = min(2*b.size, readSize)
	}
	return n, err
}

// search examines the buffer after a read that ended with err.
func (b *body) search(err error) {
	if !b.decided && len(b.buf) > 0 {
		b.text, b.decided = isText(b.contentType, b.buf), true
	}
	b.ready = len(b.buf)
	if err == nil {
		b.ready = max(b.at, b.m.matcher.Open(b.buf, leastHeld))
	} else if b.err = err; !errors.Is(err, io.EOF) {
		// The beginning of a secret is of no use to anybody who gets no more.
		b.ready = max(b.at, b.m.matcher.Open(b.buf, 1))
	}
	b.passed = append(b.passed[:0], b.buf[max(0, b.ready-leastHeld+1):b.ready]...)
	// What is held back stays as it is until it is ready: a secret may begin in
	// the end of another one.
	known := b.masked
	b.masked = max(0, known-(b.ready-b.at))
	textmatch.Regions(b.m.matcher, b.buf, func(start, end int) bool {
		b.echoed = b.m.names(b.echoed, b.buf[start:end])
		if !b.text {
			b.ready, b.err = max(b.at, min(b.ready, start)), fmt.Errorf("%w, %q, in content that cannot be masked", ErrEcho, b.echoed)
			return false
		}
		stars(b.buf[min(max(start, b.at), b.ready):min(max(end, b.at), b.ready)])
		b.masked = max(b.masked, end-b.ready)
		return true
	})
	stars(b.buf[b.at:min(b.at+known, b.ready)])
	if b.err != nil {
		b.buf = b.buf[:b.ready]
		b.masked = 0
		if b.end != nil && errors.Is(b.err, io.EOF) {
			b.end()
		}
	}
}

// Skip reports whether bodies of a content type are not searched: packs of git,
// which are compressed and long.
func Skip(contentType string) bool {
	media, _, _ := mime.ParseMediaType(contentType)
	git, ok := strings.CutPrefix(media, "application/x-git-")
	return ok && (strings.HasSuffix(git, "-result") || strings.HasSuffix(git, "-advertisement"))
}

// MayBreak reports whether a body with such a header may end with ErrEcho: it is searched, and is
// not known to be text.
func MayBreak(header http.Header) bool {
	types := header.Values("Content-Type")
	return len(types) != 1 || !Skip(types[0]) && !isText(types, nil)
}

// textTypes are content types that are text beside text/*, and +json and +xml.
var textTypes = []string{
	"application/json", "application/xml", "application/javascript", "application/x-javascript", "application/ecmascript",
	"application/x-www-form-urlencoded", "application/graphql", "application/ndjson", "application/x-ndjson", "application/jsonl",
	"application/json-seq", "application/yaml", "application/x-yaml", "application/toml", "image/svg+xml",
}

// isText reports whether stars may be written into a body that begins so.
func isText(contentType []string, begin []byte) bool {
	if len(contentType) == 0 {
		contentType = []string{http.DetectContentType(begin)}
	}
	media, _, err := mime.ParseMediaType(contentType[0])
	if err != nil || len(contentType) > 1 {
		return false
	}
	return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml") || slices.Contains(textTypes, media)
}
