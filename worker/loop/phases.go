package loop

import (
	"maps"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/phase"
)

// phaseNames are the seven phases, in order.
var phaseNames = phase.Names()

// phases records the current phase of an iteration and the duration of each
// phase.
type phases struct {
	out *outbox
	now func() time.Time

	iteration int32
	current   string
	since     time.Time
	spent     map[string]any
	resumed   bool
}

func (p *phases) begin(iteration int32) {
	p.iteration, p.current, p.spent, p.resumed = iteration, "", map[string]any{}, false
}

// resume says that the iteration continues where another attempt stopped: the
// phases before execute_action are behind it.
func (p *phases) resume() { p.resumed = true }

// enter closes the current phase and opens the next; more is added to the
// event.
func (p *phases) enter(name string, more map[string]any) {
	payload := map[string]any{"iteration": p.iteration, "phase": name, "index": slices.Index(phaseNames, name) + 1}
	if p.current != "" {
		payload["from"], payload["from_ms"] = p.current, p.leave()
	}
	if p.resumed {
		payload["resumed"] = true
	}
	maps.Copy(payload, more)
	p.current, p.since = name, p.now()
	p.out.add(eventkind.PhaseChanged, payload)
}

func (p *phases) leave() float64 {
	ms := float64(p.now().Sub(p.since).Microseconds()) / 1000
	p.spent[p.current] = ms
	return ms
}

// end closes the last phase and returns the milliseconds of each.
func (p *phases) end() map[string]any {
	if p.current != "" {
		p.leave()
		p.current = ""
	}
	return p.spent
}
