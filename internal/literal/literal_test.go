package literal

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// original reads back what Block or Line shows.
func original(shown string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(shown, string(openMark))
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		mark, after, closed := strings.Cut(rest, string(closeMark))
		if !closed {
			return "", fmt.Errorf("an open mark in %q", shown)
		}
		shown = after
		if code, ok := strings.CutPrefix(mark, "U+"); ok {
			r, err := strconv.ParseUint(code, 16, 32)
			if err != nil {
				return "", err
			}
			out.WriteRune(rune(r))
			continue
		}
		if code, ok := strings.CutPrefix(mark, "0x"); ok {
			b, err := strconv.ParseUint(code, 16, 8)
			if err != nil {
				return "", err
			}
			out.WriteByte(byte(b))
			continue
		}
		switch picture := []rune(mark); {
		case mark == "\u2421":
			out.WriteByte(0x7f)
		case len(picture) == 1 && picture[0] >= 0x2400 && picture[0] < 0x2420:
			out.WriteByte(byte(picture[0] - 0x2400))
		default:
			return "", fmt.Errorf("an unknown mark %q", mark)
		}
	}
}

func requireReversible(t require.TestingT, s string) {
	for name, shown := range map[string]string{"block": Block(s), "line": Line(s)} {
		back, err := original(shown)
		require.NoError(t, err)
		require.Equal(t, s, back, name)
	}
}

func TestWhatIsShownIsWhatIsThere(t *testing.T) {
	t.Parallel()
	parts := rapid.OneOf(
		rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{"⟦", "⟧", "⟦U+202E⟧", "\x1b[2K", "\r", "\u200d", "\u00ad", "\U000e0041", "раypal", "://е.com", "\xff", "\u2028", "␛"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		requireReversible(t, strings.Join(rapid.SliceOf(parts).Draw(t, "parts"), ""))
	})
}

func FuzzWhatIsShownIsWhatIsThere(f *testing.F) {
	for _, s := range []string{"", "ls\r\n", "\x1b]0;x\a", "⟦U+0041⟧", "\xf0\x28", "https://аpi.example.com/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		requireReversible(t, s)
		for _, r := range Line(s) {
			require.False(t, r < 0x20 || r == 0x7f || r == 0x202e || r == 0x200b, "%q of %q", r, s)
		}
	})
}

// The spellings in marks.json hide something, each with what must be seen of it.
// The console marks the same ones.
func TestNothingIsHidden(t *testing.T) {
	t.Parallel()
	type spelling struct{ Name, Text, Shown string }
	data, err := os.ReadFile("testdata/marks.json")
	require.NoError(t, err)
	var all []spelling
	require.NoError(t, json.Unmarshal(data, &all))
	all = append(all,
		spelling{"a byte that is not UTF-8", "a\xffb", "a⟦0xFF⟧b"},
		spelling{"an overlong slash", "a\xc0\xafb", "a⟦0xC0⟧⟦0xAF⟧b"},
	)
	for _, tt := range all {
		t.Run(tt.Name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.Shown, Block(tt.Text))
			requireReversible(t, tt.Text)
			_, n := Marks(tt.Text)
			require.Equal(t, n > 0, tt.Shown != tt.Text)
			require.Equal(t, n > 0, Note(tt.Text) != "")
		})
	}
	require.Equal(t, "# note⟦␊⟧rm⟦␉⟧-rf x", Line("# note\nrm\t-rf x"), "a line feed is no space")
	require.Equal(t, "It contains 3 characters that are invisible, or look like others. They are shown as ⟦␛⟧ ⟦␍⟧.", Note("\x1b\r\x1b"))
}
