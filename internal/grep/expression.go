// Package grep searches with regular expressions from untrusted sources. An
// [Expression] is a regular expression with bounded cost whose matching can be
// interrupted, and [Slots] limits how many searches run at once. The
// expressions come from agents and users, and the daemon that runs them is not
// in a jail. The package depends only on the standard library because
// deckhand-init links it.
//
// Compile rejects an expression whose program would be too large. Matching
// stops within milliseconds after its context ends, for any text.
package grep

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

const (
	// MaxSize is how many instructions an expression may compile to, about.
	// Each byte of a text costs at most so many steps.
	MaxSize = 1000
	// uninterrupted is how many steps are made between two looks at the
	// context: some ten milliseconds on a slow machine.
	uninterrupted = 1 << 20
	// PlainSteps is up to how many steps a match is made without a look, which
	// is several times as fast.
	PlainSteps = 8 << 20
)

// Expression is a compiled expression of RE2.
type Expression struct {
	re   *regexp.Regexp
	size int
}

// Compile compiles an expression in the syntax of Perl. Its error says what is
// wrong with the expression, or that it is too large.
func Compile(text string) (*Expression, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("it is not an RE2 expression: %w", err)
	}
	n := size(parsed)
	if n > MaxSize {
		return nil, fmt.Errorf("it has about %d instructions, and %d are the most: repeat less, for example .* in place of .{0,900}", n, MaxSize)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("it is not an RE2 expression: %w", err)
	}
	return &Expression{re: re, size: n}, nil
}

// size returns about how many instructions an expression compiles to, without
// writing out its repetitions first.
func size(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n = min(n+size(sub), 1<<30)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpConcat:
	case syntax.OpAlternate:
		n += len(re.Sub) - 1
	case syntax.OpCapture:
		n += 2
	case syntax.OpRepeat:
		if re.Max != re.Min {
			n++
		}
		n *= max(re.Min, re.Max, 1) // at most 1000
	default:
		n++
	}
	return min(n, 1<<30)
}

// Size returns about how many steps a byte costs.
func (e *Expression) Size() int { return e.size }

// Regexp returns the expression itself, for texts whose length the caller bounds.
func (e *Expression) Regexp() *regexp.Regexp { return e.re }

// Match reports whether a text has a match. Its only error is that of the
// context.
func (e *Expression) Match(ctx context.Context, text []byte) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if e.size*len(text) <= PlainSteps {
		return e.re.Match(text), nil
	}
	r := e.reader(ctx, text)
	found := e.re.MatchReader(r)
	return found, r.err
}

// FindSubmatchIndex returns the first match as [regexp.Regexp.FindSubmatchIndex]
// does. Its only error is that of the context.
func (e *Expression) FindSubmatchIndex(ctx context.Context, text []byte) ([]int, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e.size*len(text) <= PlainSteps {
		return e.re.FindSubmatchIndex(text), nil
	}
	r := e.reader(ctx, text)
	at := e.re.FindReaderSubmatchIndex(r)
	return at, r.err
}

func (e *Expression) reader(ctx context.Context, text []byte) *reader {
	return &reader{ctx: ctx, text: text, every: max(1, uninterrupted/e.size)}
}

// reader gives a text rune by rune, until its context ends.
type reader struct {
	ctx    context.Context //nolint:containedctx // of one match
	text   []byte
	every  int
	unseen int
	err    error
}

func (r *reader) ReadRune() (rune, int, error) {
	if len(r.text) == 0 {
		return 0, 0, io.EOF
	}
	if r.unseen--; r.unseen < 0 {
		if r.err = r.ctx.Err(); r.err != nil {
			r.text = nil
			return 0, 0, io.EOF
		}
		r.unseen = r.every
	}
	c, n := utf8.DecodeRune(r.text)
	r.text = r.text[n:]
	return c, n, nil
}
