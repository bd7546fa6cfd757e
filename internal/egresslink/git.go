package egresslink

import "strings"

// GitPath reports whether a path is one of Git over HTTP, or of its Large File Storage, whose
// servers take a token as a password only.
func GitPath(path string) bool {
	for _, end := range []string{"/info/refs", "/git-upload-pack", "/git-receive-pack"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return strings.Contains(path, ".git/") || strings.Contains(path, "/info/lfs/")
}
