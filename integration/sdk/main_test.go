// Package sdk runs the examples of the Go and TypeScript SDKs, and clients that stock
// generators make of the OpenAPI document, against a hub with a worker and a node. It needs
// root.
package sdk

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }
