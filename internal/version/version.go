// Package version contains the version of this build.
package version

// Version is the release, set at link time with
// -ldflags "-X github.com/deckhand-sh/deckhand/internal/version.Version=…".
var Version = "0.1.0-dev"

// Commit is the commit of a release, set in the same way; empty otherwise.
var Commit string
