package pairs

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }
