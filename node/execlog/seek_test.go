package execlog

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/redact"
)

// made is a log in a folder, by a clock that the test sets.
func made(tb testing.TB, write func(w *Writer, clock *time.Time)) *Reader {
	tb.Helper()
	dir := tb.TempDir()
	w, err := Create(dir)
	require.NoError(tb, err)
	clock := time.Unix(1000, 0)
	w.now = func() time.Time { return clock }
	write(w, &clock)
	require.NoError(tb, w.Close())
	return opened(tb, dir)
}

func opened(tb testing.TB, dir string) *Reader {
	tb.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(tb, err)
	defer root.Close()
	r, err := Open(root)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = r.Close() })
	return r
}

func text(tb testing.TB, r *Reader, rng Range) string {
	tb.Helper()
	var out strings.Builder
	require.NoError(tb, r.Read(context.Background(), rng, func(c Chunk) error {
		out.Write(c.Data)
		return nil
	}))
	return out.String()
}

// By time, and what a clock that jumps does to it.
func TestALogIsReadByTime(t *testing.T) {
	t.Parallel()
	r := made(t, func(w *Writer, clock *time.Time) {
		for i := range 100 {
			*clock = time.Unix(1000+int64(i), 0)
			require.NoError(t, w.Append(Stdout, fmt.Appendf(nil, "line %02d\n", i)))
		}
	})
	at := func(sec int64) int64 {
		off, err := r.At(time.Unix(sec, 0))
		require.NoError(t, err)
		return off
	}
	require.EqualValues(t, 0, at(0))
	require.EqualValues(t, 50*8, at(1050))
	require.EqualValues(t, 800, at(5000), "nothing is so late")
	require.Equal(t, "line 10\nline 11\n", text(t, r, Range{Offset: at(1010), Until: time.Unix(1012, 0)}))
	require.Equal(t, "line 99\n", text(t, r, Range{Offset: at(1099), Until: time.Unix(9000, 0)}))
}

func TestAClockThatIsSetBackLeavesTheIndexInOrder(t *testing.T) {
	t.Parallel()
	r := made(t, func(w *Writer, clock *time.Time) {
		for i, sec := range []int64{1000, 2000, 500, 600, 2500, 2400} {
			*clock = time.Unix(sec, 0)
			require.NoError(t, w.Append(Stdout, []byte{byte('a' + i)}))
		}
	})
	for sec, want := range map[int64]string{500: "abcdef", 1001: "bcdef", 2001: "ef", 2500: "ef", 2501: ""} {
		off, err := r.At(time.Unix(sec, 0))
		require.NoError(t, err)
		require.Equal(t, want, text(t, r, Range{Offset: off}), "from %d on", sec)
	}
}

func TestTails(t *testing.T) {
	t.Parallel()
	for all, want := range map[string]string{
		"a\nb\nc\n": "b\nc\n", "a\nb\nc": "b\nc", "a": "a", "": "", "\n\n\n": "\n\n", "x\ny\n": "x\ny\n",
		"0\n" + strings.Repeat("y", 200<<10) + "\nlast": strings.Repeat("y", 200<<10) + "\nlast",
	} {
		r := made(t, func(w *Writer, _ *time.Time) { require.NoError(t, w.Append(Stdout, []byte(all))) })
		off, err := r.TailLines(2)
		require.NoError(t, err)
		require.Equal(t, want, text(t, r, Range{Offset: off}))
		off, err = r.TailBytes(2)
		require.NoError(t, err)
		require.Equal(t, all[max(0, len(all)-2):], text(t, r, Range{Offset: off}))
	}
}

func TestGapsAndSizesAreRecords(t *testing.T) {
	t.Parallel()
	r := made(t, func(w *Writer, _ *time.Time) {
		require.NoError(t, w.Resize(24, 80))
		require.NoError(t, w.Append(PTY, []byte("12345678")))
		require.NoError(t, w.Resize(50, 132))
		require.NoError(t, w.Append(PTY, []byte("90")))
		// A file that takes no writes stands for a full disk.
		readOnly, err := os.Open(w.data.Name())
		require.NoError(t, err)
		require.NoError(t, w.data.Close())
		w.data = readOnly
		for range 100 {
			require.Error(t, w.Append(PTY, []byte("abcde")))
		}
		require.EqualValues(t, 510, w.Size())
		require.EqualValues(t, 500, w.Dropped())
	})
	var seen []string
	at := int64(0)
	require.NoError(t, r.Read(context.Background(), Range{}, func(c Chunk) error {
		require.Equal(t, at, c.Offset)
		switch c.Stream {
		case Gap:
			require.Equal(t, DiskFull, c.Reason)
			at = c.To
		case Resize:
			seen = append(seen, fmt.Sprint(c.Rows, "x", c.Cols))
		default:
			seen = append(seen, string(c.Data))
			at += int64(len(c.Data))
		}
		return nil
	}))
	require.Equal(t, []string{"24x80", "12345678", "50x132", "90"}, seen)
	require.EqualValues(t, 510, at)
	end, err := r.End()
	require.NoError(t, err)
	require.EqualValues(t, 510, end)
}

// Masking: however it is read, and whichever streams a secret is cut by.
func TestSecretsAreMaskedHoweverTheyAreRead(t *testing.T) {
	t.Parallel()
	secrets := &redact.Redactor{}
	secrets.Add("correct-horse-battery-staple")
	r := made(t, func(w *Writer, _ *time.Time) {
		require.NoError(t, w.Append(Stdout, []byte("begin correct-ho")))
		require.NoError(t, w.Append(Stderr, []byte("NOISE\n")))
		require.NoError(t, w.Append(Stdout, []byte("rse-battery-staple end\n")))
		require.NoError(t, w.Append(Stderr, bytes.Repeat([]byte("filler\n"), 100_000)))
		require.NoError(t, w.Append(Stdout, []byte("again correct-horse-battery-staple\n")))
	})
	whole := text(t, r, Range{})
	require.Contains(t, whole, "correct-horse-battery-staple")
	r.SetMask(secrets.Mask)
	masked := text(t, r, Range{})
	require.Len(t, masked, len(whole))
	require.True(t, strings.HasPrefix(masked, "begin ⟦secret*NOISE\n***************⟧ end\nfiller\n"), masked[:60])
	require.True(t, strings.HasSuffix(masked, "\nagain ⟦secret****************⟧\n"))
	for off := range int64(60) {
		require.Equal(t, masked[off:off+7], text(t, r, Range{Offset: off, Limit: 7}))
	}
	p, err := NewPattern("horse|correct", true, false)
	require.NoError(t, err)
	found, err := r.Search(context.Background(), Query{Pattern: p, Max: 10})
	require.NoError(t, err)
	require.Empty(t, found.Matches, "a search must not tell what reading hides")
}

func TestASecretAtTheEndOfALiveLogIsHeldBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := Create(dir)
	require.NoError(t, err)
	r := opened(t, dir)
	r.SetMask((*redact.Redactor)(nil).Mask)
	ended := make(chan struct{})
	got := make(chan string, 16)
	done := make(chan error, 1)
	go func() {
		done <- r.Read(context.Background(), Range{Ended: ended}, func(c Chunk) error {
			got <- string(c.Data)
			return nil
		})
	}()
	require.NoError(t, w.Append(Stdout, []byte("key: sk-ant-abc")))
	require.Equal(t, "key: ", <-got)
	require.NoError(t, w.Append(Stdout, []byte("defghijklmnopqrst\n")))
	all := ""
	for !strings.HasSuffix(all, "\n") {
		all += <-got
	}
	require.Equal(t, "⟦secret***************⟧\n", all)
	require.NoError(t, w.Append(Stdout, []byte("sk-ant-abc")))
	require.NoError(t, w.Close())
	close(ended)
	require.NoError(t, <-done)
	require.Equal(t, "sk-ant-abc", <-got, "nothing more comes: it is none")
}

// A search answers what a regexp of the whole answers.
func TestASearchIsThatOfTheWhole(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pattern    string
		expression bool
		ignore     bool
	}{
		"a text":                {"needle", false, false},
		"a text in any case":    {"NEEDLE", false, true},
		"an expression":         {`n[e]+dle \d+`, true, false},
		"of a line's begin":     {`^needle`, true, false},
		"of a line's end":       {`\d+$`, true, false},
		"of a word":             {`\bedle\b|\b7\b`, true, false},
		"of bytes not text":     {`\x{FFFD}+z`, true, false},
		"a text of two lines":   {"0\nn", false, false},
		"as much as it can get": {`x+`, true, false},
		"what costs much":       {`(?:x|[n-z ]){0,3}N.{0,150}\d+$`, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := NewPattern(tc.pattern, tc.expression, tc.ignore)
			require.NoError(t, err)
			expr := tc.pattern
			if !tc.expression {
				expr = regexp.QuoteMeta(expr)
			}
			if tc.ignore {
				expr = "(?i)" + expr
			}
			re := regexp.MustCompile("(?m)" + expr)
			dir := t.TempDir()
			n := 0
			rapid.Check(t, func(rt *rapid.T) {
				n++
				var all []byte
				for i := range rapid.IntRange(1, 40).Draw(rt, "pieces") {
					switch rapid.IntRange(0, 5).Draw(rt, "kind") {
					case 0:
						all = fmt.Appendf(all, "needle %d\n", i)
					case 1:
						all = append(all, bytes.Repeat([]byte("x"), rapid.SampledFrom([]int{1, 5, 60_000}).Draw(rt, "xs"))...)
					case 2:
						all = append(all, '\n')
					case 3:
						all = append(all, 0xff, 0xfe, 'z')
					case 4:
						all = append(all, " 7 edle"...)
					case 5:
						all = append(all, "\nNeedle 10\n"...)
					}
				}
				for _, m := range re.FindAllIndex(all, -1) {
					if m[1]-m[0] > MaxMatch {
						rt.Skip("a longer match than is promised")
					}
				}
				sub := filepath.Join(dir, fmt.Sprint(n))
				require.NoError(rt, os.Mkdir(sub, 0o700))
				w, err := Create(sub)
				require.NoError(rt, err)
				require.NoError(rt, w.Append(Stdout, all))
				require.NoError(rt, w.Close())
				r := opened(t, sub)
				var got [][]int
				var next int64
				for complete := false; !complete; {
					found, err := r.Search(context.Background(), Query{Pattern: p, Max: 3, Offset: next})
					require.NoError(rt, err)
					for _, m := range found.Matches {
						got = append(got, []int{int(m.Offset), int(m.Offset + m.Length)})
						require.Contains(rt, string(m.Excerpt), string(all[m.Offset:min(m.Offset+m.Length, m.Offset+1000)]))
					}
					next, complete = found.Next, found.Complete
				}
				require.Equal(rt, re.FindAllIndex(all, -1), got)
			})
		})
	}
}

// late is a context whose deadline passes after so many looks at it.
type late struct {
	context.Context
	looks int
}

func (l *late) Err() error {
	if l.looks--; l.looks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

func TestASearchThatRunsOutOfTimeSaysWhereToGoOn(t *testing.T) {
	t.Parallel()
	r := made(t, func(w *Writer, _ *time.Time) {
		require.NoError(t, w.Append(Stdout, bytes.Repeat([]byte("some words and a number\n"), 100_000)))
		require.NoError(t, w.Append(Stdout, []byte("needle\n")))
	})
	p, err := NewPattern(`need(le.{0,100}|le)`, true, false)
	require.NoError(t, err)
	_, err = r.Search(&late{t.Context(), 1}, Query{Pattern: p, Max: 1})
	require.ErrorIs(t, err, context.DeadlineExceeded, "it came no further")
	var next int64
	for calls := 1; ; calls++ {
		found, err := r.Search(&late{t.Context(), 100}, Query{Pattern: p, Max: 1, Offset: next})
		require.NoError(t, err)
		require.Greater(t, found.Next, next)
		if next = found.Next; len(found.Matches) > 0 {
			require.Greater(t, calls, 1)
			require.Equal(t, "needle", string(found.Matches[0].Excerpt))
			return
		}
	}
}

// A caller who wants to show how far a search is gets an answer early, whatever is found.
func TestASearchReturnsWhenItsTimeIsUp(t *testing.T) {
	t.Parallel()
	line := []byte("some words and a number\n")
	r := made(t, func(w *Writer, _ *time.Time) {
		require.NoError(t, w.Append(Stdout, bytes.Repeat(line, 200_000)))
		require.NoError(t, w.Append(Stdout, []byte("needle\n")))
	})
	size, err := r.Size()
	require.NoError(t, err)
	p, err := NewPattern("needle", false, true)
	require.NoError(t, err)
	query := Query{Pattern: p, Max: 1, Until: time.Now().Add(-time.Second)}
	var found Found
	for calls := 0; len(found.Matches) == 0; calls++ {
		next := found.Next
		query.Offset = next
		found, err = r.Search(t.Context(), query)
		require.NoError(t, err)
		require.Greater(t, found.Next, next, "some of it is searched")
		require.LessOrEqual(t, found.Next-next, int64(searchWindow), "and then it returns")
		require.Less(t, calls, 10)
	}
	require.EqualValues(t, 200_000*len(line), found.Matches[0].Offset)

	query.Offset = 0
	found = Found{}
	p, err = NewPattern("some words", false, false)
	require.NoError(t, err)
	query.Pattern, query.Max = p, 1_000_000
	found, err = r.SearchBack(t.Context(), query)
	require.NoError(t, err)
	require.EqualValues(t, size-backBlock, found.Next)
	require.False(t, found.Complete)
}

func TestPatternsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"(", "x*", `\Ax`, `x\z`, "", `([a-y]*){10}(x?){900}z`, `(?i)(a|b|c|d|e|f).{0,998}z$`} {
		_, err := NewPattern(bad, true, false)
		require.Error(t, err, bad)
	}
}

func TestAnExcerptHasTheLinesAround(t *testing.T) {
	t.Parallel()
	r := made(t, func(w *Writer, clock *time.Time) {
		for i := range 9 {
			*clock = time.Unix(int64(2000+i), 0)
			require.NoError(t, w.Append([]Stream{Stdout, Stderr}[i%2], fmt.Appendf(nil, "line %d\n", i)))
		}
	})
	p, err := NewPattern("e 5", false, false)
	require.NoError(t, err)
	found, err := r.Search(context.Background(), Query{Pattern: p, Max: 9, Context: 1})
	require.NoError(t, err)
	require.True(t, found.Complete)
	require.Len(t, found.Matches, 1)
	m := found.Matches[0]
	require.Equal(t, "line 4\nline 5\nline 6", string(m.Excerpt))
	require.EqualValues(t, 28, m.ExcerptOffset)
	require.Equal(t, Stderr, m.Stream)
	require.Equal(t, time.Unix(2005, 0), m.Time)
}
