package search

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/internal/textcut"
)

const (
	// maxWord is how many bytes of a word count: what is longer is a digest or an
	// encoded file.
	maxWord = 64
	// maxParts is how many parts of a word count.
	maxParts = 16
	// maxPosition is the greatest place of a word that PostgreSQL keeps, and
	// maxPlaces how many it keeps of one word.
	maxPosition, maxPlaces = 16383, 255
)

// word is one of a text.
type word struct {
	// text is in lower case, and has letters, digits and their marks only.
	text string
	// parts are what a name in camel case is found by besides: of TestLoginFlow that is
	// "test", "login", "flow" and "loginflow".
	parts []string
	// begin and end are its bytes in the text.
	begin, end int
}

// wordsOf returns the words of a text in their order. A word is a run of letters and
// digits; a character of a script that has no spaces between words is a word by itself.
// Characters that nobody sees, such as zero-width ones, do not end a word.
func wordsOf(text string) (out []word) {
	begin, end := -1, 0
	flush := func() {
		if begin >= 0 {
			if w := newWord(text[begin:end]); w.text != "" {
				w.begin, w.end = begin, end
				out = append(out, w)
			}
			begin = -1
		}
	}
	for i, r := range text {
		size := utf8.RuneLen(r)
		switch {
		case unicode.IsLetter(r) && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			flush()
			begin, end = i, i+size
			flush()
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			if begin < 0 {
				begin = i
			}
			end = i + size
		case begin >= 0 && unicode.IsMark(r):
			end = i + size
		case unicode.Is(unicode.Cf, r):
		default:
			flush()
		}
	}
	flush()
	return out
}

// newWord returns the word that some characters without a space are.
func newWord(raw string) word {
	seen := []rune(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, raw))
	w := word{text: short(string(seen))}
	from := 0
	for i := 1; i <= len(seen); i++ {
		begins := i == len(seen) || unicode.IsUpper(seen[i]) && (!unicode.IsUpper(seen[i-1]) || i+1 < len(seen) && unicode.IsLower(seen[i+1]))
		if begins {
			if len(w.parts) < maxParts && (from > 0 || i < len(seen)) {
				w.parts = append(w.parts, short(string(seen[from:i])))
				if from > 0 && i < len(seen) {
					w.parts = append(w.parts, short(string(seen[from:])))
				}
			}
			from = i
		}
	}
	return w
}

// short returns a word as it is compared.
func short(text string) string {
	return textcut.Bytes(strings.ToLower(text), maxWord, "")
}

// vectorOf returns the words of a text, with their places, and some marks without, as
// PostgreSQL reads a tsvector. A mark begins with "=", which no word does.
func vectorOf(text string, marks ...string) string {
	places := map[string][]int{}
	put := func(w string, at int) {
		if all := places[w]; w != "" && len(all) < maxPlaces && (len(all) == 0 || all[len(all)-1] != at) {
			places[w] = append(all, at)
		}
	}
	for i, w := range wordsOf(text) {
		at := min(i+1, maxPosition)
		put(w.text, at)
		for _, part := range w.parts {
			put(part, at)
		}
	}
	var out strings.Builder
	for _, mark := range marks {
		fmt.Fprintf(&out, "%s ", lexeme(mark))
	}
	for _, w := range slices.Sorted(maps.Keys(places)) {
		out.WriteString(lexeme(w))
		for i, at := range places[w] {
			fmt.Fprintf(&out, "%c%d", ":,"[min(i, 1)], at)
		}
		out.WriteByte(' ')
	}
	return out.String()
}

// lexeme quotes a word for a tsvector or a tsquery.
func lexeme(w string) string { return "'" + quotes.Replace(w) + "'" }

var quotes = strings.NewReplacer("'", "''", `\`, `\\`)
