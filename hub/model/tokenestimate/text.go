package tokenestimate

import (
	"unicode"
	"unicode/utf8"
)

// The vocabularies of providers are byte-pair encodings over pieces of a text: a word with
// the space before it, up to three digits, a run of signs, a run of white space. The
// figures below are tokens of such pieces. They were fitted to the vocabularies that are
// public (cl100k_base and o200k_base of OpenAI), so that they are seldom too low for prose,
// code, logs and data, and compared with them by the package's tests.
const (
	// wordBytes is how many letters of a word are one token: an English word is one, or two
	// if it is long.
	wordBytes = 5
	// digitsPerToken are fewer than the three of most vocabularies.
	digitsPerToken = 2
	// denseAt is the length in bytes from which a run without spaces is looked at as text
	// without words, such as Base64, hexadecimal digits and hashes; denseTurns is how many
	// bytes of it there are, at most, to each change between letters of either case and
	// digits; densePerByte are the tokens of such text.
	denseAt      = 16
	denseTurns   = 6
	densePerByte = 0.8
	// Tokens of a character of other scripts.
	ideograph = 1.3 // Chinese, Japanese, Korean
	semitic   = 1.0 // Arabic, Hebrew
	slavic    = 0.7 // Cyrillic, Greek
	accented  = 0.9 // Latin letters that are not ASCII
	otherwise = 1.4
	pictured  = 3.5 // emoji
)

// class is what a byte of ASCII is for a vocabulary.
type class uint8

const (
	sign class = iota
	lower
	upper
	digit
	blank
	newline
)

var classes = func() (out [utf8.RuneSelf]class) {
	for b := range out {
		switch c := byte(b); {
		case 'a' <= c && c <= 'z':
			out[b] = lower
		case 'A' <= c && c <= 'Z':
			out[b] = upper
		case '0' <= c && c <= '9':
			out[b] = digit
		case c == ' ' || c == '\t':
			out[b] = blank
		case c == '\n' || c == '\r':
			out[b] = newline
		}
	}
	return out
}()

// Text estimates the tokens of a text.
func Text(s string) float64 {
	tokens := 0.0
	for at := 0; at < len(s); {
		if s[at] >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[at:])
			tokens += foreign(r)
			at += size
			continue
		}
		kind := classes[s[at]]
		end := at + 1
		switch kind {
		case lower, upper, digit:
			if n := dense(s[at:]); n > 0 {
				tokens += densePerByte * float64(n)
				at += n
				continue
			}
			end = word(s, at, kind)
			per := wordBytes
			if kind == digit {
				per = digitsPerToken
			}
			tokens += float64((end - at + per - 1) / per)
		case sign:
			for end < len(s) && s[end] < utf8.RuneSelf && classes[s[end]] == sign {
				end++
			}
			tokens += 0.4 + 0.6*float64(end-at)
		default:
			for end < len(s) && s[end] < utf8.RuneSelf && (classes[s[end]] == blank || classes[s[end]] == newline) {
				end++
			}
			// A single space belongs to the word behind it.
			if end-at > 1 || kind == newline {
				tokens += 1 + float64(end-at)/16
			}
		}
		at = end
	}
	return tokens
}

// word returns the end of the word or number that begins at a place: a capital begins a
// word of its own, as in someName, and capitals together are one.
func word(s string, at int, kind class) int {
	end := at + 1
	for ; end < len(s) && s[end] < utf8.RuneSelf; end++ {
		next := classes[s[end]]
		if next == kind {
			continue
		}
		if kind == upper && next == lower && end == at+1 {
			kind = lower
			continue
		}
		break
	}
	return end
}

// dense returns the length of a run without words that a text begins with; 0 if it begins
// with none.
func dense(s string) int {
	end, turns := 0, 0
	for ; end < len(s) && s[end] < utf8.RuneSelf; end++ {
		kind := classes[s[end]]
		if kind == sign && s[end] != '+' && s[end] != '/' && s[end] != '=' && s[end] != '-' && s[end] != '_' || kind == blank || kind == newline {
			break
		}
		if end > 0 && kind != sign && kind != classes[s[end-1]] && classes[s[end-1]] != sign {
			turns++
		}
	}
	if end < denseAt || turns*denseTurns < end {
		return 0
	}
	return end
}

func foreign(r rune) float64 {
	switch {
	case r < 0x250:
		return accented
	case r >= 0x2600 && r < 0x27C0, r >= 0x1F000, r == utf8.RuneError:
		return pictured
	case unicode.In(r, unicode.Cyrillic, unicode.Greek):
		return slavic
	case unicode.In(r, unicode.Arabic, unicode.Hebrew):
		return semitic
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		return ideograph
	default:
		return otherwise
	}
}
