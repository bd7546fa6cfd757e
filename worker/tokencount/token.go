// Package tokencount estimates how many tokens a text has for a model.
//
// Providers do not publish their tokenizers, so the estimate uses a common
// byte-pair vocabulary (cl100k_base). A Meter compares it with the counts that
// a provider reports and learns the ratio between the two.
package tokencount

import (
	"sync"
	"unicode/utf8"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/pkoukk/tiktoken-go"
)

const (
	// whole is the longest text, in bytes, that is counted whole. Of a longer
	// one, samples pieces of the size piece are.
	whole   = 6 << 10
	samples = 4
	piece   = whole / samples
	// perToken is how many bytes one token has when there is no vocabulary.
	perToken = 3.5
)

// encoding is read from the program itself, once, at first use (some 20 MB).
var encoding = sync.OnceValue(func() *tiktoken.Tiktoken {
	tiktoken.SetBpeLoader(vocabulary{})
	e, err := tiktoken.GetEncoding(tiktoken.MODEL_CL100K_BASE)
	if err != nil {
		return nil // the vocabulary is part of the program
	}
	return e
})

// known holds what Fixed has counted, by text: agents are few and run often.
var known = sync.OnceValue(func() *lru.Cache[string, int] {
	cache, _ := lru.New[string, int](512) //nolint:errcheck // fails for a size below 1 only
	return cache
})

// Fixed is Count for a text that comes again and again, such as the instructions
// of an agent or the record of a tool: it is counted once.
func Fixed(text string) int {
	if n, ok := known().Get(text); ok {
		return n
	}
	n := Count(text)
	known().Add(text, n)
	return n
}

// Count estimates the tokens of a text, at a cost that is bounded however long
// it is.
func Count(text string) int {
	if len(text) <= whole {
		return count(text)
	}
	tokens, bytes := 0, 0
	for i := range samples {
		from := runeStart(text, i*(len(text)-piece)/(samples-1))
		to := runeStart(text, min(from+piece, len(text)))
		tokens += count(text[from:to])
		bytes += to - from
	}
	return int(float64(tokens) * float64(len(text)) / float64(bytes))
}

func count(text string) int {
	if text == "" {
		return 0
	}
	e := encoding()
	if e == nil {
		return int(float64(len(text))/perToken) + 1
	}
	return len(e.EncodeOrdinary(text))
}

// runeStart returns the start of the character at i, or the text's end.
func runeStart(text string, i int) int {
	for i < len(text) && i > 0 && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}
