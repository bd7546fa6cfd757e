// Package docs runs every command of the documentation, installs the Debian package, and
// verifies the errors of the command line for bad input. It needs root.
package docs

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }
