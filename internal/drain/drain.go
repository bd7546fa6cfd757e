// Package drain gives work in progress the time to end before a process does.
//
// Every role has the setting drain-timeout. Once told to stop, it takes nothing new, and
// Config.Wait waits until that has ended or the time is over, and logs every few
// seconds what is left. What happens to the rest is the caller's: it is handed to others,
// or goes on without the process. A second signal ends the process at once.
package drain

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Flag is the name of the setting.
const Flag = "drain-timeout"

// Waiting is the message of the lines that say what is left.
const Waiting = "waiting for what is in progress"

const (
	// Default is how long work may go on by default: long enough for most calls of a model,
	// and short enough for a restart.
	Default = 10 * time.Second
	longest = time.Hour
	// progressEvery is how often it is logged what is left, and most how much of it is named.
	progressEvery = 5 * time.Second
	most          = 10
)

// Flags registers the setting.
func Flags(flags *pflag.FlagSet) {
	flags.Duration(Flag, Default, "how long work in progress may go on once told to stop; then it is handed over, or ended")
}

// Check refuses a setting that is out of bounds.
func Check(timeout time.Duration) error {
	if timeout < 0 || timeout > longest {
		return fault.New(fault.Invalid, "%s is %s", Flag, timeout).WithFix("use 0 to %s", longest)
	}
	return nil
}

// Config says what is waited for.
type Config struct {
	// Timeout is how long it is waited; 0 for not at all.
	Timeout time.Duration
	// Every is the time between two messages; 0 for 5 s.
	Every time.Duration
	// Running returns the names of what still runs.
	Running func() []string
	Log     hclog.Logger
}

// Wait returns when done is closed or the time is over, and reports whether done is closed.
func (c Config) Wait(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	if c.Timeout <= 0 {
		return false
	}
	if c.Every <= 0 {
		c.Every = progressEvery
	}
	deadline := time.Now().Add(c.Timeout)
	over := time.NewTimer(c.Timeout)
	defer over.Stop()
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	said := false
	say := func(text string) {
		running := c.Running()
		if len(running) == 0 {
			return // it is about to end
		}
		said = true
		c.Log.Info(text, "running", len(running), "what", some(running), "time_left", max(0, time.Until(deadline)).Round(time.Second).String())
	}
	say(Waiting)
	for {
		select {
		case <-done:
			if said {
				c.Log.Info("everything in progress has ended")
			}
			return true
		case <-over.C:
			say("the drain timeout is reached")
			return false
		case <-tick.C:
			say(Waiting)
		}
	}
}

// some returns the first of the names, in order.
func some(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// Calls counts calls in progress by name. The zero value is ready.
type Calls struct {
	mu     sync.Mutex
	inside map[string]int
	count  int
}

// Enter counts a call in; the returned function counts it out.
func (c *Calls) Enter(name string) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside == nil {
		c.inside = map[string]int{}
	}
	c.inside[name]++
	c.count++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.count--
		if c.inside[name]--; c.inside[name] == 0 {
			delete(c.inside, name)
		}
	}
}

// Len returns how many calls are in progress.
func (c *Calls) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Running returns the name of each call in progress.
func (c *Calls) Running() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for name, n := range c.inside {
		out = append(out, slices.Repeat([]string{name}, n)...)
	}
	return out
}
