// Package logdigest summarises a log of any size in a few lines: the kinds of
// lines it has, how often and when each occurred, failures, new kinds and
// bursts, each with a line number. It reads the log once, in constant memory.
package logdigest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/node/skill/input"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// Args are what can be asked.
type Args struct {
	// Path is a file, with those it was rotated into; a folder; or a pattern.
	Path string `json:"path"`
	// Since and Until bound the time of the lines: RFC 3339 or 2006-01-02 15:04.
	Since string `json:"since"`
	Until string `json:"until"`
	// Contains keeps only lines with that text.
	Contains string `json:"contains"`
	// MaxBytes limits the answer; 0 means 8 kB.
	MaxBytes int `json:"max_bytes"`
}

const (
	maxFiles    = 200
	maxText     = 8 << 30 // of one call, unzipped
	answerBytes = 8 << 10
	sampleBytes = 300
)

// digest is what is known of a log.
type digest struct {
	args         Args
	since, until int64
	files        []string
	more         int // files that are not read
	unread       []string

	miner       *miner
	lines       int64
	followed    int64 // lines that belong to the one before
	levels      [levels]int64
	cut         int64
	read        int64
	grown       int64
	zipped      bool
	first, last int64
	dated       bool
	stopped     string // why not all was read
}

// Run summarises the log; read is how many bytes of text it had.
func Run(ctx context.Context, args Args) (_ *report.Answer, read int64, err error) {
	d := &digest{args: args, miner: newMiner()}
	if d.since, err = bound(args.Since, "since"); err != nil {
		return nil, 0, err
	}
	if d.until, err = bound(args.Until, "until"); err != nil {
		return nil, 0, err
	}
	if args.Path == "" {
		return nil, 0, errors.New("path is empty: name a log file, a folder of logs, or a pattern")
	}
	if d.files, d.more, err = input.Logs(args.Path, maxFiles); err != nil {
		return nil, 0, err
	}
	for i := range d.files {
		if err := d.readFile(ctx, i); err != nil {
			d.unread = append(d.unread, err.Error())
			if len(d.files) == 1 && d.lines == 0 {
				return nil, d.read, err
			}
		}
		if d.stopped != "" {
			break
		}
	}
	if args.MaxBytes == 0 {
		args.MaxBytes = answerBytes
	}
	out := report.New(args.MaxBytes)
	d.report(out)
	return out, d.read, nil
}

func bound(text, name string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Unix(), nil
		}
	}
	return 0, fmt.Errorf("%s %q is not a time: write it like 2006-01-02T15:04:05Z", name, text)
}

// readFile reads one file of the log.
func (d *digest) readFile(ctx context.Context, i int) error {
	f, err := input.Open(ctx, d.files[i], maxText-d.read)
	if err != nil {
		return err
	}
	defer f.Close()
	d.zipped = d.zipped || f.Zipped
	lines := input.NewLines(f)
	when := &clock{year: f.Modified.UTC().Year()}
	contains := []byte(d.args.Contains)
	var before *template // of the line above
	var sec int64        // of the last line with a time
	var dated bool
	checked := false
	for lines.Next() {
		line := lines.Line()
		if !checked {
			checked = true
			if bytes.IndexByte(line, 0) >= 0 {
				return fmt.Errorf("%s is binary", d.files[i])
			}
		}
		if len(line) == 0 {
			continue
		}
		at, from, to, ok := when.When(line)
		if ok {
			sec, dated = at, true
		}
		if d.since != 0 && dated && sec < d.since || d.until != 0 && dated && sec > d.until {
			before = nil
			continue
		}
		if len(contains) > 0 && !bytes.Contains(line, contains) {
			before = nil
			continue
		}
		d.lines++
		if !ok && (line[0] == ' ' || line[0] == '\t' || bytes.HasPrefix(line, []byte("Caused by:"))) && before != nil {
			d.followed++
			before.followed++
			continue
		}
		t := d.templateOf(line, from, to)
		before = t
		d.levels[t.level]++
		t.count++
		here := place{file: i, line: lines.Number(), offset: lines.Offset(), sec: sec}
		if t.count == 1 {
			t.first = here
			t.sample = bytes.Clone(line[:min(len(line), sampleBytes)])
		}
		t.last = here
		if !dated {
			continue
		}
		t.dated = true
		t.times.add(sec, 1)
		if !d.dated || sec < d.first {
			d.first = sec
		}
		if !d.dated || sec > d.last {
			d.last = sec
		}
		d.dated = true
	}
	d.read += lines.Read()
	d.cut += lines.Cut
	if g := f.Grown(); g > 0 {
		d.grown += g
	}
	switch err := lines.Err(); {
	case err == nil:
	case errors.Is(err, input.ErrTooMuch):
		d.stopped = "stopped after " + report.Bytes(d.read) + " of text, which is as much as one call reads: narrow it by path, since or until"
	case errors.Is(err, context.DeadlineExceeded):
		d.stopped = "stopped after " + report.Bytes(d.read) + ", because the time of the call was over: narrow it by path"
	default:
		return fmt.Errorf("%s: %w (%s were read)", d.files[i], err, report.Bytes(lines.Read()))
	}
	return nil
}

// messageKeys are the fields that hold a line's message in JSON, levelKeys its
// level.
var (
	messageKeys = [][]byte{[]byte(`"msg":`), []byte(`"message":`), []byte(`"@message":`), []byte(`"event":`), []byte(`"error":`), []byte(`"log":`)}
	levelKeys   = [][]byte{[]byte(`"level":`), []byte(`"severity":`), []byte(`"lvl":`), []byte(`"@level":`)}
)

// templateOf returns the template of a line whose time is in line[from:to].
func (d *digest) templateOf(line []byte, from, to int) *template {
	if line[0] == '{' {
		if msg := field(line, messageKeys); msg != nil {
			named := field(line, levelKeys)
			lvl := rankField(named)
			return d.miner.find(uint64(lvl)+1, named, msg, func() level {
				if lvl == unknown {
					return rank(msg)
				}
				return lvl
			})
		}
	}
	if from == to {
		return d.miner.find(0, nil, line, func() level { return rank(line) })
	}
	before, after := line[:from], line[to:]
	// What only closes the time is not part of the message.
	if n := len(before); n > 0 && before[n-1] == '[' && len(after) > 0 && after[0] == ']' {
		before, after = before[:n-1], after[1:]
	}
	if status := httpStatus(after); status != 0 {
		return d.miner.find(uint64(status), nil, after, func() level {
			return [10]level{'5' - '0': failure, '4' - '0': warning, '2' - '0': info, '3' - '0': info, '1' - '0': info}[status-'0']
		})
	}
	return d.miner.find(0, before, after, func() level {
		if l := rankLetter(before); l != unknown {
			return l
		}
		if l := rank(bytes.TrimLeft(before, "[<")); len(before) > 0 && l != unknown {
			return l
		}
		return rank(after)
	})
}

// field returns the value of the first of the fields that a line of JSON has;
// strings as they are written, without the quotes.
func field(line []byte, keys [][]byte) []byte {
	for _, key := range keys {
		n := bytes.Index(line, key)
		if n < 0 {
			continue
		}
		value := bytes.TrimLeft(line[n+len(key):], " ")
		if len(value) == 0 {
			continue
		}
		if value[0] != '"' {
			if end := bytes.IndexAny(value, ",} "); end > 0 {
				return value[:end]
			}
			continue
		}
		value = value[1:]
		for end := 0; end < len(value); end++ {
			switch value[end] {
			case '\\':
				end++
			case '"':
				return value[:end]
			}
		}
		return value
	}
	return nil
}

// httpStatus returns the first digit of the status in a line of an access log,
// which follows the request: "GET / HTTP/1.1" 200.
func httpStatus(after []byte) byte {
	n := bytes.Index(after, []byte(`HTTP/`))
	if n < 0 {
		return 0
	}
	rest := after[n:]
	n = bytes.IndexByte(rest, '"')
	if n < 0 || n+5 > len(rest) || rest[n+1] != ' ' || !isDigit(rest[n+3]) || !isDigit(rest[n+4]) || rest[n+2] < '1' || rest[n+2] > '5' {
		return 0
	}
	return rest[n+2]
}

func stamp(sec int64) string { return time.Unix(sec, 0).UTC().Format("2006-01-02 15:04:05") }

// clockTime returns a time as briefly as the log's span allows.
func (d *digest) clockTime(sec int64) string {
	at := time.Unix(sec, 0).UTC()
	if d.last-d.first < 20*3600 {
		return at.Format("15:04:05")
	}
	return at.Format("01-02 15:04:05")
}

// where cites a place.
func (d *digest) where(p place) string {
	return fmt.Sprintf("%s:%d", report.Clean([]byte(d.files[p.file]), 120), p.line)
}

func plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return report.Count(n) + " " + one + "s"
}

func joined(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}
