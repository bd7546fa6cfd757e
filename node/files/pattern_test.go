package files

import (
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

func TestAPatternWhoseBracesStandForTooManyIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Repeat("{a,a}", 40) + "b",
		strings.Repeat("{", 90) + strings.Repeat(",a}", 90),
		"{" + strings.Repeat("{a,b}", 7) + "," + strings.Repeat("{a,b}", 7) + "}",
		"{" + strings.Repeat("a,", 100) + "a}",
		"{a,b,c,d,e,f,g,h,i}" + strings.Repeat("x", 1000),
	} {
		_, err := newPattern(text)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", text, err)
	}
	for _, text := range []string{"{a", "a}", "[", "[]", `\`} {
		_, err := newPattern(text)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", text, err)
	}
	p, err := newPattern(`src/**/*.{go,{c,h}{,pp}}`)
	require.NoError(t, err)
	require.ElementsMatch(t, pattern{`src/**/*.go`, `src/**/*.c`, `src/**/*.cpp`, `src/**/*.h`, `src/**/*.hpp`}, p)
	p, err = newPattern(`a\{b,c\}[{,}]`)
	require.NoError(t, err)
	require.Equal(t, pattern{`a\{b,c\}[{,}]`}, p)
}

func TestAPatternMatchesWhatTheMatcherSaysOfItsBraces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"a", "b", "/", "?", "[ab]", "[^a]", "{a,b}", "{,ab}", "{a,{b,a/b}}", `\{`, "/**/", "{**/a,b}"})
		text := strings.Join(rapid.SliceOfN(part, 1, 5).Draw(t, "pattern"), "")
		name := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "/", "{"}), 1, 8).Draw(t, "name"), "")
		if strings.Contains(text, "/**/{,") {
			t.Skip() // the matcher contradicts itself: a/**/ matches a, and a/**/{,b} does not
		}
		p, err := newPattern(text)
		if err != nil {
			t.Skip()
		}
		want, err := doublestar.Match(text, name)
		if err != nil {
			t.Skip()
		}
		if p.match(name) != want {
			t.Fatalf("%s and %s: %v", text, name, !want)
		}
	})
}

// FuzzPatternStaysSmall verifies that what is matched against each name of a
// workspace is bounded, whatever the pattern.
func FuzzPatternStaysSmall(f *testing.F) {
	f.Add("{a,a}{a,a}{a,a}*")
	f.Add("[{]{,[}],}")
	name := strings.Repeat("a", 4096)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := newPattern(text)
		if err != nil {
			return
		}
		size := 0
		for _, one := range p {
			if _, alternatives, _ := firstGroup(one); alternatives != nil {
				t.Fatalf("%q has braces", one)
			}
			size += len(one)
		}
		if len(p) > maxAlternatives || size > maxPatternBytes {
			t.Fatalf("%d patterns of %d bytes", len(p), size)
		}
		p.match(name)
	})
}
