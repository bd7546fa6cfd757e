// Package workspace verifies files: what tasks change, undo, share, hand over and
// send to each other, on one node and on two. It needs root.
package workspace

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }
