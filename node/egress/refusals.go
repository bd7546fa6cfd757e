package egress

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
)

const (
	// loggedAtOnce is how many refusals of a jail are logged as they come, and
	// loggedEvery how often one is afterwards.
	loggedAtOnce = 20
	loggedEvery  = time.Minute
)

// refusals logs what is refused to a jail. A command can cause thousands of
// refusals per second, so each line states how many it represents.
type refusals struct {
	log       hclog.Logger
	jail      string
	sometimes rate.Sometimes

	mu    sync.Mutex
	count int // since the last line
}

func newRefusals(log hclog.Logger, jail string) *refusals {
	return &refusals{log: log, jail: jail, sometimes: rate.Sometimes{First: loggedAtOnce, Interval: loggedEvery}}
}

// note logs a refusal, or counts it.
func (r *refusals) note(host, method string, why *allowlist.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	r.sometimes.Do(func() {
		r.log.Info("refused a connection out of a jail", "jail_id", r.jail, "host", clean(host, 260), "method", clean(method, 32),
			"reason", clean(why.Reason, 600), "count", r.count)
		r.count = 0
	})
}

// close logs how many there were since the last line.
func (r *refusals) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count > 0 {
		r.log.Info("refused more connections out of a jail", "jail_id", r.jail, "count", r.count)
		r.count = 0
	}
}
