// Package tool verifies tools of agents in real jails: egress, web search, MCP servers,
// skills, and review mode, in which calls that leave the workspace are deferred. It needs
// root.
package tool

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }
