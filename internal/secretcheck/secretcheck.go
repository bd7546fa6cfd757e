// Package secretcheck detects secrets that a person made up rather than a
// machine generated. Secrets are masked in all text. One that is a word, a name
// or an address is easy to guess, and masking it would hide ordinary text.
package secretcheck

import (
	"strings"
	"unicode"
)

const (
	// Least is how many characters a secret has at least.
	Least = 8
	// leastDistinct is how many of them differ at least.
	leastDistinct = 6
)

// Weak returns what is wrong with a secret, to go behind its name in an error,
// or "" when it looks drawn by chance.
func Weak(secret string) string {
	distinct := map[rune]bool{}
	var digits, letters, turns int
	var before rune
	for _, c := range secret {
		distinct[c] = true
		switch {
		case unicode.IsDigit(c):
			digits++
		case unicode.IsLetter(c):
			letters++
			// A change of case within a word: names have those only between
			// their words.
			if unicode.IsLetter(before) && unicode.IsUpper(c) != unicode.IsUpper(before) {
				turns++
			}
		}
		before = c
	}
	switch n := len([]rune(secret)); {
	case n < Least:
		return "is too short to be a secret"
	case len(distinct) < leastDistinct:
		return "repeats a few characters"
	case strings.Contains(secret, "://"):
		return "is an address"
	case letters == 0:
		return "is a number, which is guessed too easily"
	case digits == 0 && turns*3 < letters:
		return "reads like words: it would be guessed, and masked wherever somebody writes them"
	}
	return ""
}
