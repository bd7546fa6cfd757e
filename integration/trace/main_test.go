// Package trace verifies the telemetry of a running Deckhand: its traces, and that a
// secret is in none of the logs, prompts, tables, exports and metrics. It needs root.
package trace

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }
