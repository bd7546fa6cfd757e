package execlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"time"

	"github.com/deckhand-sh/deckhand/internal/grep"
)

const (
	// MaxMatch bounds the length of a match: an expression sees no further.
	MaxMatch = 64 << 10
	// searchWindow is how much of a log is in memory at once, in which lines of
	// any length are searched, and leastWindow how much it is for an expression
	// of which each byte costs much.
	searchWindow = 1 << 20
	leastWindow  = 4 * MaxMatch
	// maxSide bounds an excerpt on either side of where its match begins.
	maxSide = 2 << 10
)

// Pattern is what is searched for.
type Pattern struct {
	literal []byte
	folded  *folded
	// plain is the expression, and after the same behind one more character:
	// what ^ and \b say of a place depends on the one before it.
	plain, after *grep.Expression
	reach        int
	window       int64
}

// NewPattern creates a pattern from a text, or from an RE2 expression in which
// ^ and $ match at line boundaries. An error says what is wrong with the
// expression.
func NewPattern(text string, expression, ignoreCase bool) (*Pattern, error) {
	if text == "" {
		return nil, fmt.Errorf("it is empty")
	}
	if !expression && !ignoreCase {
		return &Pattern{literal: []byte(text), reach: len(text), window: searchWindow}, nil
	}
	if !expression {
		if f := fold(text); f != nil {
			return &Pattern{folded: f, reach: len(text), window: searchWindow}, nil
		}
		text = regexp.QuoteMeta(text)
	}
	flags := "m"
	if ignoreCase {
		flags = "mi"
	}
	text = "(?" + flags + ":" + text + ")"
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if asksForText(parsed) {
		return nil, fmt.Errorf(`\A and \z are of a text, and a log is searched by lines: use ^ and $`)
	}
	p := &Pattern{reach: MaxMatch}
	if p.plain, err = grep.Compile(text); err != nil {
		return nil, err
	}
	if p.after, err = grep.Compile("(?s:.)(" + text + ")"); err != nil {
		return nil, err
	}
	if empty, _ := p.plain.Match(context.Background(), nil); empty {
		return nil, fmt.Errorf("it matches the empty text, and so everywhere")
	}
	p.window = min(max(grep.PlainSteps/int64(p.after.Size()), leastWindow), searchWindow)
	return p, nil
}

func asksForText(re *syntax.Regexp) bool {
	if re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText {
		return true
	}
	for _, sub := range re.Sub {
		if asksForText(sub) {
			return true
		}
	}
	return false
}

// find returns the first match in buf that begins at from or after.
func (p *Pattern) find(ctx context.Context, buf []byte, from int) (start, end int, ok bool, err error) {
	if p.literal != nil {
		i := bytes.Index(buf[from:], p.literal)
		return from + i, from + i + len(p.literal), i >= 0, nil
	}
	if p.folded != nil {
		i := p.folded.find(buf, from)
		return i, i + len(p.folded.text), i >= 0, nil
	}
	before := max(0, from-1)
	at, err := p.plain.FindSubmatchIndex(ctx, buf[before:])
	if at != nil && from > 0 && at[0] == 0 {
		// It begins before from, perhaps only since nothing is seen before it.
		if at, err = p.after.FindSubmatchIndex(ctx, buf[before:]); at != nil {
			at = at[2:4]
		}
	}
	if err != nil || at == nil {
		return 0, 0, false, err
	}
	return before + at[0], before + at[1], true, nil
}

// Query says what to search.
type Query struct {
	Pattern *Pattern
	// Offset is where to begin; End where to end, 0 for the end of the log.
	Offset, End int64
	// Max is the maximum number of matches to return.
	Max int
	// Context is how many lines before and after a match to return.
	Context int
	// Budget is how many bytes to look at, at most; 0 for all.
	Budget int64
	// Until is when to return what was found until then; zero for the deadline of the
	// context. At least some of the log is searched.
	Until time.Time
	// Live says that the log is being written.
	Live bool
}

// spent reports whether a search has looked at as many bytes as it may, or long enough.
func (q Query) spent(looked int64) bool {
	return q.Budget > 0 && looked > q.Budget || looked > 0 && !q.Until.IsZero() && !time.Now().Before(q.Until)
}

// Match is a place in a log.
type Match struct {
	Offset, Length int64
	Stream         Stream
	Time           time.Time
	// Excerpt is the match with its context, from ExcerptOffset on.
	Excerpt       []byte
	ExcerptOffset int64
}

// Found is the result of a search.
type Found struct {
	Matches []Match
	// Next is where the search stopped, and Complete that it was at the end.
	Next     int64
	Complete bool
}

// Search returns the matches in what Read would show, in order and without
// overlaps. It uses no more than about 1 MiB of memory. If the deadline of ctx
// passes, it returns how far it came, provided that it made progress.
func (r *Reader) Search(ctx context.Context, q Query) (Found, error) {
	end, err := r.Size()
	if err != nil {
		return Found{}, err
	}
	if q.End > 0 {
		end = min(end, q.End)
	}
	s := search{reader: r, query: q, at: q.Offset, end: end}
	for !s.out.Complete && len(s.out.Matches) < q.Max {
		if q.spent(s.at - q.Offset) {
			break
		}
		err := s.window(ctx)
		if errors.Is(err, context.DeadlineExceeded) && s.at > q.Offset {
			break
		}
		if err != nil {
			return Found{}, err
		}
	}
	s.out.Next = s.at
	for i := range s.out.Matches {
		if err := s.describe(&s.out.Matches[i]); err != nil {
			return Found{}, err
		}
	}
	return s.out, nil
}

type search struct {
	reader *Reader
	query  Query
	at     int64 // the next byte that a match may begin at
	end    int64
	buf    []byte
	out    Found
}

// load reads what may be shown from an offset on, into the buffer.
func (s *search) load(from, to int64) error {
	s.buf = s.buf[:0]
	for at := from; at < to; {
		part, err := s.reader.bytes(at, to, !s.query.Live)
		if err != nil {
			return err
		}
		if len(part) == 0 {
			// The rest cannot be shown yet: as if it were not there.
			s.end = min(s.end, at)
			return nil
		}
		s.buf = append(s.buf, part...)
		at += int64(len(part))
	}
	return nil
}

// window searches the next part of the log.
func (s *search) window(ctx context.Context) error {
	if s.at >= s.end {
		s.out.Complete = true
		return nil
	}
	base := max(0, s.at-1)
	if s.buf == nil {
		s.buf = make([]byte, 0, min(s.query.Pattern.window, s.end-base))
	}
	if err := s.load(base, min(s.end, base+s.query.Pattern.window)); err != nil {
		return err
	}
	last := base+int64(len(s.buf)) >= s.end
	for len(s.out.Matches) < s.query.Max {
		if err := ctx.Err(); err != nil {
			return err
		}
		start, end, ok, err := s.query.Pattern.find(ctx, s.buf, min(len(s.buf), int(s.at-base)))
		if err != nil {
			return err
		}
		safe := len(s.buf) - s.query.Pattern.reach
		switch {
		case !ok && last:
			s.at, s.out.Complete = max(s.at, s.end), true
			return nil
		case !ok:
			s.at = max(s.at, base+int64(safe)+1)
			return nil
		case start > safe && !last:
			// It may continue, or be another, with what comes after.
			s.at = base + int64(start)
			return nil
		}
		if end > start {
			s.out.Matches = append(s.out.Matches, Match{Offset: base + int64(start), Length: int64(end - start)})
		}
		s.at = base + int64(max(end, start+1))
	}
	return nil
}

// describe adds to a match what is around it.
func (s *search) describe(m *Match) error {
	records, err := s.reader.records()
	if err != nil {
		return err
	}
	if n := s.reader.search(records, m.Offset); n < records {
		rec, ok, err := s.reader.record(n)
		if err != nil {
			return err
		}
		if ok && rec.offset <= m.Offset {
			m.Stream, m.Time = rec.stream, time.Unix(0, rec.time)
		}
	}
	from := max(0, m.Offset-maxSide)
	size, err := s.reader.Size()
	if err != nil {
		return err
	}
	if err := s.load(from, min(size, m.Offset+maxSide)); err != nil {
		return err
	}
	begin := min(int(m.Offset-from), len(s.buf))
	left, right := begin, min(begin+int(m.Length), len(s.buf))
	for lines := 0; left > 0; left-- {
		if s.buf[left-1] == '\n' {
			if lines++; lines > s.query.Context {
				break
			}
		}
	}
	if right == 0 || s.buf[right-1] != '\n' {
		for lines := 0; right < len(s.buf); right++ {
			if s.buf[right] == '\n' {
				if lines++; lines > s.query.Context {
					break
				}
			}
		}
	}
	if end := begin + int(m.Length); right > end && s.buf[right-1] == '\n' {
		right--
	}
	m.Excerpt, m.ExcerptOffset = bytes.Clone(s.buf[left:right]), from+int64(left)
	return nil
}
