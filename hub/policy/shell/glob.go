package shell

import (
	"errors"
	"regexp"
	"sync"

	"mvdan.cc/sh/v3/pattern"
)

// maxPatterns bounds the patterns that are kept ready.
const maxPatterns = 4096

var patterns struct {
	sync.Mutex
	made map[string]*regexp.Regexp
}

// IsPattern reports whether a name has a wildcard.
func IsPattern(name string) bool { return wildcards.in(name) }

// Matches reports whether bash would expand a pattern to a path, with extglob: *, ?,
// [...], and @(...) and similar groups, within one part of the path. An invalid pattern
// matches only itself.
func Matches(glob, name string) bool {
	if !IsPattern(glob) {
		return glob == name
	}
	re := matcher(glob)
	return re != nil && re.MatchString(name)
}

// matcher returns the expression that a pattern matches; nil for an invalid pattern.
func matcher(glob string) *regexp.Regexp {
	patterns.Lock()
	re, ok := patterns.made[glob]
	patterns.Unlock()
	if !ok {
		re = compiled(glob)
		patterns.Lock()
		if len(patterns.made) >= maxPatterns || patterns.made == nil {
			patterns.made = map[string]*regexp.Regexp{}
		}
		patterns.made[glob] = re
		patterns.Unlock()
	}
	return re
}

func compiled(glob string) *regexp.Regexp {
	if len(glob) > 4096 {
		return nil
	}
	const mode = pattern.Filenames | pattern.EntireString | pattern.NoGlobStar | pattern.GlobLeadingDot | pattern.ExtendedOperators
	text, err := pattern.Regexp(glob, mode)
	var negated *pattern.NegExtGlobError
	for errors.As(err, &negated) && len(negated.Groups) > 0 {
		// !(x) is nearly everything: read it as everything within a part.
		g := negated.Groups[0]
		glob = glob[:g.Start] + "*" + glob[g.End:]
		text, err = pattern.Regexp(glob, mode)
	}
	if err != nil {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil
	}
	return re
}
