// Package console runs the stories of ui/e2e against the console in a real browser, on a
// real `deckhand up` with the scripted model. It needs root.
package console

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }
