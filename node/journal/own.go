package journal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// maxOwn is how much of the daemon's own log is held, in bytes.
const maxOwn = 2 << 20

// maxOwnLine bounds a line of it, in bytes.
const maxOwnLine = maxOwn / 8

// Own holds the newest lines of the daemon's own log. It is safe for concurrent use.
type Own struct {
	close func()
	// start begins the cursors of this run of the daemon.
	start string

	mu    sync.Mutex
	lines []line
	size  int
	last  uint64 // the number of the newest line
}

type line struct {
	number uint64
	text   []byte // JSON, of the schema of package logging
}

// Listen returns an Own that receives what a logger, and those made from it, log from now
// on, with secrets masked. It stays empty with a logger that cannot be listened to.
func Listen(log hclog.Logger, secrets *redact.Redactor) *Own {
	o := &Own{start: ident.New("log"), close: func() {}}
	if source, ok := log.(hclog.InterceptLogger); ok {
		to := &sink{name: log.Name(), to: hclog.NewSinkAdapter(&hclog.LoggerOptions{
			Level: log.GetLevel(), JSONFormat: true, Output: secrets.Writer(o),
		})}
		source.RegisterSink(to)
		o.close = func() { source.DeregisterSink(to) }
	}
	return o
}

// Close makes it stop to listen.
func (o *Own) Close() error {
	o.close()
	return nil
}

// sink passes on what loggers of one name log: a process may have other roles beside the node.
type sink struct {
	name string
	to   hclog.SinkAdapter
}

// Accept implements hclog.SinkAdapter.
func (s *sink) Accept(name string, level hclog.Level, msg string, args ...any) {
	if name == s.name || strings.HasPrefix(name, s.name+".") {
		s.to.Accept(name, level, msg, args...)
	}
}

// Write takes one line. One that is too long is not held: what is left of it could not be read.
func (o *Own) Write(text []byte) (int, error) {
	if len(text) > maxOwnLine {
		return len(text), nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	o.lines = append(o.lines, line{o.last, slices.Clone(text)})
	o.size += len(text)
	drop := 0
	for o.size > maxOwn {
		o.size -= len(o.lines[drop].text)
		drop++
	}
	clear(o.lines[:drop])
	o.lines = o.lines[drop:] // what is before it goes when the list grows
	return len(text), nil
}

// before returns the lines that are older than the one with a cursor; all of them without
// one, and none for that of an earlier run.
func (o *Own) before(cursor string) []line {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cursor == "" {
		return slices.Clone(o.lines)
	}
	start, text, _ := strings.Cut(cursor, ";")
	number, err := strconv.ParseUint(text, 10, 64)
	if start != o.start || err != nil {
		return nil
	}
	at, _ := slices.BinarySearchFunc(o.lines, number, func(l line, n uint64) int { return cmp.Compare(l.number, n) })
	return slices.Clone(o.lines[:at])
}

// readOwn returns entries of the daemon's own log, oldest first: the newest that fit.
func (m *Machine) readOwn(req *nodev1.ReadJournalRequest) (*nodev1.ReadJournalResponse, error) {
	if m.cfg.Own == nil {
		return nil, fault.New(fault.Precondition, "this daemon does not keep its log").WithFix("read it on the machine: deckhand logs")
	}
	var w wanted
	if err := w.complete(req); err != nil {
		return nil, err
	}
	out := &nodev1.ReadJournalResponse{}
	size := 0
	for _, l := range slices.Backward(m.cfg.Own.before(req.GetBefore())) {
		e := m.cfg.Own.entry(l)
		if e == nil {
			continue
		}
		at := e.GetTime().AsTime()
		if req.GetSince() != nil && at.Before(req.GetSince().AsTime()) {
			break
		}
		if req.GetUntil() != nil && at.After(req.GetUntil().AsTime()) || w.pattern != nil && !w.pattern.MatchString(e.GetMessage()) {
			continue
		}
		size += len(l.text)
		if n := len(out.GetEntries()); n > 0 && (n == w.most || size > maxReturned) {
			out.More, out.NextCursor = true, out.GetEntries()[n-1].GetCursor()
			break
		}
		out.Entries = append(out.Entries, e)
	}
	slices.Reverse(out.Entries)
	return out, nil
}

// entry reads one line; nil for one that is not of the schema.
func (o *Own) entry(l line) *nodev1.JournalEntry {
	said, err := logging.Parse(l.text)
	if err != nil {
		return nil
	}
	e := &nodev1.JournalEntry{
		Cursor: fmt.Sprintf("%s;%d", o.start, l.number), Time: timestamppb.New(said.At), Message: strings.ToValidUTF8(said.Message, "\uFFFD"),
		Fields: map[string]string{"level": said.Level.String(), "component": said.Component},
	}
	for key := range maps.Keys(said.Values) {
		if value := said.Text(key); value != "" {
			e.Fields[key] = textcut.Bytes(strings.ToValidUTF8(value, "\uFFFD"), maxMessage, "")
		}
	}
	if len(e.GetMessage()) > maxMessage {
		e.Message, e.Cut = textcut.Bytes(e.GetMessage(), maxMessage, ""), true
	}
	return e
}
