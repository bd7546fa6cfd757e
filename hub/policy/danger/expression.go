package danger

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// expression is a regular expression that is only tried on texts that contain words which
// every match contains. Most texts lack them, and searching for words costs a fraction of
// trying an expression.
type expression struct {
	*regexp.Regexp

	// words are groups of texts: every match contains one text of each group. The most
	// selective group comes first. It is empty for an expression without such words.
	words [][]string
}

// compile compiles an expression and determines its words.
func compile(text string) *expression {
	re := regexp.MustCompile(text)
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		panic(err) // it was compiled above
	}
	groups := groupsOf(parsed)
	for i, words := range groups {
		groups[i] = slices.DeleteFunc(slices.Clone(words), func(w string) bool {
			// A text that contains this word contains the shorter word too, which
			// suffices.
			return slices.ContainsFunc(words, func(other string) bool { return other != w && strings.Contains(w, other) })
		})
	}
	slices.SortStableFunc(groups, func(a, b []string) int { return shortest(b) - shortest(a) })
	return &expression{Regexp: re, words: groups}
}

// groupsOf returns the words of each part of an expression whose matches consist of all
// parts.
func groupsOf(re *syntax.Regexp) (out [][]string) {
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return groupsOf(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			out = append(out, groupsOf(sub)...)
		}
		return out
	}
	if words := wordsOf(re); len(words) > 0 {
		out = append(out, words)
	}
	return out
}

// wordsOf returns texts one of which every match of an expression contains, or nil if
// there are no such texts.
func wordsOf(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return []string{string(re.Rune)}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return wordsOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return wordsOf(re.Sub[0])
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			words := wordsOf(sub)
			if len(words) == 0 {
				return nil
			}
			all = append(all, words...)
		}
		slices.Sort(all)
		return slices.Compact(all)
	case syntax.OpConcat:
		// The most selective part: the one whose shortest word is the longest.
		var best []string
		for _, sub := range re.Sub {
			if words := wordsOf(sub); shortest(words) > shortest(best) {
				best = words
			}
		}
		return best
	}
	return nil
}

func shortest(words []string) int {
	n := 0
	for i, w := range words {
		if i == 0 || len(w) < n {
			n = len(w)
		}
	}
	return n
}

// may reports whether a text contains one word of each group.
func (e *expression) may(text string) bool {
	for _, words := range e.words {
		if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) }) {
			return false
		}
	}
	return true
}

// MatchString is that of [regexp.Regexp].
func (e *expression) MatchString(text string) bool { return e.may(text) && e.Regexp.MatchString(text) }

// FindAllStringIndex is that of [regexp.Regexp].
func (e *expression) FindAllStringIndex(text string, n int) [][]int {
	if !e.may(text) {
		return nil
	}
	return e.Regexp.FindAllStringIndex(text, n)
}

// FindAllStringSubmatch is that of [regexp.Regexp].
func (e *expression) FindAllStringSubmatch(text string, n int) [][]string {
	if !e.may(text) {
		return nil
	}
	return e.Regexp.FindAllStringSubmatch(text, n)
}

// FindStringSubmatch is that of [regexp.Regexp].
func (e *expression) FindStringSubmatch(text string) []string {
	if !e.may(text) {
		return nil
	}
	return e.Regexp.FindStringSubmatch(text)
}
