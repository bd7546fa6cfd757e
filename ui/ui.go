// Package ui holds the console as scripts/build-ui made it, for the hub to
// serve. A program that was built without it holds a note instead.
package ui

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Files returns the built console: index.html, and the assets whose names carry
// the digest of their content, some beside themselves compressed (.br, .gz).
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the folder is embedded by name
	}
	return files
}
