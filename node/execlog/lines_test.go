package execlog

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rowsOf returns the rows of a text as they are defined: lines, and parts of at most
// most bytes of longer ones.
func rowsOf(data string, most int) (begins []int64, lines []int64) {
	at := 0
	for n, line := range strings.SplitAfter(data, "\n") {
		content := len(strings.TrimSuffix(line, "\n"))
		if line == "" {
			break
		}
		for from := 0; from == 0 || from < content; from += most {
			begins, lines = append(begins, int64(at+from)), append(lines, int64(n))
		}
		at += len(line)
	}
	return begins, lines
}

func TestRowsAreCountedAsTheyAreDefined(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		data := rapid.StringOfN(rapid.RuneFrom([]rune{'a', 'b', '\n'}), 0, 400, -1).Draw(rt, "data")
		most := rapid.IntRange(1, 12).Draw(rt, "row")
		stride := rapid.Int64Range(1, 50).Draw(rt, "stride")
		r := made(t, func(w *Writer, _ *time.Time) { require.NoError(rt, w.Append(Stdout, []byte(data))) })
		begins, lines := rowsOf(data, most)
		at, rows, feeds := int64(0), int64(0), int64(0)
		for {
			c, err := r.CountLines(context.Background(), Count{Offset: at, Row: int64(most), Stride: stride, Budget: rapid.Int64Range(20, 100).Draw(rt, "budget")})
			require.NoError(rt, err)
			for _, m := range c.Marks {
				n := rows + m.Rows
				if m.Offset == int64(len(data)) && n == int64(len(begins)) {
					continue // a row that has no byte yet
				}
				require.Equal(rt, begins[n], m.Offset)
				require.Equal(rt, lines[n], feeds+m.Lines)
				require.Equal(rt, m.Offset > 0 && data[m.Offset-1] != '\n', m.Continued)
			}
			rows, feeds, at = rows+c.Next.Rows, feeds+c.Next.Lines, c.Next.Offset
			require.EqualValues(rt, len(data), c.End)
			if c.Complete {
				break
			}
			require.Positive(rt, c.Next.Rows, "each call comes further")
		}
		require.Equal(rt, int64(strings.Count(data, "\n")), feeds)
		if at < int64(len(data)) {
			rows++ // the row that has not ended
		}
		require.EqualValues(rt, len(begins), rows)
	})
}

func TestALogIsSearchedFromItsEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"needle", "need", "x\n", strings.Repeat("y", 70_000), strings.Repeat("line\n", 30_000)}), 0, 12).Draw(rt, "parts")
		data := strings.Join(parts, "-")
		r := made(t, func(w *Writer, _ *time.Time) { require.NoError(rt, w.Append(Stdout, []byte(data))) })
		pattern, err := NewPattern("needle", rapid.Bool().Draw(rt, "expression"), false)
		require.NoError(rt, err)
		var want, got []int64
		for at := 0; ; at++ {
			i := strings.Index(data[at:], "needle")
			if i < 0 {
				break
			}
			at += i
			want = append(want, int64(at))
		}
		q := Query{Pattern: pattern, Max: rapid.IntRange(1, 3).Draw(rt, "max")}
		for {
			found, err := r.SearchBack(context.Background(), q)
			require.NoError(rt, err)
			var part []int64
			for _, m := range found.Matches {
				part = append(part, m.Offset)
				require.True(rt, bytes.Contains(m.Excerpt, []byte("needle")))
			}
			got = append(part, got...)
			if found.Complete || found.Next == 0 {
				break
			}
			q.End = found.Next
		}
		require.Equal(rt, want, got)
	})
}

func TestTextIsFoundWhateverItsCase(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		pattern := rapid.StringMatching(`[abAB1.]{1,4}`).Draw(rt, "pattern")
		text := rapid.StringMatching(`([abAB1.]|é|\n){0,60}`).Draw(rt, "text")
		from := rapid.IntRange(0, len(text)).Draw(rt, "from")
		want := regexp.MustCompile("(?i)" + regexp.QuoteMeta(pattern)).FindStringIndex(text[from:])
		got := fold(pattern).find([]byte(text), from)
		if want == nil {
			require.Equal(rt, -1, got)
		} else {
			require.Equal(rt, from+want[0], got)
		}
	})
	require.Nil(t, fold("Größe"), "expressions know the case of letters beyond ASCII")
}

func TestAReaderIsToldWhenALogGrows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := Create(dir)
	require.NoError(t, err)
	r, ended, told := opened(t, dir), make(chan struct{}), make(chan error, 1)
	go func() { told <- r.Grown(t.Context(), 0, ended) }()
	require.NoError(t, w.Append(Stdout, []byte("a")))
	require.NoError(t, <-told)
	go func() { told <- r.Grown(t.Context(), 1, ended) }()
	close(ended)
	require.NoError(t, <-told, "it grows no more")
	require.NoError(t, w.Close())
}

// A caller who wants a mark at each row of a long log gets no more of them than others do.
func TestALogHasNoMoreMarksThanTheMost(t *testing.T) {
	t.Parallel()
	data := []byte(strings.Repeat("ab\n", 40*mostMarks))
	r := made(t, func(w *Writer, _ *time.Time) { require.NoError(t, w.Append(Stdout, data)) })
	for _, stride := range []int64{0, 1, 100} {
		c, err := r.CountLines(t.Context(), Count{Stride: stride})
		require.NoError(t, err)
		require.True(t, c.Complete)
		require.LessOrEqual(t, len(c.Marks), mostMarks+1)
		require.EqualValues(t, 40*mostMarks, c.Next.Lines)
		for i, m := range c.Marks {
			require.EqualValues(t, 3*m.Rows, m.Offset, "mark %d", i)
		}
	}
	c, err := r.CountLines(t.Context(), Count{Stride: 1})
	require.NoError(t, err)
	require.Greater(t, len(c.Marks), mostMarks/2, "and not fewer than it may have")
}
