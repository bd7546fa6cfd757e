package env

import (
	"time"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// pullEvery is how often the progress of a pull is printed.
const pullEvery = 2 * time.Second

// PullNotes prints how far the pull of an image is: at the start of each phase, and from
// time to time.
type PullNotes struct {
	e     *Env
	where string
	phase string
	said  time.Time
}

// PullNotes returns the notes of one pull. where begins each of them; it may be empty.
func (e *Env) PullNotes(where string) *PullNotes { return &PullNotes{e: e, where: where} }

// Show prints a note, unless one of the same phase was printed a moment ago.
func (n *PullNotes) Show(p *deckhandv1.PullImageResponse) {
	if p.GetPhase() == n.phase && time.Since(n.said) < pullEvery {
		return
	}
	n.said, n.phase = time.Now(), p.GetPhase()
	if p.GetBytes() == 0 {
		n.e.Notef("%s%s", n.where, p.GetPhase())
		return
	}
	n.e.Notef("%s%s: %s of %s, %d of %d layers", n.where, p.GetPhase(), output.Size(p.GetBytesDone()), output.Size(p.GetBytes()), p.GetLayersDone(), p.GetLayers())
}
