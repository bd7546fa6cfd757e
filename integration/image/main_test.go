// Package image verifies jails that are made from container images: what an agent has in
// them, that a task keeps its image, and what people see of it. It needs root.
package image

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }
