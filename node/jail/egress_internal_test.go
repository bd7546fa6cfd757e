package jail

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// slowEgress is a proxy that takes its time to cut a jail off.
type slowEgress struct {
	begun, goOn chan struct{}

	mu   sync.Mutex
	told []string
}

func (*slowEgress) Serve(string, net.Listener, *nodev1.Egress) error { return nil }
func (*slowEgress) Change(string, *nodev1.Egress) error              { return nil }
func (*slowEgress) Leave(string)                                     {}

func (s *slowEgress) Cut(id, why string) {
	s.begun <- struct{}{}
	<-s.goOn
	s.say("cut " + id + ": " + why)
}

func (s *slowEgress) Resume(id string) { s.say("resume " + id) }

func (s *slowEgress) say(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, what)
}

// While the proxy cuts one jail off, the others are not waited for, and of two changes of one
// jail the last one holds.
func TestASlowProxyHoldsUpNoOtherJail(t *testing.T) {
	t.Parallel()
	proxy := &slowEgress{begun: make(chan struct{}), goOn: make(chan struct{})}
	m := &Manager{cfg: Config{Egress: proxy}}
	frozen, other := &entry{id: "jail_a"}, &entry{id: "jail_b"}
	var all sync.WaitGroup
	all.Go(func() { m.setHolders(frozen, []string{"task:1"}) })
	<-proxy.begun
	m.setKilling(other, false)
	assert.Equal(t, []string{"task:1"}, m.holders(frozen))
	all.Go(func() { m.setHolders(frozen, nil) })
	close(proxy.goOn)
	all.Wait()
	assert.Equal(t, []string{"resume jail_b", "cut jail_a: this jail is frozen", "resume jail_a"}, proxy.told)
}
