package loop

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// maxPiece bounds one piece of streamed thinking.
const maxPiece = 60 << 10

// thinking passes on a turn that is being streamed, in batches. It is for
// watchers' eyes only: a piece that does not get through is lost, and the
// finished turn is stored by other means.
type thinking struct {
	hub      *caller
	turn     int32
	interval time.Duration

	mu      sync.Mutex
	pending []byte
	offset  int64

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
		t.pending, t.offset = nil, 0
		return
	}
	t.pending = append(t.pending, d.Text...)
	select {
	case t.more <- struct{}{}:
	default:
	}
}

// sent says that a piece of the turn is out already.
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
		text, offset := string(t.pending[:n]), t.offset
		t.pending = t.pending[n:]
		t.offset += int64(len(text))
		t.mu.Unlock()
		if text == "" {
			return
		}
		if _, err := t.hub.hub.PublishThinking(ctx, connect.NewRequest(&deckhandv1.PublishThinkingRequest{
			Lease: t.hub.lease, Turn: t.turn, Offset: offset, Text: text,
		})); err != nil {
			t.hub.log.Debug("a piece of streamed thinking did not reach the hub", "error", err)
			return
		}
	}
}
