package screen_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/screen"
)

func TestAScreenIsWhatAPersonSees(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		output, want string
		row, column  int
	}{
		"nothing":                {"", "", 1, 1},
		"lines":                  {"one\r\ntwo", "one\ntwo", 2, 4},
		"colours":                {"\x1b[31mred\x1b[0m \x1b[1mbold\x1b[m", "red bold", 1, 9},
		"progress on one line":   {"10 %\r100 %\r\n", "100 %", 2, 1},
		"erased and moved":       {"junk\x1b[2J\x1b[2;3Hmenu\x1b[3;1H> a", "junk\n\n  menu\n> a", 3, 4},
		"what scrolled off":      {"1\r\n2\r\n3\r\n4\r\n5\r\n6", "1\n2\n3\n4\n5\n6", 4, 2},
		"an alternate screen":    {"shell$ \x1b[?1049h\x1b[Hin vim", "in vim", 1, 7},
		"and back":               {"shell$ \x1b[?1049h\x1b[Hin vim\x1b[?1049l", "shell$", 1, 8},
		"wide characters":        {"日本 ok", "日本 ok", 1, 8},
		"a question to terminal": {"\x1b[6n\x1b[c\x1b[>c\x1b]11;?\x07ok", "ok", 1, 3},
		"a broken sequence":      {"a\x1b[999999999999;;;\x1b]0;no end", "a", 1, 2},
		"more than a line":       {strings.Repeat("x", 15), "xxxxxxxxxx\nxxxxx", 2, 6},
	} {
		s := screen.New(4, 10)
		s.Write([]byte(c.output))
		text, row, column, err := s.Text(20)
		require.NoError(t, err, name)
		require.Equal(t, c.want, text, name)
		onScreen, _, _, err := s.Text(0)
		require.NoError(t, err, name)
		require.LessOrEqual(t, strings.Count(onScreen, "\n"), 3, name)
		require.Equal(t, []int{c.row, c.column}, []int{row, column}, name)
	}
}

func TestProgramsAskForOtherKeys(t *testing.T) {
	t.Parallel()
	s := screen.New(4, 10)
	require.False(t, s.ApplicationKeys())
	s.Write([]byte("\x1b[?1h"))
	require.True(t, s.ApplicationKeys())
	s.Write([]byte("\x1b[?1l"))
	require.False(t, s.ApplicationKeys())
}

// No output ends or blocks the process.
func FuzzScreen(f *testing.F) {
	f.Add([]byte("\x1b[6n\x1b[c\x1bP$q q\x1b\\\x1b[5;2r\x1b[10M\x1b[4L\x1b[100@\x1b[3;2H\x1b[7P日本\x1b[1J"))
	f.Add([]byte("\x1b]8;;http://x\x07a\x1b]8;;\x07\x1b(0lqk\x1b(B\x1b[?6h\x1b[20;30H"))
	f.Fuzz(func(t *testing.T, output []byte) {
		s := screen.New(4, 10)
		s.Write(output)
		if text, _, _, err := s.Text(20); err == nil && strings.Count(text, "\n") > 24 {
			t.Errorf("%d lines", strings.Count(text, "\n"))
		}
	})
}
