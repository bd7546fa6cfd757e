// Package waittest limits how long tests wait for something that must happen.
//
// A limit in a test is written for an idle machine with two processors. On a
// slower or busy machine the limit must be longer, or the test would fail
// because of the machine and not because of the code. scripts/testenv measures
// the machine and sets EnvFactor, and Limit multiplies every limit by it. A
// limit that is not reached costs nothing.
//
// Until polls. It is for conditions without a signal, such as the state of
// another process; inside one process, use a channel or testing/synctest
// instead.
package waittest

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// EnvFactor names the factor of all limits, a decimal number of at least 1. It is
// 1 when the variable is absent or invalid.
const EnvFactor = "DECKHAND_TEST_WAIT_FACTOR"

// The pause between two checks of a condition grows from first to last, so that
// what happens at once is seen at once and a long wait costs little.
const first, last = 5 * time.Millisecond, 100 * time.Millisecond

// Limit returns how long to wait on this machine where d is enough on a usual
// one. It never returns less than d.
func Limit(d time.Duration) time.Duration {
	factor, err := strconv.ParseFloat(os.Getenv(EnvFactor), 64)
	if err != nil || !(factor > 1) {
		return d
	}
	return time.Duration(float64(d) * factor)
}

// Until waits until a condition holds, and fails the test when it does not
// within Limit(within). The condition runs on the test's own goroutine, so that
// it may fail the test too.
func Until(t testing.TB, within time.Duration, what string, condition func() bool) {
	t.Helper()
	limit := Limit(within)
	deadline := time.Now().Add(limit)
	for pause := first; !condition(); pause = min(pause*3/2, last) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", limit, what)
		}
		<-time.After(pause)
	}
}
