// Package workpath reads paths as agents and people write them: relative to the workspace, or
// absolute as a jail sees it.
package workpath

import (
	"path"
	"strings"
)

// Mount is where a jail sees its workspace.
const Mount = "/workspace"

// Rel returns a path relative to the workspace, cleaned: "." for the workspace itself. A path
// that leads out of it begins with "/" or with "..". Symbolic links are not followed.
func Rel(name string) string {
	name = path.Clean(name)
	rest, below := strings.CutPrefix(name, Mount)
	switch {
	case !below || rest != "" && rest[0] != '/':
		return name
	case rest == "":
		return "."
	}
	return rest[1:]
}

// Outside reports whether a path that Rel returned leads out of the workspace.
func Outside(rel string) bool {
	return rel == ".." || strings.HasPrefix(rel, "../") || strings.HasPrefix(rel, "/")
}
