package sdk_test

import (
	"cmp"
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The examples need a hub with a worker, a node and the agents of docs: integration/sdk starts
// one and runs them. Without it they are skipped.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("DECKHAND_URL") == "" {
		skip := flag.Lookup("test.skip").Value
		_ = skip.Set(cmp.Or(skip.String(), "^$") + "|^Example") // a valid expression
	} else {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(m)
}
