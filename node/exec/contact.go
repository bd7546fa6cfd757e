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

// While a node is cut off from its hub, each exec keeps running for its offline
// grace period. The inits of the jails measure it, because they outlive the
// daemon; it begins with the last contact that the daemon reported to them.

const (
	// defaultGrace is the offline grace period of an exec that sets none.
	defaultGrace = 10 * time.Minute
	// contactPause is the minimum time between two contacts reported to inits.
	contactPause = time.Second
	// contactTimeout limits the call that reports a contact to one init.
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

// grace returns how long an exec may run without contact; 0 means without
// limit, for a node that has no hub.
func (c contact) grace(spec *nodev1.ExecSpec) time.Duration {
	switch {
	case !c.ever.Load() && spec.OfflineGrace == nil:
		return 0
	case spec.OfflineGrace == nil:
		return defaultGrace
	}
	return max(time.Millisecond, spec.GetOfflineGrace().AsDuration())
}

// Contact records that the node is in contact with its hub now. The owner of
// the link calls it when the link is established, and then every few seconds
// while it is up. It does not block.
func (s *Service) Contact() {
	s.contact.ever.Store(true)
	s.contact.lately.Store(true)
	select {
	case s.contact.told <- struct{}{}:
	default:
	}
}

// relayContact reports contacts to the inits of all jails in which something
// runs, until ctx ends.
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
		// An init that does not respond keeps counting its grace period, as
		// intended.
		wg.Go(func() { _, _ = init.Contact(ctx, &initv1.ContactRequest{}) })
	}
	wg.Wait()
}
