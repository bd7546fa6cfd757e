// Package gitignore reports which files of a tree Git ignores.
//
// Rules holds the .gitignore files from the root of a tree down to a folder; the nearest
// one that says anything about a path decides. Rules are values: a walk passes them down.
// .git itself is always ignored.
package gitignore

import (
	"path"
	"strings"

	ignore "github.com/sabhiram/go-gitignore"
)

// FileName is the name of the files that hold the rules.
const FileName = ".gitignore"

// MaxBytes is how much of such a file is read.
const MaxBytes = 256 << 10

// Rules are the rules that apply in a folder.
type Rules struct{ files []file }

type file struct {
	dir   string // relative to the root, with /; "" for the root
	rules *ignore.GitIgnore
	// kept has the same rules behind one that ignores everything: it does not match what
	// they except. rules alone does not tell that from what they do not mention.
	kept *ignore.GitIgnore
}

// With returns the rules in dir, whose .gitignore has this content.
func (r Rules) With(dir string, content []byte) Rules {
	if dir == "." {
		dir = ""
	}
	files := r.files[:len(r.files):len(r.files)] // siblings do not share what is appended
	lines := strings.Split(string(content), "\n")
	return Rules{append(files, file{dir, ignore.CompileIgnoreLines(lines...), ignore.CompileIgnoreLines(append([]string{"*"}, lines...)...)})}
}

// Ignored reports whether a path, relative to the root, is ignored.
func (r Rules) Ignored(name string, isDir bool) bool {
	if path.Base(name) == ".git" {
		return true
	}
	if isDir {
		name += "/"
	}
	for i := len(r.files) - 1; i >= 0; i-- {
		at := strings.TrimPrefix(strings.TrimPrefix(name, r.files[i].dir), "/")
		if matches, how := r.files[i].rules.MatchesPathHow(at); how != nil {
			return matches
		}
		if !r.files[i].kept.MatchesPath(at) {
			return false
		}
	}
	return false
}
