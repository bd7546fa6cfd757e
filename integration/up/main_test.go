// Package up verifies `deckhand up`: it survives kills of itself and of what it
// starts, stops clean, and passes the starter scenarios. It needs root.
package up

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }
