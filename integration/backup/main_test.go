// Package backup verifies that an installation can be restored from a backup on an empty
// machine while its nodes know more than the backup. It needs root.
package backup

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }
