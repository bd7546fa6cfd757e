// Package node verifies what a node and its links guarantee: commands survive the
// death of a worker, a hub or a node daemon and a link that is cut, and people
// use a node as the documentation says. It needs root.
package node

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }
