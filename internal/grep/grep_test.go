package grep_test

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/grep"
)

// looks is a context that ends after so many looks at it.
type looks struct {
	context.Context
	left int
}

func (l *looks) Err() error {
	if l.left--; l.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestAnExpressionThatCompilesToTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`([a-y]*){10}(x?){900}z`, `(?i)(a|b|c|d|e|f).{0,998}z$`, `(ab{30}){30}c{200}`,
		strings.Repeat("(x{1000})", 400), strings.Repeat("a", grep.MaxSize+1),
	} {
		_, err := grep.Compile(text)
		require.ErrorContains(t, err, "instructions", "%.40s", text)
	}
	_, err := grep.Compile("(")
	require.ErrorContains(t, err, "not an RE2 expression")
	for _, text := range []string{`^\s*func (\(\w+ \*?\w+\) )?\w+\(`, `\b\d{1,3}(\.\d{1,3}){3}\b`, `(?i)error|warn(ing)?|fatal`, `[0-9a-f]{64}`, `x.{0,300}y`} {
		_, err := grep.Compile(text)
		require.NoError(t, err, text)
	}
}

func TestAMatchThatCostsMuchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	e, err := grep.Compile(`([a-y]*){10}(x?){200}z`)
	require.NoError(t, err)
	text := bytes.Repeat([]byte("x"), 256<<10)
	ctx := &looks{Context: t.Context(), left: 3}
	_, err = e.Match(ctx, text)
	require.ErrorIs(t, err, context.Canceled)
	ctx = &looks{Context: t.Context(), left: 3}
	_, err = e.FindSubmatchIndex(ctx, text)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAMatchThatCanBeInterruptedIsThatOfTheExpression(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.SampledFrom([]string{`(?m)^b.{0,400}(c+)$`, `\bb(.{400})?c`, `(?m)(b|\x{FFFD}).{300}$`}).Draw(rt, "expression")
		e, err := grep.Compile(text)
		require.NoError(rt, err)
		piece := rapid.SampledFrom([]string{"a", "b", "c", "\n", "é", "\xff", strings.Repeat("a", 300)})
		b := []byte(strings.Join(rapid.SliceOf(piece).Draw(rt, "text"), ""))
		if rapid.Bool().Draw(rt, "long") {
			b = append(bytes.Repeat([]byte("a"), grep.PlainSteps/e.Size()), b...)
		}
		at, err := e.FindSubmatchIndex(rt.Context(), b)
		require.NoError(rt, err)
		require.Equal(rt, regexp.MustCompile(text).FindSubmatchIndex(b), at)
		found, err := e.Match(rt.Context(), b)
		require.NoError(rt, err)
		require.Equal(rt, at != nil, found)
	})
}

func TestSlotsAreSharedAmongCallers(t *testing.T) {
	t.Parallel()
	s := grep.NewSlots()
	release, err := s.Take(t.Context(), "alice")
	require.NoError(t, err)
	other, err := s.Take(t.Context(), "bob")
	require.NoError(t, err, "a search of alice's does not hold up bob's")
	other()

	ctx, cancel := context.WithCancel(t.Context())
	ends := make(chan error)
	take := func() {
		_, err := s.Take(ctx, "alice")
		ends <- err
	}
	for range 9 {
		go take()
	}
	// Eight wait, and one more than that is refused.
	require.ErrorIs(t, <-ends, grep.ErrBusy)
	cancel()
	for range 8 {
		require.ErrorIs(t, <-ends, context.Canceled)
	}
	release()
	release, err = s.Take(t.Context(), "alice")
	require.NoError(t, err)
	release()
}
