package relay

import (
	"bytes"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/model/price"
)

// maxEvent bounds what is kept of one event, or of an answer that is no stream.
const maxEvent = 16 << 20

// reading is the usage that one event, or a whole response, reports. Figures are totals
// of the call so far; -1 if not reported.
type reading struct {
	input, output, cacheRead, cacheWrite int64
	// cacheHour is the part of cacheWrite that is cached for an hour.
	cacheHour int64
	// closing reports that its figures are final.
	closing bool
	// said is how many bytes of output the event carries.
	said int
	// done reports that nothing that costs follows.
	done bool
}

func nothing() reading {
	return reading{input: -1, output: -1, cacheRead: -1, cacheWrite: -1, cacheHour: -1}
}

// meter reads the use of a call off its answer. It is used by one goroutine.
type meter struct {
	// read returns the usage that one event, or a whole response, reports.
	read      func(data []byte, stream bool) reading
	streaming bool
	// hidden reports that the model may reason without sending the text.
	hidden bool
	began  time.Time

	line, data bytes.Buffer
	tooLong    bool
	seen       reading
	said       int64
	// final reports that the final figures have arrived.
	final bool
	done  bool
	mu    sync.Mutex
}

func newMeter(read func(data []byte, stream bool) reading, asked *request) *meter {
	return &meter{read: read, hidden: asked.thinks, began: time.Now(), seen: nothing()}
}

func isStream(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
}

// write takes the next bytes of the answer.
func (m *meter) write(p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.streaming {
		m.keep(&m.data, p)
		return
	}
	for len(p) > 0 {
		at := bytes.IndexByte(p, '\n')
		if at < 0 {
			m.keep(&m.line, p)
			return
		}
		line := p[:at]
		if m.line.Len() > 0 {
			m.keep(&m.line, line)
			line = m.line.Bytes()
		}
		m.take(bytes.TrimSuffix(line, []byte("\r")))
		m.line.Reset()
		p = p[at+1:]
	}
}

// take reads one line of a stream of server-sent events.
// https://html.spec.whatwg.org/multipage/server-sent-events.html
func (m *meter) take(line []byte) {
	if len(line) > 0 {
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if m.data.Len() > 0 {
				m.keep(&m.data, []byte("\n"))
			}
			m.keep(&m.data, bytes.TrimPrefix(value, []byte(" ")))
		}
		return
	}
	if m.data.Len() > 0 && !m.tooLong {
		m.add(m.read(m.data.Bytes(), true))
	}
	m.data.Reset()
	m.tooLong = false
}

func (m *meter) keep(into *bytes.Buffer, p []byte) {
	if into.Len()+len(p) > maxEvent {
		m.tooLong = true
		return
	}
	into.Write(p)
}

// end records that the response is complete.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.streaming && m.data.Len() > 0 && !m.tooLong {
		m.add(m.read(m.data.Bytes(), false))
	}
	m.done = true
}

func (m *meter) add(r reading) {
	m.said += int64(r.said)
	for _, f := range []struct {
		from int64
		into *int64
	}{{r.input, &m.seen.input}, {r.output, &m.seen.output}, {r.cacheRead, &m.seen.cacheRead}, {r.cacheWrite, &m.seen.cacheWrite}, {r.cacheHour, &m.seen.cacheHour}} {
		if f.from >= 0 {
			*f.into = f.from
		}
	}
	if r.done {
		m.done = true
	}
	if r.closing && r.output >= 0 {
		m.final = true
	}
}

const (
	// perToken is how many bytes of output are a token, if the provider does not count.
	perToken = 3
	// hiddenRate is how many tokens a second a model may reason that does not send the text.
	hiddenRate = 100
)

// cost returns the cost of the call, as far as it is known. Final figures are used if
// they have arrived. Otherwise the input is what was reported of it, or the estimate; and
// the output is estimated from the bytes that arrived and, if the model may have reasoned
// without sending the text, from the time that it had.
func (m *meter) cost(p price.Model, e expected) budget.Cost {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := price.Usage{
		Input: max(m.seen.input, 0), Output: max(m.seen.output, 0), CacheRead: max(m.seen.cacheRead, 0), CacheWrite: max(m.seen.cacheWrite, 0),
		CacheWriteHour: min(max(m.seen.cacheHour, 0), max(m.seen.cacheWrite, 0)),
	}
	if m.final && m.seen.input >= 0 {
		return budget.Cost{Basis: budget.Reported, Usage: u, Micros: p.Micros(u), LimitTokens: p.LimitTokens(u)}
	}
	if m.seen.input < 0 {
		output := u.Output
		u = e.likely
		u.Output = output
	}
	if !m.final {
		said := (m.said + perToken - 1) / perToken
		if m.hidden {
			said += int64(hiddenRate * time.Since(m.began).Seconds())
		}
		u.Output = max(u.Output, min(said, e.most.Output))
	}
	return budget.Cost{Basis: budget.Estimated, Usage: u, Micros: p.Micros(u), LimitTokens: p.LimitTokens(u)}
}

// buffers lends the proxy what it copies with.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}}
}

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return *b.pool.Get().(*[]byte) } //nolint:forcetypeassert // New creates nothing else

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// replace gives an answer another body.
func replace(res *http.Response, body []byte) {
	res.Body = http.NoBody
	if len(body) > 0 {
		res.Body = readCloser{bytes.NewReader(body)}
	}
	res.ContentLength = int64(len(body))
	res.TransferEncoding = nil
	res.Header.Set("Content-Length", strconv.Itoa(len(body)))
	if kind := res.Header.Get("Content-Type"); kind == "" || strings.HasPrefix(kind, "text/html") {
		res.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
}

type readCloser struct{ *bytes.Reader }

// Close implements io.Closer.
func (readCloser) Close() error { return nil }
