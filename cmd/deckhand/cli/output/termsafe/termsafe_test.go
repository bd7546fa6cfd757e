package termsafe_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
)

func TestTextIsMadeSafe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"plain text with lines and tabs passes":       {"a\tb\nç ✓ 👩‍💻\n", "a\tb\nç ✓ 👩‍💻\n"},
		"colours are dropped":                         {"\x1b[1;31merror\x1b[0m", "error"},
		"moving the cursor is dropped":                {"\x1b[2J\x1b[1;1Hhi", "hi"},
		"a window title is shown, not set":            {"\x1b]0;pwned\x07", "␛]0;pwned␇"},
		"the clipboard is shown, not filled":          {"\x1b]52;c;cm0=\x1b\\", "␛]52;c;cm0=␛\\"},
		"a reset is shown":                            {"\x1bc", "␛c"},
		"C1 controls are replaced":                    {"a\u009b31mb", "a\ufffd31mb"},
		"raw C1 bytes are replaced":                   {"a\x9b31mb", "a\ufffd31mb"},
		"backspaces do not rub out":                   {"rm -rf\b\b\b\b\b\bls", "rm -rf␈␈␈␈␈␈ls"},
		"a carriage return does not overwrite":        {"evil\rgood\r\nend", "evil\ngood\nend"},
		"text is not hidden in a long sequence":       {"\x1b[" + strings.Repeat("1", 100) + "m", "␛[" + strings.Repeat("1", 100) + "m"},
		"an unfinished sequence is shown":             {"x\x1b[31", "x␛[31"},
		"a lone escape at the end is shown":           {"x\x1b", "x␛"},
		"direction overrides are replaced":            {"a\u202etxt.exe", "a\ufffdtxt.exe"},
		"invisible tags are replaced":                 {"a\U000e0041b", "a\ufffdb"},
		"Unicode's line separators are replaced":      {"a\u2028b", "a\ufffdb"},
		"NUL and DEL are shown":                       {"\x00\x7f", "␀␡"},
		"what is not UTF-8 is replaced byte for byte": {"\xff\xfe", "\ufffd\ufffd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, termsafe.Text(c.in))
		})
	}
}

func TestLineIsOneLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b c", termsafe.Line(" a\n\nb\t\x1b[1mc\r"))
}

func TestJSONKeepsItsValue(t *testing.T) {
	t.Parallel()
	in := map[string]string{"k\u202e": "a\u009b31m\x7f\U000e0041 ✓ \ufffd"}
	raw, err := json.Marshal(in)
	require.NoError(t, err)
	safe := termsafe.JSON(raw)
	require.Equal(t, `{"k\u202e":"a\u009b31m\u007f\udb40\udc41 ✓ `+"\ufffd"+`"}`, string(safe))
	var out map[string]string
	require.NoError(t, json.Unmarshal(safe, &out))
	require.Equal(t, in, out)
}

// Whatever comes in, nothing that a terminal obeys comes out, and cutting the
// stream anywhere changes nothing.
func FuzzText(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[31mred\x1b[0m", "\x1b]0;t\x07", "a\rb\r\n", "\xc2\x9b", "\xe2\x80\xae", "\x1b[\x1b[m", "\x1b"} {
		f.Add([]byte(s), 1)
	}
	f.Fuzz(func(t *testing.T, in []byte, chunk int) {
		out := termsafe.Text(string(in))
		require.True(t, utf8.ValidString(out))
		for _, r := range out {
			require.False(t, unicode.IsControl(r) && r != '\n' && r != '\t', "%q", out)
		}
		require.Equal(t, out, termsafe.Text(out), "filtering twice changes nothing")

		var buf bytes.Buffer
		w := termsafe.Writer(&buf)
		size := max(1, chunk&0x3f)
		for rest := in; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			_, err := w.Write(rest[:min(size, len(rest))])
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		require.Equal(t, out, buf.String())
	})
}
