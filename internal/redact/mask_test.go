package redact_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/redact"
)

const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/=\nAAAA\n-----END RSA PRIVATE KEY-----\n"

func TestMaskKeepsLengths(t *testing.T) {
	t.Parallel()
	r := &redact.Redactor{}
	r.Add("hunter2-and-more")
	for name, tc := range map[string]struct{ in, out string }{
		"a known value":          {"pass=hunter2-and-more;", "pass=" + marked(16) + ";"},
		"twice":                  {"hunter2-and-morehunter2-and-more", marked(32)},
		"Anthropic's key":        {"key sk-ant-abcdefghijklmnop1 end", "key " + marked(24) + " end"},
		"AWS's key":              {"AKIAABCDEFGHIJKLMNOP\n", marked(20) + "\n"},
		"GitHub's token":         {"ghp_" + strings.Repeat("a", 36), marked(40)},
		"ours":                   {"dhk_" + strings.Repeat("a", 26) + ".", marked(30) + "."},
		"too short for a token":  {"sk-short task-list gh_ AKIA", "sk-short task-list gh_ AKIA"},
		"a private key":          {"x\n" + pem + "y", "x\n" + marked(31) + "\n" + marked(9) + "\n****\n-----END RSA PRIVATE KEY-----\ny"},
		"bytes that are no text": {"\x00\xff\xfe", "\x00\xff\xfe"},
	} {
		p := []byte(tc.in)
		r.Mask(p)
		require.Equal(t, tc.out, string(p), name)
	}
}

// marked is the marker of a secret of n bytes.
func marked(n int) string {
	if n < len(redact.Mask) {
		return "⟦" + strings.Repeat("*", n-len("⟦⟧")) + "⟧"
	}
	return "⟦secret" + strings.Repeat("*", n-len(redact.Mask)) + "⟧"
}

func TestMarkersAreFoundInAText(t *testing.T) {
	t.Parallel()
	r := &redact.Redactor{}
	r.Add("hunter2-and-more", "8 bytes!")
	text := []byte("a hunter2-and-more b 8 bytes! ⟦note⟧\n" + pem)
	r.Mask(text)
	require.Equal(t, []string{marked(16), marked(8), marked(31), marked(9)}, redact.Markers(string(text)))
	require.Equal(t, []string{redact.Mask}, redact.Markers(r.String("a hunter2-and-more")))
	require.Empty(t, redact.Markers("**** ⟦note⟧ [secret]"))
}

func TestMaskHoldsBackWhatMayBecomeASecret(t *testing.T) {
	t.Parallel()
	r := &redact.Redactor{}
	r.Add("hunter2-and-more")
	for in, settled := range map[string]int{
		"plain text\n":            11,
		"pass=hunter2-and":        5,
		"pass=hun":                8, // gives nothing away
		"key sk-ant-abc":          4,
		"key sk-ant-abc\n":        15,
		"-----BEGIN RSA PRIV":     0,
		"x\n-----BEGIN CERTIFICA": 2,
		"say github_p":            4,
	} {
		require.Equal(t, settled, r.Mask([]byte(in)), in)
	}
	require.Equal(t, 5, (*redact.Redactor)(nil).Mask([]byte("plain")))
}

// However a stream is cut, what is shown of it is what is shown of the whole.
func TestAStreamMaskedInPartsShowsNoMoreThanTheWhole(t *testing.T) {
	t.Parallel()
	r := &redact.Redactor{}
	r.Add("hunter2-and-more")
	piece := rapid.SampledFrom([]string{
		"hunter2-and-more", "hunter2", hex.EncodeToString([]byte("hunter2-and-more")), "aHVudGVyMi1hbmQtbW9yZQ", " ", "\n", "sk-ant-abcdefghijklmnopqrst", "sk-", "abc", "AKIAABCDEFGHIJKLMNOP", pem, "ghp_" + strings.Repeat("z", 36), "----", "\xff",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 1, 20).Draw(t, "pieces"), "")
		whole := []byte(text)
		r.Mask(whole)
		var shown []byte
		for have := 0; have < len(text); {
			have = min(len(text), have+rapid.IntRange(1, 40).Draw(t, "more"))
			p := []byte(text[:have])
			if settled := r.Mask(p); settled > len(shown) {
				shown = append(shown, p[len(shown):settled]...)
			}
		}
		for i, c := range shown {
			if whole[i] != text[i] && c == text[i] {
				// Only the first bytes of a secret, too few to be worth anything.
				n := 0
				for j := i; j >= 0 && whole[j] != text[j] && shown[j] == text[j]; j-- {
					n++
				}
				if n >= 4 {
					t.Fatalf("%d bytes of a secret were shown: %q of %q", n, shown, text)
				}
			}
		}
	})
}
