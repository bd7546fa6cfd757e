package memory

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// maxBody bounds the text by which an entry is found, in bytes.
const maxBody = 32 << 10

func mapsKeys(m map[string]any) iter.Seq[string] { return maps.Keys(m) }

// body returns the text by which an entry is found: its key, split into words, and all that is
// written in its value.
func body(key string, value any) string {
	var out strings.Builder
	add := func(text string) {
		if text != "" && out.Len() < maxBody {
			out.WriteString(text)
			out.WriteByte('\n')
		}
	}
	add(key)
	if split := strings.Join(Words(key), " "); split != strings.ToLower(key) {
		add(split)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			add(v)
		case float64, json.Number, bool:
			add(fmt.Sprint(v))
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				add(strings.Join(Words(name), " "))
				walk(v[name])
			}
		}
	}
	walk(value)
	return textcut.WholeRunes(strings.ReplaceAll(out.String(), "\x00", " "), maxBody)
}

// Words returns the words of a text in lower case, each once: letters and digits, divided where
// a name written together has its next capital.
func Words(text string) []string {
	var out []string
	seen := map[string]bool{}
	var word []rune
	end := func() {
		if w := strings.ToLower(string(word)); len(word) > 1 && len(word) <= 64 && !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
		word = word[:0]
	}
	var before rune
	for _, c := range text {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			end()
			before = 0
			continue
		}
		if unicode.IsUpper(c) && unicode.IsLower(before) {
			end()
		}
		word = append(word, c)
		before = c
	}
	end()
	return out
}

// Text returns a value as a person reads it: a text as it is, the rest as JSON.
func Text(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
