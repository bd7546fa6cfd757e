// Package docs runs every command that the documentation gives, installs the
// Debian package, and verifies what the command line says about bad input. It
// needs root.
package docs

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }
