package initd

import (
	"context"
	"time"

	"github.com/containerd/ttrpc"

	"github.com/deckhand-sh/deckhand/internal/memtrim"
)

// restPause is how long nothing must run, and nobody ask, for init to let go of
// what it does not need meanwhile.
const restPause = 2 * time.Second

// resting is called when the last command ended, or somebody asked, a while ago.
func (s *server) resting() {
	for _, r := range s.all() {
		if !r.ended() {
			return // its end comes here again
		}
	}
	memtrim.LetGo()
}

// asked begins the rest anew after each call.
func (s *server) asked(ctx context.Context, unmarshal ttrpc.Unmarshaler, _ *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	defer s.rest.Reset(restPause)
	return method(ctx, unmarshal)
}
