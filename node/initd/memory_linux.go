package initd

import (
	"context"
	"time"

	"github.com/containerd/ttrpc"

	"github.com/deckhand-sh/deckhand/internal/memtrim"
)

// restPause is how long init must be idle, with no command and no request,
// before it returns unused memory.
const restPause = 2 * time.Second

// resting is called when init has been idle for restPause.
func (s *server) resting() {
	for _, r := range s.all() {
		if !r.ended() {
			return // its end comes here again
		}
	}
	memtrim.LetGo()
}

// asked begins the rest again after each call.
func (s *server) asked(ctx context.Context, unmarshal ttrpc.Unmarshaler, _ *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	defer s.rest.Reset(restPause)
	return method(ctx, unmarshal)
}
