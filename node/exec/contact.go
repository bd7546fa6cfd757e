package exec

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deckhand-sh/deckhand/node/jail"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// While a node is cut off from its hub, each exec goes on for its offline
// grace. The inits of the jails count it, since they outlive the daemon; what
// they count from is the contact that the daemon tells them of.

const (
	// defaultGrace is the offline grace of an exec that names none.
	defaultGrace = 10 * time.Minute
	// contactPause is the least time between two contacts that inits are told of.
	contactPause = time.Second
	// contactTimeout bounds telling one init.
	contactTimeout = 2 * time.Second
)

type contact struct {
	ever   *atomic.Bool
	lately *atomic.Bool // since the last collection
	told   chan struct{}
}

func newContact() contact {
	return contact{ever: &atomic.Bool{}, lately: &atomic.Bool{}, told: make(chan struct{}, 1)}
}

// grace returns how long an exec may go on without contact; 0 is for ever, for
// a node that has no hub to be cut off from.
func (c contact) grace(spec *nodev1.ExecSpec) time.Duration {
	switch {
	case !c.ever.Load() && spec.OfflineGrace == nil:
		return 0
	case spec.OfflineGrace == nil:
		return defaultGrace
	}
	return max(time.Millisecond, spec.GetOfflineGrace().AsDuration())
}

// Contact says that the node has contact with its hub at this moment. Whoever
// keeps the link calls it when the link is made, and then every few seconds for
// as long as it stands. It does not block.
func (s *Service) Contact() {
	s.contact.ever.Store(true)
	s.contact.lately.Store(true)
	select {
	case s.contact.told <- struct{}{}:
	default:
	}
}

// relayContact tells the inits of all jails where something runs, until ctx
// ends.
func (s *Service) relayContact(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.contact.told:
		}
		s.tellInits(ctx)
		pause.Reset(contactPause)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

func (s *Service) tellInits(ctx context.Context) {
	s.mu.Lock()
	watches := make([]*watch, 0, len(s.live))
	for _, w := range s.live {
		watches = append(watches, w)
	}
	s.mu.Unlock()
	inits := map[*jail.Init]bool{}
	for _, w := range watches {
		w.mu.Lock()
		if w.conn.Alive() {
			inits[w.conn] = true
		}
		w.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for init := range inits {
		// One that does not answer counts on, which is what it is for.
		wg.Go(func() { _, _ = init.Contact(ctx, &initv1.ContactRequest{}) })
	}
	wg.Wait()
}
