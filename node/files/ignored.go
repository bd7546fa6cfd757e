package files

import (
	"path"
	"strings"

	"github.com/deckhand-sh/deckhand/node/gitignore"
)

// ignoreRules returns the rules that apply in a folder: those of its own .gitignore and of
// the folders above it. ok is false if Git ignores the folder itself: then nothing in it is
// left out, because the caller has named it.
func (w *workspace) ignoreRules(dir string) (rules gitignore.Rules, ok bool) {
	rules = w.ignoreRulesIn(".", rules)
	at := ""
	for part := range strings.SplitSeq(dir, "/") {
		if part == "" || part == "." {
			continue
		}
		if at = path.Join(at, part); rules.Ignored(at, true) {
			return rules, false
		}
		rules = w.ignoreRulesIn(at, rules)
	}
	return rules, true
}

// ignoreRulesIn adds the rules of a folder's own .gitignore, if it has one that can be read.
func (w *workspace) ignoreRulesIn(dir string, above gitignore.Rules) gitignore.Rules {
	content, err := w.begin(path.Join(dir, gitignore.FileName), gitignore.MaxBytes)
	if err != nil {
		return above
	}
	return above.With(dir, content)
}
