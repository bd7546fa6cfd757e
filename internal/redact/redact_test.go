package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// Known values and known shapes are masked wherever they stand.
func TestSecretsAreMasked(t *testing.T) {
	var r redact.Redactor
	r.Add("correct-horse-battery", "short", "correct-horse")
	token := ident.Secret("dhu")
	for _, secret := range []string{
		"correct-horse-battery", token, "sk-ant-api03-AbCdEf0123456789", "ghp_" + strings.Repeat("a", 36),
		"-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----",
	} {
		out := r.String("before " + secret + " after")
		require.Equal(t, "before ⟦secret⟧ after", out)
	}
	for _, harmless := range []string{
		"a short word stays", "disk-usage-report-2026-11-20.txt", "task-12345678901234567890123456789",
		"grep -r 'BEGIN RSA PRIVATE KEY' /etc && echo '-----BEGIN PRIVATE KEY-----' found", "\uFFFDtext",
	} {
		require.Equal(t, harmless, r.String(harmless))
	}
	require.Equal(t, "cut ⟦secret⟧", r.String("cut -----BEGIN RSA PRIVATE KEY-----\n"+strings.Repeat("QUJD", 20)+"\n"), "a key without its end")
	require.Equal(t, "a\uFFFDb\uFFFD", r.String("a\x00b\xff"), "what a database does not take")
	require.Equal(t,
		map[string]any{"k": []any{"x ⟦secret⟧", 1.5, nil, map[string]any{"⟦secret⟧": true}}},
		r.Map(map[string]any{"k": []any{"x correct-horse", 1.5, nil, map[string]any{token: true}}}))

	var b strings.Builder
	n, err := r.Writer(&b).Write([]byte("key=" + token + "\n"))
	require.NoError(t, err)
	require.Equal(t, len("key=")+len(token)+1, n)
	require.Equal(t, "key=⟦secret⟧\n", b.String())

	var nobody *redact.Redactor
	require.Equal(t, "⟦secret⟧", nobody.String(token))
}

// A value is known in whatever a program writes it in.
func TestAValueIsKnownInItsEncodings(t *testing.T) {
	t.Parallel()
	const secret = "p@ss \"wörd\"/<&>+=?\nline"
	var r redact.Redactor
	r.Add(secret, "plain-secret-value")
	inJSON, err := json.Marshal(map[string]string{"k": secret})
	require.NoError(t, err)
	twice, err := json.Marshal(string(inJSON))
	require.NoError(t, err)
	var raw strings.Builder
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(secret))
	for what, text := range map[string]string{
		"as it is":               secret,
		"JSON":                   string(inJSON),
		"JSON in JSON":           string(twice),
		"JSON of others":         raw.String(),
		"a query":                "q=" + url.QueryEscape(secret),
		"a path":                 "/" + url.PathEscape(secret),
		"a query in small hex":   strings.ToLower(url.QueryEscape(secret)),
		"hex":                    hex.EncodeToString([]byte(secret)),
		"large hex":              fmt.Sprintf("%X", secret),
		"base64":                 base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 of URLs":         base64.URLEncoding.EncodeToString([]byte(secret)),
		"a login":                "Basic " + base64.StdEncoding.EncodeToString([]byte("me:plain-secret-value")),
		"a login of two":         "Basic " + base64.StdEncoding.EncodeToString([]byte("us:plain-secret-value:x")),
		"a login of three":       "Basic " + base64.StdEncoding.EncodeToString([]byte("you:plain-secret-value")),
		"inside of a longer one": "xplain-secret-valuex",
	} {
		out := r.String("before " + text + " after")
		require.Contains(t, out, redact.Mask, what)
		// At most the odd characters at the ends are left.
		left := strings.NewReplacer("before ", "", " after", "", redact.Mask, "").Replace(out)
		require.LessOrEqual(t, len(left), 16, "%s: %s", what, out)
		inPlace := []byte("before " + text + " after")
		r.Mask(inPlace)
		require.Greater(t, len(strings.Join(redact.Markers(string(inPlace)), "")), len(text)-17, "%s: %s", what, inPlace)
	}
	r.Add("correct-horse", "horse-battery-staple")
	require.Equal(t, "say ⟦secret⟧!", r.String("say correct-horse-battery-staple!"), "secrets that share a part")
}

// The matcher finds what a search for each pattern by itself finds.
func TestWhatIsMaskedIsWhatIsThere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOfN(rapid.SampledFrom([]rune("abAB-")), 8, 12, -1)
		values := rapid.SliceOfN(value, 1, 30).Draw(t, "values")
		var r redact.Redactor
		r.Add(values...)
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abAB-")), 0, 200, -1).Draw(t, "text") + rapid.SampledFrom(values).Draw(t, "one") +
			rapid.StringOfN(rapid.SampledFrom([]rune("abAB-")), 0, 20, -1).Draw(t, "rest")
		want := []byte(text)
		for _, v := range values {
			for at := 0; at+len(v) <= len(text); at++ {
				if text[at:at+len(v)] == v {
					copy(want[at:], strings.Repeat("*", len(v)))
				}
			}
		}
		want = regexp.MustCompile(`\*+`).ReplaceAllFunc(want, func(stars []byte) []byte { return []byte(marked(len(stars))) })
		got := []byte(text)
		r.Mask(got)
		if string(got) != string(want) {
			t.Fatalf("%q of %q: %q is not %q", values, text, got, want)
		}
	})
}

// What one organisation's values are is nothing to another: neither what is
// shown to it changes, nor can it learn of them by looking.
func TestAValueIsMaskedForItsOrganisationOnly(t *testing.T) {
	t.Parallel()
	var process redact.Redactor
	process.Add("the-process's-own-secret")
	a, b := process.Org("org_a"), process.Org("org_b")
	require.Same(t, a, process.Org("org_a"))
	require.Same(t, b, a.Org("org_b"))
	b.Learn("credential", "max_completion_tokens", "confidential")
	text := `{"max_completion_tokens":100,"messages":"confidential, the-process's-own-secret"}`
	require.Equal(t, `{"max_completion_tokens":100,"messages":"confidential, ⟦secret⟧"}`, a.String(text))
	require.Equal(t, `{"⟦secret⟧":100,"messages":"⟦secret⟧, ⟦secret⟧"}`, b.String(text))
	require.Equal(t, b.String(text), process.String(text), "the process's log has text of all of them")
	require.Equal(t, map[string]any{"max_completion_tokens": "⟦secret⟧"},
		b.Map(map[string]any{"max_completion_tokens": "confidential"}), "a key is a name, and no secret")
	require.Equal(t, map[string]any{"a\uFFFDb": nil}, a.Map(map[string]any{"a\x00b": nil}), "a database takes it")
}

// Rotated and deleted values are forgotten, unless another source has them.
func TestWhatIsRotatedIsForgotten(t *testing.T) {
	t.Parallel()
	var process redact.Redactor
	org := process.Org("org_a")
	org.Learn("other", "value-number-0009999")
	for i := range 10_000 {
		org.Learn("trigger", fmt.Sprintf("value-number-%07d", i), fmt.Sprintf("value-number-%07d", i+1))
		if i > 0 {
			org.Forget("trigger", fmt.Sprintf("value-number-%07d", i-1))
		}
	}
	require.Equal(t, 2, org.Len())
	require.Equal(t, 2, process.Len())
	require.Equal(t, "value-number-0000001 ⟦secret⟧ ⟦secret⟧", org.String("value-number-0000001 value-number-0009999 value-number-0010000"))
	org.Forget("trigger")
	require.Equal(t, map[string][]string{"other": {"value-number-0009999"}}, org.Sources())
	require.Equal(t, "⟦secret⟧ value-number-0010000", org.String("value-number-0009999 value-number-0010000"))
	org.Forget("other")
	require.Zero(t, process.Len())
}

// However values come and go, what is masked is what a set of them has.
func TestTheLevelsAreASet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var process redact.Redactor
		org, sources := process.Org("o"), map[string][]string{}
		value := func(i int) string { return fmt.Sprintf("secret-of-%04d", i) }
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			source := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "source"))
			var list []string
			for range rapid.IntRange(0, 5).Draw(t, "values") {
				list = append(list, value(rapid.IntRange(0, 30).Draw(t, "value")))
			}
			if rapid.Bool().Draw(t, "learn") {
				org.Learn(source, list...)
				for _, v := range list {
					if !slices.Contains(sources[source], v) {
						sources[source] = append(sources[source], v)
					}
				}
			} else {
				org.Forget(source, list...)
				sources[source] = slices.DeleteFunc(sources[source], func(v string) bool { return len(list) == 0 || slices.Contains(list, v) })
			}
		}
		known := map[string]bool{}
		for _, list := range sources {
			for _, v := range list {
				known[v] = true
			}
		}
		for i := range 31 {
			want := value(i)
			if known[want] {
				want = redact.Mask
			}
			if got := org.String(value(i)); got != want {
				t.Fatalf("%s: %s is not %s", value(i), got, want)
			}
			if got := process.String(value(i)); got != want {
				t.Fatalf("the process: %s: %s is not %s", value(i), got, want)
			}
		}
	})
}

// Adding is incremental: each value is prepared a few times at most, however
// many come one by one, and a reader waits for none of it.
func BenchmarkAddOneByOne(b *testing.B) {
	for range b.N {
		var process redact.Redactor
		org := process.Org("org_a")
		for i := range 10_000 {
			org.Learn(fmt.Sprint(i), fmt.Sprintf("value-number-%07d", i))
		}
	}
}
