package logdigest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/deckhand-sh/deckhand/node/skill/report"
)

const (
	lineBytes = 240
	// newest is the part of the log's time in which what first comes is new.
	newest = 10
	// rareCount is how often a rare template came at most.
	rareCount = 2
)

// report writes the digest: what failed first.
func (d *digest) report(out *report.Answer) {
	d.head(out)
	if d.lines == 0 {
		out.Line("no lines")
		d.notes(out)
		return
	}
	shown := map[*template]bool{}
	grave := d.some(func(t *template) bool { return t.level >= failure })
	slices.SortStableFunc(grave, func(a, b *template) int {
		return cmp.Or(cmp.Compare(b.level, a.level), cmp.Compare(b.count, a.count))
	})
	d.section(out, "ERRORS", grave, 0.45, shown, d.full)
	d.bursts(out, 0.2)
	d.section(out, "NEW, first seen in the last tenth of the time", d.news(shown), 0.2, shown, d.full)
	warnings := d.some(func(t *template) bool { return t.level == warning })
	slices.SortStableFunc(warnings, func(a, b *template) int { return cmp.Compare(b.count, a.count) })
	d.section(out, "WARNINGS", warnings, 0.3, shown, d.full)
	rare := d.some(func(t *template) bool { return t.count <= rareCount && t.level < warning })
	slices.SortStableFunc(rare, func(a, b *template) int { return cmp.Compare(a.count, b.count) })
	d.section(out, fmt.Sprintf("RARE, %s", plural(int64(len(rare)), "kind")), rare, 0.3, shown, d.brief)
	common := d.some(func(*template) bool { return true })
	slices.SortStableFunc(common, func(a, b *template) int { return cmp.Compare(b.count, a.count) })
	d.section(out, "MOST COMMON", common, 1, shown, d.brief)
	d.notes(out)
}

func (d *digest) head(out *report.Answer) {
	name := d.args.Path
	if len(d.files) > 1 {
		name += fmt.Sprintf(" (%d files, %s to %s)", len(d.files),
			report.Clean([]byte(d.files[0]), 80), report.Clean([]byte(d.files[len(d.files)-1]), 80))
	}
	out.Line("%s: %s, %s", report.Clean([]byte(name), 300), plural(d.lines, "line"), report.Bytes(d.read))
	if d.dated {
		span := d.last - d.first + 1
		out.Line("from %s to %s, %.3g lines a second", stamp(d.first), stamp(d.last), float64(d.lines)/float64(span))
	}
	levels := ""
	for l := fatal; l > unknown; l-- {
		if n := d.levels[l]; n > 0 {
			levels = joined(levels, fmt.Sprintf("%s %s", l, report.Count(n)))
		}
	}
	kinds := plural(int64(len(d.miner.all)), "kind") + " of lines"
	out.Line("%s", joined(kinds, levels))
}

func (d *digest) some(keep func(*template) bool) []*template {
	var out []*template
	for _, t := range d.miner.all {
		if t.count > 0 && keep(t) {
			out = append(out, t)
		}
	}
	return out
}

// section writes a title and one line or two for each template that no section
// before has shown.
func (d *digest) section(out *report.Answer, title string, of []*template, part float64, shown map[*template]bool, line func(*template) string) {
	of = slices.DeleteFunc(of, func(t *template) bool { return shown[t] })
	if len(of) == 0 {
		return
	}
	for i, t := range of {
		if i == 0 && !out.Begin(part, title, line(t)) || i > 0 && !out.Line("%s", line(t)) {
			out.Note("%s: %d more kinds are not shown", title, len(of)-i)
			return
		}
		shown[t] = true
	}
}

// full cites the first and last place, and shows a line as it was written.
func (d *digest) full(t *template) string {
	text := fmt.Sprintf("%s× %s %s at %s", report.Count(t.count), t.level, d.span(t), d.where(t.first))
	if t.count > 1 {
		text += " to " + fmt.Sprint(t.last.line)
		if t.last.file != t.first.file {
			text += " of " + report.Clean([]byte(d.files[t.last.file]), 120)
		}
	}
	text += "\n  " + report.Clean(t.sample, lineBytes)
	if pattern := report.Clean([]byte(t.text()), lineBytes); t.count > 1 && len(t.words) > 0 {
		text += "\n  = " + pattern
	}
	if t.followed > 0 {
		text += fmt.Sprintf("\n  + %s below, such as stack traces", plural(t.followed, "line"))
	}
	return text
}

// brief is one line.
func (d *digest) brief(t *template) string {
	text := t.text()
	if t.count == 1 {
		text = string(t.sample)
	}
	return fmt.Sprintf("%s× %s at %s: %s", report.Count(t.count), d.span(t), d.where(t.first), report.Clean([]byte(text), lineBytes))
}

func (d *digest) span(t *template) string {
	switch {
	case !t.dated:
		return fmt.Sprintf("offset %d", t.first.offset)
	case t.first.sec == t.last.sec:
		return d.clockTime(t.first.sec)
	}
	return d.clockTime(t.first.sec) + "–" + d.clockTime(t.last.sec)
}

// bursts reports what was much more frequent for a while, and what stopped.
func (d *digest) bursts(out *report.Answer, part float64) {
	type found struct {
		t *template
		b burst
	}
	var all []found
	var stopped []*template
	for _, t := range d.miner.all {
		if b, ok := t.times.burst(d.first, d.last); ok {
			all = append(all, found{t, b})
		} else if t.count >= 100 && t.dated && t.last.sec < d.first+(d.last-d.first)*3/4 {
			stopped = append(stopped, t)
		}
	}
	if len(all)+len(stopped) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.t.level, a.t.level), cmp.Compare(b.b.count, a.b.count))
	})
	slices.SortStableFunc(stopped, func(a, b *template) int { return cmp.Compare(b.count, a.count) })
	var lines []string
	for _, f := range all {
		lines = append(lines, fmt.Sprintf("%s–%s: %s× in %d s, %.3g times as often as otherwise: %s", d.clockTime(f.b.from), d.clockTime(f.b.to),
			report.Count(int64(f.b.count)), f.b.to-f.b.from+1, f.b.factor, report.Clean([]byte(f.t.text()), 120)))
	}
	for _, t := range stopped {
		lines = append(lines, fmt.Sprintf("%s: the last of %s× (%s): %s", d.clockTime(t.last.sec), report.Count(t.count), d.where(t.last),
			report.Clean([]byte(t.text()), 120)))
	}
	for i, line := range lines {
		if i == 0 && !out.Begin(part, "RATE CHANGES", line) || i > 0 && !out.Line("%s", line) {
			out.Note("%d more rate changes are not shown", len(lines)-i)
			return
		}
	}
}

// news returns what came first in the newest part of the log.
func (d *digest) news(shown map[*template]bool) []*template {
	if !d.dated || d.last-d.first < newest {
		return nil
	}
	from := d.last - (d.last-d.first)/newest
	out := d.some(func(t *template) bool { return t.dated && t.first.sec > from && !shown[t] })
	slices.SortStableFunc(out, func(a, b *template) int {
		return cmp.Or(cmp.Compare(b.level, a.level), cmp.Compare(b.first.sec, a.first.sec))
	})
	return out
}

func (d *digest) notes(out *report.Answer) {
	if d.stopped != "" {
		out.Note("%s", d.stopped)
	}
	if d.more > 0 {
		out.Note("%d older files are not read", d.more)
	}
	for _, why := range d.unread {
		out.Note("not read: %s", report.Clean([]byte(why), 160))
	}
	if d.cut > 0 {
		out.Note("%s longer than 32 kB, of which the rest is skipped", plural(d.cut, "line"))
	}
	if d.grown > 0 {
		out.Note("the log grew by %s meanwhile", report.Bytes(d.grown))
	}
	if d.zipped {
		out.Note("line numbers and offsets of .gz files are those of the text in them")
	}
	if d.miner.full {
		out.Note("too many kinds of lines: those that found no place are counted together")
	}
}
