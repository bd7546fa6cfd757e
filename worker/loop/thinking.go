package loop

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// maxPiece bounds one piece of streamed thinking.
const maxPiece = 60 << 10

// thinking passes on a turn that is being streamed, in batches. It is for
// watchers' eyes only: what does not get through, or may yet become a secret with
// what comes next, goes with the next piece or not at all, and the finished turn is
// stored by other means.
type thinking struct {
	hub      *caller
	turn     int32
	interval time.Duration

	mu      sync.Mutex
	pending []byte
	offset  int64
	// begun counts how often the turn has begun again.
	begun int

	more chan struct{} // has room for one: there is something to send
	done chan struct{} // closed to end
	over sync.WaitGroup
}

func startThinking(ctx context.Context, hub *caller, turn int32, interval time.Duration) *thinking {
	t := &thinking{
		hub: hub, turn: turn, interval: interval,
		more: make(chan struct{}, 1), done: make(chan struct{}),
	}
	t.over.Go(func() { t.send(ctx) })
	return t
}

// add is a model.Sink.
func (t *thinking) add(d model.Delta) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.Restart {
		t.pending, t.offset, t.begun = nil, 0, t.begun+1
		return
	}
	t.pending = append(t.pending, d.Text...)
	select {
	case t.more <- struct{}{}:
	default:
	}
}

// sent reports whether a piece of the turn is out already.
func (t *thinking) sent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offset > 0
}

// stop sends what is left of a turn that watchers have begun to read, and ends
// the sender. A turn that was quicker than the first piece is stored as it is.
func (t *thinking) stop() {
	close(t.done)
	t.over.Wait()
}

func (t *thinking) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.done:
			if t.sent() {
				t.publish(ctx)
			}
			return
		case <-t.more:
		}
		pause := time.NewTimer(t.interval)
		select {
		case <-pause.C:
			t.publish(ctx)
		case <-t.done:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

func (t *thinking) publish(ctx context.Context) {
	for {
		t.mu.Lock()
		n := len(t.pending)
		if n > maxPiece {
			// Cut at a character.
			for n = maxPiece; !utf8.RuneStart(t.pending[n]); n-- {
			}
		}
		text, offset, begun := string(t.pending[:n]), t.offset, t.begun
		t.mu.Unlock()
		if text == "" {
			return
		}
		res, err := t.hub.hub.PublishThinking(ctx, &deckhandv1.PublishThinkingRequest{
			Lease: t.hub.lease, Turn: t.turn, Offset: offset, Text: text,
		})
		if err != nil {
			t.hub.log.Debug("a piece of streamed thinking did not reach the hub", "error", err)
			return
		}
		settled := min(int(res.GetSettled()), len(text))
		t.mu.Lock()
		if t.begun == begun {
			t.pending = t.pending[settled:]
			t.offset += int64(settled)
		}
		t.mu.Unlock()
		if settled < len(text) {
			return
		}
	}
}
