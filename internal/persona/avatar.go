package persona

import (
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// avatars are the names of the built-in pictures, which the console draws itself: a persona
// names no file and no URL.
var avatars = []string{
	"book", "bot", "bug", "cloud", "compass", "database", "eye", "flask", "hammer", "leaf", "magnifier", "mail", "pen", "rocket", "shield", "terminal",
}

// Avatars returns the names of the built-in pictures.
func Avatars() []string { return slices.Clone(avatars) }

const (
	// maxEmoji is how many characters an emoji has at most: a family of four with skin
	// tones has 11.
	maxEmoji       = 12
	zeroWidthJoin  = '\u200d'
	emojiSelector  = '\ufe0f'
	enclosedKeycap = '\u20e3'
)

// avatarOf reads an emoji or the name of a built-in picture.
func avatarOf(d *reader, n *yaml.Node) string {
	text := d.text(n, "avatar", 64) //nolint:mnd // bytes of an emoji
	if text == "" || slices.Contains(avatars, text) || isEmoji(text) {
		return text
	}
	d.problems.add(n.Line, "avatar is %s: use one emoji, or one of %s", quote(text), strings.Join(avatars, ", "))
	return ""
}

// isEmoji reports whether a text is symbols of emoji and what joins them, and nothing that
// could be read as words or change the direction of text.
func isEmoji(text string) bool {
	symbols, runes := 0, []rune(text)
	if len(runes) > maxEmoji {
		return false
	}
	for i, r := range runes {
		switch {
		case unicode.Is(unicode.So, r), unicode.Is(unicode.Sk, r) && r > unicode.MaxLatin1: // pictures, flags and skin tones
			symbols++
		case r == zeroWidthJoin, r == emojiSelector, r == enclosedKeycap:
			if i == 0 {
				return false
			}
		case strings.ContainsRune("0123456789#*", r) && strings.ContainsRune(text, enclosedKeycap):
			symbols++
		case unicode.Is(unicode.Sm, r) && r > unicode.MaxLatin1: // arrows
			symbols++
		default:
			return false
		}
	}
	return symbols > 0
}
