package logdigest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/deckhand-sh/deckhand/node/skill/input"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// TailArgs are what can be asked of a log's end.
type TailArgs struct {
	Path string `json:"path"`
	// Lines is how many of the last lines are shown at most; 0 for 20.
	Lines int `json:"lines"`
	// Bytes is how much of the end is looked at; 0 for 4 MiB.
	Bytes int64 `json:"bytes"`
	// MaxBytes limits the answer; 0 means 4 kB.
	MaxBytes int `json:"max_bytes"`
}

const (
	tailLines = 20
	tailBytes = 4 << 20
	maxTail   = 256 << 20
)

// Tail says what a log's end looks like: how fast it grows, how grave its lines
// are, the last failures, and the last lines themselves. It reads only the end.
func Tail(ctx context.Context, args TailArgs) (_ *report.Answer, read int64, err error) {
	if args.Lines <= 0 {
		args.Lines = tailLines
	}
	if args.Bytes <= 0 {
		args.Bytes = tailBytes
	}
	args.Bytes = min(args.Bytes, maxTail)
	f, err := input.Open(ctx, args.Path, maxText)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if f.Zipped {
		return nil, 0, errors.New(args.Path + " is compressed, and its end cannot be read alone: use log_digest")
	}
	raw, err := os.Open(args.Path)
	if err != nil {
		return nil, 0, input.Say(err)
	}
	defer raw.Close()
	from := max(0, f.Size-args.Bytes)
	lines := input.NewLines(io.NewSectionReader(raw, from, f.Size-from))
	t := &tail{from: from, lines: make([]tailLine, 0, args.Lines)}
	when := &clock{year: f.Modified.UTC().Year()}
	if from > 0 {
		lines.Next() // the rest of a line
	}
	for ctx.Err() == nil && lines.Next() {
		t.add(lines, when, args.Lines)
	}
	if err := lines.Err(); err != nil {
		return nil, lines.Read(), fmt.Errorf("%s: %w", args.Path, err)
	}
	out := report.New(args.MaxBytes)
	t.report(out, args.Path, f)
	if lines.Cut > 0 {
		out.Note("%s longer than 32 kB, of which the rest is skipped", plural(lines.Cut, "line"))
	}
	return out, lines.Read(), nil
}

type tailLine struct {
	offset int64
	text   []byte
}

type tail struct {
	from        int64
	n           int64
	levels      [levels]int64
	first, last int64
	dated       bool

	times series
	lines []tailLine // a ring
	grave []tailLine
}

const shownFailures = 5

func (t *tail) add(lines *input.Lines, when *clock, keep int) {
	line := lines.Line()
	if len(line) == 0 {
		return
	}
	t.n++
	here := tailLine{t.from + lines.Offset(), append([]byte(nil), line[:min(len(line), sampleBytes)]...)}
	if len(t.lines) == keep {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, here)
	sec, _, to, ok := when.When(line)
	if ok {
		if !t.dated {
			t.first = sec
		}
		t.dated, t.last = true, max(t.last, sec)
		t.first = min(t.first, sec)
		t.times.add(sec, 1)
	}
	level := rank(line[to:])
	if msg := field(line, levelKeys); line[0] == '{' && msg != nil {
		level = rankField(msg)
	}
	t.levels[level]++
	if level >= failure {
		if len(t.grave) == shownFailures {
			t.grave = append(t.grave[:0], t.grave[1:]...)
		}
		t.grave = append(t.grave, here)
	}
}

func (t *tail) report(out *report.Answer, path string, f *input.File) {
	out.Line("%s: %s; its last %s hold %s", report.Clean([]byte(path), 300), report.Bytes(f.Size), report.Bytes(f.Size-t.from), plural(t.n, "line"))
	if t.dated {
		span := t.last - t.first + 1
		out.Line("from %s to %s, %.3g lines a second", stamp(t.first), stamp(t.last), float64(t.n)/float64(span))
		if b, ok := t.times.burst(t.first, t.last); ok {
			out.Line("a burst from %s to %s: %s lines, %.3g times as many as otherwise", stamp(b.from), stamp(b.to), report.Count(int64(b.count)), b.factor)
		}
	}
	levels := ""
	for l := fatal; l > unknown; l-- {
		if n := t.levels[l]; n > 0 {
			levels = joined(levels, fmt.Sprintf("%s %s", l, report.Count(n)))
		}
	}
	if levels != "" {
		out.Line("%s", levels)
	}
	if len(t.grave) > 0 {
		for i, l := range t.grave {
			line := fmt.Sprintf("%d: %s", l.offset, report.Clean(l.text, lineBytes))
			if i == 0 && !out.Begin(0.4, "LAST ERRORS, by offset", line) || i > 0 && !out.Line("%s", line) {
				break
			}
		}
	}
	out.Section(1)
	out.Line("\nLAST LINES, by offset")
	// The newest matter most: as many of them as fit.
	room, start := out.Room(), len(t.lines)
	for start > 0 {
		need := len(fmt.Sprintf("%d: %s\n", t.lines[start-1].offset, report.Clean(t.lines[start-1].text, lineBytes)))
		if room -= need; room < 0 {
			break
		}
		start--
	}
	for _, l := range t.lines[start:] {
		out.Line("%d: %s", l.offset, report.Clean(l.text, lineBytes))
	}
	if f.Grown() > 0 {
		out.Note("the log grew by %s meanwhile", report.Bytes(f.Grown()))
	}
}
