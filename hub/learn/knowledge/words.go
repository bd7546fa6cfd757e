package knowledge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"

	"github.com/deckhand-sh/deckhand/internal/textcut"
)

const (
	// maxWord is how many bytes of a word count: what is longer is a digest or an encoded
	// file.
	maxWord = 64
	// maxPosition is the greatest place of a word that PostgreSQL keeps, and maxPlaces how
	// many it keeps of one word.
	maxPosition, maxPlaces = 16383, 255
)

// stopWords are words that say nothing about a text. They are neither stored nor looked for.
var stopWords = func() map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(`a about above after again all also am an and any are as at be because been before being below
		between both but by can cannot could did do does doing down during each either else ever few for from further get gets had has
		have having he her here hers him his how i if in into is it its itself just let me more most must my no nor not of off on
		once only or other our ours out over own same shall she should so some such than that the their theirs them then there these
		they this those through to too under until up upon us very was we were what when where whether which while who whom why will
		with would you your yours`) {
		out[w] = true
	}
	return out
}()

// token is a word of a text.
type token struct {
	// stem is what inflected forms of a word have in common; empty for a word that says
	// nothing. name is an identifier of more than one word, in lower case; empty for others.
	stem, name string
}

// tokens calls each with the words of a text in their order: the parts of names in camel case
// and with underscores one by one, and then the names themselves, also with a dot in them
// (strings.Builder).
func tokens(text string, each func(token)) {
	previous, dot := "", false
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if !word(r) {
			dot = r == '.' && previous != ""
			if !dot {
				previous = ""
			}
			text = text[size:]
			continue
		}
		end := strings.IndexFunc(text, func(r rune) bool { return !word(r) && !unicode.IsMark(r) })
		if end < 0 {
			end = len(text)
		}
		raw := text[:end]
		text = text[end:]
		parts := split(raw)
		for _, p := range parts {
			each(token{stem: stem(p)})
		}
		whole := short(raw)
		if len(parts) > 1 {
			each(token{name: whole})
		}
		if dot && previous != "" {
			each(token{name: short(previous + "." + whole)})
		}
		previous, dot = whole, false
	}
}

func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// split returns the words in a run of letters, digits and underscores.
func split(raw string) (out []string) {
	from := 0
	take := func(to int) {
		if part := strings.Trim(raw[from:to], "_"); part != "" {
			out = append(out, part)
		}
		from = to
	}
	var before, last rune
	lastAt := 0
	for i, r := range raw {
		switch {
		case i == 0:
		case r == '_':
			take(i)
		case unicode.Is(unicode.Han, r) || unicode.Is(unicode.Hiragana, r) || unicode.Is(unicode.Katakana, r) || unicode.Is(unicode.Thai, r):
			take(i)
		case unicode.IsUpper(r) && unicode.IsLower(last):
			take(i)
		case unicode.IsLower(r) && unicode.IsUpper(last) && unicode.IsUpper(before) && lastAt > from:
			take(lastAt)
		}
		before, last, lastAt = last, r, i
	}
	take(len(raw))
	return out
}

// stem returns the form under which a word is found; empty for one that says nothing.
func stem(w string) string {
	w = short(w)
	if stopWords[w] {
		return ""
	}
	for _, r := range w {
		if r > unicode.MaxASCII {
			return w
		}
	}
	return english.Stem(w, false)
}

func short(w string) string { return textcut.Bytes(strings.ToLower(w), maxWord, "") }

// vector returns the words of a passage as PostgreSQL reads a tsvector: those of its headings
// with the weight A, those of its document's path and title with B. A name has a "=" before
// it, which no stem has. length is how many words the passage itself has.
func vector(file, title, heading, body string) (words string, length int) {
	type place struct {
		at     int
		weight string
	}
	places := map[string][]place{}
	at := 0
	put := func(text, weight string) {
		tokens(text, func(t token) {
			at++
			w := t.stem
			if t.name != "" {
				w, at = "="+t.name, at-1
			}
			if w == "" || len(places[w]) >= maxPlaces {
				return
			}
			p := place{min(max(at, 1), maxPosition), weight}
			if all := places[w]; len(all) == 0 || all[len(all)-1].at != p.at {
				places[w] = append(all, p)
			}
		})
	}
	put(heading, "A")
	put(nameOf(file), "B")
	put(title, "B")
	before := at
	put(body, "")
	length = max(at-before, 1)
	var out strings.Builder
	for _, w := range slices.Sorted(maps.Keys(places)) {
		out.WriteString(lexeme(w))
		for i, p := range places[w] {
			fmt.Fprintf(&out, "%c%d%s", ":,"[min(i, 1)], p.at, p.weight)
		}
		out.WriteByte(' ')
	}
	return out.String(), length
}

// asked returns the words of a question, each once: stems, and names with a "=".
func asked(question string) (out []string) {
	tokens(question, func(t token) {
		w := t.stem
		if t.name != "" {
			w = "=" + t.name
		}
		if w != "" && !slices.Contains(out, w) && len(out) < maxWords {
			out = append(out, w)
		}
	})
	return out
}

// maxWords is how many words of a question count.
const maxWords = 32

// lexeme quotes a word for a tsvector or a tsquery.
func lexeme(w string) string { return "'" + quotes.Replace(w) + "'" }

var quotes = strings.NewReplacer("'", "''", `\`, `\\`)
